//! Law: whatever the grammar of a request accepts, the parser reads back: the same calls with the same names and arguments,
//! which match a strict tool's schema, and no text outside of them; or an answer that matches its format.

#![no_main]

use libfuzzer_sys::fuzz_target;
use recipe::codec::{Options, encode};
use recipe::constraint::Grammar;
use recipe::encoded::Encoded;
use recipe::event::BackendFinish;
use recipe::model::Version;
use recipe::protocol::{Block, Protocol};
use serde_json::{Map, Value};

#[path = "../support/requests.rs"]
mod requests;
#[path = "../support/walk.rs"]
mod walk;

use requests::Request;
use walk::{DSML, text, walks};

fuzz_target!(|input: (Request, Vec<u8>)| {
    let (request, choices) = input;
    let (body, is_chat) = request.body();
    let protocol = if is_chat { Protocol::ChatCompletions } else { Protocol::Messages };
    let Ok(encoded) = encode(body.to_string().as_bytes(), protocol, &Options::default()) else { return };
    let made = encoded.grammar();
    let is_loose = !request.is_strict && request.format.is_none();
    assert!(made.is_ok() || !is_loose, "a loose tool is refused: {made:?}");
    let Ok(Some(grammar)) = made else { return };
    // A tenth of a megabyte is more than schemas of this size come to, but for recursive ones.
    if grammar.text.len() > 100_000 {
        return;
    }
    for ids in walks(&grammar.text, &choices) {
        check(&request, &encoded, &grammar, &ids);
    }
});

fn check(request: &Request, encoded: &Encoded, grammar: &Grammar, ids: &[u32]) {
    let mut decoder = encoded.decoder("id".to_owned(), 0, Vec::new());
    let mut before = Vec::new();
    if let Some(trigger) = grammar.trigger {
        Version::V4.tokenizer().encode_plain("Well.\n\n<", &mut before);
        before.push(trigger);
    }
    let all = [before, ids.to_vec()].concat();
    decoder.push(&all, None, 0).expect("ids of the vocabulary");
    decoder.finish(BackendFinish::Stop, 0).expect("the first choice");
    let blocks = decoder.fold(0).expect("the first choice").blocks();
    let calls = written(grammar, encoded, ids);
    let shown = || format!("{}\nread as {blocks:?}\n{}", text(&all), grammar.text);
    let mut read = Vec::new();
    for block in blocks {
        match block {
            Block::Call(call) => {
                assert!(call.complete, "{}", shown());
                read.push((call.name.clone(), call.arguments.clone()));
            }
            Block::Text(said) if calls.is_empty() => check_format(request, &said.text(), &shown),
            Block::Text(said) => assert!(grammar.trigger.is_some() && said.text() == "Well.", "{}", shown()),
            Block::Reasoning(_) => panic!("{}", shown()),
        }
    }
    assert_eq!(read.len(), calls.len(), "{}", shown());
    for ((name, arguments), (written_name, written)) in read.iter().zip(calls) {
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_else(|error| panic!("{error}\n{}", shown()));
        assert_eq!((name, &arguments), (&written_name, &Value::Object(written)), "{}", shown());
        let tool = request.tools.iter().find(|tool| tool.name == *name);
        let tool = tool.unwrap_or_else(|| panic!("an unknown tool\n{}", shown()));
        if request.is_strict {
            let validator = jsonschema::validator_for(&tool.schema).expect("the request was accepted");
            assert!(validator.is_valid(&arguments), "{arguments} is invalid to {}\n{}", tool.schema, shown());
        }
    }
}

fn check_format(request: &Request, said: &str, shown: &impl Fn() -> String) {
    let schema = request.format.as_ref().unwrap_or_else(|| panic!("text\n{}", shown()));
    let value: Value = serde_json::from_str(said).unwrap_or_else(|error| panic!("{error}\n{}", shown()));
    let validator = jsonschema::validator_for(schema).expect("the request was accepted");
    assert!(validator.is_valid(&value), "{value} is invalid to {schema}\n{}", shown());
}

/// The calls as they were written: the texts between the marks, read without a parser. Nothing is repaired.
fn written(grammar: &Grammar, encoded: &Encoded, ids: &[u32]) -> Vec<(String, Map<String, Value>)> {
    let mut pieces = ids.split(|&id| id == DSML).map(text);
    // What stands before the first mark: nothing of a call.
    let first = pieces.next().unwrap_or_default();
    if grammar.trigger.is_none() && !encoded.parsing.starts_in_tool_calls && first != "\n\n<" {
        return Vec::new();
    }
    let mut calls: Vec<(String, Map<String, Value>)> = Vec::new();
    for piece in pieces {
        let (tag, content) = piece.split_once('>').expect("a tag");
        let tag = tag.trim_start();
        // A name may contain what ends a tag, too.
        let (tag, content) = match tag.strip_prefix("parameter name=\"") {
            Some(_) => {
                let (name, rest) = piece.split_once("\" string=\"").expect("a parameter");
                let name = name.trim_start().strip_prefix("parameter name=\"").expect("a parameter").to_owned();
                let (is_text, value) = rest.split_once("\">").expect("a parameter");
                let value = value.strip_suffix("</").expect("an end");
                let value = match is_text {
                    "true" => Value::String(value.to_owned()),
                    _ => serde_json::from_str(value).expect("JSON"),
                };
                // The parser leaves out what is repeated.
                calls.last_mut().expect("a call").1.entry(name).or_insert(value);
                continue;
            }
            None => (tag, content),
        };
        match tag.strip_prefix("invoke name=\"") {
            Some(name) => calls.push((name.strip_suffix('"').expect("a name").to_owned(), Map::new())),
            None => assert!(content.trim_end_matches(['<', '/']).trim().is_empty(), "text {content:?}"),
        }
    }
    calls
}
