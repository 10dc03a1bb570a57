//! Interface between formats and reader, and reading of lines.

use strobe_types::Op;

use super::SkipReason;
use super::detail::Detail;
use super::device::Device;
use super::error::{Position, printable};
use super::input::Input;
use super::problem::{Problem, Reason};

#[derive(Debug)]
pub(super) enum Line<'a> {
    Record {
        /// Time in ns since any fixed moment.
        time_ns: u64,
        op: Op,
        offset: u64,
        bytes: u64,
        device: Device<'a>,
        detail: Detail,
    },
    /// Well-formed part of the trace that gives no record.
    Skip(SkipReason),
    /// Blank line, comment or header.
    Nothing,
}

/// Decoder of a trace; not called again after an error.
pub(super) trait Source: Send {
    fn next(&mut self) -> Result<Option<Line<'_>>, Problem>;

    fn position(&self) -> Position;

    fn place(&self) -> Option<(&str, Position)> {
        None
    }

    fn text(&self) -> String;
}

/// Opens a text format; skips blank lines and lines starting with `#`.
pub(super) fn open_lines<F>(input: Input, parse: F) -> Box<dyn Source>
where
    F: for<'a> FnMut(&'a str) -> Result<Line<'a>, Reason> + Send + 'static,
{
    Box::new(Lines { input, parse, number: 0, comments: true, header: &[] })
}

/// Opens a text format of columns between commas, as [`open_lines`]. The first line may be a header of
/// `names`.
pub(super) fn open_csv<F>(input: Input, names: &'static [&'static str], parse: F) -> Box<dyn Source>
where
    F: for<'a> FnMut(&'a str) -> Result<Line<'a>, Reason> + Send + 'static,
{
    Box::new(Lines { input, parse, number: 0, comments: true, header: names })
}

/// Opens a text format in which `#` has no meaning.
pub(super) fn open_lines_without_comments<F>(input: Input, parse: F) -> Box<dyn Source>
where
    F: for<'a> FnMut(&'a str) -> Result<Line<'a>, Reason> + Send + 'static,
{
    Box::new(Lines { input, parse, number: 0, comments: false, header: &[] })
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// True for titles of columns: names between commas, without a digit.
pub(super) fn looks_like_header(text: &str) -> bool {
    text.contains(',') && !text.contains(|c: char| c.is_ascii_digit())
}

/// True for a header with some of `names`, each in its own column. Another order would be another format.
fn is_header(text: &str, names: &[&str]) -> bool {
    let known = |title: &str| names.iter().position(|name| name.eq_ignore_ascii_case(title));
    let places: Vec<Option<usize>> = text.split(',').map(|title| known(title.trim())).collect();
    let is_in_place = |(at, place): (usize, &Option<usize>)| place.is_none_or(|place| place == at);
    looks_like_header(text)
        && places.iter().any(Option::is_some)
        && places.iter().enumerate().all(is_in_place)
}

#[cold]
fn with_hint(reason: Reason, text: &str, names: &[&str]) -> Reason {
    // NUL characters usually mean an archive.
    if text.contains('\0') {
        return "the line holds NUL characters; if this is a tar archive, unpack it first".into();
    }
    if !names.is_empty() && looks_like_header(text) {
        return format!(
            "{reason}; the line looks like a header, but not of the columns {}; for other columns use \
             `--format csv --columns`",
            names.join(",")
        );
    }
    reason
}

struct Lines<F> {
    input: Input,
    parse: F,
    number: u64,
    comments: bool,
    /// Titles that the next line may have; empty if it is no header.
    header: &'static [&'static str],
}

fn content(line: &[u8], number: u64) -> &[u8] {
    let mark = if number == 1 { BYTE_ORDER_MARK } else { b"" };
    line.strip_prefix(mark).unwrap_or(line).trim_ascii()
}

