//! Token-faithful history in Responses: the item without text that carries the record of what followed the reasoning.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod history_support;

use history_support::{encoded, keyed, output, request, response, sent_back, unusual_ids};
use recipe::codec::Options;
use recipe::encoded::Encoded;
use recipe::event::BackendFinish;
use recipe::model::Version;
use recipe::protocol::Protocol;
use serde_json::{Value, json};

const PROTOCOL: Protocol = Protocol::Responses;

/// What a client sends back of an answer with two calls, and the place of the item that carries the record.
fn turn(version: Version) -> (Vec<Value>, usize) {
    let first = encoded(&request(PROTOCOL, version, true, true, &[]), PROTOCOL, &keyed());
    let own = unusual_ids(&output(version, Some("A careful thought."), "Unbelievable.", &["a", "b"]), 3);
    let items = sent_back(PROTOCOL, &response(&first, &own, BackendFinish::Stop));
    let place = items.iter().rposition(|item| item["type"] == "reasoning").unwrap();
    assert_eq!((place, &items[place]["content"]), (4, &json!([])), "{items:?}");
    (items, place)
}

fn next(version: Version, items: &[Value], options: &Options) -> Encoded {
    encoded(&request(PROTOCOL, version, true, true, items), PROTOCOL, options)
}

#[test]
fn an_item_that_lost_its_record_says_nothing_wherever_it_stands() {
    let emptied = [json!(""), json!(null), json!("gAAAAB-not-ours"), json!("th2."), json!("th2.AAAA")];
    for version in Version::ALL {
        let (mut items, place) = turn(version);
        let item = items.remove(place);
        let without = next(version, &items, &keyed());
        for content in &emptied {
            for place in 0..=items.len() {
                let (mut items, mut item) = (items.clone(), item.clone());
                item["encrypted_content"] = content.clone();
                items.insert(place, item);
                let with = next(version, &items, &keyed());
                assert_eq!(with.token_ids, without.token_ids, "{version:?} {content} at {place}");
            }
        }
    }
}

#[test]
fn the_record_is_found_wherever_it_stands_before_the_last_result() {
    for version in Version::ALL {
        let (mut items, place) = turn(version);
        let whole = next(version, &items, &keyed());
        let item = items.remove(place);
        let plain = next(version, &items, &Options::default());
        let last_result = items.iter().rposition(|item| item["type"] == "function_call_output").unwrap();
        for place in 0..=items.len() {
            let mut items = items.clone();
            items.insert(place, item.clone());
            let with = next(version, &items, &keyed());
            assert_eq!(with.prompt(), plain.prompt());
            assert_eq!(with.token_ids == whole.token_ids, place <= last_result, "{version:?} at {place}");
        }
    }
}
