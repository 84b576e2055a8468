//! Laws of token-faithful history, for any text and any cut: a record changes neither the prompt nor its control tokens.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod history_support;

use history_support::{encoded, keyed, output, records, request, response, sent_back, unusual_ids};
use proptest::prelude::*;
use recipe::codec::Options;
use recipe::encoded::Encoded;
use recipe::event::BackendFinish;
use recipe::model::Version;
use recipe::protocol::Protocol;
use recipe::tokenizer::Piece;

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

fn assert_same_text(with: &Encoded, without: &Encoded) {
    assert_eq!(with.prompt, without.prompt);
    assert_eq!(control_ids(with), control_ids(without));
    let bytes = |encoded: &Encoded| encoded.tokenizer.decode(&encoded.token_ids).unwrap();
    assert_eq!(bytes(with), bytes(without));
}

proptest! {
    #[test]
    fn a_record_changes_no_text_and_no_control_token(
        protocol in protocols(), version in versions(), thinking: bool, tools: bool,
        reasoning in text(), content in text(), arguments in prop::collection::vec(text(), 0..3), size in 1_usize..6,
        edit in prop::option::of(text()),
    ) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).filter(|_| tools).collect();
        let content = format!("x{content}");
        let own = unusual_ids(&output(version, thinking.then_some(&*reasoning), &content, &arguments), size);
        let first = encoded(&request(protocol, version, thinking, tools, &[]), protocol, &keyed());
        let mut later = sent_back(protocol, &response(&first, &own, BackendFinish::Stop));
        if let (Some(edit), Protocol::ChatCompletions) = (edit, protocol) {
            later[0]["content"] = edit.into();
        }
        let body = request(protocol, version, thinking, tools, &later);
        assert_same_text(&encoded(&body, protocol, &keyed()), &encoded(&body, protocol, &Options::default()));
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
        prop_assert!(next.token_ids.starts_with(&cached), "{:?}", next.prompt.text);
    }

    #[test]
    fn a_forged_record_is_ignored(
        protocol in protocols(), version in versions(), forged in "(th1\\.)?([A-Za-z0-9_-]{0,80}|[^\"]{0,20})",
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
