//! Binary records of blktrace: one file per CPU, `struct blk_io_trace` of the Linux kernel.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic `0x65617400` + version 7, in the byte order of the file |
//! | 4..8 | sequence number |
//! | 8..16 | time, ns |
//! | 16..24 | first sector of 512 B |
//! | 24..28 | bytes |
//! | 28..32 | action: step in the low 16 bits, categories in the high 16 |
//! | 32..36 | PID |
//! | 36..40 | device: minor in the low 20 bits, major above |
//! | 40..44 | CPU |
//! | 44..46 | error |
//! | 46..48 | length of the payload that follows, bytes |

use strobe_types::{Op, SECTOR_BYTES};

use super::detail::Detail;
use super::device::Device;
use super::format::{Format, Open, Settings};
use super::input::Input;
use super::line::{Line, Source};
use super::merged::{Merged, Timed};
use super::problem::Problem;
use super::{Action, Position, SkipReason};

pub(super) const FORMAT: Format = Format {
    name: "blktrace",
    summary: "blktrace binary: the per-CPU files NAME.blktrace.0, .1, ... merged by time, or the output of blkparse -d",
    columns: "records of 48 bytes in either byte order: time (ns), sector (512 B), bytes, action, device and others, then a payload",
    source: "include/uapi/linux/blktrace_api.h, struct blk_io_trace, version 7",
    takes_action: true,
    time_unit_ns: 1,
    open: Open::PerCpu(|input, more, settings| {
        let file = Records::new(input, settings.clone());
        if more.is_empty() {
            return Box::new(file);
        }
        let more = more.into_iter().map(|input| Records::new(input, settings.clone()));
        Box::new(Merged::new(std::iter::once(file).chain(more).collect()))
    }),
};

const RECORD_BYTES: usize = 48;
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;

/// Step bits of an action, without bit 8, which marks a cgroup in the payload.
const STEP_MASK: u32 = 0xfeff;
const STEP_QUEUE: u32 = 1;
const STEP_ISSUE: u32 = 7;
const STEP_COMPLETE: u32 = 8;

const CATEGORY_WRITE: u32 = 1 << 17;
const CATEGORY_FLUSH: u32 = 1 << 18;
const CATEGORY_PASSTHROUGH: u32 = 1 << 25;
const CATEGORY_NOTIFY: u32 = 1 << 26;
const CATEGORY_META: u32 = 1 << 28;
const CATEGORY_DISCARD: u32 = 1 << 29;

struct Records {
    input: Input,
    wanted: Action,
    unit_ns: u64,
    record: [u8; RECORD_BYTES],
    length: usize,
    number: u64,
    big_endian: Option<bool>,
    device: u32,
    device_name: String,
}

