//! Bounds of numbers → regular expressions of the numbers within them.
//!
//! Numbers are compared as they are spelled, digit by digit, so a bound costs as many alternatives as it has digits. Bounded
//! numbers have no exponent.

use std::cmp::Ordering;
use std::fmt::Write as _;

/// Most digits before the point: one more, and the value might not be a number of double precision.
const WHOLE_DIGITS: usize = 308;
/// Most digits of a bound, on either side of its point.
const BOUND_DIGITS: usize = 40;

/// Any integer, as the prompt format spells it.
pub(super) fn integer() -> String {
    format!("0|-?[1-9][0-9]{{0,{}}}", WHOLE_DIGITS - 1)
}

/// Any number without an exponent.
fn plain() -> String {
    format!("-?(?:0|[1-9][0-9]{{0,{}}})(?:\\.[0-9]+)?", WHOLE_DIGITS - 1)
}

/// Any number. An exponent follows one digit before the point, so that none is too large.
pub(super) fn number() -> String {
    format!("{}|-?[1-9](?:\\.[0-9]+)?[eE](?:-[0-9]{{1,3}}|\\+?(?:[0-9]{{1,2}}|[12][0-9]{{2}}|30[0-7]))", plain())
}

/// One side of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) value: Decimal,
    pub(super) excluded: bool,
}

/// A number in decimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decimal {
    negative: bool,
    /// Digits before the point, without leading zeros; "0" if there are none.
    whole: String,
    /// Digits after the point, without trailing zeros.
    fraction: String,
}

impl Decimal {
    /// Reads a JSON number; `None` if it has too many digits.
    pub(super) fn read(literal: &str) -> Option<Self> {
        let (negative, literal) = literal.strip_prefix('-').map_or((false, literal), |rest| (true, rest));
        let (mantissa, exponent) = literal.split_once(['e', 'E']).unwrap_or((literal, "0"));
        let exponent: i32 = exponent.parse().ok()?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if exponent.unsigned_abs() > 400 || whole.len() + fraction.len() > 400 {
            return None;
        }
        let mut digits = format!("{whole}{fraction}");
        let mut point = i32::try_from(whole.len()).ok()? + exponent;
        while point < 0 {
            digits.insert(0, '0');
            point += 1;
        }
        let point = usize::try_from(point).ok()?;
        while digits.len() < point {
            digits.push('0');
        }
        let (whole, fraction) = digits.split_at(point);
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        if whole.len() > BOUND_DIGITS || fraction.len() > BOUND_DIGITS {
            return None;
        }
        let is_zero = whole.is_empty() && fraction.is_empty();
        let whole = if whole.is_empty() { "0" } else { whole };
        Some(Self { negative: negative && !is_zero, whole: whole.to_owned(), fraction: fraction.to_owned() })
    }

    pub(super) fn is_integer(&self) -> bool {
        self.fraction.is_empty()
    }

    fn magnitude(&self, other: &Self) -> Ordering {
        let length = self.whole.len().cmp(&other.whole.len());
        length.then_with(|| self.whole.cmp(&other.whole)).then_with(|| self.fraction.cmp(&other.fraction))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.magnitude(other),
            (true, true) => other.magnitude(self),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What numbers may be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) integer: bool,
    pub(super) least: Option<Bound>,
    pub(super) most: Option<Bound>,
}

impl Range {
    /// Raises the lower side.
    pub(super) fn at_least(&mut self, bound: Bound) {
        let is_tighter = |old: &Bound| (&bound.value, bound.excluded) > (&old.value, old.excluded);
        if self.least.as_ref().is_none_or(is_tighter) {
            self.least = Some(bound);
        }
    }

    /// Lowers the upper side.
    pub(super) fn at_most(&mut self, bound: Bound) {
        let is_tighter = |old: &Bound| (&old.value, bound.excluded) > (&bound.value, old.excluded);
        if self.most.as_ref().is_none_or(is_tighter) {
            self.most = Some(bound);
        }
    }

    /// Whether `value` lies in the range.
    pub(super) fn holds(&self, value: &Decimal) -> bool {
        (!self.integer || value.is_integer())
            && self.least.as_ref().is_none_or(|least| *value > least.value || *value == least.value && !least.excluded)
            && self.most.as_ref().is_none_or(|most| *value < most.value || *value == most.value && !most.excluded)
    }

    /// Whether no number lies in the range.
    pub(super) fn is_empty(&self) -> bool {
        let (Some(least), Some(most)) = (&self.least, &self.most) else { return false };
        match least.value.cmp(&most.value) {
            Ordering::Greater => true,
            Ordering::Equal => least.excluded || most.excluded || self.integer && !least.value.is_integer(),
            Ordering::Less if self.integer => !self.holds(&next_integer(&least.value, least.excluded)),
            Ordering::Less => false,
        }
    }

    /// Expressions that the numbers of the range match, all of them.
    pub(super) fn expressions(&self) -> Vec<String> {
        let is_open = self.least.is_none() && self.most.is_none();
        let base = match (self.integer, is_open) {
            (true, _) => integer(),
            (false, true) => number(),
            (false, false) => plain(),
        };
        let least = self.least.as_ref().map(|bound| at_least(&bound.value, bound.excluded));
        let most = self.most.as_ref().map(|bound| at_most(&bound.value, bound.excluded));
        [Some(base), least, most].into_iter().flatten().collect()
    }
}

