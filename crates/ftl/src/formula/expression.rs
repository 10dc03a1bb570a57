//! Arithmetic over columns of numbers: parsing and evaluation of formulas.
//!
//! A victim formula is computed for every block at every choice. So columns are evaluated in place, [`LANES`]
//! numbers in one pass, without allocation. Results are equal on all platforms.

use std::ops::Range;

/// Numbers per column: small enough for the first-level cache, long enough to vectorise.
pub(crate) const LANES: usize = 256;

pub(crate) type Column<const L: usize = LANES> = [f64; L];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    Constant(f64),
    Variable(usize),
    Negate,
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    Min,
    Max,
    Sqrt,
    Abs,
    Exp,
    Log,
}

const FUNCTIONS: [(&str, Step, u32); 6] = [
    ("sqrt", Step::Sqrt, 1),
    ("abs", Step::Abs, 1),
    ("exp", Step::Exp, 1),
    ("log", Step::Log, 1),
    ("min", Step::Min, 2),
    ("max", Step::Max, 2),
];

pub(crate) fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|&(name, ..)| name)
}

#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub(super) steps: Vec<Step>,
    variables: Vec<String>,
    depth: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Stack<const L: usize = LANES>(Vec<Column<L>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParseError {
    pub(crate) fault: Fault,
    /// Byte offset, from 0; the length of the text if something is missing at its end.
    pub(crate) at: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    UnknownVariable(String),
    UnknownFunction(String),
    Syntax(String),
}

impl Expression {
    pub(crate) fn parse(text: &str, known: &[&str]) -> Result<Self, ParseError> {
        let text = &in_ascii(text);
        let (steps, variables) = (Vec::new(), Vec::new());
        let mut parser = Parser { text, known, at: 0, nesting: 0, last: 0..0, steps, variables };
        parser.sum()?;
        if parser.peek().is_some() {
            return Err(parser.unexpected());
        }
        let (mut depth, mut deepest) = (0usize, 0);
        // The deepest stack is allocated once, before any evaluation: each step has a known number of
        // operands.
        for step in &parser.steps {
            match step {
                Step::Constant(_) | Step::Variable(_) => depth += 1,
                Step::Negate | Step::Sqrt | Step::Abs | Step::Exp | Step::Log => {}
                _ => depth -= 1,
            }
            deepest = deepest.max(depth);
        }
        Ok(Self { steps: parser.steps, variables: parser.variables, depth: deepest })
    }

    pub(crate) fn variables(&self) -> &[String] {
        &self.variables
    }

    pub(crate) fn stack<const L: usize>(&self) -> Stack<L> {
        Stack(vec![[0.0; L]; self.depth])
    }

    pub(crate) fn evaluate<'s, const L: usize>(
        &self,
        stack: &'s mut Stack<L>,
        fill: impl Fn(usize, &mut Column<L>),
    ) -> &'s Column<L> {
        let columns = &mut stack.0;
        let mut top = 0;
        // `top` columns are in use. A binary step leaves its result in the lower of its two columns.
        for step in &self.steps {
            match *step {
                Step::Constant(value) => columns[top].fill(value),
                Step::Variable(index) => fill(index, &mut columns[top]),
                Step::Negate => map(&mut columns[top - 1], |x| -x),
                Step::Sqrt => map(&mut columns[top - 1], f64::sqrt),
                Step::Abs => map(&mut columns[top - 1], f64::abs),
                Step::Exp => map(&mut columns[top - 1], libm::exp),
                Step::Log => map(&mut columns[top - 1], libm::log),
                Step::Add => zip(columns, top, |x, y| x + y),
                Step::Subtract => zip(columns, top, |x, y| x - y),
                Step::Multiply => zip(columns, top, |x, y| x * y),
                Step::Divide => zip(columns, top, |x, y| x / y),
                Step::Min => zip(columns, top, f64::min),
                Step::Max => zip(columns, top, f64::max),
                Step::Power => power(columns, top),
            }
            match step {
                Step::Constant(_) | Step::Variable(_) => top += 1,
                Step::Negate | Step::Sqrt | Step::Abs | Step::Exp | Step::Log => {}
                _ => top -= 1,
            }
        }
        &columns[0]
    }
}

