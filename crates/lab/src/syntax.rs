//! Reads TOML files. Errors show an excerpt of the line.

use std::io::Read as _;
use std::path::Path;

use toml::Table;

use crate::ConfigError;

/// Most bytes of a file: /dev/zero has no end.
const FILE_BYTES_MAX: u64 = 16 << 20;

pub(crate) fn read_text(path: &Path) -> Result<String, ConfigError> {
    let mut bytes = Vec::new();
    let file: std::io::Result<Box<dyn std::io::Read>> = match path.to_str() {
        Some("-") => Ok(Box::new(std::io::stdin())),
        _ => std::fs::File::open(path).map(|file| Box::new(file) as Box<dyn std::io::Read>),
    };
    file.and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .and_then(|read| {
            if read as u64 > FILE_BYTES_MAX {
                Err(std::io::Error::other(format!("longer than {FILE_BYTES_MAX} bytes")))
            } else {
                text_of(bytes)
            }
        })
        .map_err(|source| ConfigError::File { path: path.display().to_string(), source })
}

fn text_of(bytes: Vec<u8>) -> std::io::Result<String> {
    // Byte order marks of UTF-16, little-endian and big-endian.
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(std::io::Error::other("this is UTF-16 text; save it as UTF-8"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
        std::io::Error::other(format!("this is not UTF-8 text (byte {at}, in line {line}); save it as UTF-8"))
    })
}

/// Reads the TOML file at `path`; "-" is standard input.
pub fn load_table(path: &Path) -> Result<Table, ConfigError> {
    parse_table(&read_text(path)?, &path.display().to_string())
}

pub(crate) fn parse_table(text: &str, name: &str) -> Result<Table, ConfigError> {
    // Some editors write a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.parse::<Table>().map_err(|error| ConfigError::Syntax {
        path: name.to_owned(),
        message: match error.span() {
            Some(span) => format!("{}\n{}", reason(error.message()), place(text, span.start)),
            None => reason(error.message()).to_owned(),
        },
    })
}

/// Replaces a message of the parser that names Rust types.
fn reason(message: &str) -> &str {
    let is_too_large = ["as i128", "as u128", "too large"].iter().any(|part| message.contains(part));
    if is_too_large {
        "this whole number is too large: at most 9223372036854775807 (2^63 - 1)"
    } else {
        message
    }
}

const SHOWN_AROUND: usize = 48;

/// Line and column of byte `at`, with an excerpt and a mark below.
fn place(text: &str, at: usize) -> String {
    let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let number = before.matches('\n').count() + 1;
    let before: Vec<char> = before[line_start..].chars().collect();
    let skipped = before.len().saturating_sub(SHOWN_AROUND);
    let mut rest = after.lines().next().unwrap_or_default().chars();
    let dots = |is_cut| if is_cut { "..." } else { "" };
    // A control character may have no width and would shift the mark.
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
    fn a_number_that_is_too_large_is_called_that() {
        for number in ["99999999999999999999", "9223372036854775808", "-99999999999999999999"] {
            let error = refusal(&format!("seed = {number}"));
            assert!(
                error.contains("too large: at most 9223372036854775807") && error.contains("line 1"),
                "{error}"
            );
        }
    }

    #[test]
    fn text_of_another_encoding_is_answered_with_the_one_to_use() {
        let refused = |bytes: &[u8]| text_of(bytes.to_vec()).expect_err("no UTF-8").to_string();
        assert_eq!(refused(b"\xff\xfes\0e\0"), "this is UTF-16 text; save it as UTF-8");
        assert!(refused(b"\xfe\xff\0s").contains("UTF-16"));
        let latin = refused(b"seed = 1\n# f\xfcr\n");
        assert!(latin.contains("byte 12, in line 2") && latin.contains("UTF-8"), "{latin}");
        assert_eq!(text_of("für".into()).expect("UTF-8"), "für");
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        assert_eq!(parse_table("\u{feff}seed = 1\n", "a").expect("TOML").len(), 1);
        assert_eq!(parse_table("\u{feff}[run]\n", "a").expect("TOML").len(), 1);
        assert_eq!(refusal("\u{feff}?"), refusal("?"), "it does not count as a column");
        assert!(parse_table("a = 1\n\u{feff}", "a").is_err(), "only at the start");
    }
}
