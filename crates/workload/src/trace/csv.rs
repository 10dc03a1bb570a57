//! Traces whose columns the user names.

use strobe_types::Op;

use super::SkipReason;
use super::columns::{Columns, NS_PER_SECOND};
use super::detail::Detail;
use super::device::Device;
use super::format::{Format, Open};
use super::line::{Line, looks_like_header, open_lines};
use super::problem::Reason;

pub(super) const FORMAT: Format = Format {
    name: "csv",
    summary: "Columns of your own, named by workload.columns (--columns) or by the header of the file",
    columns: "in any order, between commas or blanks: time (s), op (read, write, trim or flush, or r, w, d, f), offset (bytes) or lbn (512-byte sectors), bytes, sectors or len (in the unit of the address), device; - for any other",
    source: "your own scripts: `--columns time,op,lbn,len`",
    takes_action: false,
    time_unit_ns: NS_PER_SECOND,
    open: Open::One(|input, settings| {
        // Checked before the trace was opened.
        let columns = settings.columns.and_then(|columns| parse_columns(&columns).ok());
        let mut rows = Rows { columns, has_begun: false, unit_ns: settings.unit_ns };
        open_lines(input, move |line| rows.parse_line(line))
    }),
};

const SECTOR_BYTES: u64 = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Time,
    Op,
    Offset,
    Lbn,
    Bytes,
    Sectors,
    Len,
    Device,
    Ignored,
}

const NAMES: [(&str, Column); 9] = [
    ("time", Column::Time),
    ("op", Column::Op),
    ("offset", Column::Offset),
    ("lbn", Column::Lbn),
    ("bytes", Column::Bytes),
    ("sectors", Column::Sectors),
    ("len", Column::Len),
    ("device", Column::Device),
    ("-", Column::Ignored),
];

const OPS: [(&str, Op); 9] = [
    ("read", Op::Read),
    ("r", Op::Read),
    ("write", Op::Write),
    ("w", Op::Write),
    ("trim", Op::Trim),
    ("discard", Op::Trim),
    ("d", Op::Trim),
    ("flush", Op::Flush),
    ("f", Op::Flush),
];

/// Checks the names of columns; the error gives the fault and the remedy.
pub(super) fn check_columns(text: &str) -> Result<(), Reason> {
    parse_columns(text).map(drop)
}

fn parse_columns(text: &str) -> Result<Vec<Column>, Reason> {
    let known = "time, op, offset (bytes) or lbn (512-byte sectors), bytes, sectors or len, device, and - for a \
                 column to be ignored";
    let named = |name: &str| NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let mut columns = Vec::new();
    for name in text.split(',').map(str::trim) {
        match named(name) {
            Some(&(_, column)) if column != Column::Ignored && columns.contains(&column) => {
                return Err(format!("`{name}` is named twice"));
            }
            Some(&(_, column)) => columns.push(column),
            None => return Err(format!("`{name}` is no column; the names are {known}")),
        }
    }
    let count = |of: &[Column]| columns.iter().filter(|column| of.contains(column)).count();
    for (what, wanted) in [
        ("op", &[Column::Op][..]),
        ("offset or lbn", &[Column::Offset, Column::Lbn]),
        ("bytes, sectors or len", &[Column::Bytes, Column::Sectors, Column::Len]),
    ] {
        if count(wanted) != 1 {
            return Err(format!("exactly one column must be {what}; the names are {known}"));
        }
    }
    Ok(columns)
}

/// Refuses a line with `;` between columns, as spreadsheets write where the comma is the decimal mark.
pub(super) fn other_separator(line: &str) -> Option<Reason> {
    let (from, to) = if line.contains(',') { (",;", ".,") } else { (";", ",") };
    (line.matches(';').count() >= 2).then(|| {
        format!("`;` does not separate columns; use commas or blanks, for example `tr '{from}' '{to}' < OLD > NEW`")
    })
}

