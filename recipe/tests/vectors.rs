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
use support::Instead::{self, Accepted, PromptEnds, PromptHas, Refused};
use support::{check, check_deviation, check_prompt, continued_prompt, describe_row};

const VECTORS: &[u8] = include_bytes!("../../tests/vectors/encode.jsonl.gz");

/// Rows that differ on purpose, and what they give instead.
const DEVIATIONS: &[(&str, Instead)] = &[
    // A V4.1 prefix that is the only message is continued as any other: its reasoning is kept.
    ("p0360", PromptEnds("<｜Assistant｜><think></think>Two tests fail: parse_empty and parse_nested.")),
    ("p0370", PromptEnds("<｜Assistant｜><think>Need the test log first.")),
    ("p0380", PromptEnds("<｜Assistant｜><think></think>已为您翻译：The meeting is at 3 p.m. on the second floor.")),
    ("p1081", PromptEnds("<think>Need the test log first.</think>Two tests fail: parse_empty and parse_nested.")),
    // A summary stands for reasoning without content, and interrupted reasoning leaves no empty turn.
    ("p0552", PromptEnds("<tool_result>2 failed, 40 passed</tool_result><｜Assistant｜><think>")),
    ("p0553", PromptEnds("<tool_result>2 failed, 40 passed</tool_result><｜Assistant｜><think>")),
    (
        "p0831",
        PromptHas(
            "<think>\nleading newline kept?\n</think>\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"apply_patch\">",
        ),
    ),
    // The schema of the answer is shown, as in Chat Completions.
    (
        "p0510",
        PromptHas("You MUST strictly adhere to the following schema to reply:\n{\"type\": \"object\"}<｜User｜>"),
    ),
    // Empty arguments are those of a call without arguments.
    ("p0471", PromptHas("<｜DSML｜invoke name=\"read_file\">\n</｜DSML｜invoke>")),
    ("p0472", PromptHas("<｜DSML｜ invoke name=\"read_file\">\n\n</｜DSML｜ invoke>")),
    ("p0613", PromptHas("<｜DSML｜ invoke name=\"read_file\">\n\n</｜DSML｜ invoke>")),
    ("p0623", PromptHas("<｜DSML｜ invoke name=\"Calc2\">\n\n</｜DSML｜ invoke>")),
    // Several answers, newer names, parts and tools that the reference does not know, a call that is required.
    ("p0029", Accepted),
    ("p0043", Accepted),
    ("p0072", Accepted),
    ("p0128", Accepted),
    ("p0199", Accepted),
    ("p0396", Accepted),
    ("p0397", Accepted),
    ("p0592", Accepted),
    ("p0593", Accepted),
    ("p0697", Accepted),
    // There is no earlier response to go on from.
    ("p0562", Refused("previous_response_id")),
    ("p0563", Refused("previous_response_id")),
];

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
        let outcome = match deviation {
            Some((_, instead)) => check_deviation(&row, *instead),
            None => continued_prompt(&row).map_or_else(|| check(&row), |prompt| check_prompt(&row, &prompt)),
        };
        if let Err(difference) = outcome {
            failures.push(format!("{}: {difference}", describe_row(&row)));
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
