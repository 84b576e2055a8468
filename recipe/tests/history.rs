//! Token-faithful history, through the codec: what a model wrote comes back with its own ids, or with those of its text.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod history_support;

use history_support::{encoded, keyed, options, output, records, request, response, sent_back, unusual_ids};
use recipe::codec::Options;
use recipe::encoded::Encoded;
use recipe::event::BackendFinish;
use recipe::model::Version;
use recipe::protocol::Protocol;
use recipe::tokenizer::Piece;
use serde_json::Value;

const REASONING: &str = "The user wants to know. I should take a careful look.";
const CONTENT: &str = "Looking at the neighbourhood now.";
const CALLS: [&str; 2] = ["the unbelievable garden", "the house"];

/// A conversation of two turns.
struct Turns {
    protocol: Protocol,
    version: Version,
    thinking: bool,
    tools: bool,
    /// The first prompt, and the ids that the model wrote after it.
    before: Vec<u32>,
    own: Vec<u32>,
    later: Vec<Value>,
}

impl Turns {
    fn new(protocol: Protocol, version: Version, reasoning: Option<&str>, content: &str, calls: &[&str]) -> Self {
        Self::with_tools(protocol, version, reasoning, content, calls, true)
    }

    fn with_tools(
        protocol: Protocol,
        version: Version,
        reasoning: Option<&str>,
        content: &str,
        calls: &[&str],
        tools: bool,
    ) -> Self {
        let thinking = reasoning.is_some();
        let first = encoded(&request(protocol, version, thinking, tools, &[]), protocol, &keyed());
        let own = unusual_ids(&output(version, reasoning, content, calls), 3);
        let later = sent_back(protocol, &response(&first, &own, BackendFinish::Stop));
        Self { protocol, version, thinking, tools, before: first.token_ids, own, later }
    }

    fn next(&self, options: &Options) -> Encoded {
        self.next_after(&self.later, options)
    }

    fn next_after(&self, later: &[Value], options: &Options) -> Encoded {
        let body = request(self.protocol, self.version, self.thinking, self.tools, later);
        encoded(&body, self.protocol, options)
    }

    /// The ids of the text alone.
    fn plain(&self) -> Vec<u32> {
        self.next(&Options::default()).token_ids
    }

    /// Whether all that was cached is a prefix of the next prompt.
    fn hits(&self, next: &Encoded) -> bool {
        next.token_ids.starts_with(&[&self.before[..], &self.own[..]].concat())
    }

    fn changed(&self, change: impl FnOnce(&mut String)) -> Vec<Value> {
        let mut later = self.later.clone();
        let record = records(self.protocol, &mut later).swap_remove(0);
        let mut text = record.as_str().unwrap().to_owned();
        change(&mut text);
        *record = text.into();
        later
    }
}

fn control_ids(encoded: &Encoded) -> Vec<u32> {
    let is_control = |id: &u32| matches!(encoded.tokenizer.piece(*id), Some(Piece::Special(..)));
    encoded.token_ids.iter().copied().filter(is_control).collect()
}

fn cases() -> impl Iterator<Item = (Protocol, Version)> {
    Protocol::ALL.into_iter().flat_map(|protocol| Version::ALL.map(|version| (protocol, version)))
}

#[test]
fn a_turn_with_calls_comes_back_with_its_own_ids() {
    for (protocol, version) in cases() {
        let turns = Turns::new(protocol, version, Some(REASONING), CONTENT, &CALLS);
        let (next, plain) = (turns.next(&keyed()), turns.next(&Options::default()));
        assert!(!turns.hits(&plain), "{protocol:?} {version:?}: the text alone must miss");
        assert!(turns.hits(&next), "{protocol:?} {version:?}: {:?}", next.prompt().text);
        assert_eq!(next.prompt(), plain.prompt());
        assert_eq!(control_ids(&next), control_ids(&plain));
    }
}

