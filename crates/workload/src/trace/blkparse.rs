//! blkparse text in its default layout.

use strobe_types::{Op, SECTOR_BYTES};

use super::columns::{Columns, NS_PER_SECOND};
use super::detail::Detail;
use super::device::Device;
use super::format::{Format, Open};
use super::line::{Line, open_lines_without_comments};
use super::problem::Reason;
use super::{Action, SkipReason};

pub(super) const FORMAT: Format = Format {
    name: "blkparse",
    summary: "blkparse text in its default layout (Linux; SNIA YCSB and RocksDB traces)",
    columns: "major,minor (device), CPU, sequence, time (s.ns), PID, action, RWBS, sector (512 B), `+`, sectors (512 B), [process]",
    source: "blkparse(1), section Default output; from blktrace -d DEVICE -o - | blkparse -i -",
    takes_action: true,
    time_unit_ns: NS_PER_SECOND,
    open: Open::One(|input, settings| {
        let mut text = Text { wanted: settings.action, unit_ns: settings.unit_ns, summary: false };
        open_lines_without_comments(input, move |line| text.parse_line(line))
    }),
};

/// All actions of blkparse except `m`, a message.
const ACTIONS: [&str; 18] =
    ["A", "B", "C", "D", "F", "G", "I", "M", "P", "Q", "R", "S", "T", "U", "UT", "W", "X", "Z"];

const SUMMARY_STARTS: [&str; 6] = ["CPU", "Total (", "Reads Queued:", "Throughput (", "Events (", "Skips:"];

struct Text {
    wanted: Action,
    unit_ns: u64,
    summary: bool,
}

impl Text {
    fn parse_line<'a>(&mut self, line: &'a str) -> Result<Line<'a>, Reason> {
        let mut columns = Columns::words(line);
        let device = columns.text("device")?;
        if !is_device(device) {
            return self.parse_summary(line);
        }
        // A record after the summary means that another output was appended.
        if self.summary {
            return Err("a record after the summary; outputs of blkparse must be read one by one".into());
        }
        columns.whole("CPU")?;
        columns.whole("sequence")?;
        let time_ns = columns.decimal("time", self.unit_ns)?;
        columns.whole("PID")?;
        let action = columns.text("action")?;
        if action == self.wanted.letter() {
            return parse_request(columns, time_ns, device.into());
        }
        if let Some(other) = Action::from_letter(action) {
            return Ok(Line::Skip(other.skipped_as()));
        }
        match action {
            "m" => Ok(Line::Skip(SkipReason::Note)),
            _ if ACTIONS.contains(&action) => Ok(Line::Skip(SkipReason::OtherAction)),
            _ => Err("unknown action; is this the default layout of blkparse?".into()),
        }
    }

    fn parse_summary<'a>(&mut self, line: &str) -> Result<Line<'a>, Reason> {
        // Messages about input files may occur anywhere, not only in the summary.
        let input_file = line.starts_with("Input file ") && line.ends_with(" added");
        self.summary |= SUMMARY_STARTS.iter().any(|start| line.starts_with(start));
        if input_file || self.summary {
            return Ok(Line::Skip(SkipReason::Summary));
        }
        Err("neither a record nor a summary of blkparse in its default layout".into())
    }
}

fn is_device(text: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once(',').is_some_and(|(major, minor)| number(major) && number(minor))
}

