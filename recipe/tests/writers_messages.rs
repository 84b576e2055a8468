//! Messages: which frames each event gives.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod writers_support;

use recipe::error::{Error, ErrorCode};
use recipe::event::{Event, Finish, FinishReason, TokenCounts};
use recipe::protocol::{AnswerConfig, AnswerWriter, Protocol};
use serde_json::{Value, json};
use writers_support::*;

const USAGE: &str = r#""usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":3,"output_tokens":5,"service_tier":"standard"}"#;

fn messages(thinking: bool) -> AnswerConfig {
    config(Protocol::Messages, thinking)
}

/// The data, without the name that it repeats.
fn short(frame: &str) -> String {
    let data = frame.split_once("\ndata: ").map_or(frame, |(_, data)| data);
    data.replace(USAGE, "USAGE").replace(r#"{"type":"content_block_"#, "{")
}

fn stop(frame: &Value) -> (&Value, &Value) {
    (&frame["delta"]["stop_reason"], &frame["delta"]["stop_sequence"])
}

const START: &str = concat!(
    r#"{"type":"message_start","message":{"id":"a-1","type":"message","role":"assistant","model":"m-1","content":[],"#,
    r#""stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":7,"cache_creation_input_tokens":0,"#,
    r#""cache_read_input_tokens":3,"output_tokens":0,"service_tier":"standard"}}}"#
);

#[test]
fn an_answer_of_every_kind() {
    let events = [
        reasoning("hm"),
        text("a"),
        text("b"),
        call_start(0, "f"),
        arguments(0, "{\"k\": "),
        arguments(0, "1}"),
        call_end(0, true),
        text("c"),
        finish(FinishReason::ToolCalls),
    ];
    let (stream, response) = written(messages(true), &events);
    let id = response["content"][2]["id"].as_str().unwrap();
    assert_lines(
        &stream,
        short,
        &[
            START,
            r#"{start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"ping"}"#,
            r#"{delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
            r#"{delta","index":0,"delta":{"type":"signature_delta","signature":"a-1"}}"#,
            r#"{stop","index":0}"#,
            r#"{start","index":1,"content_block":{"type":"text","text":""}}"#,
            r#"{delta","index":1,"delta":{"type":"text_delta","text":"a"}}"#,
            r#"{delta","index":1,"delta":{"type":"text_delta","text":"b"}}"#,
            r#"{stop","index":1}"#,
            &format!(
                r#"{{start","index":2,"content_block":{{"type":"tool_use","id":"{id}","name":"f","input":{{}}}}}}"#
            ),
            r#"{delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"k\": "}}"#,
            r#"{delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}"#,
            r#"{stop","index":2}"#,
            r#"{start","index":3,"content_block":{"type":"text","text":""}}"#,
            r#"{delta","index":3,"delta":{"type":"text_delta","text":"c"}}"#,
            r#"{stop","index":3}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},USAGE}"#,
            r#"{"type":"message_stop"}"#,
        ],
    );
    assert_eq!(
        response,
        json!({
            "id": "a-1", "type": "message", "role": "assistant", "model": "m-1",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "a-1"},
                {"type": "text", "text": "ab"},
                {"type": "tool_use", "id": id, "name": "f", "input": {"k": 1}},
                {"type": "text", "text": "c"},
            ],
            "stop_reason": "tool_use", "stop_sequence": null,
            "usage": {
                "input_tokens": 7, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 3, "output_tokens": 5,
                "service_tier": "standard",
            },
        })
    );
}

#[test]
fn a_thinking_answer_shows_its_block_even_if_empty() {
    let config = AnswerConfig { signature: Some("sig".to_owned()), ..messages(true) };
    let (stream, response) = written(config, &[text("a"), finish(FinishReason::Stop)]);
    assert_lines(
        &stream,
        short,
        &[
            START,
            r#"{start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"ping"}"#,
            r#"{delta","index":0,"delta":{"type":"signature_delta","signature":"sig"}}"#,
            r#"{stop","index":0}"#,
            r#"{start","index":1,"content_block":{"type":"text","text":""}}"#,
            r#"{delta","index":1,"delta":{"type":"text_delta","text":"a"}}"#,
            r#"{stop","index":1}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},USAGE}"#,
            r#"{"type":"message_stop"}"#,
        ],
    );
    assert_eq!(response["content"][0], json!({"type": "thinking", "thinking": "", "signature": "sig"}));
}

