//! Token-faithful history: the decoder trims newlines beside marks, and a record restores them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod history_support;

use history_support::{encoded, keyed, output, past_answer, request, response, said, sent_back, unusual_ids};
use recipe::codec::Options;
use recipe::event::BackendFinish;
use recipe::model::Version;
use recipe::protocol::Protocol;

/// Cuts that leave the text in its usual tokens, and ones that do not.
const SIZES: [usize; 2] = [usize::MAX, 3];

fn block(version: Version) -> String {
    output(version, None, "", &["the garden", "the house"]).trim_start().to_owned()
}

/// Answers that begin in reasoning, and ones that do not.
fn answers(version: Version) -> Vec<(bool, String)> {
    let block = block(version);
    let end = "<｜end▁of▁sentence｜>";
    let mut answers = Vec::new();
    for (before, after) in [("", "\n"), ("\n\n", ""), ("\n", "\n\n\n")] {
        for (lead, gap) in [("", ""), ("\n\n", "\n\n\n"), ("\n", "\n")] {
            answers.push((true, format!("{before}A thought.{after}</think>{lead}Looking.{gap}{block}")));
        }
        answers.push((true, format!("{before}A thought.{after}</think>{before}{block}")));
        answers.push((true, format!("A thought<{after}</think>Looking<{before}{block}")));
        answers.push((true, format!("{before}{after}</think>{after}Looking.{end}")));
        answers.push((true, format!("A thought.</think>{after}<｜ref｜>the cat<｜/ref｜>{before} sits.{end}")));
        answers.push((false, format!("{before}Looking.{after}{block}")));
        answers.push((false, format!("{before}The end of it.{end}")));
    }
    for gap in ["", "\n\n\n"] {
        answers.push((true, format!("A thought.</think>Looking.{gap}{}", block.replace('\n', gap))));
    }
    let after_block = block.strip_suffix(end).unwrap().to_owned();
    answers.push((true, format!("A thought.</think>Looking.\n\n{after_block}\n\n{end}")));
    answers
}

#[test]
fn newlines_beside_marks_come_back_as_the_model_wrote_them() {
    for protocol in Protocol::ALL {
        for version in Version::ALL {
            for (thinking, text) in answers(version) {
                for size in SIZES {
                    let body = request(protocol, version, thinking, true, &[]);
                    let first = encoded(&body, protocol, &keyed());
                    let own = unusual_ids(&text, size);
                    let later = sent_back(protocol, &response(&first, &own, BackendFinish::Stop));
                    let body = request(protocol, version, thinking, true, &later);
                    let [next, plain] = [keyed(), Options::default()].map(|options| encoded(&body, protocol, &options));
                    let cached = [&first.token_ids[..], &own[..]].concat();
                    let shown = first.tokenizer.decode(&next.token_ids[first.token_ids.len()..]).unwrap();
                    let shown = String::from_utf8(shown).unwrap();
                    assert!(next.token_ids.starts_with(&cached), "{protocol:?} {version:?} {text:?}: {shown:?}");
                    assert_eq!(next.prompt(), plain.prompt());
                    assert_eq!(said(version, &past_answer(&next), true), said(version, &(thinking, own), true));
                }
            }
        }
    }
}

#[test]
fn newlines_that_are_text_are_compared() {
    let (protocol, version) = (Protocol::ChatCompletions, Version::V41);
    let first = encoded(&request(protocol, version, true, true, &[]), protocol, &keyed());
    let own = unusual_ids(&format!("\nA thought.\n</think>\n\nLooking\nout.\n\n\n{}", block(version)), 3);
    let later = sent_back(protocol, &response(&first, &own, BackendFinish::Stop));
    for content in ["\n\nLooking\nout.", "Looking\nout.\n", "Looking\n\nout.", "Looking out."] {
        let mut later = later.clone();
        later[0]["content"] = content.into();
        let body = request(protocol, version, true, true, &later);
        let ids = |options: Options| past_answer(&encoded(&body, protocol, &options)).1;
        let end = first.tokenizer.special_id("</think>").unwrap();
        let rest = |ids: &[u32]| ids[ids.iter().position(|id| *id == end).unwrap()..].to_vec();
        assert_eq!(rest(&ids(keyed())), rest(&ids(Options::default())), "{content:?}");
        assert_ne!(ids(keyed()), ids(Options::default()), "the reasoning is the model's");
    }
}

/// Newlines are trimmed because of the mark after them: before another they are text.
#[test]
fn newlines_stay_as_the_client_sent_them_where_another_mark_follows() {
    let version = Version::V41;
    let protocol = Protocol::ChatCompletions;
    let first = encoded(&request(protocol, version, true, true, &[]), protocol, &keyed());
    let own = unusual_ids(&format!("A thought.\n\n</think>Looking.\n\n\n\n{}", block(version)), 3);
    let said_by_model = sent_back(protocol, &response(&first, &own, BackendFinish::Stop));
    let edits = [
        ("reasoning_content", "A thought.<｜ref｜>the cat<｜/ref｜>", true),
        ("content", "Looking.\n\n<<｜ref｜>the cat<｜/ref｜>", true),
        ("content", "Looking.\n\n<", false),
    ];
    for (field, text, calls) in edits {
        let mut later = said_by_model.clone();
        later[0][field] = text.into();
        if !calls {
            later[0].as_object_mut().unwrap().remove("tool_calls");
            later.retain(|message| message["role"] != "tool");
        }
        let body = request(protocol, version, true, true, &later);
        let [next, plain] = [keyed(), Options::default()].map(|options| encoded(&body, protocol, &options));
        assert_ne!(next.token_ids, plain.token_ids, "{text:?}: the other part is the model's");
        assert_eq!(said(version, &past_answer(&next), true), said(version, &past_answer(&plain), true), "{text:?}");
    }
}
