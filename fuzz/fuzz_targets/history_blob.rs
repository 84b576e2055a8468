//! Law: a record of an answer's ids changes neither what the turn says nor its control tokens, and one that is not exactly
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
    /// What the argument of each call is.
    calls: Vec<String>,
    /// Whether the arguments say that they are JSON.
    json: bool,
    /// How many newlines and blanks stand beside each mark, in turn.
    newlines: Vec<u8>,
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
    let before = conversation(&turn, &[question()], version, &KEYED);
    let own = written(&turn, &before.tokenizer);
    let answer = answer(&before, &own);
    let answer = parse(&answer).expect("JSON");
    let message = message(&answer);
    let encoded = |record: Option<&str>, options: &Options| {
        conversation(&turn, &[question(), said(&turn, message, record)], version, options)
    };
    let plain = encoded(None, &PLAIN);
    assert_eq!(encoded(Some(&turn.foreign), &KEYED).token_ids, plain.token_ids, "not a record");

    let Some(record) = message.get("token_history").and_then(Value::as_str) else { return };
    assert_eq!(encoded(Some(record), &PLAIN).token_ids, plain.token_ids, "no key");
    let with = encoded(Some(record), &KEYED);
    assert_eq!(with.prompt(), plain.prompt());
    assert_eq!(control_ids(&with), control_ids(&plain));
    assert_eq!(around(&with), around(&plain));
    assert_says_the_same(&turn, message, &before, [&with, &plain]);

    let mut damaged = record.to_owned().into_bytes();
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

/// The restored turn says what the client sent, or, where the format does not keep that, what its text alone says.
fn assert_says_the_same(turn: &Turn, sent: &Value<'_>, before: &Encoded, prompts: [&Encoded; 2]) {
    let answers = prompts.map(|prompt| answer(before, &prompt.token_ids[past_answer(prompt)]));
    let [with, plain] = answers.each_ref().map(|answer| parse(answer).expect("JSON"));
    let [with, plain] = [message(&with), message(&plain)];
    for field in ["reasoning_content", "content", "tool_calls"] {
        let edited = turn.edited.as_ref().filter(|_| field == "content");
        let expected = edited.map(|text| Value::from(text.as_str())).or_else(|| sent.get(field).cloned());
        assert!(
            with.get(field) == expected.as_ref() || with.get(field) == plain.get(field),
            "{field}: {with:?} {plain:?}"
        );
    }
}

fn object<'a>(members: Vec<(&'a str, Value<'a>)>) -> Value<'a> {
    Value::Object(members.into_iter().collect::<Object<'a>>())
}

fn question() -> Value<'static> {
    object(vec![("role", "user".into()), ("content", "q".into())])
}

fn said<'a>(turn: &'a Turn, message: &Value<'a>, record: Option<&'a str>) -> Value<'a> {
    let content = turn.edited.as_deref().map(Value::from).or_else(|| message.get("content").cloned());
    let mut members = vec![("role", "assistant".into()), ("content", content.expect("content"))];
    members.extend(message.get("reasoning_content").map(|reasoning| ("reasoning_content", reasoning.clone())));
    if let Some(calls) = message.get("tool_calls").and_then(Value::as_array) {
        let call = |call: &Value<'a>| {
            let function = call.get("function").expect("a function");
            let members = [call.get("id"), function.get("name"), function.get("arguments")];
            Value::Array(members.map(|member| member.expect("a member").clone()).to_vec())
        };
        members.push(("tool_calls", Value::Array(calls.iter().map(call).collect())));
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

/// The ids of the turn: its text cut at will, its control tokens where the format has them.
fn written(turn: &Turn, tokenizer: &Tokenizer) -> Vec<u32> {
    let (space, block) = if turn.v41 { (" ", "calls") } else { ("", "tool_calls") };
    let mut newlines = turn
        .newlines
        .iter()
        .map(|count| "\n".repeat(usize::from(count % 4)) + &" ".repeat(usize::from(count / 4 % 3)))
        .cycle();
    let mut newlines = || newlines.next().unwrap_or_default();
    let mut parts = Vec::new();
    if turn.thinking {
        parts.push((format!("{}{}{}", newlines(), turn.reasoning, newlines()), Some("</think>")));
    }
    let mut text = format!("{}{}{}", newlines(), turn.content, newlines());
    let mut tag = |before: &str, after: &str| {
        parts.push((std::mem::replace(&mut text, format!("{after}{}", newlines())) + before, Some("｜DSML｜")));
    };
    if !turn.calls.is_empty() {
        tag("<", &format!("{space}{block}>"));
        for argument in &turn.calls {
            tag("<", &format!("{space}invoke name=\"f\">"));
            tag("<", &format!("{space}parameter name=\"p\" string=\"{}\">{argument}", !turn.json));
            tag("</", &format!("{space}parameter>"));
            tag("</", &format!("{space}invoke>"));
        }
        tag("</", &format!("{space}{block}>"));
    }
    parts.push((text, None));
    let mut ids = Vec::new();
    for (text, mark) in parts {
        cut(&text, &turn.sizes, tokenizer, &mut ids);
        ids.extend(mark.and_then(|mark| tokenizer.special_id(mark)));
    }
    ids
}

/// The response to an answer of these ids.
fn answer(before: &Encoded, ids: &[u32]) -> Vec<u8> {
    let mut decoder = before.decoder("id".to_owned(), 0, Vec::new());
    decoder.push(ids, None, 0).expect("ids of the vocabulary");
    decoder.finish(BackendFinish::Stop, 0).expect("the first choice");
    decoder.response()
}

fn message<'a>(response: &'a Value<'a>) -> &'a Value<'a> {
    let choices = response.get("choices").and_then(Value::as_array).expect("choices");
    choices.first().and_then(|choice| choice.get("message")).expect("a message")
}

/// Where the answer in a prompt begins, after the mark that opens it, and where it ends.
fn past_answer(encoded: &Encoded) -> std::ops::Range<usize> {
    let id = |spelling: &str| encoded.tokenizer.special_id(spelling);
    let (assistant, end) = (id("<｜Assistant｜>"), id("<｜end▁of▁sentence｜>"));
    let start = encoded.token_ids.iter().position(|id| Some(*id) == assistant).expect("an answer") + 2;
    start..start + encoded.token_ids[start..].iter().take_while(|id| Some(**id) != end).count()
}

/// The ids before and after it.
fn around(encoded: &Encoded) -> [&[u32]; 2] {
    let answer = past_answer(encoded);
    [&encoded.token_ids[..answer.start], &encoded.token_ids[answer.end..]]
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
