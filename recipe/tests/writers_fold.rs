//! The law of all protocols: a client that puts a stream together holds the response that is not streamed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod writers_support;

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use recipe::event::{Delta, Event, Finish, FinishReason, TokenCounts, TokenLogprob};
use recipe::protocol::{AnswerConfig, AnswerWriter, Protocol};
use serde_json::{Value, json};
use writers_support::*;

/// Appends to a string or an array.
fn append(whole: &mut Value, more: &Value) {
    match (whole, more) {
        (Value::String(whole), Value::String(more)) => whole.push_str(more),
        (Value::Array(whole), Value::Array(more)) => whole.extend(more.iter().cloned()),
        (whole @ Value::Null, more) => *whole = more.clone(),
        (_, Value::Null) => {}
        (whole, more) => panic!("{whole} and {more}"),
    }
}

fn fold_chat(frames: &[Frame]) -> Value {
    let (end, chunks) = frames.split_last().unwrap();
    assert_eq!(end.1, "[DONE]");
    let first = &chunks[0].1;
    let mut body = json!({
        "id": first["id"], "object": "chat.completion", "created": first["created"], "model": first["model"],
        "choices": [], "system_fingerprint": first["system_fingerprint"],
    });
    let choices = chunks.iter().flat_map(|(_, chunk)| chunk["choices"].as_array().unwrap());
    let count = choices.clone().map(|choice| choice["index"].as_u64().unwrap() + 1).max().unwrap();
    for index in 0..count {
        let empty = json!({"index": index, "message": {"content": ""}, "logprobs": null, "finish_reason": null});
        body["choices"].as_array_mut().unwrap().push(empty);
    }
    for choice in choices {
        let whole = &mut body["choices"][usize::try_from(choice["index"].as_u64().unwrap()).unwrap()];
        fold_chat_delta(&mut whole["message"], &choice["delta"]);
        if let Some(lists) = choice["logprobs"].as_object() {
            lists.iter().for_each(|(list, entries)| append(&mut whole["logprobs"][list], entries));
        }
        append(&mut whole["finish_reason"], &choice["finish_reason"]);
    }
    let usages: Vec<&Value> =
        chunks.iter().filter_map(|(_, chunk)| chunk.get("usage")).filter(|usage| !usage.is_null()).collect();
    assert_eq!(usages.len(), 1);
    body["usage"] = usages[0].clone();
    body
}

fn fold_chat_delta(message: &mut Value, delta: &Value) {
    if let Some(role) = delta.get("role") {
        message["role"] = role.clone();
    }
    append(&mut message["content"], delta.get("content").unwrap_or(&Value::Null));
    if let Some(reasoning) = delta.get("reasoning_content").filter(|reasoning| !reasoning.is_null()) {
        append(&mut message["reasoning_content"], reasoning);
    }
    for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        if call.get("id").is_some() {
            append(&mut message["tool_calls"], &json!([call]));
        } else {
            let place = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
            append(&mut message["tool_calls"][place]["function"]["arguments"], &call["function"]["arguments"]);
        }
    }
}

fn fold_messages(frames: &[Frame]) -> Value {
    let mut message = Value::Null;
    let mut inputs = BTreeMap::<u64, String>::new();
    let mut open = None;
    for (name, data) in frames {
        let index = data["index"].as_u64();
        let place = usize::try_from(index.unwrap_or_default()).unwrap();
        match name.as_deref().unwrap() {
            "message_start" => message = data["message"].clone(),
            "content_block_start" => {
                assert_eq!(open, None);
                open = index;
                assert_eq!(place, message["content"].as_array().unwrap().len());
                append(&mut message["content"], &json!([data["content_block"]]));
            }
            "content_block_delta" => {
                assert_eq!(open, index);
                let (block, delta) = (&mut message["content"][place], &data["delta"]);
                match delta["type"].as_str().unwrap() {
                    "text_delta" => append(&mut block["text"], &delta["text"]),
                    "thinking_delta" => append(&mut block["thinking"], &delta["thinking"]),
                    "signature_delta" => append(&mut block["signature"], &delta["signature"]),
                    _ => inputs.entry(index.unwrap()).or_default().push_str(delta["partial_json"].as_str().unwrap()),
                }
            }
            "content_block_stop" => {
                assert_eq!(open.take(), index);
                let input = inputs.get(&index.unwrap()).and_then(|input| serde_json::from_str(input).ok());
                if let Some(input) = input {
                    message["content"][place]["input"] = input;
                }
            }
            "message_delta" => {
                message["stop_reason"] = data["delta"]["stop_reason"].clone();
                message["stop_sequence"] = data["delta"]["stop_sequence"].clone();
                message["usage"] = data["usage"].clone();
            }
            name => assert!(matches!(name, "ping" | "message_stop"), "{name}"),
        }
    }
    assert_eq!((open, frames.last().unwrap().0.as_deref()), (None, Some("message_stop")));
    message
}

