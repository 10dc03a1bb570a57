//! Strobe's own traces, with features missing in other formats: copies, trims of several ranges, and
//! hints.

use strobe_types::Op;

use super::columns::Columns;
use super::detail::Detail;
use super::format::{Format, Open};
use super::line::{Line, open_lines};
use super::problem::Reason;

pub(super) const FORMAT: Format = Format {
    name: "strobe",
    summary: "Strobe's own: also copies by the drive, trims of several ranges, and which writes are metadata",
    columns: "first line `strobe trace 1`; time (ns), operation, offset (bytes), length (bytes), of a copy the destination (bytes); operations: read, write, meta (a write of metadata), trim, flush (nothing follows), copy, + (another range of the trim or copy before)",
    source: "docs/MODEL.md, section 6; strobe linux --trace FILE.strobe",
    takes_action: false,
    time_unit_ns: 1,
    open: Open::One(|input, settings| {
        let mut rows = Rows { has_begun: false, open: None, unit_ns: settings.unit_ns };
        open_lines(input, move |line| rows.parse_line(line))
    }),
};

const HEADER: &str = "strobe trace 1";

struct Rows {
    has_begun: bool,
    open: Option<Op>,
    unit_ns: u64,
}

impl Rows {
    fn parse_line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Reason> {
        if !self.has_begun {
            self.has_begun = true;
            return match line {
                HEADER => Ok(Line::Nothing),
                _ => Err(format!("the first line must be `{HEADER}`; is this another format?")),
            };
        }
        let mut columns = Columns::words(line);
        let time_ns = columns.scaled("time", self.unit_ns)?;
        let (op, detail) = match columns.text("operation")? {
            "read" => (Op::Read, Detail::Plain),
            "write" => (Op::Write, Detail::Plain),
            "meta" => (Op::Write, Detail::Metadata),
            "trim" => (Op::Trim, Detail::Plain),
            "flush" => (Op::Flush, Detail::Plain),
            "copy" => (Op::Read, Detail::CopyTo(0)),
            "+" => match self.open {
                Some(op) => (op, Detail::More),
                None => return Err("+ continues a trim or copy, but there is none before".into()),
            },
            _ => {
                let known = "read, write, meta, trim, flush, copy and +";
                return Err(format!("unknown operation; the operations are {known}"));
            }
        };
        let is_copy = detail == Detail::CopyTo(0);
        // `+` continues the last trim or copy, any number of times, so it leaves `open` unchanged.
        if detail != Detail::More {
            self.open = (is_copy || op == Op::Trim).then_some(op);
        }
        let (mut offset, mut bytes) = (0, 0);
        if op != Op::Flush {
            offset = columns.whole("offset")?;
            bytes = columns.whole("length")?;
        }
        let detail = if is_copy { Detail::CopyTo(columns.whole("destination")?) } else { detail };
        columns.end()?;
        Ok(Line::Record { time_ns, op, offset, bytes, device: "".into(), detail })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fails, read};
    use super::super::{Detail, TraceOptions};
    use strobe_types::Op;

    const SAMPLE: &str = "\
strobe trace 1
# a comment
10 write 0 4096
20 meta 8192 512
30 trim 4096 4096
30 + 65536 512
40 copy 0 4096 131072
40 + 8192 512
50 flush
60 read 0 4096
";

    #[test]
    fn every_row_says_what_it_should() {
        let (records, error) = read("strobe", SAMPLE.as_bytes(), &TraceOptions::default());
        assert!(error.is_none(), "{error:?}");
        let seen: Vec<_> =
            records.iter().map(|r| (r.time_ns, r.op, r.offset, r.bytes, r.detail, r.position)).collect();
        let expected = [
            (0, Op::Write, 0, 4096, Detail::Plain, 3),
            (10, Op::Write, 8192, 512, Detail::Metadata, 4),
            (20, Op::Trim, 4096, 4096, Detail::Plain, 5),
            (20, Op::Trim, 65536, 512, Detail::More, 6),
            (30, Op::Read, 0, 4096, Detail::CopyTo(131_072), 7),
            (30, Op::Read, 8192, 512, Detail::More, 8),
            (40, Op::Flush, 0, 0, Detail::Plain, 9),
            (50, Op::Read, 0, 4096, Detail::Plain, 10),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn malformed_rows_are_refused_with_what_is_wrong() {
        for (row, expected) in [
            ("x write 0 1", "column time must be"),
            ("1", "column operation is missing"),
            ("1 wipe 0 1", "unknown operation; the operations are read, write"),
            ("1 write 0", "column length is missing"),
            ("1 write -1 5", "column offset must not be negative"),
            ("1 copy 0 512", "column destination is missing"),
            ("1 copy 0 512 x", "column destination must be a whole number"),
            ("1 copy 0 512 18446744073709551615", "the end of the destination is too large"),
            ("1 trim 18446744073709551615 5", "the end of the request is too large"),
            ("1 write 0 512 7", "too many columns"),
            ("1 flush 0", "too many columns"),
            ("1 + 0 512", "there is none before"),
            ("1 write 0 512\n2 + 0 512", "there is none before"),
            ("1 trim 0 512\n2 flush\n2 + 0 512", "there is none before"),
        ] {
            let message = fails("strobe", &format!("strobe trace 1\n{row}\n"));
            assert!(message.contains(expected), "{message} instead of {expected}");
        }
        for text in ["1 write 0 512\n", "strobe trace 2\n", "fio version 3 iolog\n"] {
            assert!(fails("strobe", text).contains("the first line must be `strobe trace 1`"), "{text}");
        }
    }
}
