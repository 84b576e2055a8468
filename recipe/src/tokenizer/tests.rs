use std::sync::LazyLock;

use proptest::prelude::*;

use super::{Piece, Tokenizer};

static V4: LazyLock<Tokenizer> = LazyLock::new(|| {
    Tokenizer::from_json(include_bytes!("../../data/tokenizer_v4.json")).expect("the built-in tokenizer loads")
});

fn plain(text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    V4.encode_plain(text, &mut ids);
    ids
}

fn special(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    tokenizer.encode_with_special(text, &mut ids);
    ids
}
