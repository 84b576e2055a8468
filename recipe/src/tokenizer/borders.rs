//! Where a text may be cut so that its parts encode as the whole does.
//!
//! Before a space that follows an ASCII letter, before an ASCII letter that follows a line feed, and between Han or kana and
//! another character: a pre-token that holds an ASCII letter ends before white space; none holds a line feed and a letter
//! behind it; runs of Han and kana are pieces of their own.
//!
//! Owns: these borders. Must not know: what the parts are for.
//! Cost: a step for each character up to the border.

use super::character_classes::{HAN_OR_KANA, class_of};

/// Cuts `text` into parts of about `size` bytes; none is empty.
pub(super) fn parts(text: &str, size: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let at = if rest.len() > 2 * size { first_border(rest, size) } else { None };
        let (part, beyond) = rest.split_at_checked(at.unwrap_or(rest.len()))?;
        rest = beyond;
        Some(part).filter(|part| !part.is_empty())
    })
}

/// The first border inside `text` that is not before `from`.
pub(super) fn first_border(text: &str, from: usize) -> Option<usize> {
    let from = (from..text.len()).find(|&at| text.is_char_boundary(at))?;
    let (head, tail) = text.split_at(from);
    let mut before = head.chars().next_back();
    for (offset, after) in tail.char_indices() {
        if before.is_some_and(|before| is_border(before, after)) {
            return Some(from + offset);
        }
        before = Some(after);
    }
    None
}

/// The last border inside `text`.
pub(super) fn last_border(text: &str) -> Option<usize> {
    let mut characters = text.char_indices().rev();
    let (mut at, mut after) = characters.next()?;
    for (place, before) in characters {
        if is_border(before, after) {
            return Some(at);
        }
        (at, after) = (place, before);
    }
    None
}

fn is_border(before: char, after: char) -> bool {
    let is_han = |character: char| class_of(u32::from(character)) & HAN_OR_KANA != 0;
    match (before, after) {
        ('a'..='z' | 'A'..='Z', ' ') | ('\n', 'a'..='z' | 'A'..='Z') => true,
        _ => !(before.is_ascii() && after.is_ascii()) && is_han(before) != is_han(after),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{first_border, last_border, parts};
    use crate::model::Version;
    use crate::tokenizer::tests::plain;

    #[test]
    fn borders_lie_inside() {
        for (text, from, first, last) in [
            ("", 0, None, None),
            ("a", 0, None, None),
            ("ab c\nd", 0, Some(2), Some(5)),
            ("ab c\nd", 3, Some(5), Some(5)),
            ("ab c\nd", 6, None, Some(5)),
            ("é中é", 1, Some(2), Some(5)),
            (" \n", 0, None, None),
        ] {
            assert_eq!((first_border(text, from), last_border(text)), (first, last), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn parts_give_the_ids_of_the_whole(
            pieces in proptest::collection::vec("[a-zA-Z]{1,9}|[ \\t]{1,3}|\\r?\\n|[0-9]{1,5}|[!-/:-@]{1,4}|\\p{Han}{1,4}|[ぁ-ヺ]{1,4}|[é한\u{301}\u{3000}]{1,3}|\\PC", 1..40),
            size in 1_usize..40,
        ) {
            let text = pieces.concat();
            let cut: Vec<&str> = parts(&text, size).collect();
            prop_assert_eq!(cut.concat(), text.as_str());
            prop_assert!(cut.iter().all(|part| !part.is_empty()));
            let tokenizer = Version::V4.tokenizer();
            let ids: Vec<u32> = cut.into_iter().flat_map(|part| plain(&tokenizer, part)).collect();
            prop_assert_eq!(ids, plain(&tokenizer, &text));
        }
    }
}
