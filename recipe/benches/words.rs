//! What the longest words cost, texts that are one pre-token: `cargo bench --bench words`.
//!
//! Each kind is run at three sizes, in turn, each time with a new text. Printed are the best and the median times, the
//! speed, and how much longer four times the size takes: 4 is linear. The best says what the code costs, the median
//! what the machine was busy with.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench measures and prints, the codec does not"
)]

use std::time::{Duration, Instant};

use recipe::model::Version;
use recipe::tokenizer::Tokenizer;

const ROUNDS: usize = 25;
const SIZES: [usize; 3] = [100_000, 400_000, 1_600_000];

/// Random numbers that need not be good.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let scaled = (self.0 >> 32) * u64::from(bound);
        u32::try_from(scaled >> 32).unwrap_or(0)
    }

    /// A text of this many bytes, or just under.
    fn text(&mut self, size: usize, mut character: impl FnMut(&mut Self) -> char) -> String {
        let first = character(self);
        let mut text = String::from(first);
        while text.len() + 4 <= size {
            text.push(character(self));
        }
        text
    }
}

type Build = fn(&mut Random, usize) -> String;

const KINDS: [(&str, Build); 12] = [
    ("one letter", |random, size| random.text(size, |_| 'a')),
    ("random letters", |random, size| random.text(size, |random| between(random, 'a', 26))),
    ("random letters, both cases", |random, size| {
        random.text(size, |random| {
            let first = if random.below(2) == 0 { 'a' } else { 'A' };
            between(random, first, 26)
        })
    }),
    ("random Han", |random, size| random.text(size, |random| between(random, '一', 0x51A6))),
    ("random Hangul", |random, size| random.text(size, |random| between(random, '가', 11_172))),
    ("random Latin, Greek, Cyrillic", |random, size| random.text(size, |random| between(random, 'ĸ', 0x90))),
    ("spaces", |random, size| random.text(size, |_| ' ')),
    ("newlines", |random, size| random.text(size, |_| '\n')),
    ("digits", |random, size| random.text(size, |random| between(random, '0', 10))),
    ("equals signs", |random, size| random.text(size, |_| '=')),
    ("random signs", |random, size| random.text(size, |random| between(random, '!', 15))),
    ("one emoji", |random, size| random.text(size, |_| '😀')),
];

fn between(random: &mut Random, first: char, count: u32) -> char {
    char::from_u32(u32::from(first) + random.below(count)).unwrap_or(first)
}

fn timed(tokenizer: &Tokenizer, text: &str) -> Duration {
    let mut ids = Vec::with_capacity(text.len());
    let start = Instant::now();
    tokenizer.encode_plain(text, &mut ids);
    let time = start.elapsed();
    assert!(!ids.is_empty());
    time
}

fn report(tokenizer: &Tokenizer, name: &str, build: Build) {
    let mut random = Random(1);
    let mut times: [Vec<Duration>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (size, times) in SIZES.iter().zip(&mut times) {
            times.push(timed(tokenizer, &build(&mut random, *size)));
        }
    }
    for times in &mut times {
        times.sort_unstable();
    }
    let best = times.each_ref().map(|times| times[0].as_secs_f64());
    let median = times.each_ref().map(|times| times[times.len() / 2].as_secs_f64());
    println!(
        "| {name} | {:.2} / {:.2} | {:.2} / {:.2} | {:.2} / {:.2} | {:.0} | {:.2} | {:.2} |",
        best[0] * 1e3,
        median[0] * 1e3,
        best[1] * 1e3,
        median[1] * 1e3,
        best[2] * 1e3,
        median[2] * 1e3,
        SIZES[1] as f64 / best[1] / 1e6,
        best[1] / best[0],
        best[2] / best[1],
    );
}

fn main() {
    let tokenizer = Version::V4.tokenizer();
    println!("| text | 100 KB, ms | 400 KB, ms | 1.6 MB, ms | MB/s at 400 KB | ×4 from 100 KB | ×4 from 400 KB |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (name, build) in KINDS {
        report(&tokenizer, name, build);
    }
}
