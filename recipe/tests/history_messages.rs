//! Token-faithful history in Messages: the block that ends an answer and carries the record of what followed its reasoning.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod history_support;

use history_support::{encoded, keyed, output, request, response, sent_back, unusual_ids};
use recipe::codec::{Options, encode};
use recipe::event::BackendFinish;
use recipe::model::Version;
use recipe::protocol::Protocol;
use serde_json::{Value, json};

const PROTOCOL: Protocol = Protocol::Messages;
const VERSION: Version = Version::V41;

/// The content of an answer, and the ids that it should give in the next prompt.
fn answer(reasoning: Option<&str>, content: &str, calls: &[&str], finish: BackendFinish) -> (Value, Vec<u32>) {
    let first = encoded(&request(PROTOCOL, VERSION, reasoning.is_some(), true, &[]), PROTOCOL, &keyed());
    let own = unusual_ids(&output(VERSION, reasoning, content, calls), 3);
    (response(&first, &own, finish), [first.token_ids, own].concat())
}

fn kinds(content: &Value) -> Vec<&str> {
    content.as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect()
}

#[test]
fn the_record_ends_the_message_and_changes_nothing_else() {
    let thought = Some("A careful thought.");
    let cases = [
        (thought, "Unbelievable.", vec![], vec!["thinking", "text", "redacted_thinking"], "end_turn"),
        (thought, "", vec!["a garden"], vec!["thinking", "tool_use", "redacted_thinking"], "tool_use"),
        (None, "Unbelievable.", vec!["a"], vec!["text", "tool_use", "redacted_thinking"], "tool_use"),
        (None, "Unbelievable.", vec![], vec!["text", "redacted_thinking"], "end_turn"),
    ];
    for (reasoning, content, calls, expected, reason) in cases {
        let (message, _) = answer(reasoning, content, &calls, BackendFinish::Stop);
        assert_eq!((kinds(&message["content"]), message["stop_reason"].as_str().unwrap()), (expected, reason));
    }
}

#[test]
fn an_answer_that_shows_nothing_has_no_block() {
    let first = encoded(&request(PROTOCOL, VERSION, false, true, &[]), PROTOCOL, &keyed());
    let message = response(&first, &unusual_ids("\n\n<｜end▁of▁sentence｜>", 1), BackendFinish::Stop);
    assert_eq!(message["content"], json!([]));
}

#[test]
fn the_stream_has_the_block_in_the_same_place() {
    for reasoning in [Some("A careful thought."), None] {
        let first = encoded(&request(PROTOCOL, VERSION, reasoning.is_some(), true, &[]), PROTOCOL, &keyed());
        let mut decoder = first.decoder("a-1".to_owned(), 7, b"seed".to_vec());
        let mut stream = Vec::new();
        for id in unusual_ids(&output(VERSION, reasoning, "Unbelievable.", &["the garden"]), 3) {
            stream.extend(decoder.push(&[id], None, 0).unwrap());
        }
        stream.extend(decoder.finish(BackendFinish::Stop, 0).unwrap());
        let message: Value = serde_json::from_slice(&decoder.response()).unwrap();
        let content = message["content"].as_array().unwrap();
        let stream = String::from_utf8(stream).unwrap();
        let frames: Vec<Value> = stream
            .lines()
            .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
            .filter(|frame: &Value| frame["type"] != "ping")
            .collect();
        let place = content.len() - 1;
        let start = json!({"type": "content_block_start", "index": place, "content_block": content[place]});
        let [.., before, begins, stops, delta, end] = &frames[..] else { panic!("{stream}") };
        assert_eq!(before, &json!({"type": "content_block_stop", "index": place - 1}));
        assert_eq!(begins, &start);
        assert_eq!(stops, &json!({"type": "content_block_stop", "index": place}));
        assert_eq!((&delta["type"], &end["type"]), (&json!("message_delta"), &json!("message_stop")));
        let signatures: Vec<&Value> =
            frames.iter().map(|frame| &frame["delta"]["signature"]).filter(|value| value.is_string()).collect();
        let expected: Vec<&Value> = content.iter().map(|block| &block["signature"]).filter(|s| s.is_string()).collect();
        assert_eq!(signatures, expected);
    }
}

#[test]
fn an_answer_that_was_cut_in_its_reasoning_comes_back_too() {
    let first = encoded(&request(PROTOCOL, VERSION, true, true, &[]), PROTOCOL, &keyed());
    for text in ["An unbelievable thou", "An unbelievable thou\n\n", "\n\nAn unbelievable"] {
        let own = unusual_ids(text, 3);
        let message = response(&first, &own, BackendFinish::Length);
        let body = request(PROTOCOL, VERSION, true, true, &sent_back(PROTOCOL, &message));
        let next = encoded(&body, PROTOCOL, &keyed());
        assert!(next.token_ids.starts_with(&[&first.token_ids[..], &own[..]].concat()), "{text:?}");
    }
}

