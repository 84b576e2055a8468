//! Golden vectors: every request of `tests/vectors/encode.jsonl.gz` gives the reference's ids, or differs on purpose.

#![allow(clippy::expect_used, reason = "a broken vector file is to stop the test")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the numbers of the vectors are small"
)]

mod support;

use std::io::Read as _;

use recipe::json::{Value, parse};
use support::{check, describe_row};

const VECTORS: &[u8] = include_bytes!("../../tests/vectors/encode.jsonl.gz");

/// Rows that differ on purpose, and why.
const DEVIATIONS: &[(&str, &str)] =
    &[("p0360", PREFIX_ALONE), ("p0370", PREFIX_ALONE), ("p0380", PREFIX_ALONE), ("p1081", PREFIX_ALONE)];

/// A V4.1 prefix that is the only message keeps its reasoning and leaves its thinking open, as any other prefix does.
const PREFIX_ALONE: &str = "a prefix as the only message is continued like any other";

fn vectors() -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(VECTORS).read_to_string(&mut text).expect("the vectors are gzipped UTF-8");
    text
}

fn run(protocol: &str) {
    let text = vectors();
    let mut failures = Vec::new();
    let mut rows = 0;
    for line in text.lines() {
        let row = parse(line.as_bytes()).expect("each line is a JSON object");
        if row.get("protocol").and_then(Value::as_str) != Some(protocol) {
            continue;
        }
        rows += 1;
        let id = row.get("id").and_then(Value::as_str).unwrap_or_default();
        let deviation = DEVIATIONS.iter().find(|(listed, _)| *listed == id);
        match (check(&row), deviation) {
            (Ok(()), None) | (Err(_), Some(_)) => {}
            (Ok(()), Some((_, why))) => failures.push(format!("{id}: equal to the file, but listed: {why}")),
            (Err(difference), None) => failures.push(format!("{}: {difference}", describe_row(&row))),
        }
    }
    assert!(rows > 0, "no rows of {protocol}");
    assert!(failures.is_empty(), "{} of {rows} rows fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn chat_completions_rows_give_the_same_ids() {
    run("chat");
}

#[test]
fn responses_rows_give_the_same_ids() {
    run("responses");
}

#[test]
fn messages_rows_give_the_same_ids() {
    run("messages");
}

#[test]
fn conversation_rows_give_the_same_ids() {
    run("conversation");
}