/// The response of the last event, after the deltas were checked against it.
fn fold_responses(frames: &[Frame]) -> Value {
    let mut items: Vec<Value> = Vec::new();
    let mut done = Vec::new();
    for (number, (name, data)) in frames.iter().enumerate() {
        assert_eq!(data["sequence_number"], number);
        let place = usize::try_from(data["output_index"].as_u64().unwrap_or_default()).unwrap();
        if let Some(id) = data.get("item_id") {
            assert_eq!(*id, items[place]["id"]);
        }
        match name.as_deref().unwrap().strip_prefix("response.").unwrap() {
            "output_item.added" => {
                assert_eq!((place, done.len()), (items.len(), items.len()));
                items.push(data["item"].clone());
            }
            "content_part.added" => append(&mut items[place]["content"], &json!([data["part"]])),
            "output_text.delta" => {
                append(&mut items[place]["content"][0]["text"], &data["delta"]);
                append(&mut items[place]["content"][0]["logprobs"], &data["logprobs"]);
            }
            "reasoning_text.delta" => append(&mut items[place]["content"][0]["text"], &data["delta"]),
            "function_call_arguments.delta" => append(&mut items[place]["arguments"], &data["delta"]),
            "custom_tool_call_input.delta" => append(&mut items[place]["input"], &data["delta"]),
            "output_text.done" | "reasoning_text.done" => assert_eq!(data["text"], items[place]["content"][0]["text"]),
            "function_call_arguments.done" => assert_eq!(data["arguments"], items[place]["arguments"]),
            "custom_tool_call_input.done" => assert_eq!(data["input"], items[place]["input"]),
            "content_part.done" => assert_eq!(data["part"], items[place]["content"][0]),
            "output_item.done" => done.push(data["item"].clone()),
            name => assert!(matches!(name, "created" | "in_progress" | "completed" | "incomplete"), "{name}"),
        }
    }
    for (item, done) in items.iter_mut().zip(&done) {
        item["status"] = done["status"].clone();
        if let Some(phase) = done.get("phase") {
            item["phase"] = phase.clone();
        }
    }
    let response = &frames.last().unwrap().1["response"];
    assert_eq!(items, done);
    assert_eq!(response["output"], Value::from(items));
    response.clone()
}

fn any_text() -> impl Strategy<Value = String> {
    "[ab\"\\\\\n😀é\u{2028}\u{85}\u{1}]{0,4}"
}

fn any_delta() -> impl Strategy<Value = Delta> {
    let entry = (0u32..9, -9.0..0.0, vec((0u32..9, -9.0..0.0), 0..2));
    let entry = entry.prop_map(|(id, logprob, top)| TokenLogprob { id, logprob, top });
    (any_text(), vec(entry, 0..2)).prop_map(|(text, logprobs)| Delta { text, logprobs })
}

