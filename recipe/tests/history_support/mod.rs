//! What the tests of token-faithful history share: conversations of two turns, in every protocol.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test file uses a part")]

use std::fmt::Write as _;

use recipe::codec::{Options, encode};
use recipe::encoded::Encoded;
use recipe::event::BackendFinish;
use recipe::history::HistoryKey;
use recipe::model::Version;
use recipe::protocol::Protocol;
use recipe::tokenizer::Piece;
use serde_json::{Value, json};

pub(crate) const EOS: &str = "<｜end▁of▁sentence｜>";

pub(crate) fn options(secret: Option<&[u8]>) -> Options {
    Options { history_key: secret.map(|secret| HistoryKey::new(secret).unwrap()), ..Options::default() }
}

pub(crate) fn keyed() -> Options {
    options(Some(b"a secret of tests"))
}

pub(crate) fn model(version: Version) -> &'static str {
    match version {
        Version::V4 => "DeepSeek-V4-Pro",
        Version::V41 => "DeepSeek-V4.1-Flash",
    }
}

/// An answer in the format: reasoning, content, and calls of `look` with their one argument.
pub(crate) fn output(version: Version, reasoning: Option<&str>, content: &str, calls: &[&str]) -> String {
    let space = if version == Version::V41 { " " } else { "" };
    let word = if version == Version::V41 { "calls" } else { "tool_calls" };
    let mut output = reasoning.map(|reasoning| format!("{reasoning}</think>")).unwrap_or_default();
    output.push_str(content);
    if !calls.is_empty() {
        let _ = writeln!(output, "\n\n<｜DSML｜{space}{word}>");
        for argument in calls {
            let _ = writeln!(
                output,
                "<｜DSML｜{space}invoke name=\"look\">\n<｜DSML｜{space}parameter name=\"at\" string=\"true\">{argument}\
                 </｜DSML｜{space}parameter>\n</｜DSML｜{space}invoke>"
            );
        }
        let _ = write!(output, "</｜DSML｜{space}{word}>");
    }
    output + EOS
}

/// Ids of an output as no tokenizer would make them: its text is cut after every `size` characters.
pub(crate) fn unusual_ids(output: &str, size: usize) -> Vec<u32> {
    let tokenizer = Version::V41.tokenizer();
    let mut usual = Vec::new();
    tokenizer.encode_with_special(output, &mut usual);
    let (mut ids, mut text) = (Vec::new(), Vec::new());
    let cut = |text: &mut Vec<u8>, ids: &mut Vec<u32>| {
        let characters: Vec<char> = std::str::from_utf8(text).unwrap().chars().collect();
        for part in characters.chunks(size) {
            tokenizer.encode_plain(&part.iter().collect::<String>(), ids);
        }
        text.clear();
    };
    for id in usual {
        match tokenizer.piece(id).unwrap() {
            Piece::Text(bytes) => text.extend_from_slice(bytes),
            Piece::Special(..) => {
                cut(&mut text, &mut ids);
                ids.push(id);
            }
        }
    }
    cut(&mut text, &mut ids);
    ids
}

/// A request with a question, and what was said since.
pub(crate) fn request(protocol: Protocol, version: Version, thinking: bool, tools: bool, later: &[Value]) -> Value {
    let mut body = json!({"model": model(version)});
    let schema = json!({"type": "object", "properties": {"at": {"type": "string"}}});
    let messages: Vec<Value> =
        [json!({"role": "user", "content": "What is there?"})].into_iter().chain(later.iter().cloned()).collect();
    let (items, tool) = match protocol {
        Protocol::Responses => ("input", json!({"type": "function", "name": "look", "parameters": schema})),
        Protocol::Messages => ("messages", json!({"name": "look", "input_schema": schema})),
        Protocol::ChatCompletions => {
            ("messages", json!({"type": "function", "function": {"name": "look", "parameters": schema}}))
        }
    };
    body[items] = Value::from(messages);
    if tools {
        body["tools"] = json!([tool]);
    }
    match (protocol, thinking) {
        (Protocol::Responses, _) => body["reasoning"] = json!({"effort": if thinking { "high" } else { "none" }}),
        (_, true) => body["thinking"] = json!({"type": "enabled"}),
        (_, false) => body["thinking"] = json!({"type": "disabled"}),
    }
    body
}

