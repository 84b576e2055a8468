//! Responses: which frames each event gives.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod writers_support;

use std::collections::BTreeMap;

use recipe::error::{Error, ErrorCode};
use recipe::event::{Delta, Event, FinishReason};
use recipe::json::parse;
use recipe::protocol::{AnswerConfig, AnswerWriter, Protocol};
use serde_json::{Value, json};
use writers_support::*;

fn responses() -> AnswerConfig {
    AnswerConfig {
        custom_tools: vec!["apply_patch".to_owned()],
        namespace_tools: BTreeMap::from([("ns__g".to_owned(), ("ns".to_owned(), "g".to_owned()))]),
        ..config(Protocol::Responses, true)
    }
}

/// The data without the name that it repeats, and with a response object reduced to its status.
fn short(frame: &str) -> String {
    let data = frame.split_once("\ndata: ").map_or(frame, |(_, data)| data);
    let mut value: Value = serde_json::from_str(data).unwrap();
    let Some(object) = value.get_mut("response") else {
        return data.replace(r#"{"type":"response."#, "{");
    };
    let (status, output) = (object["status"].clone(), object["output"].as_array().unwrap().len());
    format!(
        "{} {}: {}, {output} items",
        value["sequence_number"],
        value["type"].as_str().unwrap(),
        status.as_str().unwrap()
    )
}

#[test]
fn an_answer_of_every_kind() {
    let events = [
        reasoning("h"),
        reasoning("m"),
        text("a"),
        call_start(0, "f"),
        arguments(0, "{}"),
        call_end(0, true),
        finish(FinishReason::ToolCalls),
    ];
    let (stream, response) = written(responses(), &events);
    let id = response["output"][2]["call_id"].as_str().unwrap();
    assert_lines(
        &stream,
        short,
        &[
            "0 response.created: in_progress, 0 items",
            "1 response.in_progress: in_progress, 0 items",
            r#"{output_item.added","item":{"type":"reasoning","id":"rs_a-1_0","status":"in_progress","content":[],"summary":[],"encrypted_content":"a-1-0"},"output_index":0,"sequence_number":2}"#,
            r#"{content_part.added","item_id":"rs_a-1_0","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":""},"sequence_number":3}"#,
            r#"{reasoning_text.delta","item_id":"rs_a-1_0","output_index":0,"content_index":0,"delta":"h","sequence_number":4}"#,
            r#"{reasoning_text.delta","item_id":"rs_a-1_0","output_index":0,"content_index":0,"delta":"m","sequence_number":5}"#,
            r#"{reasoning_text.done","item_id":"rs_a-1_0","output_index":0,"content_index":0,"text":"hm","sequence_number":6}"#,
            r#"{content_part.done","item_id":"rs_a-1_0","output_index":0,"content_index":0,"part":{"type":"reasoning_text","text":"hm"},"sequence_number":7}"#,
            r#"{output_item.done","item":{"type":"reasoning","id":"rs_a-1_0","status":"completed","content":[{"type":"reasoning_text","text":"hm"}],"summary":[],"encrypted_content":"a-1-0"},"output_index":0,"sequence_number":8}"#,
            r#"{output_item.added","item":{"type":"message","id":"msg_a-1_1","status":"in_progress","role":"assistant","phase":"final_answer","content":[]},"output_index":1,"sequence_number":9}"#,
            r#"{content_part.added","item_id":"msg_a-1_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""},"sequence_number":10}"#,
            r#"{output_text.delta","item_id":"msg_a-1_1","output_index":1,"content_index":0,"delta":"a","logprobs":[],"sequence_number":11}"#,
            r#"{output_text.done","item_id":"msg_a-1_1","output_index":1,"content_index":0,"logprobs":[],"text":"a","sequence_number":12}"#,
            r#"{content_part.done","item_id":"msg_a-1_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":"a"},"sequence_number":13}"#,
            r#"{output_item.done","item":{"type":"message","id":"msg_a-1_1","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"a"}]},"output_index":1,"sequence_number":14}"#,
            &format!(
                r#"{{output_item.added","item":{{"type":"function_call","id":"fc_a-1_2","status":"in_progress","call_id":"{id}","name":"f","arguments":""}},"output_index":2,"sequence_number":15}}"#
            ),
            r#"{function_call_arguments.delta","item_id":"fc_a-1_2","output_index":2,"delta":"{}","sequence_number":16}"#,
            r#"{function_call_arguments.done","item_id":"fc_a-1_2","output_index":2,"arguments":"{}","sequence_number":17}"#,
            &format!(
                r#"{{output_item.done","item":{{"type":"function_call","id":"fc_a-1_2","status":"completed","call_id":"{id}","name":"f","arguments":"{{}}"}},"output_index":2,"sequence_number":18}}"#
            ),
            "19 response.completed: completed, 3 items",
        ],
    );
    assert_eq!(frames(&stream)[19].1["response"], response);
    assert_eq!(
        response["usage"],
        json!({
            "input_tokens": 10, "input_tokens_details": {"cached_tokens": 3},
            "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 15,
        })
    );
}

#[test]
fn a_custom_tool_gets_the_text_itself() {
    let events = [
        call_start(0, "apply_patch"),
        arguments(0, "{"),
        arguments(0, "\"input\""),
        arguments(0, ": "),
        arguments(0, "\""),
        arguments(0, "a\\n"),
        arguments(0, "b"),
        arguments(0, "\""),
        arguments(0, "}"),
        call_end(0, true),
        finish(FinishReason::ToolCalls),
    ];
    let (stream, response) = written(responses(), &events);
    let item = &response["output"][0];
    let id = item["call_id"].as_str().unwrap();
    assert!(id.starts_with("call_00_ET_") && id.len() == 35, "{id}");
    assert_lines(
        &stream,
        short,
        &[
            "0 response.created: in_progress, 0 items",
            "1 response.in_progress: in_progress, 0 items",
            &format!(
                r#"{{output_item.added","item":{{"type":"custom_tool_call","id":"ctc_a-1_0","status":"in_progress","call_id":"{id}","name":"apply_patch","input":""}},"output_index":0,"sequence_number":2}}"#
            ),
            r#"{custom_tool_call_input.delta","item_id":"ctc_a-1_0","output_index":0,"delta":"a\n","sequence_number":3}"#,
            r#"{custom_tool_call_input.delta","item_id":"ctc_a-1_0","output_index":0,"delta":"b","sequence_number":4}"#,
            r#"{custom_tool_call_input.done","item_id":"ctc_a-1_0","output_index":0,"input":"a\nb","sequence_number":5}"#,
            &format!(
                r#"{{output_item.done","item":{{"type":"custom_tool_call","id":"ctc_a-1_0","status":"completed","call_id":"{id}","name":"apply_patch","input":"a\nb"}},"output_index":0,"sequence_number":6}}"#
            ),
            "7 response.completed: completed, 1 items",
        ],
    );
}

#[test]
fn a_cut_custom_call_shows_what_came() {
    let events = [
        call_start(0, "apply_patch"),
        arguments(0, "{\"input\""),
        arguments(0, ": "),
        call_end(0, false),
        finish(FinishReason::Length),
    ];
    let (stream, response) = written(responses(), &events);
    let deltas: Vec<Value> = frames(&stream).into_iter().map(|(_, data)| data["delta"].clone()).collect();
    assert_eq!(deltas.iter().filter(|delta| !delta.is_null()).collect::<Vec<_>>(), [&json!("{\"input\": ")]);
    assert_eq!(
        (&response["output"][0]["input"], &response["output"][0]["status"]),
        (&json!("{\"input\": "), &json!("incomplete"))
    );
}

#[test]
fn a_tool_of_a_namespace_has_its_own_name() {
    let (stream, response) =
        written(responses(), &[call_start(0, "ns__g"), call_start(1, "g"), finish(FinishReason::ToolCalls)]);
    let items = response["output"].as_array().unwrap();
    assert_eq!((&items[0]["name"], &items[0]["namespace"]), (&json!("g"), &json!("ns")));
    assert_eq!((&items[1]["name"], items[1].get("namespace")), (&json!("g"), None));
    let added: Vec<_> =
        frames(&stream).into_iter().filter(|(_, data)| data["type"] == "response.output_item.added").collect();
    assert_eq!(added[0].1["item"]["namespace"], "ns");
}

#[test]
fn only_the_last_item_of_a_cut_answer_is_incomplete() {
    for (reason, word) in [(FinishReason::Length, "max_output_tokens"), (FinishReason::ContentFilter, "content_filter")]
    {
        let (stream, response) = written(responses(), &[reasoning("hm"), text("a"), finish(reason)]);
        assert_eq!(response["status"], "incomplete");
        assert_eq!(response["incomplete_details"], json!({"reason": word}));
        assert_eq!(response["completed_at"], 7);
        let statuses: Vec<&Value> = response["output"].as_array().unwrap().iter().map(|item| &item["status"]).collect();
        assert_eq!(statuses, ["completed", "incomplete"]);
        let frames = frames(&stream);
        assert_eq!(frames.last().unwrap().0.as_deref(), Some("response.incomplete"));
        assert_eq!(frames[frames.len() - 2].1["item"], response["output"][1]);
    }
}

#[test]
fn a_message_is_commentary_only_right_before_a_call() {
    let events = [
        text("a"),
        call_start(0, "f"),
        arguments(0, "{}"),
        call_end(0, true),
        text("b"),
        finish(FinishReason::ToolCalls),
    ];
    let (_, response) = written(responses(), &events);
    let phases: Vec<&Value> = response["output"].as_array().unwrap().iter().map(|item| &item["phase"]).collect();
    assert_eq!(phases, [&json!("commentary"), &Value::Null, &json!("final_answer")]);
    let (_, response) = written(responses(), &[text("a"), reasoning("hm"), finish(FinishReason::Stop)]);
    assert_eq!(response["output"][0]["phase"], "final_answer");
}

#[test]
fn settings_are_the_requests_or_the_defaults() {
    let echo =
        parse(br#"{"temperature": 0.30, "tools": [{"name": "f"}], "user": "u", "model": "other", "x": 1}"#).unwrap();
    let config = AnswerConfig { echo: Some(echo.into_owned()), ..responses() };
    let (stream, response) = written(config, &[finish(FinishReason::Stop)]);
    assert!(stream.contains(r#""temperature":0.30,"text":{"format":{"type":"text"},"verbosity":null}"#));
    assert_eq!(
        response,
        json!({
            "id": "a-1", "object": "response", "created_at": 7, "status": "completed", "background": false,
            "completed_at": 7, "content_filters": null, "error": null, "frequency_penalty": 0.0,
            "incomplete_details": null, "instructions": null, "max_output_tokens": null, "max_tool_calls": null,
            "model": "m-1", "moderation": null, "output": [], "parallel_tool_calls": true, "presence_penalty": 0.0,
            "previous_response_id": null, "prompt_cache_key": null, "prompt_cache_retention": null,
            "reasoning": {"effort": null, "summary": null}, "safety_identifier": null, "service_tier": "default",
            "store": false, "temperature": 0.3, "text": {"format": {"type": "text"}, "verbosity": null},
            "tool_choice": "auto", "tools": [{"name": "f"}], "top_logprobs": 0, "top_p": 1.0,
            "truncation": "disabled",
            "usage": {
                "input_tokens": 10, "input_tokens_details": {"cached_tokens": 3},
                "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 15,
            },
            "user": "u", "metadata": {},
        })
    );
}

#[test]
fn log_probabilities_of_text_are_repeated_by_its_closing_events() {
    let delta = |text: &str, id| Event::Text(Delta { text: text.to_owned(), logprobs: vec![entry(id, -0.5, &[])] });
    let (stream, response) = written(responses(), &[delta("a", 1), delta("b", 2), finish(FinishReason::Stop)]);
    let frames = frames(&stream);
    let lengths: Vec<usize> =
        frames.iter().filter_map(|(_, data)| Some(data.get("logprobs")?.as_array()?.len())).collect();
    assert_eq!(lengths, [1, 1, 2]);
    assert_eq!(response["output"][0]["content"][0]["logprobs"].as_array().unwrap().len(), 2);
}

#[test]
fn a_failure_is_the_last_event() {
    let mut writer = AnswerWriter::new(responses(), None);
    let mut out = String::new();
    writer.event(0, &text("a"), &mut out).unwrap();
    writer.keep_alive(&mut out);
    assert!(out.ends_with(": keep-alive\n\n"));
    out.clear();
    writer.fail(&Error::new(ErrorCode::BackendFailed, "", &[("detail", &"gone")]), &mut out);
    writer.event(0, &text("late"), &mut out).unwrap();
    let (name, data) = frames(&out).pop().unwrap();
    assert_eq!((name.as_deref(), &data["sequence_number"]), (Some("response.failed"), &json!(5)));
    assert_eq!(data["response"]["status"], "failed");
    assert_eq!(data["response"]["error"], json!({"code": "server_error", "message": "the backend failed: gone"}));
    assert_eq!(data["response"]["output"][0]["status"], "incomplete");
    assert_eq!(response(&writer), data["response"]);
}

#[test]
fn a_failure_before_any_output_still_opens_the_stream() {
    let mut writer = AnswerWriter::new(responses(), None);
    let mut out = String::new();
    writer.fail(&Error::new(ErrorCode::BackendFailed, "", &[("detail", &"gone")]), &mut out);
    let names: Vec<Option<String>> = frames(&out).into_iter().map(|(name, _)| name).collect();
    let expected = ["response.created", "response.in_progress", "response.failed"];
    assert_eq!(names, expected.map(|name| Some(name.to_owned())));
}

#[test]
fn the_time_of_the_last_event_can_be_told() {
    let mut writer = AnswerWriter::new(responses(), None);
    let mut out = String::new();
    writer.event(0, &text("a"), &mut out).unwrap();
    writer.set_time(9);
    writer.event(0, &finish(FinishReason::Stop), &mut out).unwrap();
    let response = response(&writer);
    assert_eq!((&response["created_at"], &response["completed_at"]), (&json!(7), &json!(9)));
}

#[test]
fn tokens_found_in_a_cache_may_be_told_after_the_start() {
    let mut writer = AnswerWriter::new(responses(), None);
    let mut out = String::new();
    writer.start(10, 0, None, &mut out);
    writer.set_cached_tokens(7);
    writer.event(0, &finish(FinishReason::Stop), &mut out).unwrap();
    let usage = &response(&writer)["usage"];
    assert_eq!((&usage["input_tokens"], &usage["input_tokens_details"]["cached_tokens"]), (&json!(10), &json!(7)));
}
