//! Time and peak memory of whole answers, from ids or text to the bytes of a protocol.

use std::fmt::Write as _;

use recipe::decoder::{Decoder, DecoderConfig};
use recipe::event::BackendFinish;
use recipe::model::Version;
use recipe::output::ParsingOptions;
use recipe::protocol::{AnswerConfig, Protocol};

use super::{CALL, END, STRING, measure};

/// Name, size, and the output of that size.
const CASES: &[(&str, usize, super::Make)] = &[
    ("answer, bytes", 1_000_000, |n| "The quick brown fox. ".repeat(n / 21)),
    ("argument, bytes", 1_000_000, |n| {
        format!("{CALL}{STRING}{}</｜DSML｜parameter>{END}", "abc \"d\"\n".repeat(n / 8))
    }),
    ("parameters", 16_000, |n| {
        let mut output = CALL.to_owned();
        for index in 0..n {
            let _ = writeln!(output, "<｜DSML｜parameter name=\"p{index}\" string=\"true\">x</｜DSML｜parameter>");
        }
        output + END
    }),
    ("thinking ends", 100_000, |n| "</think>".repeat(n)),
];

const FEEDS: &[(&str, Feed)] = &[
    ("one text", |decoder, output, _| push_text(decoder, output)),
    ("one push of ids", push),
    ("id by id", push_each),
];

type Feed = fn(&mut Decoder, &str, &[u32]);

/// Prints a line for each case, protocol and way to push: at the size and at twice the size.
pub(super) fn print() {
    println!("\n{:16} {:>8}  {:17} {:16} {:>15}   {:>15}", "output", "size", "protocol", "fed", "ms", "peak MiB");
    for (name, size, make) in CASES {
        let outputs = [make(*size), make(size * 2)];
        for protocol in Protocol::ALL {
            for (fed, feed) in FEEDS {
                let [(time, peak), (time_twice, peak_twice)] =
                    outputs.each_ref().map(|output| cost(protocol, output, *feed));
                let protocol = format!("{protocol:?}");
                println!(
                    "{name:16} {size:8}  {protocol:17} {fed:16} {time:7.1} {time_twice:7.1}   {peak:7.2} {peak_twice:7.2}"
                );
            }
        }
    }
}

/// Milliseconds and MiB: the least of three runs each. The output itself is not counted, what is handed out is.
fn cost(protocol: Protocol, output: &str, feed: Feed) -> (f64, f64) {
    let mut ids = Vec::new();
    Version::V41.tokenizer().encode_with_special(output, &mut ids);
    let runs = (0..3).map(|_| {
        let before = measure::restart();
        let start = measure::micros();
        let parsing = ParsingOptions { parse_tool_calls: true, ..ParsingOptions::default() };
        let config = DecoderConfig {
            parsing,
            answer: AnswerConfig::new(protocol, "id", "model"),
            spellings: Version::V41.spellings(),
        };
        let mut decoder = Decoder::new(config, Some(Version::V41.tokenizer().clone()));
        feed(&mut decoder, output, &ids);
        std::hint::black_box(decoder.finish(BackendFinish::Stop, 0).map(|frames| frames.len()).unwrap_or_default());
        ((measure::micros() - start) as f64 / 1e3, (measure::peak() - before) as f64 / f64::from(1 << 20))
    });
    runs.fold((f64::MAX, f64::MAX), |least, run| (least.0.min(run.0), least.1.min(run.1)))
}

fn push_text(decoder: &mut Decoder, output: &str) {
    decoder.push_text(output, 1, 0).expect("the only choice");
}

fn push(decoder: &mut Decoder, _: &str, ids: &[u32]) {
    decoder.push(ids, None, 0).expect("ids of this tokenizer");
}

fn push_each(decoder: &mut Decoder, _: &str, ids: &[u32]) {
    for &id in ids {
        decoder.push(&[id], None, 0).expect("ids of this tokenizer");
    }
}