/// Printed mathematical signs and ASCII forms of equal length in bytes, which keeps error positions right.
const SIGNS: [(&str, &str); 6] =
    [("·", "* "), ("×", "* "), ("÷", "/ "), ("−", "-  "), ("²", "^2"), ("³", "^3")];

fn in_ascii(text: &str) -> String {
    SIGNS.iter().fold(text.to_owned(), |text, (sign, ascii)| text.replace(sign, ascii))
}

fn map<const L: usize>(column: &mut Column<L>, f: impl Fn(f64) -> f64) {
    column.iter_mut().for_each(|x| *x = f(*x));
}

fn zip<const L: usize>(columns: &mut [Column<L>], top: usize, f: impl Fn(f64, f64) -> f64) {
    let (below, above) = columns.split_at_mut(top - 1);
    below[top - 2].iter_mut().zip(&above[0]).for_each(|(x, &y)| *x = f(*x, y));
}

/// Small whole exponents are multiplied out: faster, and exact where the product is.
fn power<const L: usize>(columns: &mut [Column<L>], top: usize) {
    let exponent = columns[top - 1][0];
    let same = columns[top - 1].iter().all(|&n| n == exponent);
    if same && exponent == libm::trunc(exponent) && (0.0..=16.0).contains(&exponent) {
        let times = exponent as u32;
        map(&mut columns[top - 2], |x| (0..times).fold(1.0, |product, _| product * x));
    } else {
        zip(columns, top, libm::pow);
    }
}

/// Recursive descent: sum → product → sign → power → operand. `^` binds tightest and to the right.
struct Parser<'a> {
    text: &'a str,
    known: &'a [&'a str],
    at: usize,
    nesting: usize,
    last: Range<usize>,
    steps: Vec<Step>,
    variables: Vec<String>,
}