#[test]
fn an_answer_without_reasoning_comes_back_with_its_own_ids() {
    for (protocol, version) in cases() {
        let turns = Turns::new(protocol, version, None, CONTENT, &CALLS);
        assert!(!turns.hits(&turns.next(&Options::default())), "{protocol:?} {version:?}: the text alone must miss");
        assert!(turns.hits(&turns.next(&keyed())), "{protocol:?} {version:?}");
    }
}

#[test]
fn reasoning_that_the_prompt_leaves_out_is_skipped() {
    for (protocol, version) in cases() {
        let turns = Turns::with_tools(protocol, version, Some(REASONING), CONTENT, &[], false);
        let next = turns.next(&keyed());
        assert!(!next.prompt().text.contains(REASONING));
        let content = unusual_ids(CONTENT, 3);
        assert!(next.token_ids.windows(content.len()).any(|ids| ids == content), "{protocol:?} {version:?}");
        assert_ne!(next.token_ids, turns.plain());
    }
}

#[test]
fn grounding_marks_are_control_tokens_on_both_sides() {
    let content = "See <｜ref｜>the unbelievable cat<｜/ref｜> there.";
    for (protocol, version) in cases() {
        let turns = Turns::new(protocol, version, Some(REASONING), content, &[]);
        assert!(turns.hits(&turns.next(&keyed())), "{protocol:?} {version:?}");
    }
}

#[test]
fn the_usual_ids_need_no_record() {
    for (protocol, version) in cases() {
        let body = request(protocol, version, true, true, &[]);
        let mut ids = Vec::new();
        let text = output(version, Some(REASONING), CONTENT, &CALLS);
        version.tokenizer().encode_with_special(&text, &mut ids);
        let answer = |options| response(&encoded(&body, protocol, &options), &ids, BackendFinish::Stop);
        assert_eq!(answer(keyed()), answer(Options::default()));
    }
}

#[test]
fn without_a_key_records_are_neither_made_nor_read() {
    for (protocol, version) in cases() {
        let turns = Turns::new(protocol, version, Some(REASONING), CONTENT, &CALLS);
        let body = request(protocol, version, true, true, &[]);
        let answer = response(&encoded(&body, protocol, &Options::default()), &turns.own, BackendFinish::Stop);
        let mut without = sent_back(protocol, &answer);
        assert!(records(protocol, &mut without).is_empty());
        assert_eq!(turns.plain(), turns.next_after(&without, &Options::default()).token_ids);
        assert_eq!(turns.plain(), turns.next_after(&without, &keyed()).token_ids);
    }
}

#[test]
fn a_record_of_another_key_is_ignored() {
    for (protocol, version) in cases() {
        let turns = Turns::new(protocol, version, Some(REASONING), CONTENT, &CALLS);
        assert_eq!(turns.next(&options(Some(b"another secret of tests"))).token_ids, turns.plain());
    }
}

#[test]
fn a_record_of_another_version_is_ignored() {
    for protocol in Protocol::ALL {
        let turns = Turns::new(protocol, Version::V4, Some(REASONING), CONTENT, &[]);
        let moved = Turns { version: Version::V41, ..turns };
        assert_eq!(moved.next(&keyed()).token_ids, moved.plain());
    }
}

#[test]
fn a_damaged_record_is_ignored() {
    let turns = Turns::new(Protocol::ChatCompletions, Version::V41, Some(REASONING), "", &[]);
    let plain = turns.plain();
    let mut length = 0;
    turns.changed(|record| length = record.len());
    for place in 0..length {
        let later = turns.changed(|record| {
            let other = if record.as_bytes()[place] == b'A' { "B" } else { "A" };
            record.replace_range(place..=place, other);
        });
        assert_eq!(turns.next_after(&later, &keyed()).token_ids, plain, "byte {place}");
        let later = turns.changed(|record| record.truncate(place));
        assert_eq!(turns.next_after(&later, &keyed()).token_ids, plain, "cut at {place}");
    }
    for text in ["", "th2.", "th2.AAAA", "th2.AAAA", "\u{0}", "no record"] {
        let later = turns.changed(|record| text.clone_into(record));
        assert_eq!(turns.next_after(&later, &keyed()).token_ids, plain, "{text:?}");
    }
}

