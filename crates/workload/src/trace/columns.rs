//! The columns of a text line, read from left to right.

use strobe_types::Op;

use super::line::Reason;

/// Nanoseconds in a second, for [`Columns::decimal`].
pub(super) const NS_PER_SECOND: u64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub(super) const NS_PER_MILLISECOND: u64 = 1_000_000;
/// Nanoseconds in a microsecond.
pub(super) const NS_PER_MICROSECOND: u64 = 1_000;

/// The columns not yet read. Every method names the column it takes, for the message.
#[derive(Clone, Debug)]
pub(super) struct Columns<'a> {
    /// `None` after the last column of a CSV line.
    rest: Option<&'a str>,
    csv: bool,
}

impl<'a> Columns<'a> {
    /// Columns between commas; blanks around them are ignored.
    #[inline]
    pub(super) fn csv(line: &'a str) -> Self {
        Self { rest: Some(line), csv: true }
    }

    /// Columns between blanks.
    #[inline]
    pub(super) fn words(line: &'a str) -> Self {
        Self { rest: Some(line), csv: false }
    }

    /// The next column, `None` at the end of the line. A CSV column may be empty.
    #[inline]
    pub(super) fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest?;
        if self.csv {
            let Some(comma) = memchr::memchr(b',', rest.as_bytes()) else {
                self.rest = None;
                return Some(rest.trim_ascii());
            };
            self.rest = Some(&rest[comma + 1..]);
            return Some(rest[..comma].trim_ascii());
        }
        let rest = rest.trim_ascii_start();
        if rest.is_empty() {
            self.rest = None;
            return None;
        }
        let end = rest.bytes().position(|byte| byte.is_ascii_whitespace()).unwrap_or(rest.len());
        self.rest = Some(&rest[end..]);
        Some(&rest[..end])
    }

    /// A column that must be there and not empty.
    #[inline]
    pub(super) fn text(&mut self, name: &str) -> Result<&'a str, Reason> {
        match self.next() {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(format!("column {name} is missing")),
        }
    }

    /// A whole number from 0 on.
    #[inline]
    pub(super) fn whole(&mut self, name: &str) -> Result<u64, Reason> {
        let text = self.text(name)?;
        whole(text).map_err(|fault| fault.reason(name, text))
    }

    /// A whole number times `factor`, which makes bytes of sectors or nanoseconds of a time.
    #[inline]
    pub(super) fn scaled(&mut self, name: &str, factor: u64) -> Result<u64, Reason> {
        let text = self.text(name)?;
        whole(text)
            .and_then(|number| number.checked_mul(factor).ok_or(Fault::TooLarge))
            .map_err(|fault| fault.reason(name, text))
    }

    /// A decimal number of units of `unit_ns` nanoseconds (a power of ten) in nanoseconds.
    /// Digits below one nanosecond are dropped; exponents are not accepted.
    #[inline]
    pub(super) fn decimal(&mut self, name: &str, unit_ns: u64) -> Result<u64, Reason> {
        let text = self.text(name)?;
        decimal(text, unit_ns).map_err(|fault| fault.reason(name, text))
    }

    /// An operation by its name in `choices`, upper or lower case.
    #[inline]
    pub(super) fn op(&mut self, name: &str, choices: &[(&str, Op)]) -> Result<Op, Reason> {
        let text = self.text(name)?;
        match choices.iter().find(|(choice, _)| choice.eq_ignore_ascii_case(text)) {
            Some(&(_, op)) => Ok(op),
            None => {
                let known: Vec<String> =
                    choices.iter().map(|(choice, op)| format!("{choice} ({})", op.name())).collect();
                Err(format!("column {name} must be {}", known.join(" or ")))
            }
        }
    }

    /// Nothing may follow.
    #[inline]
    pub(super) fn end(mut self) -> Result<(), Reason> {
        match self.next() {
            None => Ok(()),
            Some(_) => Err("the line has too many columns; is this another format?".into()),
        }
    }
}

/// What is wrong with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    NotWhole,
    NotDecimal,
    TooLarge,
}