#[derive(Debug, Clone)]
enum Stretch {
    Reasoning(Vec<Delta>),
    Text(Vec<Delta>),
    Call { name: &'static str, arguments: String, cut: usize, size: usize },
}

fn any_stretch() -> impl Strategy<Value = Stretch> {
    let names = proptest::sample::select(vec!["f", "apply_patch", "ns__g"]);
    let arguments = prop_oneof![
        any_text().prop_map(|text| json!({"input": text}).to_string()),
        any_text().prop_map(|text| json!({"k": [text, 1.5]}).to_string()),
        Just("{}".to_owned()),
    ];
    prop_oneof![
        vec(any_delta(), 0..3).prop_map(Stretch::Reasoning),
        vec(any_delta(), 0..3).prop_map(Stretch::Text),
        (names, arguments, 0usize..200, 1usize..9).prop_map(|(name, arguments, cut, size)| Stretch::Call {
            name,
            arguments,
            cut,
            size
        }),
    ]
}

/// A choice's events. Only the last call may be cut.
fn events(stretches: Vec<Stretch>, finish: Finish) -> Vec<Event> {
    let mut events = Vec::new();
    let (last, mut index) = (stretches.len(), 0);
    for (place, stretch) in stretches.into_iter().enumerate() {
        match stretch {
            Stretch::Reasoning(deltas) => events.extend(deltas.into_iter().map(Event::Reasoning)),
            Stretch::Text(deltas) => events.extend(deltas.into_iter().map(Event::Text)),
            Stretch::Call { name, arguments: whole, cut, size } => {
                let characters: Vec<char> = whole.chars().collect();
                let cut = if place + 1 == last { cut.min(characters.len()) } else { characters.len() };
                events.push(call_start(index, name));
                events.extend(
                    characters[..cut].chunks(size).map(|part| arguments(index, &part.iter().collect::<String>())),
                );
                events.push(call_end(index, cut == characters.len()));
                index += 1;
            }
        }
    }
    events.push(Event::Finish(finish));
    events
}

fn any_events() -> impl Strategy<Value = Vec<Event>> {
    let reasons = [FinishReason::Stop, FinishReason::ToolCalls, FinishReason::Length, FinishReason::ContentFilter];
    let finish = (proptest::sample::select(reasons.to_vec()), proptest::option::weighted(0.2, any_text()))
        .prop_map(|(reason, stop_sequence)| Finish { reason, stop_sequence });
    (vec(any_stretch(), 0..5), finish).prop_map(|(stretches, finish)| events(stretches, finish))
}

fn checked(config: AnswerConfig, choices: &[Vec<Event>], order: &[usize], fold: fn(&[Frame]) -> Value) {
    let mut writer = AnswerWriter::new(AnswerConfig { choices: choices.len(), ..config }, None);
    let mut out = String::new();
    writer.start(10, 3, Some("fp"), &mut out);
    for choice in 0..choices.len() {
        writer.count(choice, TokenCounts { output: 5, reasoning: Some(1) }).unwrap();
    }
    let mut queues: Vec<_> = choices.iter().map(|events| events.iter()).collect();
    let rest = choices.iter().enumerate().flat_map(|(choice, events)| std::iter::repeat_n(choice, events.len()));
    for choice in order.iter().map(|choice| choice % choices.len()).chain(rest) {
        if let Some(event) = queues[choice].next() {
            writer.event(choice, event, &mut out).unwrap();
        }
    }
    assert_eq!(fold(&frames(&out)), response(&writer));
}

proptest! {
    #[test]
    fn chat_completions(
        choices in vec(any_events(), 1..4),
        order in vec(0usize..3, 0..40),
        thinking in any::<bool>(),
        include_usage in any::<bool>(),
    ) {
        let config = AnswerConfig { include_usage, ..config(Protocol::ChatCompletions, thinking) };
        checked(config, &choices, &order, fold_chat);
    }

    #[test]
    fn messages(events in any_events(), thinking in any::<bool>()) {
        checked(config(Protocol::Messages, thinking), &[events], &[], fold_messages);
    }

    #[test]
    fn responses(events in any_events(), thinking in any::<bool>()) {
        let config = AnswerConfig {
            custom_tools: vec!["apply_patch".to_owned()],
            namespace_tools: BTreeMap::from([("ns__g".to_owned(), ("ns".to_owned(), "g".to_owned()))]),
            ..config(Protocol::Responses, thinking)
        };
        checked(config, &[events], &[], fold_responses);
    }
}
