//! Law: however a model's output is cut, the answer is the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use recipe::event::BackendFinish;

#[path = "../support/output.rs"]
mod output;

fuzz_target!(|input: (u8, Vec<u16>, Vec<u8>)| {
    let (settings, codes, cuts) = input;
    let ids = output::ids(&codes);
    let whole = answer(settings, &[&ids]);
    let mut pieces: Vec<&[u32]> = Vec::new();
    let mut rest = &ids[..];
    for cut in cuts {
        let (piece, after) = rest.split_at(usize::from(cut).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    assert_eq!(String::from_utf8_lossy(&whole), String::from_utf8_lossy(&answer(settings, &pieces)));
});

fn answer(settings: u8, pieces: &[&[u32]]) -> Vec<u8> {
    let mut decoder = output::decoder(settings);
    for piece in pieces {
        decoder.push(piece, None, 0).expect("every id is in the vocabulary");
    }
    decoder.finish(BackendFinish::Stop, 0).expect("the first choice");
    decoder.response()
}
