//! What a second thread gains: `cargo bench -p recipe --bench threads`, after `make bench-codec` has made the texts.
//!
//! One and two threads encode the same text in turn, each with a tokenizer of its own, by the clock. *fresh*: the texts
//! were never seen, after other text of which both threads had their share; *warm*: the same text again. Beside it stands
//! what the machine has to give: two tokenizers that encode the whole text at the same time, against one of them alone.
//! *In pieces*: a text that is not held as UTF-8, which is made of it piece by piece. Printed are the medians; run it while
//! the machine has nothing else to do.

#![allow(clippy::expect_used, reason = "a case that cannot run is to stop the run")]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench measures and prints, the codec does not"
)]

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Instant;

use recipe::codec::{Options, encode};
use recipe::model::Version;
use recipe::protocol::Protocol;
use recipe::tokenizer::{IMAGE_ALIGNMENT, Tokenizer};

const ROUNDS: usize = 9;
/// How often a text is encoded again, within a round.
const REPEATS: usize = 3;
/// Characters of a piece, and of those that are given at once.
const PIECE: usize = 1 << 13;
const GROUP: usize = 1 << 16;

/// Tokenizers that share nothing but their tables.
struct Image(&'static [u8]);

impl Image {
    fn new() -> Self {
        let image = Version::V4.tokenizer().to_image();
        let memory = vec![0_u8; image.len() + IMAGE_ALIGNMENT].leak();
        let start = memory.as_ptr().align_offset(IMAGE_ALIGNMENT);
        let place = &mut memory[start..start + image.len()];
        place.copy_from_slice(&image);
        Self(place)
    }

    fn tokenizer(&self, threads: usize) -> Tokenizer {
        Tokenizer::from_image(self.0).expect("the image of a tokenizer").with_threads(threads)
    }
}

/// Something to encode, for a tokenizer.
type Task<'text> = &'text (dyn Fn(&Tokenizer) -> usize + Sync);

fn seconds(task: Task<'_>, tokenizer: &Tokenizer) -> f64 {
    let start = Instant::now();
    let count = task(tokenizer);
    let time = start.elapsed().as_secs_f64();
    assert!(count > 0, "no ids");
    time
}

/// Seconds until two tokenizers have done the same task at the same time.
fn at_once(task: Task<'_>, tokenizers: [&Tokenizer; 2]) -> f64 {
    let barrier = Barrier::new(2);
    let run = |tokenizer: &Tokenizer| {
        barrier.wait();
        seconds(task, tokenizer)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(tokenizers[1]));
        run(tokenizers[0]).max(other.join().expect("the other thread"))
    })
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Times of one thread, of two, and of two tokenizers at once.
type Times = [Vec<f64>; 3];

fn print(name: &str, kind: &str, times: &mut Times) {
    let [one, two, both] = times.each_mut().map(|times| median(times));
    println!(
        "| {name}, {kind} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
        one * 1e3,
        two * 1e3,
        one / two,
        both * 1e3,
        2.0 * one / both
    );
}

fn report(name: &str, image: &Image, warm_up: Task<'_>, task: Task<'_>) {
    let (mut fresh, mut warm) = (Times::default(), Times::default());
    for _ in 0..ROUNDS {
        let tokenizers = [1, 2, 1, 1].map(|threads| image.tokenizer(threads));
        for tokenizer in &tokenizers {
            seconds(warm_up, tokenizer);
        }
        let [one, two, left, right] = &tokenizers;
        let measure = |times: &mut Times| {
            times[0].push(seconds(task, one));
            times[1].push(seconds(task, two));
            times[2].push(at_once(task, [left, right]));
        };
        measure(&mut fresh);
        (0..REPEATS).for_each(|_| measure(&mut warm));
    }
    print(name, "fresh", &mut fresh);
    print(name, "warm", &mut warm);
}

/// How many ids a text has that is made UTF-8 piece by piece.
fn in_pieces(text: &[char], tokenizer: &Tokenizer) -> usize {
    let (mut groups, mut ids) = (text.chunks(GROUP), Vec::new());
    let give = |take: &mut dyn FnMut(&str)| {
        let group = groups.next().unwrap_or_default();
        group.chunks(PIECE).for_each(|piece| take(&piece.iter().collect::<String>()));
        Ok::<_, Infallible>(groups.len() > 0)
    };
    let Ok(()) = tokenizer.encode_pieces(give, &mut ids);
    ids.len()
}

/// Ids of a request for a tokenizer.
fn request(body: &[u8], tokenizer: &Tokenizer) -> usize {
    let mut options = Options::default();
    options.tokenizers.insert(Version::V4.name(), Arc::new(tokenizer.clone()));
    encode(body, Protocol::Messages, &options).expect("a request that is read").token_ids.len()
}

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench-codec/texts");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let Some(warm_up) = read("warm-up.txt") else {
        println!("no texts in {}: `make bench-codec` makes them", folder.display());
        return;
    };
    let plain = |text: &str, tokenizer: &Tokenizer| {
        let mut ids = Vec::new();
        tokenizer.encode_plain(text, &mut ids);
        ids.len()
    };
    let image = Image::new();
    println!("| text | 1 thread, ms | 2 threads, ms | ratio | two alone at once, ms | the machine's ratio |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for name in ["77k-tokens-0", "300k-tokens-0", "1M-tokens-0"] {
        let text = read(&format!("{name}.txt")).expect("a text of the corpus");
        report(name, &image, &|tokenizer| plain(&warm_up, tokenizer), &|tokenizer| plain(&text, tokenizer));
    }
    let text: Vec<char> = read("1M-tokens-0.txt").expect("a text of the corpus").chars().collect();
    let warm_up_pieces: Vec<char> = warm_up.chars().collect();
    let [warm_up_pieces, pieces] =
        [&warm_up_pieces, &text].map(|text| |tokenizer: &Tokenizer| in_pieces(text, tokenizer));
    report("1M-tokens-0 in pieces", &image, &warm_up_pieces, &pieces);
    let body = read("request-1-fresh.json").expect("a request of the corpus");
    let warm_up = |tokenizer: &Tokenizer| plain(&warm_up, tokenizer);
    report("request", &image, &warm_up, &|tokenizer| request(body.as_bytes(), tokenizer));
}