impl Parser<'_> {
    /// Bounds the recursion, and with it the evaluation stack.
    const NESTING_MAX: usize = 64;

    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    fn fails(&self, at: usize, reason: impl Into<String>) -> ParseError {
        ParseError { fault: Fault::Syntax(reason.into()), at }
    }

    fn expect(&mut self, wanted: u8) -> Result<(), ParseError> {
        if self.eat(wanted) {
            return Ok(());
        }
        let end = if self.peek().is_none() { " at the end" } else { "" };
        Err(self.fails(self.at, format!("'{}' is missing{end}", char::from(wanted))))
    }

    fn unexpected(&self) -> ParseError {
        let found = self.text[self.at..].chars().next().unwrap_or(' ');
        self.fails(self.at, format!("unexpected '{found}'"))
    }

    fn operand_follows(&mut self) -> bool {
        self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || b".(".contains(&byte))
    }

    #[cold]
    fn operator_missing(&self) -> ParseError {
        let (left, right) = (&self.text[self.last.clone()], &self.text[self.at..]);
        let end = right.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
        let right = &right[..end.unwrap_or(right.len())];
        let is_short = |text: &str| !text.is_empty() && text.len() <= 20;
        let cure = if is_short(left) && is_short(right) {
            format!("; to multiply, write {left} * {right}")
        } else {
            "; to multiply, write *".to_owned()
        };
        self.fails(self.at, format!("an operator is missing{cure}"))
    }

    fn nested(&mut self, inner: impl FnOnce(&mut Self) -> Result<(), ParseError>) -> Result<(), ParseError> {
        self.nesting += 1;
        if self.nesting > Self::NESTING_MAX {
            return Err(self.fails(self.at, format!("it is nested deeper than {}", Self::NESTING_MAX)));
        }
        inner(self)?;
        self.nesting -= 1;
        Ok(())
    }

    fn sum(&mut self) -> Result<(), ParseError> {
        self.product()?;
        loop {
            let step = match self.peek() {
                Some(b'+') => Step::Add,
                Some(b'-') => Step::Subtract,
                _ => return Ok(()),
            };
            self.at += 1;
            self.product()?;
            self.steps.push(step);
        }
    }

    fn product(&mut self) -> Result<(), ParseError> {
        self.signed()?;
        loop {
            let step = match self.peek() {
                Some(b'*') => Step::Multiply,
                Some(b'/') => Step::Divide,
                _ if self.operand_follows() => return Err(self.operator_missing()),
                _ => return Ok(()),
            };
            self.at += 1;
            self.signed()?;
            self.steps.push(step);
        }
    }

    fn signed(&mut self) -> Result<(), ParseError> {
        if self.eat(b'-') {
            self.nested(Self::signed)?;
            self.steps.push(Step::Negate);
            return Ok(());
        }
        if self.eat(b'+') {
            return self.nested(Self::signed);
        }
        self.operand()?;
        // Right-associative: the exponent may have a sign and a power.
        if self.eat(b'^') {
            self.nested(Self::signed)?;
            self.steps.push(Step::Power);
        }
        Ok(())
    }

    fn operand(&mut self) -> Result<(), ParseError> {
        let next = self.peek();
        let start = self.at;
        match next {
            None => Err(self.fails(self.at, "an operand is missing at the end")),
            Some(b'(') => {
                self.at += 1;
                self.nested(Self::sum)?;
                self.expect(b')')
            }
            Some(byte) if byte.is_ascii_digit() || byte == b'.' => self.number(),
            Some(byte) if byte.is_ascii_alphabetic() => self.word(),
            Some(_) => Err(self.unexpected()),
        }?;
        self.last = start..self.at;
        Ok(())
    }

    fn take(&mut self, belongs: impl Fn(u8) -> bool) -> &str {
        let start = self.at;
        let bytes = &self.text.as_bytes()[start..];
        self.at += bytes.iter().take_while(|&&byte| belongs(byte)).count();
        &self.text[start..self.at]
    }

    fn number(&mut self) -> Result<(), ParseError> {
        let start = self.at;
        let mantissa =
            self.take(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b'_').replace('_', "");
        let mut text = mantissa;
        let rest = &self.text.as_bytes()[self.at..];
        // Without digits behind it, an `e` is no exponent.
        let exponent = match rest {
            [b'e' | b'E', b'+' | b'-', digit, ..] if digit.is_ascii_digit() => 2,
            [b'e' | b'E', digit, ..] if digit.is_ascii_digit() => 1,
            _ => 0,
        };
        if exponent > 0 {
            text.push_str(&self.text[self.at..self.at + exponent]);
            self.at += exponent;
            text.push_str(self.take(|byte| byte.is_ascii_digit()));
        }
        let value: f64 = text.parse().map_err(|_| self.fails(start, format!("{text} is not a number")))?;
        self.steps.push(Step::Constant(value));
        Ok(())
    }

    fn word(&mut self) -> Result<(), ParseError> {
        let start = self.at;
        let name = self.take(|byte| byte.is_ascii_alphanumeric() || byte == b'_').to_owned();
        let Some(&(_, step, arguments)) = FUNCTIONS.iter().find(|(function, ..)| *function == name) else {
            return self.variable(name, start);
        };
        self.expect(b'(')?;
        self.nested(Self::sum)?;
        if arguments == 2 {
            self.expect(b',')?;
            self.nested(Self::sum)?;
        }
        self.expect(b')')?;
        self.steps.push(step);
        Ok(())
    }

    fn variable(&mut self, name: String, start: usize) -> Result<(), ParseError> {
        if !self.known.contains(&name.as_str()) {
            let is_called = self.peek() == Some(b'(');
            let fault = if is_called { Fault::UnknownFunction(name) } else { Fault::UnknownVariable(name) };
            return Err(ParseError { fault, at: start });
        }
        // A variable has one column, however often it occurs.
        let index = self.variables.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.variables.push(name);
            self.variables.len() - 1
        });
        self.steps.push(Step::Variable(index));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> f64 {
        let expression = Expression::parse(text, &["x"]).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        let (mut columns, mut single) = (expression.stack::<LANES>(), expression.stack::<1>());
        let value = expression.evaluate(&mut columns, |_, column| column.fill(3.0))[LANES - 1];
        let [alone] = *expression.evaluate(&mut single, |_, column| column.fill(3.0));
        assert_eq!(alone.to_bits(), value.to_bits(), "{text}: a single number differs from a column");
        value
    }

    #[test]
    fn precedence_is_that_of_mathematics() {
        assert_eq!(value("1 + 2 * 3"), 7.0);
        assert_eq!(value("10 - 4 - 3"), 3.0);
        assert_eq!(value("24 / 4 / 3"), 2.0);
        assert_eq!(value("24 / 4 * 3"), 18.0);
        assert_eq!(value("-2^2"), -4.0);
        assert_eq!(value("2^3^2"), 512.0);
        assert_eq!(value("2^-1"), 0.5);
        assert_eq!(value("(1 + 2) * x"), 9.0);
        assert_eq!(value("--x + +x"), 6.0);
        assert_eq!(value("max(min(x, 2), 1.5e0) + sqrt(16) + abs(-1) + log(exp(2))"), 9.0);
        assert_eq!(value("1_000 + .5"), 1000.5);
    }

    #[test]
    fn signs_of_printed_mathematics_mean_the_same() {
        assert_eq!(value("x·(1−x)÷(1+x)²"), value("x*(1-x)/(1+x)^2"));
        assert_eq!(value("2 × x³ − 1"), 53.0);
        for (sign, ascii) in SIGNS {
            assert_eq!(sign.len(), ascii.len(), "{sign}: errors would name another place");
        }
        assert_eq!(fault("x·(1−x) ?"), (Fault::Syntax("unexpected '?'".to_owned()), 11));
    }

    fn fault(text: &str) -> (Fault, usize) {
        let error = Expression::parse(text, &["x", "y2"]).expect_err(text);
        (error.fault, error.at)
    }

    #[test]
    fn errors_say_where() {
        for (text, expected, at) in [
            ("", "an operand is missing at the end", 0),
            ("1 + ", "an operand is missing at the end", 4),
            ("(1", "')' is missing at the end", 2),
            ("min(1)", "',' is missing", 5),
            ("sqrt 4", "'(' is missing", 5),
            ("1 § 2", "unexpected '§'", 2),
            ("1)", "unexpected ')'", 1),
            ("1 + 1.2.3", "1.2.3 is not a number", 4),
        ] {
            assert_eq!(fault(text), (Fault::Syntax(expected.to_owned()), at), "{text}");
        }
        for deep in ["(", "-"] {
            let error = Expression::parse(&deep.repeat(100_000), &[]).expect_err("deep");
            assert!(format!("{error:?}").contains("deeper"), "{error:?}");
        }
    }

    #[test]
    fn names_are_told_apart() {
        assert_eq!(fault("x * X"), (Fault::UnknownVariable("X".to_owned()), 4));
        assert_eq!(fault("x + sin (x)"), (Fault::UnknownFunction("sin".to_owned()), 4));
        assert_eq!(fault("Sqrt(x)"), (Fault::UnknownFunction("Sqrt".to_owned()), 0));
    }

    #[test]
    fn a_multiplication_without_a_sign_is_answered_with_the_sign() {
        for (text, cure, at) in [
            ("2x", "2 * x", 1),
            ("1 + 2.5 y2", "2.5 * y2", 8),
            ("1 2", "1 * 2", 2),
            ("x x", "x * x", 2),
            ("(2x)", "2 * x", 2),
            ("min(2x, 1)", "2 * x", 5),
            ("x(1 - x)", "*", 1),
            ("(1 - x)(1 + x)", "*", 7),
        ] {
            let expected = format!("an operator is missing; to multiply, write {cure}");
            assert_eq!(fault(text), (Fault::Syntax(expected), at), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[-+*/^(), .0-9a-ex§]{0,60}") {
            if let Ok(expression) = Expression::parse(&text, &["a", "b", "c", "x"]) {
                let mut stack = expression.stack::<LANES>();
                expression.evaluate(&mut stack, |_, column| column.fill(0.5));
            }
        }
    }
}