impl Fault {
    #[cold]
    fn reason(self, name: &str, text: &str) -> Reason {
        let what = match self {
            _ if text.starts_with('-') => "must not be negative",
            Fault::NotWhole => "must be a whole number",
            Fault::NotDecimal => "must be a decimal number without exponent",
            Fault::TooLarge => "is too large",
        };
        format!("column {name} {what}")
    }
}

#[inline]
fn whole(text: &str) -> Result<u64, Fault> {
    let mut number = 0u64;
    for byte in text.bytes() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Fault::NotWhole);
        }
        number = push_digit(number, digit)?;
    }
    if text.is_empty() { Err(Fault::NotWhole) } else { Ok(number) }
}

#[inline]
fn push_digit(number: u64, digit: u8) -> Result<u64, Fault> {
    number.checked_mul(10).and_then(|n| n.checked_add(u64::from(digit))).ok_or(Fault::TooLarge)
}

#[inline]
fn decimal(text: &str, unit_ns: u64) -> Result<u64, Fault> {
    let (before, after) = text.split_once('.').unwrap_or((text, "0"));
    if before.is_empty() && after.is_empty() {
        return Err(Fault::NotDecimal);
    }
    let mut total_ns = 0u64;
    for byte in before.bytes() {
        if !byte.is_ascii_digit() {
            return Err(Fault::NotDecimal);
        }
        total_ns = push_digit(total_ns, byte - b'0')?;
    }
    total_ns = total_ns.checked_mul(unit_ns).ok_or(Fault::TooLarge)?;
    let mut place_ns = unit_ns;
    let mut fraction_ns = 0;
    for byte in after.bytes() {
        if !byte.is_ascii_digit() {
            return Err(Fault::NotDecimal);
        }
        place_ns /= 10;
        fraction_ns += u64::from(byte - b'0') * place_ns;
    }
    total_ns.checked_add(fraction_ns).ok_or(Fault::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_exact_and_bounded() {
        assert_eq!(whole("0"), Ok(0));
        assert_eq!(whole("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(whole("18446744073709551616"), Err(Fault::TooLarge));
        assert_eq!(whole("99999999999999999999999"), Err(Fault::TooLarge));
        for text in ["", "-1", "+1", "1.0", "1e3", "0x1", " 1", "\u{661}", "nan"] {
            assert_eq!(whole(text), Err(Fault::NotWhole), "{text}");
        }
    }

    #[test]
    fn decimals_are_exact() {
        for (text, expected_ns) in [
            ("0", 0),
            ("1", 1_000_000_000),
            ("1.", 1_000_000_000),
            (".5", 500_000_000),
            ("0.1", 100_000_000),
            ("0.000000001", 1),
            ("0.0000000019999999999999999999999999", 1),
            ("18446744073.709551615", u64::MAX),
        ] {
            assert_eq!(decimal(text, NS_PER_SECOND), Ok(expected_ns), "{text}");
        }
        assert_eq!(decimal("0.1234567", NS_PER_MILLISECOND), Ok(123_456));
        for text in ["18446744073.709551616", "18446744074", "99999999999999999999999"] {
            assert_eq!(decimal(text, NS_PER_SECOND), Err(Fault::TooLarge), "{text}");
        }
        for text in ["", ".", "-1", "-0.5", "0.-5", "1.2.3", "1e3", "NaN", "inf", "1,5", "+1"] {
            assert_eq!(decimal(text, NS_PER_SECOND), Err(Fault::NotDecimal), "{text}");
        }
    }

    #[test]
    fn columns_are_split_at_commas_or_blanks() {
        let mut csv = Columns::csv(" a ,,b\t");
        assert_eq!([csv.next(), csv.next(), csv.next(), csv.next()], [Some("a"), Some(""), Some("b"), None]);
        let mut words = Columns::words(" a \t b  ");
        assert_eq!([words.next(), words.next(), words.next(), words.next()], [Some("a"), Some("b"), None, None]);
        assert!(Columns::words("a ").end().is_err());
        assert!(Columns::words(" ").end().is_ok());
        assert!(Columns::csv(",").end().is_err());
    }
}