/// The lowest integer above `value`, or `value` itself if it is one and counts.
fn next_integer(value: &Decimal, excluded: bool) -> Decimal {
    let mut integer = Decimal { fraction: String::new(), ..value.clone() };
    if value.negative {
        // The whole part is above a negative value with a fraction.
        if value.is_integer() && excluded {
            integer.whole = minus_one(&value.whole);
            integer.negative = integer.whole != "0";
        } else if integer.whole == "0" {
            integer.negative = false;
        }
    } else if !value.is_integer() || excluded {
        integer.whole = plus_one(&value.whole);
    }
    integer
}

fn plus_one(digits: &str) -> String {
    let mut digits = format!("0{digits}").into_bytes();
    for digit in digits.iter_mut().rev() {
        if *digit == b'9' {
            *digit = b'0';
        } else {
            *digit += 1;
            break;
        }
    }
    trimmed(digits)
}

fn minus_one(digits: &str) -> String {
    let mut digits = digits.as_bytes().to_vec();
    for digit in digits.iter_mut().rev() {
        if *digit == b'0' {
            *digit = b'9';
        } else {
            *digit -= 1;
            break;
        }
    }
    trimmed(digits)
}

fn trimmed(digits: Vec<u8>) -> String {
    let text: String = digits.into_iter().map(char::from).collect();
    let rest = text.trim_start_matches('0');
    if rest.is_empty() { "0".to_owned() } else { rest.to_owned() }
}

const UNSIGNED: &str = "(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?";

/// Numbers of at least `value`, or above it.
fn at_least(value: &Decimal, excluded: bool) -> String {
    if value.negative { format!("{UNSIGNED}|-(?:{})", not_above(value, excluded)) } else { not_below(value, excluded) }
}

/// Numbers of at most `value`, or below it.
fn at_most(value: &Decimal, excluded: bool) -> String {
    match (value.negative, not_above(value, excluded)) {
        (true, _) => format!("-(?:{})", not_below(value, excluded)),
        (false, none) if none.is_empty() => {
            let above_zero = not_below(value, true);
            format!("-(?:{above_zero})")
        }
        (false, within) => format!("-{UNSIGNED}|{within}"),
    }
}

/// Digits that come after (or before) those of `digits` in at least one place, as alternatives: what they share, then the
/// class of the digit that differs, then `rest` for so many places.
fn differing(digits: &str, larger: bool, lowest: u8, mut each: impl FnMut(&str, String, usize)) {
    for (place, digit) in digits.bytes().enumerate() {
        let least = if place == 0 { lowest } else { b'0' };
        let (from, to) = if larger { (digit + 1, b'9') } else { (least, digit.saturating_sub(1)) };
        if from <= to && (larger || digit > least) {
            let class = format!("[{}-{}]", char::from(from), char::from(to));
            each(&digits[..place], class, digits.len() - place - 1);
        }
    }
}

/// Unsigned numbers of at least `value`'s magnitude, or above it.
fn not_below(value: &Decimal, excluded: bool) -> String {
    let (whole, fraction) = (value.whole.as_str(), value.fraction.as_str());
    let mut out = format!("[1-9][0-9]{{{},}}(?:\\.[0-9]+)?", whole.len());
    differing(whole, true, b'0', |same, class, left| {
        let _ = write!(out, "|{same}{class}[0-9]{{{left}}}(?:\\.[0-9]+)?");
    });
    match (fraction.is_empty(), excluded) {
        (true, false) => {
            let _ = write!(out, "|{whole}(?:\\.[0-9]+)?");
        }
        (true, true) => {
            let _ = write!(out, "|{whole}\\.[0-9]*[1-9][0-9]*");
        }
        (false, _) => {
            differing(fraction, true, b'0', |same, class, _| {
                let _ = write!(out, "|{whole}\\.{same}{class}[0-9]*");
            });
            let more = if excluded { "[0-9]*[1-9][0-9]*" } else { "[0-9]*" };
            let _ = write!(out, "|{whole}\\.{fraction}{more}");
        }
    }
    out
}

/// Unsigned numbers of at most `value`'s magnitude, or below it; empty if there are none.
fn not_above(value: &Decimal, excluded: bool) -> String {
    let (whole, fraction) = (value.whole.as_str(), value.fraction.as_str());
    let mut out: Vec<String> = Vec::new();
    if whole.len() > 1 {
        out.push(format!("(?:0|[1-9][0-9]{{0,{}}})(?:\\.[0-9]+)?", whole.len() - 2));
    }
    let lowest = if whole.len() > 1 { b'1' } else { b'0' };
    differing(whole, false, lowest, |same, class, left| {
        out.push(format!("{same}{class}[0-9]{{{left}}}(?:\\.[0-9]+)?"));
    });
    if fraction.is_empty() {
        if !excluded {
            out.push(format!("{whole}(?:\\.0+)?"));
        }
    } else {
        out.push(whole.to_owned());
        differing(fraction, false, b'0', |same, class, _| out.push(format!("{whole}\\.{same}{class}[0-9]*")));
        let prefixes = (1..fraction.len()).map(|length| &fraction[..length]);
        out.extend(prefixes.map(|prefix| format!("{whole}\\.{prefix}")));
        if !excluded {
            out.push(format!("{whole}\\.{fraction}0*"));
        }
    }
    out.join("|")
}
