//! Colour and weight of terminal text.

use std::io::IsTerminal as _;

/// Switch for escape sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    is_on: bool,
}

impl Style {
    /// Style without escape sequences, for files, pipes and tests.
    pub const PLAIN: Self = Self { is_on: false };

    /// Style of standard output: plain if it is no terminal, or with NO_COLOR or TERM=dumb.
    pub fn of_stdout() -> Self {
        let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let is_dumb = given("TERM").is_some_and(|term| term == "dumb");
        Self { is_on: std::io::stdout().is_terminal() && given("NO_COLOR").is_none() && !is_dumb }
    }

    /// Bold text.
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    /// Text in the colour of warnings.
    pub fn warning(self, text: &str) -> String {
        self.with("33", text)
    }

    /// Faint text, for secondary information.
    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    /// Each line is wrapped separately.
    fn with(self, code: &str, text: &str) -> String {
        if !self.is_on {
            return text.to_owned();
        }
        let line =
            |line: &str| if line.is_empty() { String::new() } else { format!("\x1b[{code}m{line}\x1b[0m") };
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_that_is_on_marks_each_line_and_a_plain_one_nothing() {
        let on = Style { is_on: true };
        assert_eq!(on.warning("one\n\ntwo"), "\x1b[33mone\x1b[0m\n\n\x1b[33mtwo\x1b[0m");
        assert_eq!(on.bold("3.62"), "\x1b[1m3.62\x1b[0m");
        assert_eq!(Style::PLAIN.bold("3.62"), "3.62");
    }
}
