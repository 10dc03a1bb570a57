//! Arithmetic over columns of numbers: parsing and evaluation of formulas.
//!
//! Written here, and not taken from a library, because a formula is computed for every block of a
//! drive at every choice: columns are evaluated in place, [`LANES`] numbers at a time, with no
//! allocation and nothing that depends on the platform.

/// Numbers per column: small enough to stay in the first-level cache, long enough to vectorise.
pub(crate) const LANES: usize = 256;

/// A column of numbers.
pub(crate) type Column = [f64; LANES];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
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

/// A parsed expression in postfix order.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    steps: Vec<Step>,
    /// Names in the order in which [`Expression::evaluate`] takes their columns.
    variables: Vec<String>,
    depth: usize,
}

/// Working space of an evaluation.
#[derive(Clone, Debug)]
pub(crate) struct Stack(Vec<Column>);

impl Expression {
    /// Parses `text`; the error says what is wrong and where (in bytes, from 1).
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { text, at: 0, nesting: 0, steps: Vec::new(), variables: Vec::new() };
        parser.sum()?;
        if let Some(byte) = parser.peek() {
            return Err(parser.unexpected(byte));
        }
        let (mut depth, mut deepest) = (0usize, 0);
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

    /// The variables, each once, in the order of their columns.
    pub(crate) fn variables(&self) -> &[String] {
        &self.variables
    }

    /// Space to evaluate this expression in.
    pub(crate) fn stack(&self) -> Stack {
        Stack(vec![[0.0; LANES]; self.depth])
    }

    /// Computes the expression for each lane; `fill` writes the column of a variable.
    pub(crate) fn evaluate<'s>(&self, stack: &'s mut Stack, fill: impl Fn(usize, &mut Column)) -> &'s Column {
        let columns = &mut stack.0;
        let mut top = 0;
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

#[inline(always)]
fn map(column: &mut Column, f: impl Fn(f64) -> f64) {
    column.iter_mut().for_each(|x| *x = f(*x));
}

#[inline(always)]
fn zip(columns: &mut [Column], top: usize, f: impl Fn(f64, f64) -> f64) {
    let (below, above) = columns.split_at_mut(top - 1);
    below[top - 2].iter_mut().zip(&above[0]).for_each(|(x, &y)| *x = f(*x, y));
}

/// Small whole exponents are multiplied out: faster, and exact where the product is.
fn power(columns: &mut [Column], top: usize) {
    let exponent = columns[top - 1][0];
    let same = columns[top - 1].iter().all(|&n| n == exponent);
    if same && exponent == libm::trunc(exponent) && (0.0..=16.0).contains(&exponent) {
        let times = exponent as u32;
        map(&mut columns[top - 2], |x| (0..times).fold(1.0, |product, _| product * x));
    } else {
        zip(columns, top, libm::pow);
    }
}

