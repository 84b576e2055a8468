//! Cuts text into pre-tokens, exactly as three `Split` steps of Hugging Face `tokenizers` do for DeepSeek models:
//!
//! 1. `\p{N}{1,3}`
//! 2. `[一-龥\u{3040}-ゟ゠-ヿ]+` (Han and kana)
//! 3. the main expression, whose six alternatives are the branches of [`PreTokens::main_step`]
//!
//! Owns: where a pre-token ends. Must not know: vocabularies, ids, special tokens.
//! Cost: one pass, no allocation; every character is classified at most three times.
//!
//! Each step looks only inside the pieces that the steps before left over, so a number or a Han run is a hard border
//! for the main expression: it neither matches across one nor looks ahead over one. That folds the three steps into
//! one: a character on the far side of a border classifies as [`BORDER`], the same as the end of the text. No
//! alternative looks behind, so a position is all the state there is.

use std::ops::Range;

use super::blocks::{self, BLOCK};
use super::character_classes::{HAN_OR_KANA, LETTER, MARK, NEWLINE, NUMBER, OTHER, PUNCTUATION, SPACE, class_of};
use super::cuts::{Cuts, runs};

/// Class of whatever lies outside the current piece.
const BORDER: u8 = 0;
/// Longest number that `\p{N}{1,3}` takes.
const NUMBER_LENGTH: usize = 3;
const WHITE_SPACE: u8 = SPACE | NEWLINE;
const WORD: u8 = LETTER | MARK;
/// The bits that tell bytes of wide characters among eight.
const WIDE: u64 = 0x8080_8080_8080_8080;

/// The pre-tokens of one text, in order; joined they are the text.
pub(super) struct PreTokens<'text> {
    bytes: &'text [u8],
    position: usize,
}

impl<'text> PreTokens<'text> {
    /// Pre-tokens of `text`.
    pub(super) fn new(text: &'text str) -> Self {
        Self { bytes: text.as_bytes(), position: 0 }
    }

    /// Pre-tokens of a part of `text`, as if nothing were around it. Positions are those of the whole text.
    pub(super) fn within(text: &'text str, part: Range<usize>) -> Self {
        Self { bytes: text.as_bytes().get(..part.end).unwrap_or_default(), position: part.start }
    }

    #[inline]
    fn byte(&self, position: usize) -> u8 {
        self.bytes.get(position).copied().unwrap_or(0)
    }

    /// Class bits and length in bytes of the character at `position`; `(BORDER, 0)` at the end of the text.
    #[inline]
    fn raw_class(&self, position: usize) -> (u8, usize) {
        match self.bytes.get(position) {
            None => (BORDER, 0),
            Some(&byte) if byte < 0x80 => (class_of(u32::from(byte)), 1),
            Some(&byte) => self.wide_class(position, byte),
        }
    }

    /// [`Self::raw_class`] beyond ASCII. The bytes come from a `str`, so lead bytes tell the truth.
    #[inline]
    fn wide_class(&self, position: usize, lead: u8) -> (u8, usize) {
        let bits = |offset: usize| u32::from(self.byte(position + offset) & 0x3F);
        let lead = u32::from(lead);
        let (code_point, length) = if lead < 0xE0 {
            ((lead & 0x1F) << 6 | bits(1), 2)
        } else if lead < 0xF0 {
            ((lead & 0x0F) << 12 | bits(1) << 6 | bits(2), 3)
        } else {
            ((lead & 0x07) << 18 | bits(1) << 12 | bits(2) << 6 | bits(3), 4)
        };
        (class_of(code_point), length)
    }

    /// Class of the character at `position` as the main expression sees it from inside a piece of the given kind.
    #[inline]
    fn class<const IN_HAN: bool>(&self, position: usize) -> (u8, usize) {
        let (class, length) = self.raw_class(position);
        let outside = if IN_HAN { class & HAN_OR_KANA == 0 } else { class & (NUMBER | HAN_OR_KANA) != 0 };
        (if outside { BORDER } else { class & !HAN_OR_KANA }, length)
    }

