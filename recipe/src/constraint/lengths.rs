//! How long texts are that an expression matches: whether any has a length that is wanted.
//!
//! The lengths of a sequence are the sums of those of its parts, so they are found from the expression alone. Owns a set of
//! lengths as bits; sums cost the product of its sizes, up to [`WORK_LIMIT`].

use regex_syntax::hir::{Hir, HirKind};

/// Most words of bits written.
const WORK_LIMIT: usize = 20_000_000;

/// Whether `expression` matches a text of at least `least` and at most `most` characters; `None` if that takes too long to
/// tell.
pub(super) fn any_between(expression: &str, least: usize, most: Option<usize>) -> Option<bool> {
    let hir = regex_syntax::parse(expression).ok()?;
    let mut finder = Finder { top: most.unwrap_or(least), is_open: most.is_none(), work: 0 };
    let lengths = finder.lengths(&hir)?;
    Some((least..=finder.top).any(|length| has(&lengths, length)))
}

/// Lengths from 0 to a top; where there is no upper bound, the top stands for all that are longer.
type Lengths = Vec<u64>;

fn has(lengths: &Lengths, length: usize) -> bool {
    lengths[length / 64] >> (length % 64) & 1 == 1
}

struct Finder {
    top: usize,
    is_open: bool,
    work: usize,
}

impl Finder {
    fn none(&self) -> Lengths {
        vec![0; self.top / 64 + 1]
    }

    fn only(&self, length: usize) -> Lengths {
        let mut lengths = self.none();
        self.add(&mut lengths, length);
        lengths
    }

    fn add(&self, lengths: &mut Lengths, length: usize) {
        let length = if self.is_open { length.min(self.top) } else { length };
        if length <= self.top {
            lengths[length / 64] |= 1 << (length % 64);
        }
    }

    fn lengths(&mut self, hir: &Hir) -> Option<Lengths> {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => Some(self.only(0)),
            HirKind::Literal(literal) => Some(self.only(String::from_utf8_lossy(&literal.0).chars().count())),
            HirKind::Class(class) if class.is_empty() => Some(self.none()),
            HirKind::Class(_) => Some(self.only(1)),
            HirKind::Capture(capture) => self.lengths(&capture.sub),
            HirKind::Concat(parts) => {
                let mut sum = self.only(0);
                for part in parts {
                    let part = self.lengths(part)?;
                    sum = self.sum(&sum, &part)?;
                }
                Some(sum)
            }
            HirKind::Alternation(choices) => {
                let mut all = self.none();
                for choice in choices {
                    let choice = self.lengths(choice)?;
                    all.iter_mut().zip(choice).for_each(|(all, choice)| *all |= choice);
                }
                Some(all)
            }
            HirKind::Repetition(repetition) => {
                let once = self.lengths(&repetition.sub)?;
                let least = self.times(&once, repetition.min)?;
                let mut perhaps = once;
                self.add(&mut perhaps, 0);
                // More repetitions than there are characters bring nothing new.
                let rest = repetition.max.map_or(u32::MAX, |most| most - repetition.min);
                let rest = rest.min(u32::try_from(self.top).ok()?.saturating_add(1));
                let rest = self.times(&perhaps, rest)?;
                self.sum(&least, &rest)
            }
        }
    }

    /// Sums of `count` lengths, by squaring.
    fn times(&mut self, once: &Lengths, mut count: u32) -> Option<Lengths> {
        let (mut sum, mut power) = (self.only(0), once.clone());
        while count > 0 {
            if count & 1 == 1 {
                sum = self.sum(&sum, &power)?;
            }
            count >>= 1;
            if count > 0 {
                power = self.sum(&power, &power)?;
            }
        }
        Some(sum)
    }

    fn sum(&mut self, left: &Lengths, right: &Lengths) -> Option<Lengths> {
        let ones = |lengths: &Lengths| lengths.iter().map(|word| word.count_ones()).sum::<u32>();
        let (few, many) = if ones(left) <= ones(right) { (left, right) } else { (right, left) };
        let mut sum = self.none();
        for length in (0..=self.top).filter(|&length| has(few, length)) {
            self.work += sum.len() + 1;
            if self.work > WORK_LIMIT {
                return None;
            }
            self.shift(many, length, &mut sum);
        }
        Some(sum)
    }

    /// Adds `by` to all lengths.
    fn shift(&self, lengths: &Lengths, by: usize, sum: &mut Lengths) {
        let (words, bits) = (by / 64, by % 64);
        for place in words..sum.len() {
            sum[place] |= lengths[place - words] << bits;
            if bits > 0 && place > words {
                sum[place] |= lengths[place - words - 1] >> (64 - bits);
            }
        }
        if let Some(last) = sum.last_mut() {
            *last &= u64::MAX >> (63 - self.top % 64);
        }
        let is_over = |length: usize| length + by > self.top;
        if self.is_open
            && (self.top.saturating_sub(by)..=self.top).any(|length| is_over(length) && has(lengths, length))
        {
            self.add(sum, self.top);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::any_between;

    #[test]
    fn table() {
        for (expression, least, most, found) in [
            ("(?:ab)*", 3, Some(3), false),
            ("(?:ab)*", 3, Some(4), true),
            ("(?:ab)*", 3, None, true),
            ("(?:é|日本){2}", 5, None, false),
            ("(?:é|日本){2}", 3, Some(3), true),
            ("a{2,5}b?", 7, Some(9), false),
            ("a{2,5}b?", 6, Some(6), true),
            (r"[^\s\S]|a", 2, None, false),
            (r"[^\s\S]", 0, None, false),
            ("", 0, Some(0), true),
            ("(?s:.*)x(?s:.*)", 200, Some(200), true),
            ("(?s:.*)x(?s:.*)", 0, Some(0), false),
            ("(?:a{7}){3,}", 64, Some(69), false),
            ("(?:a{7}){3,}", 64, Some(70), true),
            ("(?:a{7}){3,}", 1000, None, true),
        ] {
            assert_eq!(any_between(expression, least, most), Some(found), "{expression} {least} {most:?}");
        }
    }

    #[test]
    fn what_takes_too_long_is_not_told() {
        assert_eq!(any_between("(?:(?:ab|c)*(?:def)*g?){500}", 16_000, Some(16_384)), None);
    }
}
