//! What the tests of the writers share: short names for events, and readers of what was written.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses a part")]

use recipe::event::{Delta, Event, Finish, FinishReason, TokenCounts, TokenLogprob};
use recipe::protocol::{AnswerConfig, AnswerWriter, Protocol};
use serde_json::Value;

pub(crate) fn reasoning(text: &str) -> Event {
    Event::Reasoning(Delta { text: text.to_owned(), logprobs: Vec::new() })
}

pub(crate) fn text(text: &str) -> Event {
    Event::Text(Delta { text: text.to_owned(), logprobs: Vec::new() })
}

pub(crate) fn entry(id: u32, logprob: f64, top: &[(u32, f64)]) -> TokenLogprob {
    TokenLogprob { id, logprob, top: top.to_vec() }
}

pub(crate) fn call_start(index: usize, name: &str) -> Event {
    Event::CallStart { index, name: name.to_owned() }
}

pub(crate) fn arguments(index: usize, fragment: &str) -> Event {
    Event::CallArguments { index, fragment: fragment.to_owned() }
}

pub(crate) fn call_end(index: usize, complete: bool) -> Event {
    Event::CallEnd { index, complete }
}

pub(crate) fn finish(reason: FinishReason) -> Event {
    Event::Finish(Finish { reason, stop_sequence: None })
}

pub(crate) fn stopped_at(stop_sequence: &str) -> Event {
    Event::Finish(Finish { reason: FinishReason::Stop, stop_sequence: Some(stop_sequence.to_owned()) })
}

pub(crate) fn config(protocol: Protocol, thinking: bool) -> AnswerConfig {
    AnswerConfig { created: 7, thinking, ..AnswerConfig::new(protocol, "a-1", "m-1") }
}

/// Stream and whole response of one choice with a prompt of 10 tokens, 3 of them cached, and 5 tokens of output.
pub(crate) fn written(config: AnswerConfig, events: &[Event]) -> (String, Value) {
    let mut writer = AnswerWriter::new(config, None);
    let mut out = String::new();
    writer.start(10, 3, None, &mut out);
    writer.count(0, TokenCounts { output: 5, reasoning: Some(2) }).unwrap();
    for event in events {
        writer.event(0, event, &mut out).unwrap();
    }
    (out, response(&writer))
}

pub(crate) fn response(writer: &AnswerWriter) -> Value {
    let mut body = String::new();
    writer.response(&mut body);
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// A frame: its name and its data.
pub(crate) type Frame = (Option<String>, Value);

/// Reads frames strictly: every one is a data line, with or without a name before it. `[DONE]` reads as a string.
pub(crate) fn frames(stream: &str) -> Vec<Frame> {
    let body = stream.strip_suffix("\n\n").unwrap_or_else(|| panic!("no end: {stream}"));
    body.split("\n\n").map(frame).collect()
}

fn frame(text: &str) -> Frame {
    let (name, data) = match text.strip_prefix("event: ") {
        Some(rest) => {
            let (name, data) = rest.split_once('\n').unwrap();
            (Some(name.to_owned()), data)
        }
        None => (None, text),
    };
    let data = data.strip_prefix("data: ").unwrap_or_else(|| panic!("no data: {text}"));
    assert!(!data.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']), "a line ends inside {data:?}");
    if data == "[DONE]" {
        return (name, Value::from(data));
    }
    let data: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"));
    if let Some(name) = &name {
        assert_eq!(data["type"], **name);
    }
    (name, data)
}

/// Compares a stream with the lines expected: frames in short form, one a line.
pub(crate) fn assert_lines(stream: &str, shorten: impl Fn(&str) -> String, expected: &[&str]) {
    let lines: Vec<String> = stream.trim_end().split("\n\n").map(shorten).collect();
    for (place, (line, expected)) in lines.iter().zip(expected).enumerate() {
        assert_eq!(line, expected, "frame {place}");
    }
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
}