impl Source for Records {
    fn next(&mut self) -> Result<Option<Line<'_>>, Problem> {
        if self.load()? { self.decode().map(Some) } else { Ok(None) }
    }

    fn position(&self) -> Position {
        Position::Record(self.number)
    }

    fn text(&self) -> String {
        self.record[..self.length].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Timed for Records {
    fn load(&mut self) -> Result<bool, Problem> {
        self.number += 1;
        self.length = 0;
        self.length = self.input.read(&mut self.record)?;
        if self.length == 0 {
            return Ok(false);
        }
        if self.length < RECORD_BYTES {
            let reason = format!("it has {} of {RECORD_BYTES} bytes", self.length);
            return Err(Problem::Truncated(reason));
        }
        self.check_magic()?;
        let payload = self.u32_at(44);
        // The payload length is the second half of this word in file order.
        let payload = if self.big_endian == Some(true) { payload & 0xffff } else { payload >> 16 };
        if !self.input.skip(payload as usize)? {
            return Err(Problem::Truncated(format!("its payload has less than {payload} bytes")));
        }
        Ok(true)
    }

    fn time(&self) -> u64 {
        self.u64_at(8)
    }

    fn decode(&mut self) -> Result<Line<'_>, Problem> {
        let action = self.u32_at(28);
        if action & CATEGORY_NOTIFY != 0 {
            return Ok(Line::Skip(SkipReason::Note));
        }
        // A record is a request only if blkparse would print it as the wanted action.
        let step = match action & STEP_MASK {
            STEP_ISSUE => Action::Issue,
            STEP_QUEUE => Action::Queue,
            STEP_COMPLETE => Action::Complete,
            _ => return Ok(Line::Skip(SkipReason::OtherAction)),
        };
        if step != self.wanted {
            return Ok(Line::Skip(step.skipped_as()));
        }
        if action & CATEGORY_PASSTHROUGH != 0 {
            return Ok(Line::Skip(SkipReason::Passthrough));
        }
        let bytes = u64::from(self.u32_at(24));
        let op = match bytes {
            0 if action & CATEGORY_FLUSH != 0 => Op::Flush,
            0 => return Ok(Line::Skip(SkipReason::NoData)),
            _ if action & CATEGORY_DISCARD != 0 => Op::Trim,
            _ if action & CATEGORY_WRITE != 0 => Op::Write,
            _ => Op::Read,
        };
        // A flush without data has no meaningful sector.
        let sector = if op == Op::Flush { 0 } else { self.u64_at(16) };
        let offset = sector
            .checked_mul(SECTOR_BYTES)
            .ok_or_else(|| Problem::Malformed(format!("sector {sector} is too large")))?;
        let time = self.time();
        let time_ns = time
            .checked_mul(self.unit_ns)
            .ok_or_else(|| Problem::Malformed(format!("time {time} is too large")))?;
        let is_metadata = op == Op::Write && action & CATEGORY_META != 0;
        let device = self.u32_at(36);
        // The name is formatted only when the device changes.
        if device != self.device {
            self.device = device;
            self.device_name = format!("{},{}", device >> 20, device & 0xf_ffff);
        }
        Ok(Line::Record {
            time_ns,
            op,
            offset,
            bytes,
            device: Device::Name(&self.device_name),
            detail: if is_metadata { Detail::Metadata } else { Detail::Plain },
        })
    }

    fn name(&self) -> &str {
        self.input.name()
    }
}

impl Records {
    fn new(input: Input, settings: Settings) -> Self {
        Self {
            input,
            wanted: settings.action,
            unit_ns: settings.unit_ns,
            record: [0; RECORD_BYTES],
            length: 0,
            number: 0,
            big_endian: None,
            device: 0,
            device_name: "0,0".into(),
        }
    }