#[test]
fn an_answer_without_blocks_has_no_ping() {
    let (stream, response) = written(messages(false), &[finish(FinishReason::ContentFilter)]);
    assert_lines(
        &stream,
        short,
        &[
            START,
            r#"{"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null},USAGE}"#,
            r#"{"type":"message_stop"}"#,
        ],
    );
    assert_eq!(response["content"], json!([]));
}

#[test]
fn stop_reasons() {
    for (event, reason, sequence) in [
        (finish(FinishReason::Stop), "end_turn", Value::Null),
        (finish(FinishReason::Length), "max_tokens", Value::Null),
        (finish(FinishReason::ContentFilter), "refusal", Value::Null),
        (stopped_at("###"), "stop_sequence", json!("###")),
        (
            Event::Finish(Finish { reason: FinishReason::ToolCalls, stop_sequence: Some("###".to_owned()) }),
            "tool_use",
            Value::Null,
        ),
    ] {
        let (stream, response) = written(messages(false), &[text("a"), event]);
        let frames = frames(&stream);
        let (_, delta) = frames.iter().find(|(_, data)| data["type"] == "message_delta").unwrap();
        assert_eq!(stop(delta), (&json!(reason), &sequence));
        assert_eq!((&response["stop_reason"], &response["stop_sequence"]), (&json!(reason), &sequence));
    }
}

#[test]
fn input_is_always_an_object() {
    for (fragment, complete, input) in [
        (r#"{"n": 1.50, "a": [{}]}"#, true, json!({"n": 1.5, "a": [{}]})),
        ("{}", true, json!({})),
        (r#"{"city": "Pa"#, false, json!({})),
        ("", false, json!({})),
        ("[1]", true, json!({})),
    ] {
        let events = [call_start(0, "f"), arguments(0, fragment), call_end(0, complete), finish(FinishReason::Length)];
        let (_, response) = written(messages(false), &events);
        assert_eq!(response["content"][0]["input"], input, "{fragment}");
    }
}

#[test]
fn a_block_stops_as_soon_as_its_call_ends() {
    let (stream, _) = written(messages(false), &[call_start(0, "f"), arguments(0, "{}"), call_end(0, true)]);
    assert_eq!(frames(&stream).last().unwrap().0.as_deref(), Some("content_block_stop"));
}

#[test]
fn the_opening_message_has_no_output_yet() {
    let mut writer = AnswerWriter::new(messages(false), None);
    let mut out = String::new();
    writer.count(0, TokenCounts { output: 5, reasoning: None }).unwrap();
    writer.start(10, 3, None, &mut out);
    assert_eq!(frames(&out)[0].1["message"]["usage"]["output_tokens"], 0);
    assert_eq!(writer.usage().output, 5);
}

#[test]
fn keep_alive_is_a_ping_once_the_message_started() {
    let mut writer = AnswerWriter::new(messages(false), None);
    let mut out = String::new();
    writer.keep_alive(&mut out);
    assert_eq!(out, ": keep-alive\n\n");
    writer.start(0, 0, None, &mut out);
    out.clear();
    writer.keep_alive(&mut out);
    assert_eq!(out, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

#[test]
fn a_failure_ends_the_stream() {
    let mut writer = AnswerWriter::new(messages(false), None);
    let mut out = String::new();
    writer.event(0, &text("a"), &mut out).unwrap();
    out.clear();
    writer.fail(&Error::new(ErrorCode::BackendFailed, "", &[("detail", &"gone")]), &mut out);
    writer.event(0, &text("late"), &mut out).unwrap();
    let error = r#"{"type":"error","error":{"type":"api_error","message":"the backend failed: gone"}}"#;
    assert_eq!(out, format!("event: error\ndata: {error}\n\n"));
    assert_eq!(response(&writer), serde_json::from_str::<Value>(error).unwrap());
}
