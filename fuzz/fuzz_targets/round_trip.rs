//! Law: a turn that is rendered into a prompt and read back from its ids is the same turn, up to the renderer's own normal
//! forms: newlines around marks, and JSON as the prompt spells it.

#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use recipe::codec::{Options, encode_conversation_value};
use recipe::decoder::{Decoder, DecoderConfig};
use recipe::encoded::Encoded;
use recipe::event::BackendFinish;
use recipe::json::{Object, Value, parse, write_compact};
use recipe::model::Version;
use recipe::protocol::{AnswerConfig, Block, Protocol};

#[derive(Arbitrary, Debug)]
struct Turn {
    v41: bool,
    reasoning: String,
    content: String,
    calls: Vec<(String, Vec<(String, Argument)>)>,
}

#[derive(Arbitrary, Debug)]
enum Argument {
    Text(String),
    Whole(i64),
    Flag(bool),
    Nothing,
    List(Vec<String>),
}

fuzz_target!(|turn: Turn| {
    let version = if turn.v41 { Version::V41 } else { Version::V4 };
    let question = object([("role", "user".into()), ("content", "q".into())]);
    let before = encoded(&turn, vec![question.clone()], version);
    let after = encoded(&turn, vec![question, assistant(&turn)], version);
    let ids = after.token_ids.strip_prefix(&before.token_ids[..]).expect("the turn follows its generation prompt");
    let end = ids.iter().rposition(|&id| id == 1).expect("the turn ends");
    let answer = AnswerConfig { thinking: true, ..AnswerConfig::new(Protocol::ChatCompletions, "id", "model") };
    let config = DecoderConfig { parsing: before.parsing, answer, spellings: version.spellings() };
    let mut decoder = Decoder::new(config, Some(Arc::clone(&before.tokenizer)));
    decoder.push(&ids[..end], None, 0).expect("rendered ids are in the vocabulary");
    decoder.finish(BackendFinish::Stop, 0).expect("the first choice");
    compare(&turn, decoder.fold(0).expect("the first choice").blocks());
});

fn object<'a, const N: usize>(members: [(&'a str, Value<'a>); N]) -> Value<'a> {
    Value::Object(members.into_iter().collect())
}

/// The conversation with tools declared, so that reasoning is kept, and its generation prompt.
fn encoded(turn: &Turn, messages: Vec<Value<'_>>, version: Version) -> Encoded {
    let name =
        |name: &str| object([("name", Value::from(format!("x{name}"))), ("parameters", object([]))]).into_owned();
    let tools = turn.calls.iter().map(|(called, _)| name(called)).chain([name("none")]);
    let conversation = object([("messages", Value::Array(messages)), ("tools", Value::Array(tools.collect()))]);
    encode_conversation_value(&conversation, version, &Options::default()).expect("a well-formed conversation")
}

fn assistant(turn: &Turn) -> Value<'static> {
    let calls = turn.calls.iter().enumerate().map(|(index, (name, arguments))| {
        let mut text = String::new();
        write_compact(&Value::Object(members(arguments)), &mut text);
        object([
            ("id", Value::from(format!("{index:04}"))),
            ("name", Value::from(format!("x{}", without_quotes(name)))),
            ("arguments", text.into()),
        ])
        .into_owned()
    });
    object([
        ("role", "assistant".into()),
        ("content", turn.content.clone().into()),
        ("reasoning_content", turn.reasoning.clone().into()),
        ("tool_calls", Value::Array(calls.collect())),
    ])
    .into_owned()
}

/// Names and keys cannot hold the quote that ends them.
fn without_quotes(name: &str) -> String {
    name.replace('"', "")
}

fn members(arguments: &[(String, Argument)]) -> Object<'static> {
    let value = |argument: &Argument| match argument {
        Argument::Text(text) => Value::from(text.clone()),
        Argument::Whole(number) => parse(number.to_string().as_bytes()).expect("an integer").into_owned(),
        Argument::Flag(flag) => Value::Bool(*flag),
        Argument::Nothing => Value::Null,
        Argument::List(items) => Value::Array(items.iter().cloned().map(Value::from).collect()),
    };
    arguments.iter().map(|(key, argument)| (without_quotes(key), value(argument))).collect()
}

fn compare(turn: &Turn, blocks: &[Block]) {
    let (mut reasoning, mut content, mut calls) = (String::new(), String::new(), Vec::new());
    for block in blocks {
        match block {
            Block::Reasoning(passage) => reasoning.push_str(&passage.text()),
            Block::Text(passage) => content.push_str(&passage.text()),
            Block::Call(call) => calls.push((call.name.clone(), call.arguments.clone())),
        }
    }
    // Newlines beside a mark are trimmed, but for one that follows the beginning of a mark that came to nothing.
    assert_eq!(reasoning.trim_matches('\n'), turn.reasoning.trim_matches('\n'));
    if turn.calls.is_empty() {
        assert_eq!(content, turn.content.trim_start_matches('\n'));
    } else {
        assert_eq!(content.trim_matches('\n'), turn.content.trim_matches('\n'));
    }
    assert_eq!(calls.len(), turn.calls.len());
    for ((name, arguments), (called, given)) in calls.iter().zip(&turn.calls) {
        assert_eq!(*name, format!("x{}", without_quotes(called)));
        let parsed = parse(arguments.as_bytes()).expect("arguments are JSON");
        assert_eq!(parsed, Value::Object(members(given)));
    }
}