impl<F> Source for Lines<F>
where
    F: for<'a> FnMut(&'a str) -> Result<Line<'a>, Reason> + Send,
{
    fn next(&mut self) -> Result<Option<Line<'_>>, Problem> {
        self.number += 1;
        let Some(bytes) = self.input.next_line()? else { return Ok(None) };
        let text = content(bytes, self.number);
        if text.is_empty() || (self.comments && text[0] == b'#') {
            return Ok(Some(Line::Nothing));
        }
        let names = std::mem::take(&mut self.header);
        let text = std::str::from_utf8(text).map_err(|_| {
            Problem::Malformed("this is not text; a binary blktrace file needs `--format blktrace`".into())
        })?;
        match (self.parse)(text) {
            Ok(line) => Ok(Some(line)),
            Err(_) if is_header(text, names) => Ok(Some(Line::Skip(SkipReason::Header))),
            Err(reason) => Err(Problem::Malformed(with_hint(reason, text, names))),
        }
    }

    fn position(&self) -> Position {
        Position::Line(self.number)
    }

    fn text(&self) -> String {
        printable(content(self.input.line(), self.number))
    }
}

#[cfg(test)]
mod tests {
    use super::super::FORMATS;
    use super::super::testing::{fails, records};

    const LINES: [(&str, &str); 12] = [
        ("fio", "fio version 3 iolog\n7 f write 0 4096\n"),
        ("blkparse", "8,0 0 1 0.5 99 D W 0 + 8 [x]\n"),
        ("msr", "128166372003061629,hm,1,Write,0,4096,413\n"),
        ("disksim", "0.5 0 0 8 0\n"),
        ("mqsim", "48513000 0 0 8 0\n"),
        ("ssdsim", "48513000 0 0 8 0\n"),
        ("spc", "0,0,4096,W,0.5\n"),
        ("alibaba", "419,W,0,4096,1577808144360767\n"),
        ("tencent", "1538323200,0,8,1,1063\n"),
        ("strobe", "strobe trace 1\n5 write 0 4096\n"),
        ("systor", "1456095145.133076000,0.000806000,W,0,0,4096\n"),
        ("fiu", "89968195792462 20782 gzip 0 8 W 6 0 56f11b711d91a065a2b6458eca924523\n"),
    ];

    #[test]
    fn a_byte_order_mark_in_front_is_not_there() {
        assert_eq!(
            LINES.len() + 4,
            FORMATS.len(),
            "all but blktrace, vscsi, oracle-general and csv are here"
        );
        for (format, text) in LINES {
            assert_eq!(records(format, text), ["0 write 0+4096"], "{format}");
            assert_eq!(records(format, &format!("\u{feff}{text}")), ["0 write 0+4096"], "{format}");
            if format != "blkparse" {
                assert_eq!(records(format, &format!("\u{feff}# made by hand\n{text}")).len(), 1, "{format}");
            }
        }
        let message = fails("msr", "\u{feff}nonsense");
        assert!(message.ends_with(": `nonsense`"), "{message}");
        let message = fails("msr", "1,h,0,Write,0,4096,1\n\u{feff}1,h,0,Write,0,4096,1\n");
        assert!(message.starts_with("trace test, line 2: "), "only the first line has one: {message}");
    }

    #[test]
    fn the_first_line_of_columns_may_be_a_header() {
        for (format, header) in [
            ("msr", "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime"),
            ("alibaba", "device_id,opcode,offset,length,timestamp"),
            ("tencent", "Timestamp,Offset,Size,IOType,VolumeID"),
            ("spc", "ASU, LBA, Size, Opcode, Timestamp"),
            ("systor", "Timestamp,Response,IOType,LUN,Offset,Size"),
        ] {
            let line = LINES.iter().find(|(name, _)| *name == format).expect("a format").1;
            for start in ["", "# comment\n\n"] {
                assert_eq!(
                    records(format, &format!("{start}{header}\n{line}")),
                    ["0 write 0+4096"],
                    "{format}"
                );
            }
            let message = fails(format, &format!("{line}{header}\n"));
            assert!(message.starts_with("trace test, line 2: ") && !message.contains("header"), "{message}");
            let mut titles: Vec<&str> = header.split(',').map(str::trim).collect();
            titles.swap(0, 2);
            for other in [titles.join(","), "when,what".to_owned()] {
                let message = fails(format, &format!("{other}\n{line}"));
                assert!(
                    message.contains("line 1: ") && message.contains("looks like a header, but not"),
                    "{message}"
                );
            }
        }
        for (format, text) in
            [("msr", "hello"), ("msr", "1,h,0,Wri,0,4096,1"), ("fio", "a,b"), ("strobe", "a,b")]
        {
            assert!(!fails(format, text).contains("header,"), "{format}: {text}");
        }
    }
}
