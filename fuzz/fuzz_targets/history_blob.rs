//! Law: a record of an answer's ids changes neither the prompt's text nor its control tokens, and one that is not exactly
//! what was sealed changes nothing at all.

#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use recipe::codec::{Options, encode_conversation_value};
use recipe::encoded::Encoded;
use recipe::event::BackendFinish;
use recipe::history::HistoryKey;
use recipe::json::{Object, Value, parse};
use recipe::model::Version;
use recipe::tokenizer::{Piece, Tokenizer};

static KEYED: LazyLock<Options> =
    LazyLock::new(|| Options { history_key: HistoryKey::new(b"a secret of fuzzing"), ..Options::default() });
static PLAIN: LazyLock<Options> = LazyLock::new(Options::default);

#[derive(Arbitrary, Debug)]
struct Turn {
    v41: bool,
    thinking: bool,
    reasoning: String,
    content: String,
    /// Whether the next turn says something else.
    edited: Option<String>,
    /// How many characters each token has, in turn.
    sizes: Vec<u8>,
    /// Bytes that are replaced in the record: place and value.
    damage: Vec<(u16, u8)>,
    /// A text that was never a record.
    foreign: String,
}

fuzz_target!(|turn: Turn| {
    let version = if turn.v41 { Version::V41 } else { Version::V4 };
    let content = turn.edited.as_ref().unwrap_or(&turn.content);
    let encoded = |record: Option<&str>, options: &Options| {
        let messages = [question(), said(&turn, content, record)];
        conversation(&turn, &messages, version, options)
    };
    let plain = encoded(None, &PLAIN);
    assert_eq!(encoded(Some(&turn.foreign), &KEYED).token_ids, plain.token_ids, "not a record");

    let Some(record) = record(&turn, version) else { return };
    assert_eq!(encoded(Some(&record), &PLAIN).token_ids, plain.token_ids, "no key");
    let with = encoded(Some(&record), &KEYED);
    assert_eq!(with.prompt, plain.prompt);
    assert_eq!(control_ids(&with), control_ids(&plain));
    assert_eq!(bytes(&with), bytes(&plain));

    let mut damaged = record.clone().into_bytes();
    for (place, value) in &turn.damage {
        let length = damaged.len();
        damaged[usize::from(*place) % length] = value & 0x7F;
    }
    let damaged = String::from_utf8(damaged).expect("ASCII");
    if damaged != record {
        assert_eq!(encoded(Some(&damaged), &KEYED).token_ids, plain.token_ids, "a damaged record");
    }
    let cut = &record[..usize::from(turn.sizes.len() as u16) % record.len()];
    assert_eq!(encoded(Some(cut), &KEYED).token_ids, plain.token_ids, "a record that was cut");
});

fn object<'a>(members: Vec<(&'a str, Value<'a>)>) -> Value<'a> {
    Value::Object(members.into_iter().collect::<Object<'a>>())
}

fn question() -> Value<'static> {
    object(vec![("role", "user".into()), ("content", "q".into())])
}

fn said<'a>(turn: &'a Turn, content: &'a str, record: Option<&'a str>) -> Value<'a> {
    let mut members = vec![("role", "assistant".into()), ("content", content.into())];
    if turn.thinking {
        members.push(("reasoning_content", turn.reasoning.as_str().into()));
    }
    members.extend(record.map(|record| ("token_history", record.into())));
    object(members)
}

/// Tools are declared, so that reasoning is kept.
fn conversation(turn: &Turn, messages: &[Value<'_>], version: Version, options: &Options) -> Encoded {
    let tools = Value::Array(vec![object(vec![("name", "f".into())])]);
    let members = vec![
        ("messages", Value::Array(messages.to_vec())),
        ("tools", tools),
        ("thinking_mode", Value::Bool(turn.thinking)),
    ];
    encode_conversation_value(&object(members), version, options).expect("a well-formed conversation")
}

/// What the decoder hands out for the turn, if its ids are not those of its text.
fn record(turn: &Turn, version: Version) -> Option<String> {
    let before = conversation(turn, &[question()], version, &KEYED);
    let mut ids = Vec::new();
    if turn.thinking {
        cut(&turn.reasoning, &turn.sizes, &before.tokenizer, &mut ids);
        ids.extend(before.tokenizer.special_id("</think>"));
    }
    cut(&turn.content, &turn.sizes, &before.tokenizer, &mut ids);
    let mut decoder = before.decoder("id".to_owned(), 0, Vec::new());
    decoder.push(&ids, None, 0).expect("ids of the vocabulary");
    decoder.finish(BackendFinish::Stop, 0).expect("the first choice");
    let response = decoder.response();
    let response = parse(&response).expect("JSON");
    let message = response.get("choices")?.as_array()?.first()?.get("message")?;
    Some(message.get("token_history")?.as_str()?.to_owned())
}

fn cut(text: &str, sizes: &[u8], tokenizer: &Tokenizer, ids: &mut Vec<u32>) {
    let mut sizes = sizes.iter().map(|size| usize::from(size % 8) + 1).cycle();
    let mut characters = text.chars().peekable();
    while characters.peek().is_some() {
        let part: String = characters.by_ref().take(sizes.next().unwrap_or(1)).collect();
        tokenizer.encode_plain(&part, ids);
    }
}

fn control_ids(encoded: &Encoded) -> Vec<u32> {
    let is_control = |id: &u32| matches!(encoded.tokenizer.piece(*id), Some(Piece::Special(..)));
    encoded.token_ids.iter().copied().filter(is_control).collect()
}

fn bytes(encoded: &Encoded) -> Vec<u8> {
    encoded.tokenizer.decode(&encoded.token_ids).expect("ids of the vocabulary")
}
