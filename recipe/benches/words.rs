//! What the longest words cost, texts that are one pre-token: `cargo bench --bench words`.
//!
//! Each kind is run at three sizes, in turn, each time with a new text. Times are those of the processor spent on the
//! thread, so that other work of the machine counts little. Printed are the medians, the speed, and how much longer
//! four times the size takes: 4 is linear.

#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "a bench prints, the codec does not")]

use recipe::model::Version;
use recipe::tokenizer::Tokenizer;
use rustix::time::{ClockId, clock_gettime};

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

const KINDS: [(&str, Build); 13] = [
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
    ("300 random signs, then dashes", |random, size| {
        let signs = random.text(300, |random| between(random, '!', 15));
        signs + &random.text(size - 300, |_| '-')
    }),
    ("one emoji", |random, size| random.text(size, |_| '😀')),
];

fn between(random: &mut Random, first: char, count: u32) -> char {
    char::from_u32(u32::from(first) + random.below(count)).unwrap_or(first)
}

/// Seconds that the processor spent on this thread.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn timed(tokenizer: &Tokenizer, text: &str) -> f64 {
    let mut ids = Vec::with_capacity(text.len());
    let start = processor_time();
    tokenizer.encode_plain(text, &mut ids);
    let time = processor_time() - start;
    assert!(!ids.is_empty());
    time
}

fn report(tokenizer: &Tokenizer, name: &str, build: Build) {
    let mut random = Random(1);
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (size, times) in SIZES.iter().zip(&mut times) {
            times.push(timed(tokenizer, &build(&mut random, *size)));
        }
    }
    let [small, middle, large] = times.map(|mut times| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    });
    println!(
        "| {name} | {:.2} | {:.2} | {:.2} | {:.0} | {:.2} | {:.2} |",
        small * 1e3,
        middle * 1e3,
        large * 1e3,
        SIZES[1] as f64 / middle / 1e6,
        middle / small,
        large / middle,
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
