//! Saving and loading the state of a drive at any time, with its in-flight commands.

use strobe_ftl::MappingScheme;
use strobe_types::{State, StateError, StateReader, StateWriter, Stored, load_part, save_part};

use super::Drive;
use super::in_flight::InFlight;
use crate::error::CommandError;

impl<F: MappingScheme + State> State for Drive<F> {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        let Self {
            ftl,
            geometry: _,
            controller,
            nvram,
            buffer,
            write_cache,
            limits: _,
            drive_sectors: _,
            ..
        } = self;
        let Self {
            host,
            tally: _,
            stalls,
            latency,
            is_timed: _,
            idle_after_ns: _,
            stamp,
            units,
            read,
            in_flight,
            ..
        } = self;
        let Self { events, batches, power, oracle, before, faults, .. } = self;
        if power.is_some() || oracle.is_some() {
            return out.refuse("a power cut is planned, and its plan cannot be saved");
        }
        // `load_state` reads the parts in this order.
        ftl.save_state(out);
        controller.save_state(out);
        save_part(nvram.as_ref(), out);
        save_part(buffer.as_ref(), out);
        write_cache.save_state(out);
        (*host, *stalls).save_state(out);
        latency.save_state(out);
        (*stamp, *batches).save_state(out);
        units.save_state(out);
        read.save_state(out);
        in_flight.save_state(out);
        events.save_state(out);
        before.save_state(out);
        faults.save_state(out);
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        (self.power, self.oracle) = (None, None);
        self.ftl.load_state(from)?;
        self.controller.load_state(from)?;
        load_part(self.nvram.as_mut(), from)?;
        load_part(self.buffer.as_mut(), from)?;
        self.write_cache.load_state(from)?;
        (self.host, self.stalls) = Stored::restored(from)?;
        self.latency.load_state(from)?;
        (self.stamp, self.batches) = Stored::restored(from)?;
        self.units.load_state(from)?;
        self.read.load_state(from)?;
        self.in_flight.load_state(from)?;
        self.events.load_state(from)?;
        self.before.load_state(from)?;
        self.faults.load_state(from)
    }
}

impl<P: Stored> Stored for InFlight<P> {
    fn store(&self, out: &mut StateWriter<'_>) {
        let Self { tag, issued, kind, tally, work, result, rest, ready, done, .. } = self;
        let Self { youngest, seen, stalled, has_begun, .. } = self;
        tag.store(out);
        issued.store(out);
        kind.store(out);
        tally.store(out);
        work.store(out);
        // Only results of executed commands can be stored: data, or an unrecovered read error.
        match result {
            Ok(bytes) => (None::<(u64, u32)>, bytes.clone()).store(out),
            Err(CommandError::Unreadable { lba, sectors }) => {
                (Some((*lba, *sectors)), Vec::<u8>::new()).store(out);
            }
            Err(_) => out.refuse("a rejected command is not delivered yet; advance the drive first"),
        }
        rest.store(out);
        (*ready, *done).store(out);
        (*youngest, *seen).store(out);
        stalled.store(out);
        has_begun.store(out);
    }

    fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        let (tag, issued, kind) = Stored::restored(from)?;
        let (tally, work) = Stored::restored(from)?;
        let (unreadable, bytes) = Stored::restored(from)?;
        let result = match unreadable {
            None => Ok(bytes),
            Some((lba, sectors)) => Err(CommandError::Unreadable { lba, sectors }),
        };
        let rest = Stored::restored(from)?;
        let (ready, done) = Stored::restored(from)?;
        let (youngest, seen) = Stored::restored(from)?;
        let (stalled, has_begun) = Stored::restored(from)?;
        Ok(Self {
            tag,
            issued,
            kind,
            tally,
            work,
            result,
            rest,
            ready,
            done,
            youngest,
            seen,
            stalled,
            has_begun,
        })
    }
}