    /// End of the run of characters in `classes` that starts at `position`.
    #[inline]
    fn run<const IN_HAN: bool>(&self, mut position: usize, classes: u8) -> usize {
        loop {
            let (class, length) = self.class::<IN_HAN>(position);
            if class & classes == 0 {
                return position;
            }
            position += length;
        }
    }

    /// End of the run of ASCII letters that starts at `position`.
    #[inline]
    fn ascii_letters(&self, mut position: usize) -> usize {
        while self.byte(position).is_ascii_alphabetic() {
            position += 1;
        }
        position
    }

    /// End of the most frequent kind of pre-token, where one starts: up to seven ASCII letters, with one space or without,
    /// before another ASCII character. Eight bytes are classified at once, without a branch for each.
    #[inline]
    fn ascii_word(&self, start: usize) -> Option<usize> {
        const EACH: u64 = 0x0101_0101_0101_0101;
        let letters = start + usize::from(self.byte(start) == b' ');
        let bytes = u64::from_le_bytes(*self.bytes.get(letters..)?.first_chunk()?);
        // Per byte, in its high bit; lower-case letters are those from `a` on that are not beyond `z`.
        let lower = (bytes | (0x20 * EACH)) & (0x7F * EACH);
        let from_a = lower + (0x80 - u64::from(b'a')) * EACH;
        let beyond_z = lower + (0x7F - u64::from(b'z')) * EACH;
        let other = !(from_a & !beyond_z & !bytes) & (0x80 * EACH);
        let count = (other.trailing_zeros() / 8) as usize;
        let ends = count > 0 && count < 8 && self.byte(letters + count) < 0x80;
        ends.then_some(letters + count)
    }

    /// End of the number that starts at `start`: step 1.
    fn number_step(&self, start: usize) -> usize {
        let mut position = start;
        for _ in 0..NUMBER_LENGTH {
            let (class, length) = self.raw_class(position);
            if class & NUMBER == 0 {
                break;
            }
            position += length;
        }
        position
    }

    /// End of what the main expression matches at `start`, or of the gap between matches that begins there.
    #[inline]
    fn main_step<const IN_HAN: bool>(&self, start: usize) -> usize {
        let (class, length) = self.class::<IN_HAN>(start);
        let next = start + length;
        match class {
            LETTER | MARK => self.run::<IN_HAN>(next, WORD),
            PUNCTUATION => {
                // [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+
                if length == 1 && self.byte(next).is_ascii_alphabetic() {
                    self.ascii_letters(next + 1)
                } else {
                    self.punctuation::<IN_HAN>(next)
                }
            }
            SPACE | NEWLINE => self.white_space::<IN_HAN>(start, class, next),
            _ => self.other::<IN_HAN>(next),
        }
    }

    /// The rest of ` ?[\p{P}\p{S}]+[\r\n]*`.
    #[inline]
    fn punctuation<const IN_HAN: bool>(&self, position: usize) -> usize {
        let position = self.run::<IN_HAN>(position, PUNCTUATION);
        self.run::<IN_HAN>(position, NEWLINE)
    }

    /// White space at `start`, whose first character has class `class` and ends at `next`.
    #[inline]
    fn white_space<const IN_HAN: bool>(&self, start: usize, class: u8, next: usize) -> usize {
        if class == SPACE {
            let (following, length) = self.class::<IN_HAN>(next);
            if following & WORD != 0 {
                // [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
                return self.run::<IN_HAN>(next + length, WORD);
            }
            if following == PUNCTUATION && self.byte(start) == b' ' {
                return self.punctuation::<IN_HAN>(next + length);
            }
        }
        let mut last_newline_end = None;
        let mut last = start;
        let mut end = start;
        let border = loop {
            let (class, length) = self.class::<IN_HAN>(end);
            if class & WHITE_SPACE == 0 {
                break class == BORDER;
            }
            last = end;
            end += length;
            if class == NEWLINE {
                last_newline_end = Some(end);
            }
        };
        match last_newline_end {
            // \s*[\r\n]+ gives back what follows the last line break.
            Some(position) => position,
            // \s+(?!\S) leaves the last one to the character that follows; alone it falls to \s+.
            None if !border && last > start => last,
            None => end,
        }
    }

