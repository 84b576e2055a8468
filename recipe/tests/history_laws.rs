//! Laws of token-faithful history, for any text and any cut: a record changes neither what is said nor its control tokens.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod history_support;

use history_support::{
    EOS, encoded, first_answer, keyed, output, past_answer, records, request, response, said, sent_back, unusual_ids,
};
use proptest::prelude::*;
use recipe::codec::Options;
use recipe::encoded::Encoded;
use recipe::event::BackendFinish;
use recipe::model::Version;
use recipe::protocol::Protocol;
use recipe::tokenizer::Piece;
use serde_json::Value;

/// Texts with what is most likely to be mistaken: control tokens spelled out, marks begun, newlines, other scripts.
fn text() -> impl Strategy<Value = String> {
    let parts = [
        "a",
        "the unbelievable ",
        "word ",
        "\n",
        "\n\n",
        "<",
        "</",
        "｜",
        "<think>",
        "</think>",
        "<｜User｜>",
        "<｜ref｜>",
        "<｜/ref｜>",
        "<｜end▁of▁sentence｜>",
        "｜DSML｜",
        "é",
        "你好",
        "😀",
        "\"",
        "\\",
        "1234567",
        "\u{2028}",
    ];
    prop::collection::vec(proptest::sample::select(parts.to_vec()), 0..12).prop_map(|parts| parts.concat())
}

/// Texts that no mark and no trimming of newlines touches.
fn plain_text() -> impl Strategy<Value = String> {
    "([a-z0-9é你好😀.,]{1,9} ?){1,9}[a-z]"
}

/// What a client may do to what the model said.
#[derive(Debug, Clone)]
enum Edit {
    Nothing,
    Replace(String),
    Extend(String, String),
    TrimNewlines,
}

impl Edit {
    fn apply(&self, said: &str) -> String {
        match self {
            Edit::Nothing => said.to_owned(),
            Edit::Replace(text) => text.clone(),
            Edit::Extend(before, after) => format!("{before}{said}{after}"),
            Edit::TrimNewlines => said.trim_matches('\n').to_owned(),
        }
    }
}

fn edits() -> impl Strategy<Value = Edit> {
    let ends = || proptest::sample::select(vec!["", "\n", "\n\n", "\n\n<", "<", "<｜ref｜>"]).prop_map(str::to_owned);
    prop_oneof![
        Just(Edit::Nothing),
        text().prop_map(Edit::Replace),
        (ends(), ends()).prop_map(|(before, after)| Edit::Extend(before, after)),
        Just(Edit::TrimNewlines),
    ]
}

fn protocols() -> impl Strategy<Value = Protocol> {
    proptest::sample::select(Protocol::ALL.to_vec())
}

fn versions() -> impl Strategy<Value = Version> {
    proptest::sample::select(Version::ALL.to_vec())
}

fn control_ids(encoded: &Encoded) -> Vec<u32> {
    let is_control = |id: &u32| matches!(encoded.tokenizer.piece(*id), Some(Piece::Special(..)));
    encoded.token_ids.iter().copied().filter(is_control).collect()
}

/// The ids around the first answer of a prompt.
fn around(encoded: &Encoded) -> [&[u32]; 2] {
    let end = encoded.tokenizer.special_id(EOS).unwrap();
    let before = first_answer(encoded);
    let length = encoded.token_ids[before..].iter().take_while(|id| **id != end).count();
    [&encoded.token_ids[..before], &encoded.token_ids[before + length..]]
}

/// `sent` is the message that the client sent back. Where the format itself does not keep it, the record may.
fn assert_says_the_same(with: &Encoded, without: &Encoded, sent: &Value, tools: bool) {
    assert_eq!(with.prompt(), without.prompt());
    assert_eq!(control_ids(with), control_ids(without));
    assert_eq!(around(with), around(without));
    let message = |encoded: &Encoded| said(encoded.version, &past_answer(encoded), tools);
    let (with, without) = (message(with), message(without));
    for field in ["reasoning_content", "content", "tool_calls"] {
        assert!(with[field] == without[field] || with[field] == sent[field], "{with} {without} {sent}");
    }
}

proptest! {
    #[test]
    fn a_record_changes_no_message_and_no_control_token(
        protocol in protocols(), version in versions(), thinking: bool, tools: bool,
        reasoning in text(), content in text(), arguments in prop::collection::vec(text(), 0..3), size in 1_usize..6,
        reasoning_edit in edits(), content_edit in edits(),
    ) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).filter(|_| tools).collect();
        let content = format!("x{content}");
        let own = unusual_ids(&output(version, thinking.then_some(&*reasoning), &content, &arguments), size);
        let first = encoded(&request(protocol, version, thinking, tools, &[]), protocol, &keyed());
        let mut later = sent_back(protocol, &response(&first, &own, BackendFinish::Stop));
        if protocol == Protocol::ChatCompletions {
            for (field, edit) in [("reasoning_content", reasoning_edit), ("content", content_edit)] {
                let said = later[0].get(field).map(|said| edit.apply(said.as_str().unwrap()));
                later[0][field] = said.into();
            }
        }
        let body = request(protocol, version, thinking, tools, &later);
        let sent = if protocol == Protocol::ChatCompletions { later.swap_remove(0) } else { said(version, &(thinking, own), tools) };
        let [with, without] = [keyed(), Options::default()].map(|options| encoded(&body, protocol, &options));
        assert_says_the_same(&with, &without, &sent, tools);
    }

    #[test]
    fn what_the_text_explains_comes_back_with_its_own_ids(
        protocol in protocols(), version in versions(),
        reasoning in plain_text(), content in plain_text(), arguments in prop::collection::vec(plain_text(), 0..3),
        size in 1_usize..6,
    ) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let own = unusual_ids(&output(version, Some(&reasoning), &content, &arguments), size);
        let first = encoded(&request(protocol, version, true, true, &[]), protocol, &keyed());
        let later = sent_back(protocol, &response(&first, &own, BackendFinish::Stop));
        let next = encoded(&request(protocol, version, true, true, &later), protocol, &keyed());
        let cached = [&first.token_ids[..], &own[..]].concat();
        prop_assert!(next.token_ids.starts_with(&cached), "{:?}", next.prompt().text);
    }

    #[test]
    fn a_forged_record_is_ignored(
        protocol in protocols(), version in versions(), forged in "(th2\\.)?([A-Za-z0-9_-]{0,80}|[^\"]{0,20})",
    ) {
        let own = unusual_ids(&output(version, Some("A careful thought."), "Neighbourhood.", &[]), 3);
        let first = encoded(&request(protocol, version, true, true, &[]), protocol, &keyed());
        let mut later = sent_back(protocol, &response(&first, &own, BackendFinish::Stop));
        for record in records(protocol, &mut later) {
            *record = forged.clone().into();
        }
        let body = request(protocol, version, true, true, &later);
        let ids = |options: Options| encoded(&body, protocol, &options).token_ids;
        prop_assert_eq!(ids(keyed()), ids(Options::default()));
    }
}
