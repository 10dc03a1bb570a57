//! Reading TOML files, with errors that show the place and not the whole line.

use std::io::Read as _;
use std::path::Path;

use toml::Table;

use crate::ConfigError;

/// Longest configuration file in bytes: enough for any, and /dev/zero ends.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads a configuration file; "-" is standard input.
pub(crate) fn read_text(path: &Path) -> Result<String, ConfigError> {
    let mut text = String::new();
    let file: std::io::Result<Box<dyn std::io::Read>> = match path.to_str() {
        Some("-") => Ok(Box::new(std::io::stdin())),
        _ => std::fs::File::open(path).map(|file| Box::new(file) as Box<dyn std::io::Read>),
    };
    file.and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .and_then(|read| match read as u64 > FILE_BYTES_MAX {
            true => Err(std::io::Error::other(format!("longer than {FILE_BYTES_MAX} bytes"))),
            false => Ok(text),
        })
        .map_err(|source| ConfigError::File { path: path.display().to_string(), source })
}

/// The table that `text` is, which was found in `name`.
pub(crate) fn parse_table(text: &str, name: &str) -> Result<Table, ConfigError> {
    // Editors of other systems put a byte order mark in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.parse::<Table>().map_err(|error| ConfigError::Syntax {
        path: name.to_owned(),
        message: match error.span() {
            Some(span) => format!("{}\n{}", error.message(), place(text, span.start)),
            None => error.message().to_owned(),
        },
    })
}

/// Characters of a line that are shown before and after the place.
const SHOWN_AROUND: usize = 48;

/// Line and column of the byte `at` of `text`, and what stands there with a mark below.
fn place(text: &str, at: usize) -> String {
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let number = before.matches('\n').count() + 1;
    let before: Vec<char> = before[line_start..].chars().collect();
    let skipped = before.len().saturating_sub(SHOWN_AROUND);
    let mut rest = after.lines().next().unwrap_or_default().chars();
    let dots = |is_cut| if is_cut { "..." } else { "" };
    // The mark stands right only if every character is as wide as it looks.
    let harmless = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String =
        before[skipped..].iter().copied().chain(rest.by_ref().take(SHOWN_AROUND)).map(harmless).collect();
    let (start, end) = (dots(skipped > 0), dots(rest.next().is_some()));
    let margin = " ".repeat(number.to_string().len());
    let mark = " ".repeat(start.len() + before.len() - skipped);
    format!(
        "line {number}, column {}\n{margin} |\n{number} | {start}{shown}{end}\n{margin} | {mark}^",
        before.len() + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse_table(text, "a.toml").expect_err(text).to_string()
    }

    #[test]
    fn a_short_line_is_shown_whole() {
        let error = refusal("seed = 1\n[drive\nx = 2\n");
        let (reason, place) = error.split_once('\n').expect("a place");
        assert!(reason.starts_with("a.toml: not valid TOML: "), "{error}");
        assert_eq!(place, "line 2, column 7\n  |\n2 | [drive\n  |       ^");
    }

    #[test]
    fn of_an_endless_line_only_the_place_is_shown() {
        let error = refusal(&format!("x = [{}?{}]\n", "1, ".repeat(100_000), " 2,".repeat(100_000)));
        assert!(error.len() < 500, "{error}");
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines[1], "line 1, column 300006");
        let mark = lines[4].find('^').expect("a mark");
        assert_eq!(&lines[3][mark..=mark], "?", "{error}");
        assert!(lines[3].starts_with("1 | ...") && lines[3].ends_with("..."), "{error}");
    }

    #[test]
    fn characters_count_and_not_bytes() {
        let error = refusal("x = \"äöü\" ?\n");
        assert!(error.ends_with("line 1, column 11\n  |\n1 | x = \"äöü\" ?\n  |           ^"), "{error}");
        assert!(refusal("x = ").contains("line 1, column "), "at the end of the text");
        assert!(refusal("a = 1\r\nb = \t?\r\n").contains("\n2 | b =  ?\n"), "one line stays one line");
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        assert_eq!(parse_table("\u{feff}seed = 1\n", "a").expect("TOML").len(), 1);
        assert_eq!(parse_table("\u{feff}[run]\n", "a").expect("TOML").len(), 1);
        assert_eq!(refusal("\u{feff}?"), refusal("?"), "it does not count as a column");
        assert!(parse_table("a = 1\n\u{feff}", "a").is_err(), "only at the start");
    }
}
