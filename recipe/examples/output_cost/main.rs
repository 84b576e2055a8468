//! What outputs cost. First a table of hostile ones: nanoseconds per byte of the parser at two sizes, which should be alike.
//! Then whole answers, from ids or text to a protocol's bytes: time and peak memory at a size and at twice the size, which
//! should double. Times are those that the process ran.
//!
//! `cargo run --release -p recipe --example output_cost`

#![allow(clippy::print_stdout, clippy::cast_precision_loss, clippy::format_collect, reason = "an example prints")]
#![allow(clippy::expect_used, reason = "an example stops at what cannot be")]

mod answers;
mod measure;

use std::hint::black_box;

use recipe::event::{BackendFinish, Event};
use recipe::output::{InitialStage, OutputParser, OutputPiece, ParsingOptions};

#[global_allocator]
static ALLOCATOR: measure::Counting = measure::Counting;

type Make = fn(usize) -> String;

const CALL: &str = "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n";
const END: &str = "</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
const STRING: &str = "<｜DSML｜parameter name=\"a\" string=\"true\">";

/// Name, whether the answer begins with reasoning, and the output of about `n` bytes.
const CASES: &[(&str, bool, Make)] = &[
    ("plain answer", false, |n| "The quick brown fox. ".repeat(n / 21)),
    ("short lines", false, |n| "ab\n".repeat(n / 3)),
    ("newlines", false, |n| "\n".repeat(n) + "x"),
    ("newlines in reasoning", true, |n| "a".to_owned() + &"\n".repeat(n) + "</think>"),
    ("less-than signs", false, |n| "<".repeat(n)),
    ("starts of marks", false, |n| "<｜DSM".repeat(n / 7)),
    ("openers", false, |n| "<｜DSML｜".repeat(n / 13)),
    ("block openers", false, |n| "<｜DSML｜tool_calls>\n".repeat(n / 25)),
    ("block openers with prose", false, |n| "<｜DSML｜tool_calls> x ".repeat(n / 27)),
    ("mentions in reasoning", true, |n| "<｜DSML｜invoke name=\"f\">\n".repeat(n / 31)),
    ("thinking ends", false, |n| "</think>".repeat(n / 8)),
    ("string argument", false, |n| format!("{CALL}{STRING}{}</｜DSML｜parameter>{END}", "abc \"d\"\n".repeat(n / 8))),
    ("raw argument", false, |n| {
        let tag = STRING.replace("true", "false");
        format!("{CALL}{tag}[{}0]</｜DSML｜parameter>{END}", "1234, ".repeat(n / 6))
    }),
    ("parameters", false, |n| {
        let body: String = (0..n / 76)
            .map(|index| STRING.replace("\"a\"", &format!("\"{index}\"")) + "x</｜DSML｜parameter>")
            .collect();
        format!("{CALL}{body}{END}")
    }),
    ("tag starts in a value", false, |n| format!("{CALL}{STRING}{}", "\n<｜DSML｜parameter name=\"".repeat(n / 30))),
    ("calls", false, |n| CALL.to_owned() + &"<｜DSML｜invoke name=\"f\">\n</｜DSML｜invoke>\n".repeat(n / 53)),
    ("fenced calls", false, |n| "```\n".to_owned() + &format!("{CALL}{END}\n").repeat(n / 100)),
    ("call in reasoning", true, |n| format!("{CALL}{STRING}{}</｜DSML｜parameter>{END}", "y".repeat(n))),
    ("stop starts", false, |n| "aaab".repeat(n / 4)),
    ("nested spellings", false, |n| "<｜end▁of".repeat(n / 27) + &"▁sentence｜>".repeat(n / 29)),
];

fn main() {
    println!("{:28} {:>8} {:>8}   {:>8} {:>8}   {:>8}", "ns/byte", "whole", "", "4 bytes", "", "tokens");
    for (name, reasons, make) in CASES {
        let costs: Vec<f64> = [1 << 17, 1 << 20]
            .into_iter()
            .flat_map(|size| {
                let output = make(size);
                [cost(&output, *reasons, whole), cost(&output, *reasons, pieces), cost(&output, *reasons, tokens)]
            })
            .collect();
        println!(
            "{name:28} {:8.1} {:8.1}   {:8.1} {:8.1}   {:8.1} {:8.1}",
            costs[0], costs[3], costs[1], costs[4], costs[2], costs[5]
        );
    }
    answers::print();
}

fn cost(output: &str, reasons: bool, feed: fn(&mut OutputParser, &str, &mut Vec<Event>)) -> f64 {
    let initial_stage = if reasons { InitialStage::ReasoningStart } else { InitialStage::Content };
    let stop_sequences = vec!["aaaaaaaaaaaaaaaa".to_owned(), "Q:".to_owned()];
    let options = ParsingOptions { initial_stage, parse_tool_calls: true, stop_sequences, ..ParsingOptions::default() };
    let best = (0..3)
        .map(|_| {
            let (mut parser, mut events) = (OutputParser::new(options.clone()), Vec::new());
            let start = measure::micros();
            feed(&mut parser, output, &mut events);
            parser.finish(BackendFinish::Stop, &mut events);
            black_box(events.len());
            measure::micros() - start
        })
        .min()
        .unwrap_or_default();
    best as f64 * 1e3 / output.len().max(1) as f64
}

fn whole(parser: &mut OutputParser, output: &str, events: &mut Vec<Event>) {
    parser.push_text(output, 1, events);
}

fn pieces(parser: &mut OutputParser, output: &str, events: &mut Vec<Event>) {
    let mut rest = output;
    while !rest.is_empty() {
        let end = (rest.len().min(4)..=rest.len()).find(|&end| rest.is_char_boundary(end)).unwrap_or(rest.len());
        let (piece, later) = rest.split_at(end);
        parser.push_text(piece, 1, events);
        events.clear();
        rest = later;
    }
}

fn tokens(parser: &mut OutputParser, output: &str, events: &mut Vec<Event>) {
    for bytes in output.as_bytes().chunks(4) {
        parser.push_token(5, OutputPiece::Bytes(bytes), None, events);
        events.clear();
    }
}
