use strobe_types::Op;

use super::problem::Reason;

pub(super) const NS_PER_SECOND: u64 = 1_000_000_000;
pub(super) const NS_PER_MILLISECOND: u64 = 1_000_000;
pub(super) const NS_PER_MICROSECOND: u64 = 1_000;

const FRACTION_SCALE_MAX: u64 = 1_000_000_000_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct Columns<'a> {
    rest: Option<&'a str>,
    csv: bool,
}

impl<'a> Columns<'a> {
    #[inline]
    pub(super) fn csv(line: &'a str) -> Self {
        Self { rest: Some(line), csv: true }
    }

    #[inline]
    pub(super) fn words(line: &'a str) -> Self {
        Self { rest: Some(line), csv: false }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<&'a str> {
        let rest = if self.csv { self.rest? } else { self.rest?.trim_ascii_start() };
        // Columns are short: a plain loop is faster than memchr.
        let end = rest.bytes().position(|byte| self.ends_at(byte));
        self.rest = end.map(|end| &rest[end + 1..]);
        let column = &rest[..end.unwrap_or(rest.len())];
        if self.csv {
            return Some(column.trim_ascii());
        }
        if column.is_empty() { None } else { Some(column) }
    }

    #[inline]
    fn ends_at(&self, byte: u8) -> bool {
        if self.csv { byte == b',' } else { byte.is_ascii_whitespace() }
    }

    #[inline]
    fn plain_number(&self) -> Option<(u64, Option<&'a str>)> {
        let rest = if self.csv { self.rest? } else { self.rest?.trim_ascii_start() };
        let (number, length) = leading_digits(rest.as_bytes());
        // 19 digits cannot overflow. Other columns take the slow path, which reports errors.
        if length == 0 || length > 19 {
            return None;
        }
        match rest.as_bytes().get(length) {
            None => Some((number, None)),
            Some(&byte) if self.ends_at(byte) => Some((number, Some(&rest[length + 1..]))),
            Some(_) => None,
        }
    }

    #[inline]
    pub(super) fn text(&mut self, name: &str) -> Result<&'a str, Reason> {
        match self.next() {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(missing(name)),
        }
    }

    #[inline]
    pub(super) fn whole(&mut self, name: &str) -> Result<u64, Reason> {
        self.scaled(name, 1)
    }

    #[inline]
    pub(super) fn scaled(&mut self, name: &str, factor: u64) -> Result<u64, Reason> {
        if let Some((number, rest)) = self.plain_number()
            && let Some(scaled) = number.checked_mul(factor)
        {
            self.rest = rest;
            return Ok(scaled);
        }
        self.scaled_slowly(name, factor)
    }

    #[cold]
    fn scaled_slowly(&mut self, name: &str, factor: u64) -> Result<u64, Reason> {
        let text = self.text(name)?;
        whole(text)
            .and_then(|number| number.checked_mul(factor).ok_or(Fault::TooLarge))
            .map_err(|fault| fault.reason(name, text))
    }

    /// Parses a decimal number of units of `unit_ns`; returns ns, rounded down. Exponents are not accepted.
    #[inline]
    pub(super) fn decimal(&mut self, name: &str, unit_ns: u64) -> Result<u64, Reason> {
        let text = self.text(name)?;
        decimal(text, unit_ns).map_err(|fault| fault.reason(name, text))
    }

    #[inline]
    pub(super) fn op(&mut self, name: &str, choices: &[(&str, Op)]) -> Result<Op, Reason> {
        let text = self.text(name)?;
        match choices.iter().find(|(choice, _)| choice.eq_ignore_ascii_case(text)) {
            Some(&(_, op)) => Ok(op),
            None => Err(not_among(name, choices)),
        }
    }

    #[inline]
    pub(super) fn end(mut self) -> Result<(), Reason> {
        match self.next() {
            None => Ok(()),
            Some(_) => Err("the line has too many columns; is this another format?".into()),
        }
    }
}

#[cold]
fn missing(name: &str) -> Reason {
    format!("column {name} is missing")
}

#[cold]
fn not_among(name: &str, choices: &[(&str, Op)]) -> Reason {
    let known: Vec<String> = choices.iter().map(|(choice, op)| format!("{choice} ({})", op.name())).collect();
    format!("column {name} must be {}", known.join(" or "))
}

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
fn leading_digits(bytes: &[u8]) -> (u64, usize) {
    let mut number = 0u64;
    for (index, byte) in bytes.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (number, index);
        }
        number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    (number, bytes.len())
}

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
    let bytes = text.as_bytes();
    let (mut units, length) = leading_digits(bytes);
    if length > 19 {
        units = whole(&text[..length])?;
    }
    let whole_ns = units.checked_mul(unit_ns).ok_or(Fault::TooLarge)?;
    let fraction = match bytes.get(length) {
        None if length > 0 => return Ok(whole_ns),
        Some(b'.') if bytes.len() > 1 => &bytes[length + 1..],
        _ => return Err(Fault::NotDecimal),
    };
    // 18 digits fit in 64 bits; further ones are below a nanosecond.
    let (mut digits, mut scale) = (0u64, 1u64);
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Fault::NotDecimal);
        }
        if scale < FRACTION_SCALE_MAX {
            digits = digits * 10 + u64::from(digit);
            scale *= 10;
        }
    }
    let fraction_ns = match digits.checked_mul(unit_ns) {
        Some(product) => product / scale,
        None => (u128::from(digits) * u128::from(unit_ns) / u128::from(scale)) as u64,
    };
    whole_ns.checked_add(fraction_ns).ok_or(Fault::TooLarge)
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
        for (text, unit_ns, expected_ns) in
            [("1.5", 7, 10), ("0.999", 1, 0), ("2.25", 400, 900), ("0.5", u64::MAX, u64::MAX / 2)]
        {
            assert_eq!(decimal(text, unit_ns), Ok(expected_ns), "{text} of {unit_ns} ns");
        }
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
        assert_eq!(
            [words.next(), words.next(), words.next(), words.next()],
            [Some("a"), Some("b"), None, None]
        );
        assert!(Columns::words("a ").end().is_err());
        assert!(Columns::words(" ").end().is_ok());
        assert!(Columns::csv(",").end().is_err());
        let mut numbers = Columns::csv("12, 34 ,5");
        assert_eq!([numbers.whole("a"), numbers.scaled("b", 2), numbers.whole("c")], [Ok(12), Ok(68), Ok(5)]);
        assert_eq!(numbers.whole("d"), Err("column d is missing".into()));
        let mut numbers = Columns::words("12\t 0000000000000000000034 5x");
        assert_eq!([numbers.whole("a"), numbers.scaled("b", 2)], [Ok(12), Ok(68)]);
        assert_eq!(numbers.whole("c"), Err("column c must be a whole number".into()));
    }
}
