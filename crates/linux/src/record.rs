//! What the guest asks of its disk, as a block trace.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use strobe_ssd::{Command, Range};
use strobe_types::{SECTOR_BYTES, SimTime};

/// The form of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceForm {
    /// fio's I/O log, version 3: microseconds, bytes.
    Fio,
    /// What blkparse prints: nanoseconds, sectors; one event D per request.
    Blkparse,
}

/// Writes a trace. Each range of a discard is a request of its own there, and so is each source of a copy, as
/// a read: neither form can say more.
pub struct Recorder {
    out: BufWriter<File>,
    form: TraceForm,
    start: SimTime,
    sequence: u64,
    last_us: u64,
    failed: Option<io::Error>,
}

const DEVICE: &str = "/dev/vda";

impl Recorder {
    /// A trace that goes to `file`, with times since `start`.
    pub fn new(file: File, form: TraceForm, start: SimTime) -> io::Result<Self> {
        let mut out = BufWriter::new(file);
        if form == TraceForm::Fio {
            writeln!(out, "fio version 3 iolog\n0 {DEVICE} add\n0 {DEVICE} open")?;
        }
        Ok(Self { out, form, start, sequence: 0, last_us: 0, failed: None })
    }

    pub(crate) fn command(&mut self, now: SimTime, command: &Command<'_>) {
        match *command {
            Command::Read { range } => self.line(now, ("read", "R"), range),
            Command::Write { range, fua, .. } => {
                self.line(now, ("write", if fua { "WF" } else { "W" }), range);
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
                writeln!(self.out, "{} {DEVICE} {action} {offset} {bytes}", ns / 1000)
            }
            TraceForm::Blkparse => {
                let (s, ns, n) = (ns / 1_000_000_000, ns % 1_000_000_000, self.sequence);
                let head = format_args!("254,0 0 {n} {s}.{ns:09} 0 D {rwbs}");
                match sectors {
                    0 => writeln!(self.out, "{head} [guest]"),
                    _ => writeln!(self.out, "{head} {lba} + {sectors} [guest]"),
                }
            }
        };
        self.failed = written.err();
    }

    /// Writes the end of the trace and all that is still buffered.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.form == TraceForm::Fio {
            writeln!(self.out, "{} {DEVICE} close", self.last_us)?;
        }
        self.out.flush()
    }
}