#[test]
fn the_block_may_stand_anywhere_in_the_message() {
    let (message, cached) = answer(Some("A careful thought."), "Unbelievable.", &["a", "b"], BackendFinish::Stop);
    let later = sent_back(PROTOCOL, &message);
    let last = later[0]["content"].as_array().unwrap().len() - 1;
    for place in 0..=last {
        let mut later = later.clone();
        let blocks = later[0]["content"].as_array_mut().unwrap();
        let record = blocks.remove(last);
        blocks.insert(place, record);
        let next = encoded(&request(PROTOCOL, VERSION, true, true, &later), PROTOCOL, &keyed());
        assert!(next.token_ids.starts_with(&cached), "at {place}");
        assert_eq!(next.warnings, Vec::<String>::new());
    }
}

#[test]
fn a_message_of_the_block_alone_says_nothing() {
    let (message, cached) = answer(Some("A careful thought."), "Unbelievable.", &["a"], BackendFinish::Stop);
    let whole = sent_back(PROTOCOL, &message);
    let ids = |later: &[Value], options: Options| {
        encoded(&request(PROTOCOL, VERSION, true, true, later), PROTOCOL, &options).token_ids
    };
    let mut apart = whole.clone();
    let record = apart[0]["content"].as_array_mut().unwrap().pop().unwrap();
    let alone = json!({"role": "assistant", "content": [record]});
    // Right after its answer, and before the results of its calls.
    apart.insert(1, alone.clone());
    assert!(ids(&apart, keyed()).starts_with(&cached));
    assert_eq!(ids(&apart, Options::default()), ids(&whole, Options::default()));
    let question = json!({"role": "user", "content": "And now?"});
    let (before, after) = ([alone.clone(), question.clone()], [question.clone(), alone.clone()]);
    for said in [&before[..], &after[..]] {
        assert_eq!(ids(said, keyed()), ids(std::slice::from_ref(&question), keyed()));
    }
    // An answer that is to be continued still is.
    let begun = json!({"role": "assistant", "content": [{"type": "text", "text": "I am"}]});
    assert_eq!(ids(&[begun.clone(), alone], keyed()), ids(&[begun], keyed()));
}

#[test]
fn an_answer_with_the_block_can_be_continued() {
    let (message, _) = answer(None, "An unbelievable", &[], BackendFinish::Length);
    let content = message["content"].clone();
    assert_eq!(kinds(&content), ["text", "redacted_thinking"]);
    let said = json!({"role": "assistant", "content": content});
    let plain = json!({"role": "assistant", "content": "An unbelievable"});
    let encoded = |said: &Value, options: Options| {
        encoded(&request(PROTOCOL, VERSION, false, true, std::slice::from_ref(said)), PROTOCOL, &options)
    };
    let (with, without) = (encoded(&said, keyed()), encoded(&plain, Options::default()));
    assert_eq!(with.prompt(), without.prompt());
    assert!(with.token_ids.ends_with(&unusual_ids("An unbelievable", 3)));
    assert_eq!(with.parsing, without.parsing);
    assert_eq!(with.seal, None, "what follows goes on in a turn");
}

#[test]
fn other_blocks_of_the_kind_are_left_out_as_ever() {
    for data in [json!("EmwKAhgB"), json!(""), json!(null), json!(5), json!(["th2."]), json!({"th2.": 1})] {
        let blocks = json!([{"type": "redacted_thinking", "data": data}, {"type": "text", "text": "Hello"}]);
        let said = [json!({"role": "assistant", "content": blocks}), json!({"role": "user", "content": "?"})];
        let without = [json!({"role": "assistant", "content": "Hello"}), said[1].clone()];
        let [with, without] =
            [said, without].map(|said| encoded(&request(PROTOCOL, VERSION, true, true, &said), PROTOCOL, &keyed()));
        assert_eq!(with.token_ids, without.token_ids, "{data}");
        assert_eq!(with.warnings, ["messages[1].content[0]: the redacted_thinking block was left out"], "{data}");
    }
}

#[test]
fn the_block_is_the_models_alone() {
    let block = json!({"type": "redacted_thinking", "data": "th2.AAAA"});
    for role in ["user", "system"] {
        let body = request(PROTOCOL, VERSION, true, true, &[json!({"role": role, "content": [block.clone()]})]);
        let error = encode(body.to_string().as_bytes(), PROTOCOL, &keyed()).unwrap_err().to_string();
        assert!(error.contains("redacted_thinking blocks can only be in assistant messages"), "{error}");
    }
}
