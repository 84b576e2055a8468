use proptest::prelude::*;

use super::*;
use crate::model::Version;

fn text_ids(text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    Version::V41.tokenizer().encode_plain(text, &mut ids);
    ids
}

/// Ids of `text` with cuts at the end of every `size` bytes, characters kept whole.
fn cut(text: &str, size: usize) -> Vec<u32> {
    let (mut ids, mut start) = (Vec::new(), 0);
    for (place, character) in text.char_indices() {
        let end = place + character.len_utf8();
        if end - start >= size || end == text.len() {
            ids.extend(text_ids(&text[start..end]));
            start = end;
        }
    }
    ids
}

fn stretch(index: u32, ids: &[u32], text: &str) -> Option<Stretch> {
    Stretch::of(index, ids, text, [7; CHECK], &Version::V41.tokenizer())
}

fn applied(stretch: &Stretch, text: &str) -> Option<Vec<u32>> {
    stretch.apply(&text_ids(text), &Version::V41.tokenizer())
}

fn written(stretch: &Stretch) -> Stretch {
    let mut body = Vec::new();
    stretch.write(&mut body);
    let mut rest = &body[..];
    let read = Stretch::read(&mut rest).unwrap();
    assert!(rest.is_empty());
    for end in 0..body.len() {
        assert_eq!(Stretch::read(&mut &body[..end]), None, "cut at {end}");
    }
    read
}

#[test]
fn an_unusual_cut_is_a_small_difference() {
    let text = "The quick brown fox jumps over the lazy dog.";
    let usual = text_ids(text);
    assert_eq!(stretch(0, &usual, text), None);
    let own = [text_ids("The qu"), text_ids("ick brown fox jumps over the lazy dog.")].concat();
    assert_ne!(own, usual);
    let stretch = stretch(3, &own, text).unwrap();
    assert_eq!(stretch.edits.len(), 1);
    assert_eq!(written(&stretch), stretch);
    assert_eq!(applied(&stretch, text), Some(own));
    assert_eq!(applied(&stretch, "The quack brown fox jumps over the lazy dog."), None, "other bytes in that place");
}

#[test]
fn control_ids_and_other_bytes_are_never_applied() {
    let edit = |text: &str, ids: &[u32]| {
        let edits = vec![Edit { kept: 0, replaced: text_ids(text).len(), ids: ids.to_vec() }];
        applied(&Stretch { index: 0, check: [0; CHECK], edits }, text)
    };
    let end = Version::V41.tokenizer().special_id("</think>").unwrap();
    let letters = [text_ids("a"), text_ids("b"), text_ids("c")].concat();
    assert_eq!(edit("abc", &letters), Some(letters));
    assert_eq!(edit("abc", &text_ids("abd")), None);
    assert_eq!(edit("abc", &[u32::MAX]), None);
    assert_eq!(edit("abc", &[&[end], &text_ids("abc")[..]].concat()), None);
    assert_eq!(edit("</think>", &[end]), None, "the same bytes, but a control token");
}

proptest! {
    #[test]
    fn newlines_that_differ_read_back(
        text in "[a-c<\n]{0,9}", own in "[a-c<\n]{0,9}", size in 1_usize..4,
    ) {
        let own_ids = cut(&own, size);
        let spells = own.replace('\n', "") == text.replace('\n', "");
        let applied = stretch(0, &own_ids, &text).map(|stretch| applied(&written(&stretch), &text));
        prop_assert_eq!(applied.unwrap_or_else(|| Some(text_ids(&text))), spells.then_some(own_ids));
    }

    #[test]
    fn numbers_read_back(number in any::<u32>()) {
        let mut out = Vec::new();
        write_number(number, &mut out);
        prop_assert_eq!(read_number(&mut &out[..]), Some(number));
        prop_assert_eq!(read_number(&mut &out[..out.len() - 1]), None);
    }

    #[test]
    fn any_cut_reads_back(text in "[a-z0-9 \n<>é你好😀]{1,60}", size in 1_usize..9) {
        let own = cut(&text, size);
        match stretch(0, &own, &text) {
            None => prop_assert_eq!(text_ids(&text), own),
            Some(stretch) => prop_assert_eq!(applied(&written(&stretch), &text), Some(own)),
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(body in proptest::collection::vec(any::<u8>(), 0..60), text in "[a-c \n]{0,9}") {
        let mut rest = &body[..];
        while let Some(stretch) = Stretch::read(&mut rest) {
            if let Some(ids) = applied(&stretch, &text) {
                let written = letters(&ids, &Version::V41.tokenizer());
                prop_assert_eq!(written, Some(text.replace('\n', "").into_bytes()));
            }
        }
    }
}
