//! Events as a trace in the Chrome trace-event format.
//!
//! Four processes: the host, with a track for each queue slot; the FTL; the dies; the channels. A die has
//! several tracks if its operations overlap (several planes, cache reads). An arrow leads from a host command
//! to each flash operation issued while that command was served.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Write};

use serde_json::{Value, json};
use strobe_nand::{EventKind, FlashOp, HostCommand};

use super::EventFile;
use super::lines;
use super::tracks::{self, Slice};

const HOST: u32 = 1;
const FTL: u32 = 2;
const DIES: u32 = 3;
const CHANNELS: u32 = 4;

/// Writes the events to `out` as one JSON object with `traceEvents`.
pub fn perfetto(file: EventFile<'_>, out: &mut dyn Write) -> io::Result<()> {
    let recorded = file.recorded;
    let mut host = tracks::host(recorded);
    let mut flash = tracks::flash(recorded);
    let slots = tracks::spread(&mut host, |_| 0).get(&0).copied().unwrap_or(1);
    let lanes = tracks::spread(&mut flash, |op| op.die);
    let mut trace = Trace { out, is_first: true };
    trace.begin()?;
    trace.names(&file, slots, &lanes)?;
    trace.host(&host)?;
    let dies = DieTracks::of(&lanes);
    for slice in &flash {
        trace.flash(slice, &dies)?;
    }
    let commands: BTreeMap<u64, &Slice<HostCommand>> =
        host.iter().map(|slice| (slice.what.number, slice)).collect();
    for slice in flash.iter().filter(|slice| slice.is_first) {
        if let Some(command) = slice.what.command.and_then(|number| commands.get(&number)) {
            trace.flow(command, slice, &dies)?;
        }
    }
    trace.others(&file)?;
    trace.end(&file)
}

/// Track numbers: every die reserves the lanes of the die with the most lanes.
struct DieTracks {
    lanes: u32,
}

impl DieTracks {
    fn of(lanes: &BTreeMap<u32, usize>) -> Self {
        Self { lanes: lanes.values().copied().max().unwrap_or(1) as u32 }
    }

    fn tid(&self, die: u32, lane: usize) -> u32 {
        die * self.lanes + lane as u32
    }
}

struct Trace<'a> {
    out: &'a mut dyn Write,
    is_first: bool,
}

/// Nanoseconds, printed exactly in the format's microseconds.
struct Micros(u64);

