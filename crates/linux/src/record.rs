use std::fs::File;
use std::io::{self, BufWriter, Write};

use strobe_ssd::{Command, DataTag, Hint, Range};
use strobe_types::{SECTOR_BYTES, SimTime};

use crate::interface::Interface;

/// Trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceForm {
    /// I/O log of fio, version 3: microseconds, bytes.
    Fio,
    /// Output of blkparse: nanoseconds and sectors, one D event per request.
    Blkparse,
    /// Strobe's format, which preserves copies and all ranges of a trim.
    Strobe,
}

/// Writer of a trace.
///
/// In the formats of fio and blkparse, each range of a discard becomes one request, and each source of a copy
/// becomes a read.
pub struct Recorder {
    out: BufWriter<File>,
    form: TraceForm,
    device: Interface,
    start: SimTime,
    sequence: u64,
    last_us: u64,
    failed: Option<io::Error>,
}

impl Recorder {
    /// Starts a trace of the drive as `device` in `file`, with times relative to `start`.
    pub fn new(file: File, form: TraceForm, device: Interface, start: SimTime) -> io::Result<Self> {
        let mut out = BufWriter::new(file);
        if form == TraceForm::Strobe {
            writeln!(out, "strobe trace 1")?;
        }
        if form == TraceForm::Fio {
            let name = device.device();
            writeln!(out, "fio version 3 iolog\n0 /dev/{name} add\n0 /dev/{name} open")?;
        }
        Ok(Self { out, form, device, start, sequence: 0, last_us: 0, failed: None })
    }

    /// Changes the time origin to `start`.
    #[must_use]
    pub fn since(self, start: SimTime) -> Self {
        Self { start, ..self }
    }

    pub(crate) fn command(&mut self, now: SimTime, command: &Command<'_>) {
        if self.form == TraceForm::Strobe {
            let rows = rows(now.since(self.start), command);
            if self.failed.is_none() {
                self.failed = self.out.write_all(rows.as_bytes()).err();
            }
            return;
        }
        match *command {
            Command::Read { range } => self.line(now, ("read", "R"), range),
            Command::Write { range, fua, tag } => {
                let rwbs = match (fua, tag.hint) {
                    (false, Hint::None) => "W",
                    (true, Hint::None) => "WF",
                    (false, Hint::Metadata) => "WM",
                    (true, Hint::Metadata) => "WFM",
                };
                self.line(now, ("write", rwbs), range);
            }
            Command::Flush => self.line(now, ("sync", "FN"), Range::new(strobe_types::Lba::new(0), 0)),
            Command::Deallocate(ranges) => {
                for &range in ranges {
                    self.line(now, ("trim", "D"), range);
                }
            }
            Command::WriteZeroes { range, deallocate } => {
                self.line(now, if deallocate { ("trim", "D") } else { ("write", "W") }, range);
            }
            Command::Copy { sources, .. } => {
                for &range in sources {
                    self.line(now, ("read", "R"), range);
                }
            }
        }
    }

    fn line(&mut self, now: SimTime, (action, rwbs): (&str, &str), range: Range) {
        if self.failed.is_some() {
            return;
        }
        let ns = now.since(self.start);
        self.sequence += 1;
        self.last_us = ns / 1000;
        let (lba, sectors) = (range.lba.get(), u64::from(range.sectors));
        let written = match self.form {
            TraceForm::Fio => {
                let (offset, bytes) = (lba * SECTOR_BYTES, sectors * SECTOR_BYTES);
                writeln!(self.out, "{} /dev/{} {action} {offset} {bytes}", ns / 1000, self.device.device())
            }
            // Strobe rows are written by `command`.
            TraceForm::Strobe => Ok(()),
            TraceForm::Blkparse => {
                let major = self.device.major();
                let (s, ns, n) = (ns / 1_000_000_000, ns % 1_000_000_000, self.sequence);
                let head = format_args!("{major},0 0 {n} {s}.{ns:09} 0 D {rwbs}");
                match sectors {
                    0 => writeln!(self.out, "{head} [guest]"),
                    _ => writeln!(self.out, "{head} {lba} + {sectors} [guest]"),
                }
            }
        };
        self.failed = written.err();
    }

