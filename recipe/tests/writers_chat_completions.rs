//! Chat Completions: which frames each event gives.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod writers_support;

use recipe::error::{Error, ErrorCode};
use recipe::event::{Delta, Event, FinishReason, TokenCounts};
use recipe::protocol::{AnswerConfig, AnswerWriter, Protocol};
use serde_json::{Value, json};
use writers_support::*;

const HEAD: &str = r#"data: {"id":"a-1","object":"chat.completion.chunk","created":7,"model":"m-1","system_fingerprint":null,"choices":"#;
const USAGE: &str = concat!(
    r#""usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":3},"#,
    r#""prompt_cache_hit_tokens":3,"prompt_cache_miss_tokens":7,"completion_tokens_details":{"reasoning_tokens":2}}"#
);

fn chat(thinking: bool) -> AnswerConfig {
    config(Protocol::ChatCompletions, thinking)
}

/// Leaves out what all chunks share, and what only says that there is nothing.
fn short(frame: &str) -> String {
    frame
        .replace(HEAD, "")
        .replace(USAGE, "USAGE")
        .replace(r#","logprobs":null,"finish_reason":null}]"#, "}]")
        .replace(r#"[{"index":0,"delta":"#, "[{")
}

#[test]
fn an_answer_of_every_kind() {
    let events = [
        reasoning("hm"),
        text("a\n"),
        call_start(0, "f"),
        arguments(0, "{\"k\": "),
        arguments(0, "1}"),
        call_end(0, true),
        call_start(1, "g"),
        arguments(1, "{}"),
        call_end(1, true),
        finish(FinishReason::ToolCalls),
    ];
    let (stream, response) = written(chat(true), &events);
    let ids: Vec<&str> =
        (0..2).map(|call| response["choices"][0]["message"]["tool_calls"][call]["id"].as_str().unwrap()).collect();
    assert!(ids[0].starts_with("call_00_") && ids[0].len() == 32, "{}", ids[0]);
    let start = |index: usize, name: &str| {
        format!(
            r#"[{{{{"tool_calls":[{{"index":{index},"id":"{}","type":"function","function":{{"name":"{name}","arguments":""}}}}]}}}}]}}"#,
            ids[index]
        )
    };
    assert_lines(
        &stream,
        short,
        &[
            r#"[{{"role":"assistant","content":null,"reasoning_content":""}}]}"#,
            r#"[{{"content":null,"reasoning_content":"hm"}}]}"#,
            r#"[{{"content":"a\n","reasoning_content":null}}]}"#,
            &start(0, "f"),
            r#"[{{"tool_calls":[{"index":0,"function":{"arguments":"{\"k\": "}}]}}]}"#,
            r#"[{{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}"#,
            &start(1, "g"),
            r#"[{{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}}]}"#,
            r#"[{{"content":"","reasoning_content":null},"logprobs":null,"finish_reason":"tool_calls"}],USAGE}"#,
            "data: [DONE]",
        ],
    );
    assert_eq!(
        response,
        json!({
            "id": "a-1", "object": "chat.completion", "created": 7, "model": "m-1",
            "choices": [{
                "index": 0,
                "message": {
                    "role": "assistant", "content": "a\n", "reasoning_content": "hm",
                    "tool_calls": [
                        {"index": 0, "id": ids[0], "type": "function", "function": {"name": "f", "arguments": "{\"k\": 1}"}},
                        {"index": 1, "id": ids[1], "type": "function", "function": {"name": "g", "arguments": "{}"}},
                    ],
                },
                "logprobs": null, "finish_reason": "tool_calls",
            }],
            "usage": {
                "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
                "prompt_tokens_details": {"cached_tokens": 3},
                "prompt_cache_hit_tokens": 3, "prompt_cache_miss_tokens": 7,
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
            "system_fingerprint": null,
        })
    );
}

#[test]
fn without_thinking_no_reasoning_is_spoken_of() {
    let (stream, response) = written(chat(false), &[text("a"), finish(FinishReason::Length)]);
    assert_lines(
        &stream,
        short,
        &[
            r#"[{{"role":"assistant","content":""}}]}"#,
            r#"[{{"content":"a"}}]}"#,
            r#"[{{"content":""},"logprobs":null,"finish_reason":"length"}],USAGE}"#,
            "data: [DONE]",
        ],
    );
    assert_eq!(response["choices"][0]["message"], json!({"role": "assistant", "content": "a"}));
}

#[test]
fn usage_that_was_asked_for_has_a_chunk_of_its_own() {
    let asked = AnswerConfig { include_usage: true, ..chat(false) };
    let (stream, _) = written(asked, &[text("a"), finish(FinishReason::ContentFilter)]);
    assert_lines(
        &stream,
        short,
        &[
            r#"[{{"role":"assistant","content":""}}],"usage":null}"#,
            r#"[{{"content":"a"}}],"usage":null}"#,
            r#"[{{"content":""},"logprobs":null,"finish_reason":"content_filter"}],"usage":null}"#,
            "[],USAGE}",
            "data: [DONE]",
        ],
    );
}

#[test]
fn events_that_show_nothing_give_no_frame() {
    let dropped = Event::CallParameterDropped { index: 0, name: "k".to_owned(), value: "v".to_owned() };
    let events = [text(""), reasoning(""), call_start(0, "f"), arguments(0, ""), dropped, call_end(0, false)];
    let (stream, _) = written(chat(false), &events);
    assert_eq!(frames(&stream).len(), 2);
}

#[test]
fn log_probabilities_stand_beside_their_text() {
    let tokenizer = recipe::model::Version::V4.tokenizer();
    let mut ids = Vec::new();
    tokenizer.encode_plain("hello 😀", &mut ids);
    let (hello, cut) = (ids[0], ids[2]);
    let entries = vec![entry(hello, -0.25, &[(cut, f64::NEG_INFINITY)])];
    let mut writer = AnswerWriter::new(chat(true), Some(tokenizer));
    let mut out = String::new();
    writer
        .event(0, &Event::Reasoning(Delta { text: "hello".to_owned(), logprobs: entries.clone() }), &mut out)
        .unwrap();
    writer.event(0, &Event::Text(Delta { text: "hello".to_owned(), logprobs: entries }), &mut out).unwrap();
    let frames = frames(&out);
    let list = json!([{
        "token": "hello", "logprob": -0.25, "bytes": [104, 101, 108, 108, 111],
        "top_logprobs": [{"token": "\\x80", "logprob": -9999.0, "bytes": [128]}],
    }]);
    assert_eq!(frames[1].1["choices"][0]["logprobs"], json!({"reasoning_content": list}));
    assert_eq!(frames[2].1["choices"][0]["logprobs"], json!({"content": list}));
    assert_eq!(response(&writer)["choices"][0]["logprobs"], json!({"content": list, "reasoning_content": list}));
}

#[test]
fn choices_end_one_by_one_and_the_usage_is_their_sum() {
    let two = AnswerConfig { choices: 2, ..chat(false) };
    let mut writer = AnswerWriter::new(two, None);
    let mut out = String::new();
    writer.start(10, 3, Some("fp"), &mut out);
    writer.count(0, TokenCounts { output: 2, reasoning: Some(1) }).unwrap();
    writer.count(1, TokenCounts { output: 3, reasoning: Some(1) }).unwrap();
    for (choice, event) in [
        (1, text("b")),
        (0, text("a")),
        (1, call_start(0, "f")),
        (0, finish(FinishReason::Stop)),
        (0, text("late")),
        (1, finish(FinishReason::ToolCalls)),
    ] {
        writer.event(choice, &event, &mut out).unwrap();
    }
    let frames = frames(&out);
    let indexes: Vec<&Value> = frames.iter().map(|(_, data)| &data["choices"][0]["index"]).collect();
    assert_eq!(indexes, [&json!(0), &json!(1), &json!(1), &json!(0), &json!(1), &json!(0), &json!(1), &Value::Null]);
    assert!(frames[..6].iter().all(|(_, data)| data.get("usage").is_none()));
    assert_eq!(frames[6].1["usage"]["completion_tokens"], 5);
    assert_eq!(frames[6].1["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);
    assert_eq!(frames[6].1["system_fingerprint"], "fp");
    assert_eq!(frames[7].1, "[DONE]");
    assert!(writer.event(2, &text("c"), &mut out).unwrap_err().message().contains("choice 2"));
    assert_eq!(response(&writer)["choices"][1]["message"]["content"], "b");
}

#[test]
fn an_answer_that_never_started_has_no_choices() {
    let writer = AnswerWriter::new(chat(true), None);
    let body = json!({
        "id": "a-1", "object": "chat.completion", "created": 7, "model": "m-1", "choices": [], "system_fingerprint": null,
    });
    assert_eq!(response(&writer), body);
}

#[test]
fn a_failure_ends_the_stream() {
    let mut writer = AnswerWriter::new(chat(false), None);
    let mut out = String::new();
    writer.keep_alive(&mut out);
    writer.event(0, &text("a"), &mut out).unwrap();
    writer.keep_alive(&mut out);
    writer.fail(&Error::new(ErrorCode::BackendFailed, "", &[("detail", &"gone")]), &mut out);
    writer.fail(&Error::new(ErrorCode::BackendFailed, "", &[("detail", &"again")]), &mut out);
    writer.event(0, &text("late"), &mut out).unwrap();
    let error = r#"{"error":{"message":"the backend failed: gone","type":"server_error","param":null,"code":"backend_failed"}}"#;
    assert_lines(
        &out,
        short,
        &[
            ": keep-alive",
            r#"[{{"role":"assistant","content":""}}]}"#,
            r#"[{{"content":"a"}}]}"#,
            ": keep-alive",
            &format!("data: {error}"),
            "data: [DONE]",
        ],
    );
    assert_eq!(response(&writer), serde_json::from_str::<Value>(error).unwrap());
}

#[test]
fn error_bodies() {
    let body = |protocol: Protocol, error: &Error| serde_json::from_str::<Value>(&protocol.error_body(error)).unwrap();
    let missing = Error::new(ErrorCode::MissingField, "messages[0].role", &[]);
    let unknown = Error::new(ErrorCode::ModelNotFound, "model", &[("found", &"x"), ("expected", &"y")]);
    for protocol in [Protocol::ChatCompletions, Protocol::Responses] {
        assert_eq!(
            body(protocol, &missing),
            json!({"error": {
                "message": "messages[0].role is required", "type": "invalid_request_error",
                "param": "messages[0].role", "code": "missing_field",
            }})
        );
        assert_eq!(body(protocol, &unknown)["error"]["type"], "invalid_request_error");
    }
    assert_eq!(
        body(Protocol::Messages, &missing),
        json!({"type": "error", "error": {
            "type": "invalid_request_error", "message": "messages[0].role is required",
        }})
    );
    assert_eq!(body(Protocol::Messages, &unknown)["error"]["type"], "not_found_error");
}