#[test]
fn an_edited_text_has_its_own_ids() {
    for (protocol, version) in cases() {
        let turns = Turns::new(protocol, version, Some(REASONING), CONTENT, &CALLS);
        let text = serde_json::to_string(&turns.later).unwrap();
        let edited = |from: &str, to: &str| -> [Encoded; 2] {
            assert!(text.contains(from));
            let later: Vec<Value> = serde_json::from_str(&text.replace(from, to)).unwrap();
            [keyed(), Options::default()].map(|options| turns.next_after(&later, &options))
        };
        let end = version.tokenizer().special_id("</think>").unwrap();
        let parts = |encoded: &Encoded| {
            let start = encoded.token_ids.len() - encoded.token_ids.iter().rev().take_while(|id| **id != end).count();
            let (reasoning, rest) = encoded.token_ids.split_at(start);
            (reasoning.to_vec(), rest.to_vec())
        };
        // An edit of the reasoning leaves what follows as the model wrote it, and the other way round.
        let ([reasoning, plain], own) = (edited("careful", "careless"), parts(&turns.next(&keyed())));
        assert_eq!(parts(&reasoning), (parts(&plain).0, own.1), "{protocol:?} {version:?}");
        let [content, plain] = edited("neighbourhood", "house");
        assert_eq!(parts(&content), (own.0, parts(&plain).1), "{protocol:?} {version:?}");
    }
}

#[test]
fn a_record_of_another_message_is_ignored() {
    for (protocol, version) in cases() {
        let turns = Turns::new(protocol, version, Some(REASONING), CONTENT, &CALLS);
        let other = Turns::new(protocol, version, Some("Another thought altogether."), "Something else.", &["nowhere"]);
        let (mut ours, mut theirs) = (turns.later.clone(), other.later.clone());
        let places = records(protocol, &mut ours);
        let moved = records(protocol, &mut theirs);
        assert_eq!(places.len(), moved.len());
        for (place, record) in places.into_iter().zip(moved) {
            place.clone_from(record);
        }
        assert_eq!(turns.next_after(&ours, &keyed()).token_ids, turns.plain(), "{protocol:?} {version:?}");
    }
}

#[test]
fn an_answer_that_was_cut_comes_back_as_far_as_it_came() {
    for (protocol, version) in cases() {
        let first = encoded(&request(protocol, version, true, true, &[]), protocol, &keyed());
        let own = unusual_ids(&format!("{REASONING}</think>{CONTENT}"), 3);
        let later = sent_back(protocol, &response(&first, &own, BackendFinish::Length));
        let next = encoded(&request(protocol, version, true, true, &later), protocol, &keyed());
        assert!(next.token_ids.starts_with(&[&first.token_ids[..], &own[..]].concat()), "{protocol:?} {version:?}");
    }
}

#[test]
fn an_answer_that_goes_on_in_a_turn_is_not_recorded() {
    let (protocol, version) = (Protocol::ChatCompletions, Version::V41);
    let mut required = request(protocol, version, false, true, &[]);
    required["tool_choice"] = "required".into();
    let prefix = serde_json::json!({"role": "assistant", "content": "I am", "prefix": true});
    let continued = request(protocol, version, false, false, &[prefix]);
    for (body, text) in [(required, " unbelievable"), (continued, " unbelievable")] {
        let answer = response(&encoded(&body, protocol, &keyed()), &unusual_ids(text, 3), BackendFinish::Stop);
        assert_eq!(answer["choices"][0]["message"].get("token_history"), None);
    }
}

#[test]
fn text_from_the_backend_ends_recording() {
    let protocol = Protocol::ChatCompletions;
    let first = encoded(&request(protocol, Version::V41, true, true, &[]), protocol, &keyed());
    let mut decoder = first.decoder("a-1".to_owned(), 7, b"seed".to_vec());
    decoder.push(&unusual_ids("A thought</think>and more", 3), None, 0).unwrap();
    decoder.push_text(" to say", 1, 0).unwrap();
    decoder.finish(BackendFinish::Stop, 0).unwrap();
    assert!(!String::from_utf8(decoder.response()).unwrap().contains("token_history"));
}
