//! Law: however a model's output is cut, the answer is the same; one to pushed text shows no spelling of a control token.

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
    for &cut in &cuts {
        let (piece, after) = rest.split_at(usize::from(cut).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    assert_eq!(String::from_utf8_lossy(&whole), String::from_utf8_lossy(&answer(settings, &pieces)));
    text(settings, &codes, &cuts);
});

fn answer(settings: u8, pieces: &[&[u32]]) -> Vec<u8> {
    let mut decoder = output::decoder(settings);
    for piece in pieces {
        decoder.push(piece, None, 0).expect("every id is in the vocabulary");
    }
    decoder.finish(BackendFinish::Stop, 0).expect("the first choice");
    decoder.response()
}

fn text(settings: u8, codes: &[u16], cuts: &[u8]) {
    let output = output::text(codes);
    let mut whole = output::decoder(settings);
    whole.push_text(&output, 0, 0).expect("the first choice");
    let mut cut = output::decoder(settings);
    let mut rest = output.as_str();
    for &length in cuts {
        let place = (usize::from(length)..rest.len()).find(|&place| rest.is_char_boundary(place));
        let (piece, later) = rest.split_at(place.unwrap_or(rest.len()));
        cut.push_text(piece, 0, 0).expect("the first choice");
        rest = later;
    }
    cut.push_text(rest, 0, 0).expect("the first choice");
    for decoder in [&mut whole, &mut cut] {
        decoder.finish(BackendFinish::Stop, 0).expect("the first choice");
        output::check_spellings(decoder);
    }
    assert_eq!(String::from_utf8_lossy(&whole.response()), String::from_utf8_lossy(&cut.response()));
}