/// Parses the columns after the action:
///
/// - `RWBS sector + sectors [process]` with data
/// - `FN [process]` for a flush without data
/// - `RWBS bytes (cdb) [process]` for a passthrough command
///
/// A completion has an error code instead of the process, no bytes before a cdb, and a sector even without
/// data: `FN 0 [0]`.
fn parse_request<'a>(mut columns: Columns<'a>, time_ns: u64, device: Device<'a>) -> Result<Line<'a>, Reason> {
    let rwbs = columns.text("RWBS")?;
    // The kernel names its own flush `FF`, blkparse `FN`. A flush with data (`FWS`, only when queued) counts
    // as a write. RWBS of zone commands begins with Z.
    let flush = rwbs.starts_with('F');
    let op = match rwbs.strip_prefix('F').unwrap_or(rwbs).bytes().next() {
        Some(b'R') => Some(Op::Read),
        Some(b'W') => Some(Op::Write),
        Some(b'D') => Some(Op::Trim),
        Some(b'N') => None,
        Some(b'F') if flush => None,
        Some(b'Z') => return Ok(Line::Skip(SkipReason::ZoneCommand)),
        _ => return Err("column RWBS must begin with R, W, D, N, Z or F".into()),
    };
    let without_data = if flush {
        Line::Record { time_ns, op: Op::Flush, offset: 0, bytes: 0, device, detail: Detail::Plain }
    } else {
        Line::Skip(SkipReason::NoData)
    };
    match columns.clone().text("sector")?.bytes().next() {
        Some(b'[') => return Ok(without_data),
        Some(b'(') => return Ok(Line::Skip(SkipReason::Passthrough)),
        _ => {}
    }
    let offset = columns.scaled("sector", SECTOR_BYTES)?;
    match columns.text("`+`")? {
        "+" => {}
        text if flush || text.starts_with('[') => return Ok(without_data),
        _ => return Ok(Line::Skip(SkipReason::Passthrough)),
    }
    let bytes = columns.scaled("sectors", SECTOR_BYTES)?;
    if !columns.text("[process]")?.starts_with(['[', '(']) {
        return Err("column [process] must be in brackets".into());
    }
    match op {
        Some(op) if bytes > 0 => {
            // M after the operation is the kernel's REQ_META, set by file systems for metadata.
            let is_metadata = op == Op::Write && rwbs.contains('M');
            let detail = if is_metadata { Detail::Metadata } else { Detail::Plain };
            Ok(Line::Record { time_ns, op, offset, bytes, device, detail })
        }
        _ => Ok(without_data),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{fails, read, records, records_of, shown};
    use super::super::{Action, Detail, SkipReason, TraceOptions, from_reader};

    const SAMPLE: &str = "\
Input file x.blktrace.0 added
254,0    0        1     0.000000256    35  Q  RM 16968 + 8 [dd]
254,0    0        0     0.000000256     0  m   N cfq35S / alloced
254,0    0        5     0.000000300    35  D  RM 16968 + 8 [dd]
254,0    0        6     0.000062208     0  C  RM 16968 + 8 [0]
254,0    0       62     0.000412928    29  Q FWFSM 524352 + 8 [jbd2/vda-8]
254,0    0       64     0.000412928    26  D  FN [kworker/0:1H]
254,0    1       65     0.000413000    26  D  WS 8 + 16 (    1234) [a b]
  8,16   1       65     0.000413000    26  A  WS 8 + 16 <- (8,17) 4
254,0    0      505     1.5    45  D  DS 688128 + 65536 [fstrim]
254,0    0        4     2.000000000    12  D   R 36 (12 00 00 00 24 00) [udev]
254,0    0        4     2.000000000    12  D   N [x]
CPU0 (tr):
 Reads Queued:           5,       20KiB\t Writes Queued:          95,   499260KiB

Throughput (R/W): 1538KiB/s / 38404615KiB/s
Input file tr.blktrace.0 added
";

    #[test]
    fn issued_requests_are_taken() {
        let mut reader =
            from_reader(Box::new(SAMPLE.as_bytes()), "t", "blkparse", &TraceOptions::default()).expect("ok");
        let taken: Vec<_> = reader.by_ref().map(|record| record.expect("good")).collect();
        assert_eq!(
            shown(&taken),
            [
                "0 read 8687616+4096",
                "412628 flush 0+0",
                "412700 write 4096+8192",
                "1499999700 trim 352321536+33554432"
            ]
        );
        assert_eq!(taken.iter().map(|record| record.position).collect::<Vec<_>>(), [4, 7, 8, 10]);
        assert_eq!(
            reader.skipped().to_string(),
            "2 queued requests (Q), 1 completed requests (C), 1 other actions, 1 passthrough commands, \
             1 requests without data, 1 notes, 5 summary lines"
        );
        assert_eq!(reader.skipped().get(SkipReason::OtherDevice), 0);
    }

    #[test]
    fn queued_requests_can_be_taken_instead() {
        let options = TraceOptions { action: Some(Action::Queue), ..TraceOptions::default() };
        let (records, error) = read("blkparse", SAMPLE.as_bytes(), &options);
        assert!(error.is_none());
        assert_eq!(shown(&records), ["0 read 8687616+4096", "412672 write 268468224+4096"]);
    }

    #[test]
    fn completed_requests_can_be_taken_instead() {
        let text = "8,0 0 1 0.1 1 Q WS 8 + 8 [x]\n8,0 0 1 0.2 0 C WS 8 + 8 [0]\n\
                    8,0 0 1 0.3 0 C FN 0 [0]\n8,0 0 1 0.4 0 C R 16 + 8 (   62208) [0]\n\
                    8,0 0 1 0.5 0 C N 0 [0]\n8,0 0 1 0.6 0 C R (12 00) [0]\n8,0 0 1 0.7 0 C R [0]\n\
                    8,0 0 1 0.8 0 C FF 0 (     100) [0]\n";
        let options = TraceOptions { action: Some(Action::Complete), ..TraceOptions::default() };
        let (records, error) = read("blkparse", text.as_bytes(), &options);
        assert!(error.is_none(), "{error:?}");
        let expected =
            ["0 write 4096+4096", "100000000 flush 0+0", "200000000 read 8192+4096", "600000000 flush 0+0"];
        assert_eq!(shown(&records), expected);
        assert_eq!(
            skipped(text, &options),
            "1 queued requests (Q), 1 passthrough commands, 2 requests without data"
        );
    }

    #[test]
    fn commands_of_zoned_drives_are_counted() {
        let text = "8,0 0 1 0.1 1 D ZR 0 + 8 [x]\n8,0 0 1 0.2 1 D ZAS 0 + 8 [x]\n8,0 0 1 0.3 1 D FZ [x]\n\
                    8,0 0 1 0.4 1 D WS 0 + 8 [x]\n";
        assert_eq!(records("blkparse", text), ["0 write 0+4096"]);
        assert_eq!(skipped(text, &TraceOptions::default()), "3 zone commands");
    }

    fn skipped(text: &str, options: &TraceOptions) -> String {
        let source = Box::new(std::io::Cursor::new(text.to_owned()));
        let mut reader = from_reader(source, "t", "blkparse", options).expect("opens");
        assert!(reader.by_ref().all(|record| record.is_ok()));
        reader.skipped().to_string()
    }

    #[test]
    fn devices_are_told_apart() {
        let text = "8,0 0 1 0.1 1 D R 0 + 8 [x]\n8,16 0 1 0.2 1 D W 8 + 8 [x]\n";
        assert_eq!(records_of("blkparse", "8,16", text), ["0 write 4096+4096"]);
        assert!(fails("blkparse", text).contains("line 2: a second device `8,16` after `8,0`"));
    }

    #[test]
    fn a_flush_without_data_is_a_flush_however_it_is_written() {
        let flushes = [
            "FN [x]",
            "FWS [x]",
            "FN 0 + 0 [x]",
            "FN 0 ( 12) [x]",
            "FWS 8 + 0 [x]",
            "FF 0 + 0 [x]",
            "FFS [x]",
        ];
        for rest in flushes {
            assert_eq!(records("blkparse", &format!("8,0 0 1 0.1 1 D {rest}")), ["0 flush 0+0"], "{rest}");
        }
    }

    #[test]
    fn malformed_lines_are_refused() {
        for (line, expected) in [
            ("# comment", "neither a record nor a summary"),
            ("garbage", "neither a record nor a summary"),
            ("2x4,0 0 1 0.1 1 D R 0 + 8 [x]", "neither a record nor a summary"),
            ("8,0 0 1 0.1 1", "column action is missing"),
            ("8,0 x 1 0.1 1 D R 0 + 8 [x]", "column CPU must be a whole number"),
            ("8,0 0 1 -0.1 1 D R 0 + 8 [x]", "column time must not be negative"),
            ("8,0 0 1 0.1 1 Y R 0 + 8 [x]", "unknown action"),
            ("8,0 0 1 0.1 1 D", "column RWBS is missing"),
            ("8,0 0 1 0.1 1 D Y 0 + 8 [x]", "column RWBS must begin with"),
            ("8,0 0 1 0.1 1 D F 0 + 8 [x]", "column RWBS must begin with"),
            ("8,0 0 1 0.1 1 D R", "column sector is missing"),
            ("8,0 0 1 0.1 1 D R x + 8 [x]", "column sector must be a whole number"),
            ("8,0 0 1 0.1 1 D R -8 + 8 [x]", "column sector must not be negative"),
            ("8,0 0 1 0.1 1 D R 8 + x [x]", "column sectors must be a whole number"),
            ("8,0 0 1 0.1 1 D R 8 + 8", "column [process] is missing"),
            ("8,0 0 1 0.1 1 D R 8 + 8 x", "column [process] must be in brackets"),
            ("8,0 0 1 0.1 1 D R 36028797018963968 + 8 [x]", "column sector is too large"),
            ("8,0 0 1 0.1 1 D R 36028797018963967 + 8 [x]", "the end of the request is too large"),
        ] {
            let message = fails("blkparse", line);
            assert!(message.starts_with("trace test, line 1: ") && message.contains(expected), "{message}");
        }
        let joined = format!("{SAMPLE}{SAMPLE}");
        assert!(fails("blkparse", &joined).contains("line 19: a record after the summary"));
    }

    #[test]
    fn writes_marked_m_are_metadata_and_reads_are_not() {
        let (records, _) = read("blkparse", SAMPLE.as_bytes(), &TraceOptions::default());
        assert!(records.iter().all(|record| record.detail == Detail::Plain), "{records:?}");
        let queued = TraceOptions { action: Some(Action::Queue), ..TraceOptions::default() };
        let (records, _) = read("blkparse", SAMPLE.as_bytes(), &queued);
        let marked: Vec<u64> =
            records.iter().filter(|r| r.detail == Detail::Metadata).map(|r| r.offset / 512).collect();
        assert_eq!(marked, [524_352], "FWFSM of the journal, not RM");
    }
}