impl Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl Trace<'_> {
    fn begin(&mut self) -> io::Result<()> {
        self.out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")
    }

    fn end(&mut self, file: &EventFile<'_>) -> io::Result<()> {
        let about = json!({
            "strobe_version": env!("CARGO_PKG_VERSION"), "policy": file.policy(),
            "is_cut_off": file.recorded.is_cut_off,
        });
        writeln!(self.out, "\n],\"otherData\":{about}}}")
    }

    fn event(&mut self, ph: char, (pid, tid): (u32, u32), at_ns: u64, more: impl Display) -> io::Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.out.write_all(b",\n")?;
        }
        let ts = Micros(at_ns);
        write!(self.out, "{{\"ph\":\"{ph}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts}{more}}}")
    }

    fn slice(
        &mut self,
        track: (u32, u32),
        (from_ns, until_ns): (u64, u64),
        name: &str,
        args: &Value,
    ) -> io::Result<()> {
        let dur = Micros(until_ns.saturating_sub(from_ns));
        let more = format_args!(",\"dur\":{dur},\"name\":\"{name}\",\"args\":{args}");
        self.event('X', track, from_ns, more)
    }

    fn names(&mut self, file: &EventFile<'_>, slots: usize, lanes: &BTreeMap<u32, usize>) -> io::Result<()> {
        let processes = [(HOST, "host commands"), (FTL, "FTL"), (DIES, "dies"), (CHANNELS, "channels")];
        // The sort index keeps this order in viewers.
        for (pid, name) in processes {
            let more = format!(",\"name\":\"process_name\",\"args\":{{\"name\":\"{name}\"}}");
            self.event('M', (pid, 0), 0, more)?;
            let more = format!(",\"name\":\"process_sort_index\",\"args\":{{\"sort_index\":{pid}}}");
            self.event('M', (pid, 0), 0, more)?;
        }
        for slot in 0..slots.max(1) {
            self.thread((HOST, slot as u32), &format!("queue slot {slot}"))?;
        }
        self.thread((FTL, 0), "decisions")?;
        let nand = &file.drive.nand;
        let dies = DieTracks::of(lanes);
        for die in 0..nand.channels * nand.dies_per_channel {
            // Extra lanes are for operations that overlap on one die.
            for lane in 0..lanes.get(&die).copied().unwrap_or(1) {
                let name = if lane == 0 { format!("die {die}") } else { format!("die {die} +{lane}") };
                self.thread((DIES, dies.tid(die, lane)), &name)?;
            }
        }
        for channel in 0..nand.channels {
            self.thread((CHANNELS, channel), &format!("channel {channel}"))?;
        }
        Ok(())
    }

    fn thread(&mut self, (pid, tid): (u32, u32), name: &str) -> io::Result<()> {
        let more = format!(",\"name\":\"thread_name\",\"args\":{{\"name\":\"{name}\"}}");
        self.event('M', (pid, tid), 0, more)?;
        let more = format!(",\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{tid}}}");
        self.event('M', (pid, tid), 0, more)
    }

    fn host(&mut self, slices: &[Slice<HostCommand>]) -> io::Result<()> {
        for Slice { what, from_ns, until_ns, lane, is_whole, .. } in slices {
            let args = json!({
                "command": what.number, "tag": what.tag, "lba": what.lba, "sectors": what.sectors,
                "is_complete": is_whole,
            });
            self.slice((HOST, *lane as u32), (*from_ns, *until_ns), what.kind, &args)?;
        }
        Ok(())
    }

    fn flash(&mut self, slice: &Slice<FlashOp>, dies: &DieTracks) -> io::Result<()> {
        let op = &slice.what;
        let args = json!({
            "operation": op.number, "cause": op.cause.name(), "plane": op.plane, "block": op.block,
            "page": op.page, "command": op.command, "waited_ns": slice.from_ns.saturating_sub(op.issued.as_ns()),
            "is_complete": slice.is_whole,
        });
        let track = (DIES, dies.tid(op.die, slice.lane));
        let name = format!("{} ({})", op.op.name(), op.cause.name());
        self.slice(track, (slice.from_ns, slice.until_ns), &name, &args)
    }

    /// Arrow from the operation's issue, clamped to the command, to its start on the die.
    fn flow(
        &mut self,
        command: &Slice<HostCommand>,
        slice: &Slice<FlashOp>,
        dies: &DieTracks,
    ) -> io::Result<()> {
        let op = &slice.what;
        let id = op.number;
        let issued = op.issued.as_ns().clamp(command.from_ns, command.until_ns);
        let more = format_args!(",\"name\":\"causes\",\"cat\":\"causes\",\"id\":{id}");
        self.event('s', (HOST, command.lane as u32), issued, more)?;
        let more = format_args!(",\"name\":\"causes\",\"cat\":\"causes\",\"id\":{id},\"bp\":\"e\"");
        self.event('f', (DIES, dies.tid(op.die, slice.lane)), slice.from_ns, more)
    }

    fn others(&mut self, file: &EventFile<'_>) -> io::Result<()> {
        let mut outstanding = 0i64;
        for event in &file.recorded.events {
            let now = event.at.as_ns();
            match event.kind {
                EventKind::Submitted(_) => {
                    outstanding += 1;
                    self.counter((HOST, 0), now, "outstanding commands", outstanding.max(0) as u64)?;
                }
                EventKind::Completed(..) => {
                    outstanding -= 1;
                    self.counter((HOST, 0), now, "outstanding commands", outstanding.max(0) as u64)?;
                }
                EventKind::Transfer { channel, die, carries, until } => {
                    let args = json!({ "die": die });
                    self.slice((CHANNELS, channel), (now, until.as_ns()), carries, &args)?;
                }
                EventKind::FlashBegin(_)
                | EventKind::FlashEnd(_)
                | EventKind::Suspended(_)
                | EventKind::Resumed(_) => {}
                _ => self.decision(file, now, &event.kind)?,
            }
            // A power cut drops the commands in flight.
            if matches!(event.kind, EventKind::PowerCut) {
                outstanding = 0;
            }
        }
        Ok(())
    }

    fn decision(&mut self, file: &EventFile<'_>, now: u64, kind: &EventKind) -> io::Result<()> {
        let (name, args) = lines::fields(kind, file.policy(), now);
        let erased = match *kind {
            EventKind::Victim { erased_blocks, .. }
            | EventKind::Opened { erased_blocks, .. }
            | EventKind::Erased { erased_blocks, .. }
            | EventKind::ThrottleOn { erased_blocks, .. } => Some(erased_blocks),
            _ => None,
        };
        self.event('i', (FTL, 0), now, format_args!(",\"s\":\"t\",\"name\":\"{name}\",\"args\":{args}"))?;
        match erased {
            Some(erased) => self.counter((FTL, 0), now, "erased blocks", erased.into()),
            None => Ok(()),
        }
    }

    fn counter(&mut self, track: (u32, u32), now: u64, name: &str, value: u64) -> io::Result<()> {
        self.event('C', track, now, format_args!(",\"name\":\"{name}\",\"args\":{{\"value\":{value}}}"))
    }
}