    /// A character of no class, ended before `next`: the optional prefix of a word, or part of a gap that no
    /// alternative matches and that `Isolated` keeps as one piece.
    fn other<const IN_HAN: bool>(&self, mut next: usize) -> usize {
        let (mut class, mut length) = self.class::<IN_HAN>(next);
        if class & WORD != 0 {
            return self.run::<IN_HAN>(next + length, WORD);
        }
        while class == OTHER {
            let (following, following_length) = self.class::<IN_HAN>(next + length);
            if following & WORD != 0 {
                break;
            }
            next += length;
            (class, length) = (following, following_length);
        }
        next
    }
}

impl PreTokens<'_> {
    /// Where the next pre-token starts.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Writes where the next pre-tokens end: all up to the end of the text, or as many as there is room for, or up to
    /// [`BLOCK`] fewer. How many those are.
    #[inline]
    pub(super) fn fill(&mut self, cuts: &Cuts, ends: &mut [usize]) -> usize {
        let mut count = 0;
        while count + BLOCK <= ends.len() {
            if let Some(block) = self.bytes.get(self.position..).and_then(<[u8]>::first_chunk::<BLOCK>)
                && block.first_chunk::<8>().is_some_and(|first| u64::from_le_bytes(*first) & WIDE == 0)
            {
                let mut starts = blocks::starts(block);
                let start = self.position;
                while starts != 0 {
                    self.position = start + starts.trailing_zeros() as usize;
                    if let Some(target) = ends.get_mut(count) {
                        *target = self.position;
                    }
                    count += 1;
                    starts &= starts - 1;
                }
                if self.position != start {
                    continue;
                }
            }
            if let Some(first) = self.run_character(self.position) {
                count += self.cut_run(first, cuts, ends.get_mut(count..).unwrap_or_default());
                continue;
            }
            let Some(end) = self.next_end() else { break };
            if let Some(target) = ends.get_mut(count) {
                *target = end;
            }
            count += 1;
        }
        count
    }

    /// The code point of the letter or mark of a run of Han and kana at `position`.
    #[inline]
    fn run_character(&self, position: usize) -> Option<u32> {
        let &[lead, second, third] = self.bytes.get(position..)?.first_chunk()?;
        let code = u32::from(lead & 0x0F) << 12 | u32::from(second & 0x3F) << 6 | u32::from(third & 0x3F);
        (matches!(lead, 0xE3..=0xE9) && runs(code)).then_some(code)
    }

    /// Goes through a run of Han and kana, of which the first character is known, and writes where it may be cut, and where
    /// it ends if there is room up to there.
    fn cut_run(&mut self, mut left: u32, cuts: &Cuts, ends: &mut [usize]) -> usize {
        let mut count = 0;
        let mut at = self.position + 3;
        while count + 1 < ends.len() {
            let right = self.run_character(at);
            if let Some(end) = ends.get_mut(count) {
                *end = at;
            }
            let Some(right) = right else {
                self.position = at;
                return count + 1;
            };
            count += usize::from(!cuts.joins(left, right));
            left = right;
            at += 3;
        }
        self.position = count.checked_sub(1).and_then(|last| ends.get(last)).copied().unwrap_or(at);
        count
    }

    /// Where the next pre-token ends.
    pub(super) fn next_end(&mut self) -> Option<usize> {
        let start = self.position;
        if let Some(end) = self.ascii_word(start) {
            self.position = end;
            return Some(end);
        }
        let (class, length) = self.raw_class(start);
        if length == 0 {
            return None;
        }
        let end = if class & NUMBER != 0 {
            self.number_step(start)
        } else if class & HAN_OR_KANA != 0 {
            self.main_step::<true>(start)
        } else {
            self.main_step::<false>(start)
        };
        self.position = end;
        Some(end)
    }
}

#[cfg(test)]
impl<'text> Iterator for PreTokens<'text> {
    type Item = &'text [u8];

    fn next(&mut self) -> Option<&'text [u8]> {
        let start = self.position;
        let end = self.next_end()?;
        self.bytes.get(start..end)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::PreTokens;
    use crate::tokenizer::cuts::{Cuts, runs};
    use crate::tokenizer::words::TokenBytes;
    use proptest::prelude::*;

    fn split(text: &str) -> Vec<&str> {
        PreTokens::new(text).filter_map(|piece| std::str::from_utf8(piece).ok()).collect()
    }

