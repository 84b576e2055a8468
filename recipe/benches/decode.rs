//! What decoding costs, natively: `cargo bench --bench decode`.
//!
//! One answer of 65,536 ids in each protocol and channel. Printed are the nanoseconds of an id when all come in one push,
//! when 16 come in a push and when one does, how often memory is asked for in a push of one id, and the milliseconds of the end, `finish` and `response`. The cases take turns. Times are those that the process
//! ran, not those that it waited for a busy machine.

#![allow(clippy::expect_used, reason = "a case that cannot run is to stop the run")]
#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "a bench measures and prints, the codec does not")]

use std::hint::black_box;

use recipe::decoder::{Decoder, DecoderConfig};
use recipe::event::BackendFinish;
use recipe::model::Version;
use recipe::output::{InitialStage, ParsingOptions};
use recipe::protocol::{AnswerConfig, Protocol};

#[path = "../examples/output_cost/measure.rs"]
mod measure;

#[global_allocator]
static ALLOCATOR: measure::Counting = measure::Counting;

const ROUNDS: usize = 9;
const IDS: usize = 1 << 16;

/// Documents and code of this project, and Chinese, about four bytes a token.
const TEXT: &[&str] = &[
    include_str!("../../docs/dsml.md"),
    include_str!("../src/output/machine.rs"),
    "今天下午三点在二楼会议室开会，请大家带上上周的报告。如果不能参加，请提前告诉我。\n\n",
    include_str!("../../docs/encoding.md"),
    include_str!("../src/json/parse.rs"),
    "模型先思考，然后回答。工具的参数是一个对象，每个值都有名字。\n",
];

const CALL: &str =
    "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"write\">\n<｜DSML｜ parameter name=\"text\" string=\"true\">";
const END: &str = "</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>";

struct Case {
    protocol: Protocol,
    channel: &'static str,
    ids: Vec<u32>,
    /// Microseconds: all in one push, 16 and one in a push, and the end, in turn.
    times: [Vec<u64>; 4],
    allocations: f64,
}

fn main() {
    let mut cases: Vec<Case> = Protocol::ALL
        .into_iter()
        .flat_map(|protocol| {
            [("reasoning", "", ""), ("content", "</think>", ""), ("arguments", CALL, END)].map(
                |(channel, before, after)| Case {
                    protocol,
                    channel,
                    ids: ids(before, after),
                    times: Default::default(),
                    allocations: 0.0,
                },
            )
        })
        .collect();
    for _ in 0..ROUNDS {
        cases.iter_mut().for_each(run);
    }
    println!(
        "{:16} {:10} {:>17} {:>17} {:>17} {:>12} {:>17}",
        "median, least of", "", "bulk, ns", "16 a push, ns", "1 a push, ns", "allocations", "end, ms"
    );
    for case in &mut cases {
        let (protocol, per_id) = (format!("{:?}", case.protocol), 1e3 / IDS as f64);
        print!("{protocol:16} {:10}", case.channel);
        for (place, times) in case.times.iter_mut().enumerate() {
            let (median, least) = median_and_least(times);
            if place == 3 {
                println!(" {:12.3} {:8.3} {:8.3}", case.allocations, median / 1e3, least / 1e3);
            } else {
                print!(" {:8.1} {:8.1}", median * per_id, least * per_id);
            }
        }
    }
}

/// Exactly [`IDS`] ids.
fn ids(before: &str, after: &str) -> Vec<u32> {
    let tokenizer = Version::V41.tokenizer();
    let (mut ids, mut end, mut text) = (Vec::new(), Vec::new(), Vec::new());
    tokenizer.encode_with_special(before, &mut ids);
    tokenizer.encode_with_special(after, &mut end);
    tokenizer.encode_plain(&TEXT.concat(), &mut text);
    let room = IDS - ids.len() - end.len();
    ids.extend(text.iter().cycle().take(room));
    ids.extend(end);
    ids
}

fn decoder(case: &Case) -> Decoder {
    let initial_stage = if case.channel == "arguments" { InitialStage::Content } else { InitialStage::ReasoningStart };
    let parsing = ParsingOptions { parse_tool_calls: true, initial_stage, ..ParsingOptions::default() };
    let thinking = initial_stage == InitialStage::ReasoningStart;
    let answer = AnswerConfig { thinking, ..AnswerConfig::new(case.protocol, "chatcmpl-0123456789abcdef", "model") };
    let config = DecoderConfig { parsing, answer, spellings: Version::V41.spellings() };
    Decoder::new(config, Some(Version::V41.tokenizer().clone()))
}

fn run(case: &mut Case) {
    for (place, size) in [IDS, 16, 1].into_iter().enumerate() {
        let mut decoder = decoder(case);
        let (calls, start) = (measure::calls(), measure::micros());
        let mut frames = String::with_capacity(1 << 12);
        for ids in case.ids.chunks(size) {
            frames.clear();
            decoder.push_to(ids.iter().copied(), None, 0, &mut frames).expect("ids of this tokenizer");
            black_box(&frames);
        }
        case.times[place].push(measure::micros() - start);
        if size == 1 {
            case.allocations = (measure::calls() - calls) as f64 / IDS as f64;
            let start = measure::micros();
            black_box(decoder.finish(BackendFinish::Stop, 0).expect("the only choice"));
            black_box(decoder.response());
            case.times[3].push(measure::micros() - start);
        }
    }
}

fn median_and_least(times: &mut [u64]) -> (f64, f64) {
    times.sort_unstable();
    (times[times.len() / 2] as f64, times[0] as f64)
}