    fn u32_at(&self, at: usize) -> u32 {
        let bytes = [self.record[at], self.record[at + 1], self.record[at + 2], self.record[at + 3]];
        if self.big_endian == Some(true) { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn u64_at(&self, at: usize) -> u64 {
        let (first, second) = (u64::from(self.u32_at(at)), u64::from(self.u32_at(at + 4)));
        if self.big_endian == Some(true) { first << 32 | second } else { second << 32 | first }
    }

    fn check_magic(&mut self) -> Result<(), Problem> {
        // The magic of the first record decides the byte order of the file.
        if self.big_endian.is_none() {
            self.big_endian = Some(self.u32_at(0).swap_bytes() & !0xff == MAGIC);
        }
        let magic = self.u32_at(0);
        if magic & !0xff != MAGIC {
            let reason = "this is not a blktrace record; the text of blkparse needs `--format blkparse`";
            return Err(Problem::Malformed(reason.into()));
        }
        match magic & 0xff {
            VERSION => Ok(()),
            version => {
                let reason = format!("blktrace version {version}, only version {VERSION} is supported");
                Err(Problem::Malformed(reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{read, shown};
    use super::super::{Action, TraceError, TraceOptions};

    const READ: u32 = 1 << 16;
    const WRITE: u32 = 1 << 17;
    const FLUSH: u32 = 1 << 18;
    const DISCARD: u32 = 1 << 29;
    const DEVICE: u32 = 254 << 20;

    struct Raw {
        time_ns: u64,
        sector: u64,
        bytes: u32,
        action: u32,
        device: u32,
        payload: u16,
    }

    const ISSUED: Raw =
        Raw { time_ns: 1000, sector: 8, bytes: 4096, action: WRITE | 7, device: DEVICE, payload: 0 };

    impl Raw {
        fn encode(&self, big: bool) -> Vec<u8> {
            let mut out = Vec::new();
            let u32s = |out: &mut Vec<u8>, values: &[u32]| {
                for value in values {
                    out.extend(if big { value.to_be_bytes() } else { value.to_le_bytes() });
                }
            };
            u32s(&mut out, &[0x6561_7407, 1]);
            for value in [self.time_ns, self.sector] {
                out.extend(if big { value.to_be_bytes() } else { value.to_le_bytes() });
            }
            u32s(&mut out, &[self.bytes, self.action, 35, self.device, 0]);
            out.extend([0, 0]);
            out.extend(if big { self.payload.to_be_bytes() } else { self.payload.to_le_bytes() });
            out.extend(vec![0x5a; self.payload.into()]);
            out
        }
    }

    fn sample(big: bool) -> Vec<u8> {
        let records = [
            Raw { action: 1 << 26, payload: 70, ..ISSUED },
            Raw { action: READ | 1, ..ISSUED },
            Raw { action: READ | 7, ..ISSUED },
            Raw { time_ns: 1001, payload: u16::MAX, ..ISSUED },
            Raw { time_ns: 1002, action: DISCARD | WRITE | 7, ..ISSUED },
            Raw { time_ns: 1003, action: FLUSH | READ | 7, bytes: 0, sector: u64::MAX, ..ISSUED },
            Raw { time_ns: 1004, action: FLUSH | WRITE | 0x107, sector: 1 << 33, ..ISSUED },
            Raw { time_ns: 1005, action: WRITE | 1 << 25 | 7, ..ISSUED },
            Raw { time_ns: 1006, bytes: 0, ..ISSUED },
        ];
        records.iter().flat_map(|record| record.encode(big)).collect()
    }

    fn fails(bytes: &[u8]) -> TraceError {
        read("blktrace", bytes, &TraceOptions::default()).1.expect("an error")
    }

    #[test]
    fn both_byte_orders_give_the_same_records() {
        for big in [false, true] {
            let (records, error) = read("blktrace", &sample(big), &TraceOptions::default());
            assert!(error.is_none(), "{error:?}");
            assert_eq!(
                shown(&records),
                [
                    "0 read 4096+4096",
                    "1 write 4096+4096",
                    "2 trim 4096+4096",
                    "3 flush 0+0",
                    "4 write 4398046511104+4096"
                ]
            );
            assert_eq!(records.iter().map(|record| record.position).collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
            let options = TraceOptions { action: Some(Action::Queue), ..TraceOptions::default() };
            assert_eq!(shown(&read("blktrace", &sample(big), &options).0), ["0 read 4096+4096"]);
        }
    }

    #[test]
    fn a_cut_anywhere_within_a_record_is_found() {
        let one = Raw { payload: 20, ..ISSUED }.encode(false);
        let bytes = one.repeat(3);
        for length in 0..=bytes.len() {
            let (records, error) = read("blktrace", &bytes[..length], &TraceOptions::default());
            assert_eq!(records.len(), length / one.len());
            match error {
                None => assert_eq!(length % one.len(), 0),
                Some(TraceError::Truncated { position, .. }) => {
                    assert_eq!(position.number() as usize, length / one.len() + 1);
                }
                Some(other) => panic!("{other}"),
            }
        }
    }

    #[test]
    fn devices_have_the_names_of_blkparse() {
        let mut bytes = sample(false);
        bytes.extend(Raw { device: 8 << 20 | 16, ..ISSUED }.encode(false));
        assert!(matches!(fails(&bytes), TraceError::SeveralDevices { first, second, .. }
            if first == "254,0" && second == "8,16"));
        let options = TraceOptions { device: Some("8,16".into()), ..TraceOptions::default() };
        assert_eq!(shown(&read("blktrace", &bytes, &options).0), ["0 write 4096+4096"]);
    }

    #[test]
    fn what_is_not_a_record_of_version_7_is_refused() {
        let good = ISSUED.encode(false);
        let mut newer = good.clone();
        newer[0] = 8;
        for (bytes, expected) in [
            (vec![b'x'; 48], "record 1: this is not a blktrace record"),
            ([good.clone(), ISSUED.encode(true)].concat(), "record 2: this is not a blktrace record"),
            (newer, "record 1: blktrace version 8, only version 7 is supported"),
            (
                Raw { sector: 1 << 55, ..ISSUED }.encode(false),
                "record 1: sector 36028797018963968 is too large",
            ),
            (Raw { sector: (1 << 55) - 1, ..ISSUED }.encode(false), "the end of the request is too large"),
        ] {
            let error = fails(&bytes);
            assert!(matches!(error, TraceError::Malformed { .. }));
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
