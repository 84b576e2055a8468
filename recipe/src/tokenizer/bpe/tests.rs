//! Mergers against the rule itself, and against each other.

use std::sync::Mutex;

use super::{Encoder, Merge};
use crate::tokenizer::lanes;
use crate::tokenizer::tables::{ImageReader, ImageWriter};
use crate::tokenizer::words::TokenBytes;
use proptest::prelude::*;

/// The rule itself: merge the leftmost pair of the lowest rank until no pair merges.
fn by_the_rule(merges: &[Merge], word: &[u8]) -> Vec<u32> {
    let mut ids: Vec<u32> = word.iter().map(|&byte| u32::from(byte)).collect();
    loop {
        let found = merges.iter().find_map(|merge| {
            let at = ids.array_windows().position(|&[left, right]| (left, right) == (merge[0], merge[1]))?;
            Some((at, merge))
        });
        let Some((at, merge)) = found else { return ids };
        ids.splice(at..at + 2, [merge[2]]);
    }
}

/// Merges that build on each other, each after those that make its parts.
fn merges() -> impl Strategy<Value = Vec<Merge>> {
    proptest::collection::vec((0_usize..30, 0_usize..30), 1..30).prop_map(|parts| {
        let mut ids: Vec<u32> = (97..100).collect();
        let mut merges: Vec<Merge> = Vec::new();
        for ((left, right), merged) in parts.into_iter().zip(256..) {
            let (left, right) = (ids[left % ids.len()], ids[right % ids.len()]);
            if merges.iter().all(|&[one, other, _]| (one, other) != (left, right)) {
                merges.push([left, right, merged]);
                ids.push(merged);
            }
        }
        merges
    })
}

fn encoder(merges: &[Merge]) -> Encoder {
    let mut byte_ids = [0; 256];
    for (id, byte) in byte_ids.iter_mut().zip(0..) {
        *id = byte;
    }
    let mut bytes: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let mut in_order_of_id = merges.to_vec();
    in_order_of_id.sort_by_key(|&[.., merged]| merged);
    for [left, right, merged] in in_order_of_id {
        bytes.resize(merged as usize, Vec::new());
        bytes.push([bytes[left as usize].as_slice(), &bytes[right as usize]].concat());
    }
    let mut tokens = TokenBytes::default();
    for bytes in &bytes {
        tokens.push(bytes).unwrap();
    }
    Encoder::new(&byte_ids, merges.to_vec(), &tokens)
}

/// Compares lanes with the plain merger: more words than there are lanes, of different lengths, each a part of the word.
fn check_lanes<const WIDTH: usize>(encoder: &Encoder, word: &[u8]) {
    let parts = (0..100).map(|number| (number, number % word.len().max(1)..word.len()));
    let parts: Vec<_> = parts.filter(|(_, part)| !part.is_empty() && part.len() <= WIDTH).collect();
    let mut found = std::collections::HashMap::new();
    lanes::merge::<WIDTH>(encoder, word, &parts, |number, ids| {
        assert!(found.insert(number, ids.to_vec()).is_none());
    });
    assert_eq!(found.len(), parts.len());
    for (number, part) in parts {
        let mut expected = Vec::new();
        encoder.merge_plainly(&word[part], &mut expected);
        assert_eq!(found[&number], expected);
    }
}

/// An image, which lives as long as the program.
fn image(encoder: &Encoder) -> &'static [u8] {
    static IMAGES: Mutex<Vec<&[u64]>> = Mutex::new(Vec::new());
    let mut image = ImageWriter::default();
    encoder.write(&mut image);
    let words: Vec<u64> = image.finish().as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let words: &[u64] = words.leak();
    IMAGES.lock().unwrap().push(words);
    bytemuck::cast_slice(words)
}

fn read(image: &'static [u8]) -> Option<Encoder> {
    Encoder::read(&mut ImageReader::new(image))
}

#[test]
fn an_image_that_is_cut_is_not_read() {
    let twice = [[97, 98, 256], [97, 98, 256]];
    for (merges, is_greedy) in [(&twice[..1], true), (&twice[..], false)] {
        let encoder = encoder(merges);
        assert_eq!(encoder.greedy.is_some(), is_greedy);
        let image = image(&encoder);
        assert!(read(image).is_some());
        assert!((0..image.len()).step_by(64).all(|length| read(&image[..length]).is_none()));
    }
}

/// What each merger makes of `word`; all but the plain one only where they can read the vocabulary.
fn by_all_mergers(encoder: &Encoder, word: &[u8]) -> Vec<Vec<u32>> {
    let mut plain = Vec::new();
    encoder.merge_plainly(word, &mut plain);
    let mut all = vec![plain];
    if let Some(greedy) = &encoder.greedy {
        let mut ids = vec![7];
        greedy.encode(&encoder.pairs, word, &mut ids);
        all.push(ids.split_off(1));
    }
    check_lanes::<{ lanes::NARROW }>(encoder, word);
    check_lanes::<{ lanes::WIDE }>(encoder, word);
    all
}

#[test]
fn a_last_byte_that_changes_all_tokens_of_a_long_word_does_so() {
    // Each byte merges with the one before it, the later first: so the last decides for all which two belong together.
    let merges: Vec<Merge> = (0..120).rev().zip(256..).map(|(byte, id)| [byte, byte + 1, id]).collect();
    let encoder = encoder(&merges);
    for last in 60..=120 {
        let word: Vec<u8> = std::iter::repeat_n(200, 256).chain(0..=last).collect();
        let (mut ids, mut expected) = (Vec::new(), Vec::new());
        encoder.merge(&word, &mut ids);
        encoder.merge_plainly(&word, &mut expected);
        assert_eq!(ids, expected);
    }
}

/// Words that are merged in parts, some of whose borders are in the midst of something that comes again and again.
fn long_word() -> impl Strategy<Value = String> {
    let part = ("[abc]{1,40}", prop_oneof![Just(1_usize), 1..60_usize]).prop_map(|(part, times)| part.repeat(times));
    proptest::collection::vec(part, 5..40).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn long_words_are_merged_like_short_ones(merges in merges(), word in long_word()) {
        let (encoder, mut ids, mut expected) = (encoder(&merges), vec![7], vec![7]);
        encoder.merge(word.as_bytes(), &mut ids);
        encoder.merge_plainly(word.as_bytes(), &mut expected);
        prop_assert_eq!(ids, expected);
    }

    #[test]
    fn all_mergers_follow_the_rule(merges in merges(), word in "[abc]{0,32}|(a|ab|abc){0,10}|(ab?c?a){0,8}") {
        let (encoder, word) = (encoder(&merges), word.as_bytes());
        prop_assert_eq!(by_all_mergers(&encoder, word), vec![by_the_rule(&merges, word); 2]);
    }

    #[test]
    fn merges_in_any_order_follow_the_rule(merges in merges().prop_shuffle(), word in "[abc]{0,32}") {
        let expected = by_the_rule(&merges, word.as_bytes());
        let encoder = encoder(&merges);
        for ids in [&encoder, &read(image(&encoder)).unwrap()].map(|encoder| by_all_mergers(encoder, word.as_bytes())).concat() {
            prop_assert_eq!(&ids, &expected);
        }
    }
}
