//! What token-faithful history costs: bytes of a record for each token of the answer, and time for each turn, as the share
//! of unusual tokens grows. `cargo run --release -p recipe --example history_cost`

#![allow(clippy::print_stdout, reason = "an example prints")]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded anyway")]
#![allow(clippy::expect_used, reason = "an example stops at what cannot be")]

use std::time::Duration;

use recipe::codec::{Options, encode};
use recipe::event::BackendFinish;
use recipe::history::HistoryKey;
use recipe::json::parse;
use recipe::model::Version;
use recipe::protocol::Protocol;

/// Text of an agent's kind: prose, identifiers, code, another script.
const TEXT: &str = "The test fails because `parse_header` returns None for an empty buffer; the caller unwraps it. First I look \
    at src/reader.rs to see who else depends on that.\n\n```rust\nlet header = parse_header(&buffer).ok_or(Error::Truncated)?;\n\
    assert_eq!(header.length, 0x1F40);\n```\n\nЗатем проверю 测试 again, unfortunately without caching. ";

/// One of so many tokens is cut in two where it can be.
const EVERY: [usize; 5] = [usize::MAX, 1000, 100, 10, 1];

fn main() {
    println!(
        "{:>8} {:>10} {:>8} {:>12} {:>12} {:>12} {:>12}",
        "tokens", "cut one in", "bytes", "bytes/token", "decode +µs", "encode +µs", "text is µs"
    );
    for repeats in [1, 10, 100] {
        for every in EVERY {
            let ids = answer(repeats, every);
            let (record, decoded) = turn(&ids, true);
            let (_, plain) = turn(&ids, false);
            let length = record.as_ref().map_or(0, String::len);
            let (with, without) = (next(repeats, record.as_deref()), next(repeats, None));
            let every = if every == usize::MAX { "none".to_owned() } else { every.to_string() };
            println!(
                "{:8} {every:>10} {length:8} {:12.3} {:12.0} {:12.0} {:12.0}",
                ids.len(),
                length as f64 / ids.len() as f64,
                micros(decoded.saturating_sub(plain)),
                micros(with.saturating_sub(without)),
                micros(without)
            );
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn options(keyed: bool) -> Options {
    let history_key = if keyed { HistoryKey::new(b"a secret of benchmarks") } else { None };
    Options { history_key, ..Options::default() }
}

/// Ids of an answer that reasons; one of `every` tokens is written as the ids of its first character and of the rest.
fn answer(repeats: usize, every: usize) -> Vec<u32> {
    let tokenizer = Version::V41.tokenizer();
    let (mut usual, mut ids) = (Vec::new(), Vec::new());
    tokenizer.encode_plain(&TEXT.repeat(repeats), &mut usual);
    for (place, id) in usual.into_iter().enumerate() {
        let bytes = tokenizer.decode(&[id]).expect("an id of this tokenizer");
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        match text.char_indices().nth(1) {
            Some((second, _)) if place % every == every / 2 => {
                tokenizer.encode_plain(&text[..second], &mut ids);
                tokenizer.encode_plain(&text[second..], &mut ids);
            }
            _ => ids.push(id),
        }
    }
    tokenizer.encode_with_special("</think>Done.", &mut ids);
    ids
}

fn body(history: &str) -> String {
    format!(
        r#"{{"model": "DeepSeek-V4.1-Flash", "tools": [{{"type": "function", "function": {{"name": "f"}}}}],
        "messages": [{{"role": "user", "content": "q"}}{history}]}}"#
    )
}

/// The record of an answer, if it has one, and how long decoding took.
fn turn(ids: &[u32], keyed: bool) -> (Option<String>, Duration) {
    let encoded = encode(body("").as_bytes(), Protocol::ChatCompletions, &options(keyed)).expect("a valid request");
    let mut response = Vec::new();
    let time = best(|| {
        let mut decoder = encoded.decoder("id".to_owned(), 0, Vec::new());
        for part in ids.chunks(16) {
            decoder.push(part, None, 0).expect("known ids");
        }
        decoder.finish(BackendFinish::Stop, 0).expect("the first choice");
        response = decoder.response();
    });
    let response = parse(&response).expect("JSON");
    let message = response.get("choices").and_then(|choices| choices.as_array()?.first()?.get("message"));
    let record = message.and_then(|message| message.get("token_history")?.as_str());
    (record.map(str::to_owned), time)
}

/// How long the next request takes.
fn next(repeats: usize, record: Option<&str>) -> Duration {
    let mut said = String::new();
    recipe::json::write_string(&TEXT.repeat(repeats), &mut said);
    let record = record.map(|record| format!(r#", "token_history": "{record}""#)).unwrap_or_default();
    let history = format!(
        r#", {{"role": "assistant", "content": "Done.", "reasoning_content": {said}{record}}}, {{"role": "user", "content": "r"}}"#
    );
    let (body, options) = (body(&history), options(true));
    best(|| {
        encode(body.as_bytes(), Protocol::ChatCompletions, &options).expect("a valid request");
    })
}

fn best(mut run: impl FnMut()) -> Duration {
    let time = |_| {
        let elapsed = now();
        run();
        elapsed()
    };
    (0..9).map(time).min().unwrap_or_default()
}

/// Starts a clock; the codec itself has none.
#[allow(clippy::disallowed_methods, reason = "an example measures time")]
fn now() -> impl Fn() -> Duration {
    let start = std::time::Instant::now();
    move || start.elapsed()
}
