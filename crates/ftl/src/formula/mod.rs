//! Formulas: one line of arithmetic over named variables, for victim policies (`gc/variables.rs`) and
//! placements (`place/formula.rs`).

mod bounds;
mod error;
mod expression;

pub use error::FormulaError;
pub(crate) use expression::{Column, Expression, LANES, Stack};

use error::{FormulaFault, LENGTH_MAX};

/// Parses a formula over at least one of `variables`. `subject` is the plural of the things that it scores.
pub(crate) fn parse(
    text: &str,
    variables: &[&'static str],
    subject: &'static str,
) -> Result<Expression, FormulaError> {
    let refused = |fault| FormulaError::new(fault, variables);
    if text.len() > LENGTH_MAX {
        return Err(refused(FormulaFault::TooLong));
    }
    if text.trim().is_empty() {
        return Err(refused(FormulaFault::Empty));
    }
    let parsed = Expression::parse(text, variables);
    let expression = parsed.map_err(|error| refused(FormulaFault::of(text, error)))?;
    if expression.variables().is_empty() {
        return Err(refused(FormulaFault::Constant { subject }));
    }
    Ok(expression)
}