struct Rows {
    /// `None` before the header, if that names them.
    columns: Option<Vec<Column>>,
    has_begun: bool,
    unit_ns: u64,
}

impl Rows {
    fn parse_line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Reason> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if is_first && looks_like_header(line) && self.columns.is_some() {
            let is_other = |titles: &[Column]| {
                let given = self.columns.iter().flatten();
                let is_same =
                    |(given, title): (&Column, &Column)| given == title || *given == Column::Ignored;
                given.clone().count() != titles.len() || !given.zip(titles).all(is_same)
            };
            return match parse_columns(line) {
                Ok(titles) if is_other(&titles) => {
                    Err("the header of the file names other columns than --columns (workload.columns)".into())
                }
                _ => Ok(Line::Skip(SkipReason::Header)),
            };
        }
        let Some(names) = &self.columns else {
            let titles = if line.contains(',') {
                line.to_owned()
            } else {
                line.split_whitespace().collect::<Vec<_>>().join(",")
            };
            if let Some(reason) = other_separator(line) {
                return Err(reason);
            }
            let names = parse_columns(&titles).map_err(|reason| {
                let reason = if looks_like_header(&titles) { format!(" ({reason})") } else { String::new() };
                format!(
                    "the columns have no names{reason}: give them with --columns (workload.columns), for example \
                     `--columns time,op,lbn,len`, or as the first line of the file"
                )
            })?;
            self.columns = Some(names);
            return Ok(Line::Nothing);
        };
        if is_first && let Some(reason) = other_separator(line) {
            return Err(reason);
        }
        let mut columns = if line.contains(',') { Columns::csv(line) } else { Columns::words(line) };
        let (mut time_ns, mut op, mut device) = (0, Op::Read, Device::Name(""));
        let (mut offset, mut length, mut unit, mut len_unit) = (0, 0, 1, None);
        for column in names {
            match column {
                Column::Time => time_ns = columns.decimal("time", self.unit_ns)?,
                Column::Op => op = columns.op("op", &OPS)?,
                Column::Offset => offset = columns.whole("offset")?,
                Column::Lbn => (offset, unit) = (columns.scaled("lbn", SECTOR_BYTES)?, SECTOR_BYTES),
                Column::Bytes => (length, len_unit) = (columns.whole("bytes")?, Some(1)),
                Column::Sectors => (length, len_unit) = (columns.whole("sectors")?, Some(SECTOR_BYTES)),
                Column::Len => length = columns.whole("len")?,
                Column::Device => device = columns.text("device")?.into(),
                Column::Ignored => drop(columns.next().ok_or("a column is missing")?),
            }
        }
        columns.end()?;
        let bytes = length.checked_mul(len_unit.unwrap_or(unit)).ok_or("the length is too large")?;
        Ok(Line::Record { time_ns, op, offset, bytes, device, detail: Detail::Plain })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fails, read, shown};
    use super::super::{SkipReason, TraceOptions, from_reader};

    fn read_as(columns: Option<&str>, text: &str) -> Result<Vec<String>, String> {
        let options = TraceOptions { columns: columns.map(str::to_owned), ..TraceOptions::default() };
        match read("csv", text.as_bytes(), &options) {
            (records, None) => Ok(shown(&records)),
            (_, Some(error)) => Err(error.to_string()),
        }
    }

    #[test]
    fn columns_have_the_order_and_the_units_that_are_named() {
        let expected = Ok(vec!["0 write 4096+8192".to_owned(), "1500000000 read 0+512".to_owned()]);
        for (columns, text) in [
            ("time,op,lbn,len", "1,W,8,16\n2.5,r,0,1\n"),
            ("time,op,lbn,bytes", "1,write,8,8192\n2.5,Read,0,512\n"),
            ("time, op, offset, sectors", "1 w 4096 16\n2.5 r 0 1\n"),
            ("-,len,offset,op,time,-", "x,8192,4096,W,1,y\n,512,0,R,2.5,\n"),
            ("op,device,time,lbn,len", "w,a,1,8,16\nr,a,2.5,0,1\n"),
            ("op time lbn len", "w 1 8 16\nr 2.5 0 1\n"),
        ] {
            let names = if columns.contains(',') { columns.to_owned() } else { columns.replace(' ', ",") };
            assert_eq!(read_as(Some(&names), text), expected, "{columns}");
            if names != columns {
                assert_eq!(read_as(None, &format!("{columns}\n{text}")), expected, "{columns} as header");
                continue;
            }
            let header = columns.replace(' ', "");
            assert_eq!(read_as(None, &format!("{header}\n{text}")), expected, "{columns} as header");
            assert_eq!(read_as(Some(columns), &format!("{header}\n{text}")), expected, "{columns} twice");
        }
        let more = read_as(Some("time,op,lbn,len,-"), "time,op,lbn,len,device\n1,W,8,16,a\n");
        assert_eq!(more, Ok(vec!["0 write 4096+8192".to_owned()]));
        assert_eq!(
            read_as(Some("op,lbn,len"), "d,0,1\nf,0,0\n"),
            Ok(vec!["0 trim 0+512".to_owned(), "0 flush 0+0".to_owned()])
        );
    }

    #[test]
    fn wrong_columns_and_rows_are_refused_with_the_cure() {
        for (columns, expected) in [
            ("time,op,lbn", "exactly one column must be bytes, sectors or len"),
            ("time,lbn,len", "exactly one column must be op"),
            ("op,lbn,offset,len", "exactly one column must be offset or lbn"),
            ("op,op,lbn,len", "`op` is named twice"),
            ("op,lba,len", "`lba` is no column; the names are time, op, offset"),
            ("", "`` is no column"),
        ] {
            let error = read_as(Some(columns), "1,W,8,16\n").expect_err("refused");
            assert!(error.starts_with("trace option columns: ") && error.contains(expected), "{error}");
        }
        for (text, expected) in [
            ("1,W,8,16\n", "the columns have no names"),
            ("time,op,lbn,len\n1,1,8,16\n", "column op must be read (read) or r (read)"),
            ("time,op,lbn,len\n1,W,8\n", "column len is missing"),
            ("time,op,lbn,len\nop,time,lbn,len\n", "column time must be"),
            ("time,op,lbn,len\n1,W,8,16,4\n", "too many columns"),
            ("time,op,lbn,len\n1,W,8,36028797018963968\n", "the length is too large"),
        ] {
            let error = fails("csv", text);
            assert!(error.contains(expected), "{error}");
        }
        let error = read_as(None, "time,op,offset,size\n1,W,8,16\n").expect_err("refused");
        assert!(
            error.contains("(`size` is no column") && error.contains("--columns time,op,lbn,len"),
            "{error}"
        );
        let error = read_as(Some("op,lbn,len,time"), "time,op,lbn,len\n1,W,8,16\n").expect_err("refused");
        assert!(error.contains("the header of the file names other columns than --columns"), "{error}");
        let other = TraceOptions { columns: Some("op,lbn,len".to_owned()), ..TraceOptions::default() };
        let error = read("msr", b"", &other).1.expect("refused").to_string();
        assert!(error.contains("only format csv takes names of columns"), "{error}");
    }

    #[test]
    fn a_header_is_skipped_and_counted_in_every_format_of_columns() {
        let text = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
                    128166372003061629,hm,1,Write,0,4096,413\n";
        let source = Box::new(std::io::Cursor::new(text.as_bytes()));
        let mut reader = from_reader(source, "test", "msr", &TraceOptions::default()).expect("opens");
        assert!(reader.next().is_some_and(|record| record.is_ok()));
        assert_eq!(reader.skipped().get(SkipReason::Header), 1);
    }
}