pub(crate) fn encoded(body: &Value, protocol: Protocol, options: &Options) -> Encoded {
    encode(body.to_string().as_bytes(), protocol, options).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// The full response to a request whose answer has these ids.
pub(crate) fn response(encoded: &Encoded, ids: &[u32], finish: BackendFinish) -> Value {
    let mut decoder = encoded.decoder("a-1".to_owned(), 7, b"seed".to_vec());
    for part in ids.chunks(3) {
        decoder.push(part, None, 0).unwrap();
    }
    decoder.finish(finish, 0).unwrap();
    serde_json::from_slice(&decoder.response()).unwrap()
}

/// Where the first answer in a prompt begins, after the marks that open it.
pub(crate) fn first_answer(encoded: &Encoded) -> usize {
    let assistant = encoded.tokenizer.special_id("<｜Assistant｜>").unwrap();
    encoded.token_ids.iter().position(|id| *id == assistant).unwrap() + 2
}

/// Whether the first answer in a prompt begins in reasoning, and its ids from there to its end.
pub(crate) fn past_answer(encoded: &Encoded) -> (bool, Vec<u32>) {
    let id = |spelling: &str| encoded.tokenizer.special_id(spelling).unwrap();
    let (opening, ids) = encoded.token_ids.split_at(first_answer(encoded));
    (opening.last() == Some(&id("<think>")), ids.iter().copied().take_while(|other| *other != id(EOS)).collect())
}

/// What an answer with these ids says.
pub(crate) fn said(version: Version, (thinking, ids): &(bool, Vec<u32>), tools: bool) -> Value {
    let protocol = Protocol::ChatCompletions;
    let first = encoded(&request(protocol, version, *thinking, tools, &[]), protocol, &Options::default());
    response(&first, ids, BackendFinish::Stop)["choices"][0]["message"].clone()
}

/// What a client says next: the answer as it came, results of its calls, and a further question.
pub(crate) fn sent_back(protocol: Protocol, response: &Value) -> Vec<Value> {
    let mut later = Vec::new();
    match protocol {
        Protocol::ChatCompletions => {
            let message = response["choices"][0]["message"].clone();
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            later.push(message);
            let result = |call: Value| json!({"role": "tool", "tool_call_id": call["id"], "content": "a cat"});
            later.extend(calls.into_iter().map(result));
        }
        Protocol::Messages => {
            let content = response["content"].as_array().unwrap();
            later.push(json!({"role": "assistant", "content": content}));
            let calls = content.iter().filter(|block| block["type"] == "tool_use");
            let result = |call: &Value| json!({"type": "tool_result", "tool_use_id": call["id"], "content": "a cat"});
            let results: Vec<Value> = calls.map(result).collect();
            if !results.is_empty() {
                later.push(json!({"role": "user", "content": results}));
            }
        }
        Protocol::Responses => {
            let output = response["output"].as_array().unwrap();
            later.extend(output.iter().cloned());
            let calls = output.iter().filter(|item| item["type"] == "function_call");
            later
                .extend(calls.map(
                    |call| json!({"type": "function_call_output", "call_id": call["call_id"], "output": "a cat"}),
                ));
        }
    }
    later.push(json!({"role": "user", "content": "And now?"}));
    later
}

/// The records in what a client sends back: where each stands.
pub(crate) fn records(protocol: Protocol, later: &mut [Value]) -> Vec<&mut Value> {
    let is_record = |value: &&mut Value| value.as_str().is_some_and(|text| text.starts_with("th2."));
    match protocol {
        Protocol::ChatCompletions => later.iter_mut().filter_map(|m| m.get_mut("token_history")).collect(),
        Protocol::Responses => {
            later.iter_mut().filter_map(|item| item.get_mut("encrypted_content")).filter(is_record).collect()
        }
        Protocol::Messages => later
            .iter_mut()
            .filter_map(|message| message["content"].as_array_mut())
            .flatten()
            .filter_map(|block| {
                let field = if block["type"] == "redacted_thinking" { "data" } else { "signature" };
                block.get_mut(field)
            })
            .filter(is_record)
            .collect(),
    }
}
