//! Value range of a formula, by interval arithmetic.
//!
//! Each step takes intervals instead of numbers. With x from 1 to 3, `2 * x - x` yields -1 to 5, as the two x
//! count as independent. The true range, 1 to 3, lies within.

use super::expression::{Expression, Step};

pub(crate) type Bounds = (f64, f64);

impl Expression {
    /// Range of the value; `None` if unknown, possibly infinite or not a number.
    pub(crate) fn bounds(&self, of: impl Fn(usize) -> Bounds) -> Option<Bounds> {
        let mut stack: Vec<Bounds> = Vec::new();
        for step in &self.steps {
            let top = match *step {
                Step::Constant(value) => Some((value, value)),
                Step::Variable(index) => Some(of(index)),
                Step::Negate | Step::Sqrt | Step::Abs | Step::Exp | Step::Log => of_one(*step, stack.pop()?),
                _ => {
                    let right = stack.pop()?;
                    of_two(*step, stack.pop()?, right)
                }
            };
            // A step without finite bounds leaves the whole formula unbounded.
            stack.push(top.filter(|(low, high)| low.is_finite() && high.is_finite())?);
        }
        stack.pop()
    }
}

fn of_one(step: Step, (low, high): Bounds) -> Option<Bounds> {
    match step {
        Step::Negate => Some((-high, -low)),
        Step::Abs if low >= 0.0 => Some((low, high)),
        Step::Abs if high <= 0.0 => Some((-high, -low)),
        Step::Abs => Some((0.0, high.max(-low))),
        Step::Sqrt => (low >= 0.0).then(|| (low.sqrt(), high.sqrt())),
        Step::Exp => Some((libm::exp(low), libm::exp(high))),
        Step::Log => (low > 0.0).then(|| (libm::log(low), libm::log(high))),
        _ => None,
    }
}

fn of_two(step: Step, a: Bounds, b: Bounds) -> Option<Bounds> {
    // These steps are monotonic in each operand, so the extremes are at the ends of the intervals.
    let at_ends = |f: fn(f64, f64) -> f64| {
        let values = [f(a.0, b.0), f(a.0, b.1), f(a.1, b.0), f(a.1, b.1)];
        let is_number = values.iter().all(|value| !value.is_nan());
        is_number.then(|| {
            (
                values.into_iter().fold(f64::INFINITY, f64::min),
                values.into_iter().fold(f64::NEG_INFINITY, f64::max),
            )
        })
    };
    match step {
        Step::Add => at_ends(|x, y| x + y),
        Step::Subtract => at_ends(|x, y| x - y),
        Step::Multiply => at_ends(|x, y| x * y),
        Step::Divide if b.0 > 0.0 || b.1 < 0.0 => at_ends(|x, y| x / y),
        Step::Min => at_ends(f64::min),
        Step::Max => at_ends(f64::max),
        Step::Power if a.0 > 0.0 || (a.0 == 0.0 && b.0 >= 0.0) => at_ends(libm::pow),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formula::expression::LANES;
    use proptest::prelude::*;

    fn bounds(text: &str, x: Bounds) -> Option<Bounds> {
        Expression::parse(text, &["x"]).unwrap_or_else(|error| panic!("{text}: {error:?}")).bounds(|_| x)
    }

    #[test]
    fn bounds_are_those_of_interval_arithmetic() {
        for (text, expected) in [
            ("2 * x - x", Some((-1.0, 5.0))),
            ("min(x, 2) + max(x, 2)", Some((3.0, 5.0))),
            ("-x^2", Some((-9.0, -1.0))),
            ("abs(x - 2)", Some((0.0, 1.0))),
            ("1 / x", Some((1.0 / 3.0, 1.0))),
            ("1 / (x - 2)", None),
            ("sqrt(x - 2)", None),
            ("log(x - 1)", None),
            ("(x - 2) ^ 2", None),
            ("1e999 * x", None),
        ] {
            assert_eq!(bounds(text, (1.0, 3.0)), expected, "{text}");
        }
    }

    fn formula() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![Just("x".to_owned()), (-3..4).prop_map(|n| format!("({n})"))];
        leaf.prop_recursive(4, 24, 2, |inner| {
            let two = (prop::sample::select(vec!["+", "-", "*", "/", "^"]), inner.clone(), inner.clone());
            let named = (prop::sample::select(vec!["min", "max"]), inner.clone(), inner.clone());
            let one = (prop::sample::select(vec!["sqrt", "abs", "exp", "log", "-"]), inner);
            prop_oneof![
                two.prop_map(|(sign, a, b)| format!("({a} {sign} {b})")),
                named.prop_map(|(name, a, b)| format!("{name}({a}, {b})")),
                one.prop_map(|(name, a)| format!("{name}({a})")),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_value_is_out_of_bounds(text in formula(), low in -4.0..4.0_f64, width in 0.0..4.0_f64, at in 0.0..1.0_f64) {
            let expression = Expression::parse(&text, &["x"]).expect("a formula");
            if let Some((least, most)) = expression.bounds(|_| (low, low + width)) {
                let mut stack = expression.stack::<LANES>();
                let x = (low + at * width).min(low + width);
                let value = expression.evaluate(&mut stack, |_, column| column.fill(x))[0];
                let slack = 1e-9 * (1.0 + least.abs().max(most.abs()));
                prop_assert!((least - slack..=most + slack).contains(&value), "{text}: {value} at {x}, bounds {least} to {most}");
            }
        }
    }
}