    /// Writes the end of the trace and flushes it.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.form == TraceForm::Fio {
            writeln!(self.out, "{} /dev/{} close", self.last_us, self.device.device())?;
        }
        self.out.flush()
    }
}

fn rows(ns: u64, command: &Command<'_>) -> String {
    let row = |what: &str, range: Range| {
        let (offset, bytes) = (range.lba.get() * SECTOR_BYTES, u64::from(range.sectors) * SECTOR_BYTES);
        format!("{ns} {what} {offset} {bytes}")
    };
    let all = |what: &str, ranges: &[Range], end: &str| {
        let numbered = ranges.iter().enumerate();
        // Further ranges of a request are rows with `+`.
        let line = |(at, &range): (usize, &Range)| match at {
            0 => format!("{}{end}\n", row(what, range)),
            _ => format!("{}\n", row("+", range)),
        };
        numbered.map(line).collect()
    };
    match *command {
        Command::Read { range } => row("read", range) + "\n",
        Command::Write { range, tag: DataTag { hint: Hint::Metadata, .. }, .. } => row("meta", range) + "\n",
        Command::Write { range, .. } | Command::WriteZeroes { range, deallocate: false } => {
            row("write", range) + "\n"
        }
        Command::WriteZeroes { range, deallocate: true } => row("trim", range) + "\n",
        Command::Flush => format!("{ns} flush\n"),
        Command::Deallocate(ranges) => all("trim", ranges, ""),
        Command::Copy { destination, sources } => {
            all("copy", sources, &format!(" {}", destination.get() * SECTOR_BYTES))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use strobe_types::Lba;

    use super::*;

    #[test]
    fn metadata_is_marked_as_by_blkparse() {
        let path = std::env::temp_dir().join(format!("strobe-record-meta-{}", std::process::id()));
        let file = File::create(&path).expect("a file");
        let mut recorder =
            Recorder::new(file, TraceForm::Blkparse, Interface::Virtio, SimTime::ZERO).expect("begins");
        for (fua, hint) in
            [(false, Hint::None), (true, Hint::None), (false, Hint::Metadata), (true, Hint::Metadata)]
        {
            let range = Range::new(Lba::new(8), 8);
            recorder.command(SimTime::ZERO, &Command::Write { range, fua, tag: hint.into() });
        }
        recorder.finish().expect("written");
        let text = std::fs::read_to_string(&path).expect("there");
        std::fs::remove_file(&path).expect("removed");
        let rwbs: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(6)).collect();
        assert_eq!(rwbs, ["W", "WF", "WM", "WFM"], "{text}");
    }

    #[test]
    fn what_is_recorded_reads_back_range_by_range() {
        let range = |lba, sectors| Range::new(Lba::new(lba), sectors);
        let path = std::env::temp_dir().join(format!("strobe-record-{}", std::process::id()));
        let file = File::create(&path).expect("a file");
        let mut recorder =
            Recorder::new(file, TraceForm::Strobe, Interface::Virtio, SimTime::from_ns(100)).expect("begins");
        let at = |ns: u64| SimTime::from_ns(100 + ns);
        let trims = [range(0, 8), range(16, 1)];
        let sources = [range(40, 8), range(64, 16)];
        for (ns, command) in [
            (0, Command::Write { range: range(8, 8), fua: true, tag: Hint::None.into() }),
            (5, Command::Write { range: range(8, 1), fua: false, tag: Hint::Metadata.into() }),
            (7, Command::Deallocate(&trims)),
            (9, Command::Copy { destination: Lba::new(128), sources: &sources }),
            (9, Command::Flush),
            (12, Command::Read { range: range(8, 8) }),
        ] {
            recorder.command(at(ns), &command);
        }
        recorder.finish().expect("written");
        let mut text = String::new();
        File::open(&path).expect("there").read_to_string(&mut text).expect("text");
        std::fs::remove_file(&path).expect("removed");
        let expected = "strobe trace 1\n0 write 4096 4096\n5 meta 4096 512\n7 trim 0 4096\n7 + 8192 512\n\
                        9 copy 20480 4096 65536\n9 + 32768 8192\n9 flush\n12 read 4096 4096\n";
        assert_eq!(text, expected);
    }
}