/// Recursive descent: sum → product → sign → power → operand. `^` binds tightest and to the
/// right, so -u^2 is -(u^2), as in mathematics.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    nesting: usize,
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

    fn expect(&mut self, wanted: u8) -> Result<(), String> {
        if self.eat(wanted) {
            return Ok(());
        }
        Err(match self.peek() {
            Some(_) => format!("'{}' expected at {}", char::from(wanted), self.at + 1),
            None => format!("'{}' expected at the end", char::from(wanted)),
        })
    }

    fn unexpected(&self, _byte: u8) -> String {
        let found = self.text[self.at..].chars().next().unwrap_or(' ');
        format!("'{found}' is out of place at {}", self.at + 1)
    }

    fn nested(&mut self, inner: impl FnOnce(&mut Self) -> Result<(), String>) -> Result<(), String> {
        self.nesting += 1;
        if self.nesting > Self::NESTING_MAX {
            return Err(format!("nested deeper than {}", Self::NESTING_MAX));
        }
        inner(self)?;
        self.nesting -= 1;
        Ok(())
    }

    fn sum(&mut self) -> Result<(), String> {
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

    fn product(&mut self) -> Result<(), String> {
        self.signed()?;
        loop {
            let step = match self.peek() {
                Some(b'*') => Step::Multiply,
                Some(b'/') => Step::Divide,
                _ => return Ok(()),
            };
            self.at += 1;
            self.signed()?;
            self.steps.push(step);
        }
    }

    fn signed(&mut self) -> Result<(), String> {
        if self.eat(b'-') {
            self.nested(Self::signed)?;
            self.steps.push(Step::Negate);
            return Ok(());
        }
        if self.eat(b'+') {
            return self.nested(Self::signed);
        }
        self.operand()?;
        if self.eat(b'^') {
            self.nested(Self::signed)?;
            self.steps.push(Step::Power);
        }
        Ok(())
    }

    fn operand(&mut self) -> Result<(), String> {
        match self.peek() {
            None => Err("something is missing at the end".to_owned()),
            Some(b'(') => {
                self.at += 1;
                self.nested(Self::sum)?;
                self.expect(b')')
            }
            Some(byte) if byte.is_ascii_digit() || byte == b'.' => self.number(),
            Some(byte) if byte.is_ascii_alphabetic() => self.word(),
            Some(byte) => Err(self.unexpected(byte)),
        }
    }

    /// The longest run of bytes from here on that `belongs` accepts.
    fn take(&mut self, belongs: impl Fn(u8) -> bool) -> &str {
        let start = self.at;
        let bytes = &self.text.as_bytes()[start..];
        self.at += bytes.iter().take_while(|&&byte| belongs(byte)).count();
        &self.text[start..self.at]
    }

    fn number(&mut self) -> Result<(), String> {
        let start = self.at;
        let mantissa =
            self.take(|byte| byte.is_ascii_digit() || byte == b'.' || byte == b'_').replace('_', "");
        let mut text = mantissa;
        let rest = &self.text.as_bytes()[self.at..];
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
        let value: f64 = text.parse().map_err(|_| format!("\"{text}\" at {} is no number", start + 1))?;
        self.steps.push(Step::Constant(value));
        Ok(())
    }

    fn word(&mut self) -> Result<(), String> {
        let name = self.take(|byte| byte.is_ascii_alphanumeric() || byte == b'_').to_owned();
        let (step, arguments) = match name.as_str() {
            "sqrt" => (Step::Sqrt, 1),
            "abs" => (Step::Abs, 1),
            "exp" => (Step::Exp, 1),
            "log" => (Step::Log, 1),
            "min" => (Step::Min, 2),
            "max" => (Step::Max, 2),
            _ => {
                let index = self.variables.iter().position(|known| *known == name).unwrap_or_else(|| {
                    self.variables.push(name);
                    self.variables.len() - 1
                });
                self.steps.push(Step::Variable(index));
                return Ok(());
            }
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> f64 {
        let expression = Expression::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let mut stack = expression.stack();
        expression.evaluate(&mut stack, |_, column| column.fill(3.0))[LANES - 1]
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
    fn errors_say_where() {
        for (text, expected) in [
            ("", "missing at the end"),
            ("1 +", "missing at the end"),
            ("(1", "')' expected at the end"),
            ("1 2", "'2' is out of place at 3"),
            ("min(1)", "',' expected at 6"),
            ("sqrt 4", "'(' expected at 6"),
            ("1 § 2", "'§' is out of place at 3"),
            ("1.2.3", "is no number"),
        ] {
            let error = Expression::parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(Expression::parse(&"(".repeat(100_000)).expect_err("deep").contains("deeper"));
        assert!(Expression::parse(&"-".repeat(100_000)).expect_err("deep").contains("deeper"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[-+*/^(), .0-9a-ex§]{0,60}") {
            if let Ok(expression) = Expression::parse(&text) {
                let mut stack = expression.stack();
                expression.evaluate(&mut stack, |_, column| column.fill(0.5));
            }
        }
    }
}
