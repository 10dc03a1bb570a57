use std::fmt;

use super::expression::{Fault, ParseError, functions};

/// Longest formula, in bytes.
pub(super) const LENGTH_MAX: usize = 1000;

/// Error in a formula, with the names it may use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}; {}", known(self))]
pub struct FormulaError {
    fault: Box<FormulaFault>,
    variables: Vec<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FormulaFault {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {LENGTH_MAX} bytes")]
    TooLong,
    #[error("{reason} ({place})")]
    Syntax { reason: String, place: Place },
    #[error("unknown variable {name} ({place})")]
    UnknownVariable { name: String, place: Place },
    #[error("unknown function {name} ({place})")]
    UnknownFunction { name: String, place: Place },
    /// A constant; `subject` is the plural of the things to tell apart.
    #[error("it uses no variable, so all {subject} get the same value")]
    Constant { subject: &'static str },
}

impl FormulaFault {
    pub(super) fn of(text: &str, error: ParseError) -> Self {
        let place = Place::new(text, error.at);
        match error.fault {
            Fault::Syntax(reason) => Self::Syntax { reason, place },
            Fault::UnknownVariable(name) => Self::UnknownVariable { name, place },
            Fault::UnknownFunction(name) => Self::UnknownFunction { name, place },
        }
    }
}

impl FormulaError {
    pub(super) fn new(fault: FormulaFault, variables: &[&'static str]) -> Self {
        Self { fault: Box::new(fault), variables: variables.to_vec() }
    }

    /// The unknown name, if the fault is one.
    pub fn unknown_name(&self) -> Option<&str> {
        match &*self.fault {
            FormulaFault::UnknownVariable { name, .. } | FormulaFault::UnknownFunction { name, .. } => {
                Some(name)
            }
            _ => None,
        }
    }

    /// The names allowed in its place; else all variables.
    pub fn known_names(&self) -> Vec<&'static str> {
        match *self.fault {
            FormulaFault::UnknownFunction { .. } => functions().collect(),
            _ => self.variables.clone(),
        }
    }

    /// The message with `nearest` as the name probably meant.
    pub fn with_nearest(&self, nearest: &str) -> String {
        let asked = |what, name, place| format!("unknown {what} {name}; did you mean {nearest}? ({place})");
        let reason = match &*self.fault {
            FormulaFault::UnknownVariable { name, place } => asked("variable", name, place),
            FormulaFault::UnknownFunction { name, place } => asked("function", name, place),
            _ => return self.to_string(),
        };
        format!("{reason}; {}", known(self))
    }
}

fn known(error: &FormulaError) -> String {
    let is_function = matches!(*error.fault, FormulaFault::UnknownFunction { .. });
    let what = if is_function { "functions" } else { "variables" };
    format!("{what} are {}", error.known_names().join(", "))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// From 1.
    character: usize,
    excerpt: String,
}

const SHOWN_AROUND: usize = 24;

impl Place {
    /// Control characters become blanks: a message has one line.
    fn new(text: &str, at: usize) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let before = text.get(..at).unwrap_or(text).chars().count();
        let start = before.saturating_sub(SHOWN_AROUND);
        let end = characters.len().min(before + SHOWN_AROUND);
        let cut = |is_cut| if is_cut { "..." } else { "" };
        let shown = characters[start..end].iter().map(|&c| if c.is_control() { ' ' } else { c });
        let shown: String = shown.collect();
        let excerpt = format!("{}{shown}{}", cut(start > 0), cut(end < characters.len()));
        Self { character: before + 1, excerpt }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "character {} of \"{}\"", self.character, self.excerpt)
    }
}

#[cfg(test)]
mod tests {
    use crate::gc::Formula;

    fn refusal(text: &str) -> String {
        Formula::check(text).expect_err(text).to_string()
    }

    const VARIABLE_NAMES: &str = "variables are u, valid, invalid, units, age, age_closed, age_last_invalid, \
        age_first_invalid, age_newest_valid, age_invalid_sum, stream, erase_count";

    #[test]
    fn the_reason_comes_first_then_the_place_then_what_there_is() {
        assert_eq!(
            refusal("Age"),
            format!("unknown variable Age (character 1 of \"Age\"); {VARIABLE_NAMES}")
        );
        assert_eq!(
            refusal("2u"),
            format!(
                "an operator is missing; to multiply, write 2 * u (character 2 of \"2u\"); {VARIABLE_NAMES}"
            )
        );
        assert_eq!(
            refusal("1 - sin(u)"),
            "unknown function sin (character 5 of \"1 - sin(u)\"); functions are sqrt, abs, exp, log, min, max"
        );
        assert_eq!(refusal(" "), format!("it is empty; {VARIABLE_NAMES}"));
        assert_eq!(
            refusal("1 + 2"),
            format!("it uses no variable, so all blocks get the same value; {VARIABLE_NAMES}")
        );
    }

    #[test]
    fn a_long_formula_is_quoted_around_the_error_only() {
        let long = format!("{}agee{}", "u + ".repeat(100), " + u".repeat(100));
        let error = refusal(&long);
        let place = "(character 401 of \"...u + u + u + u + u + u + agee + u + u + u + u + u...\")";
        assert!(error.starts_with(&format!("unknown variable agee {place}; variables are u,")), "{error}");
        assert!(error.len() < 300, "{error}");
        assert!(refusal(&"u+".repeat(600)).starts_with("it is longer than 1000 bytes; "));
    }

    #[test]
    fn places_count_characters_and_stay_on_one_line() {
        let error = refusal("u\n + § u");
        assert!(error.starts_with("unexpected '§' (character 6 of \"u  + § u\")"), "{error}");
    }

    #[test]
    fn the_name_that_was_meant_follows_the_one_that_was_given() {
        let error = Formula::check("u * Age").expect_err("case");
        assert_eq!((error.unknown_name(), error.known_names()[4]), (Some("Age"), "age"));
        let place = "(character 5 of \"u * Age\")";
        let expected = format!("unknown variable Age; did you mean age? {place}; {VARIABLE_NAMES}");
        assert_eq!(error.with_nearest("age"), expected);
    }
}