    #[test]
    fn numbers_are_cut_in_threes_and_are_hard_borders() {
        assert_eq!(split("x12345 67"), ["x", "123", "45", " ", "67"]);
        assert_eq!(split("a  1"), ["a", "  ", "1"]);
    }

    #[test]
    fn white_space_leaves_its_last_character_to_the_next_word() {
        assert_eq!(split("a   b"), ["a", "  ", " b"]);
        assert_eq!(split("a\t\tb"), ["a", "\t", "\tb"]);
        assert_eq!(split("a  ("), ["a", " ", " ("]);
        assert_eq!(split("a\t("), ["a", "\t", "("]);
        assert_eq!(split("a  "), ["a", "  "]);
    }

    #[test]
    fn line_breaks_give_back_the_indentation() {
        assert_eq!(split("a \r\n \n  b"), ["a", " \r\n \n", " ", " b"]);
        assert_eq!(split("{\r\n\n}"), ["{\r\n\n", "}"]);
    }

    #[test]
    fn punctuation_before_ascii_letters_belongs_to_the_word() {
        assert_eq!(split("it's_é"), ["it", "'s", "_", "é"]);
        assert_eq!(split("(abcé"), ["(abc", "é"]);
        assert_eq!(split("((abc"), ["((", "abc"]);
        assert_eq!(split(" (abc"), [" (", "abc"]);
    }

    #[test]
    fn han_and_kana_runs_are_borders_and_split_at_their_own_punctuation() {
        assert_eq!(split("abc中文 かな・カナ"), ["abc", "中文", " ", "かな", "・", "カナ"]);
    }

    #[test]
    fn characters_without_a_class_prefix_a_word_or_stay_together() {
        assert_eq!(split("\u{1}\u{2}a\u{3}\u{4}"), ["\u{1}", "\u{2}a", "\u{3}\u{4}"]);
        assert_eq!(split("\u{1}\u{301}"), ["\u{1}\u{301}"]);
    }

    /// Where pre-tokens end, found step by step.
    fn ends_one_by_one(text: &str) -> Vec<usize> {
        let mut pre_tokens = PreTokens::new(text);
        std::iter::from_fn(|| pre_tokens.next_end()).collect()
    }

    /// Where pre-tokens end, found by blocks, without the cuts inside of runs.
    fn ends_by_blocks(text: &str) -> Vec<usize> {
        static CUTS: LazyLock<Cuts> = LazyLock::new(|| Cuts::new(&TokenBytes::default()));
        let mut pre_tokens = PreTokens::new(text);
        let (mut all, mut ends) = (Vec::new(), [0; 80]);
        loop {
            let count = pre_tokens.fill(&CUTS, &mut ends);
            if count == 0 {
                break;
            }
            all.extend_from_slice(&ends[..count]);
        }
        let run = |character: Option<char>| character.is_some_and(|character| runs(u32::from(character)));
        all.retain(|&end| !run(text[..end].chars().next_back()) || !run(text[end..].chars().next()));
        all
    }

    #[test]
    fn blocks_end_pre_tokens_where_the_rules_do() {
        // Every sequence of four characters that stand for classes, before and behind all parts of a block.
        let characters = ["a", "(", " ", "\t", "\n", "7", "\u{1}", "é", "中", "・"];
        for number in 0..characters.len().pow(4) {
            let four: String = (0..4).map(|digit| characters[number / 10_usize.pow(digit) % 10]).collect();
            for text in [four.clone() + &"x y".repeat(30), "12 ab\n".repeat(10) + &four, four.repeat(20)] {
                assert_eq!(ends_by_blocks(&text), ends_one_by_one(&text), "{text:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn blocks_end_pre_tokens_of_any_text_where_the_rules_do(
            text in "([a-z]{0,9}|[ \n]{0,3}|[0-9]{0,8}|[(){}.,='\"_-]{0,3}|[ \t\r\n\u{b}]{0,5}|[A-Zé中のー゛・\u{1}\u{3040}\u{301}１]?){0,150}",
        ) {
            prop_assert_eq!(ends_by_blocks(&text), ends_one_by_one(&text));
        }
    }
}
