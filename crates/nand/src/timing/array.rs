//! Dies and channels as resources in virtual time.

use strobe_types::{Geometry, Place, SimTime};

use super::Timing;
use super::schedule::Schedule;

/// Array and bus times of the chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimingConfig {
    /// tR: array to page register, in ns.
    pub read_ns: u64,
    /// tPROG: page register to array, in ns.
    pub program_ns: u64,
    /// tBERS: block erase, in ns.
    pub erase_ns: u64,
    /// Bus rate of a channel in MB/s (10⁶ bytes); 0 means transfers take no time.
    pub channel_mb_s: u32,
    /// Spare bytes of a page; each mapping unit carries its share over the bus.
    pub spare_bytes: u32,
    /// Cache program: the next page may be transferred while the array programs the last one.
    pub cache_program: bool,
}

/// Dies and channels with their reservations.
///
/// A die does one array operation at a time and a channel carries one transfer at a time. An
/// operation takes the first gap in which it fits: one that has been booked for later (a copy that
/// waits for its read) leaves the time until then to others. Only operations on the same block keep
/// their order: pages are programmed in order, a read waits for the programs booked before it, an
/// erase for everything. Operations of the same kind on different planes of one die, issued at the
/// same instant at the same page number, share one array time (multi-plane command).
#[derive(Clone, Debug)]
pub struct ArrayTiming {
    config: TimingConfig,
    page_transfer_ns: u64,
    unit_transfer_ns: u64,
    dies: Vec<Die>,
    buses: Vec<Schedule>,
    blocks: Vec<BlockTimes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArrayOp {
    Read,
    Program,
    Erase,
}

/// The array operation booked last on a die, as long as further planes can join it.
#[derive(Clone, Copy, Debug)]
struct Group {
    op: ArrayOp,
    issued: SimTime,
    page: u32,
    planes: u64,
    /// When the registers of all planes are free for this operation.
    registers: SimTime,
    /// When the array starts, and when the die is free again.
    start: SimTime,
    end: SimTime,
}

#[derive(Clone, Debug, Default)]
struct Die {
    array: Schedule,
    /// The register that receives transfers, where it is apart from the array (cache program).
    register: Schedule,
    last: Option<Group>,
}

/// Until when a block is spoken for.
#[derive(Clone, Copy, Debug, Default)]
struct BlockTimes {
    /// End of the last program or erase.
    written: SimTime,
    /// End of the last operation of any kind.
    used: SimTime,
}

impl ArrayTiming {
    /// Idle dies and channels.
    pub fn new(config: TimingConfig, geometry: &Geometry) -> Self {
        let transfer_ns = |bytes: u64| match config.channel_mb_s {
            0 => 0,
            rate => (bytes * 1000).div_ceil(u64::from(rate)),
        };
        let spec = geometry.spec();
        let spare_per_unit = config.spare_bytes / (spec.page_bytes / spec.unit_bytes);
        Self {
            config,
            page_transfer_ns: transfer_ns(u64::from(spec.page_bytes) + u64::from(config.spare_bytes)),
            unit_transfer_ns: transfer_ns(u64::from(spec.unit_bytes) + u64::from(spare_per_unit)),
            dies: vec![Die::default(); geometry.dies() as usize],
            buses: vec![Schedule::default(); spec.channels as usize],
            blocks: vec![BlockTimes::default(); geometry.blocks() as usize],
        }
    }
}

impl Die {
    /// The last operation, if one issued `now` at `place` can share its array time.
    #[inline]
    fn joins(&self, op: ArrayOp, now: SimTime, place: Place) -> Option<Group> {
        let group = self.last?;
        let same = group.op == op && group.issued == now && group.page == place.page;
        (same && group.planes & plane_bit(place) == 0).then_some(group)
    }
}

fn plane_bit(place: Place) -> u64 {
    1 << (place.plane & 63)
}

impl Timing for ArrayTiming {
    const TIMED: bool = true;

    fn idle_at(&self) -> SimTime {
        self.dies.iter().map(|die| die.array.idle_at()).max().unwrap_or_default()
    }

    #[inline]
    fn read(&mut self, now: SimTime, units: u32, place: impl FnOnce() -> Place) -> SimTime {
        let place = place();
        let (die, bus) = (&mut self.dies[place.die.index()], &mut self.buses[place.channel.index()]);
        let block = &mut self.blocks[place.block.index()];
        let (read_ns, transfer_ns) = (self.config.read_ns, self.unit_transfer_ns * u64::from(units));

        if let Some(joined) = die.joins(ArrayOp::Read, now, place)
            && block.written <= joined.start
        {
            let sent = bus.next_fit(joined.start + read_ns, transfer_ns);
            let end = joined.end.max(sent + transfer_ns);
            if die.array.extend(joined.end, end) {
                bus.book(sent, transfer_ns);
                block.used = block.used.max(sent + transfer_ns);
                die.last = Some(Group { planes: joined.planes | plane_bit(place), end, ..joined });
                return sent + transfer_ns;
            }
        }
        // The page goes over the bus as soon as it is sensed: find a time that suits both.
        let mut start = now.max(block.written);
        loop {
            start = die.array.next_fit(start, read_ns + transfer_ns);
            let sent = bus.next_fit(start + read_ns, transfer_ns);
            if sent == start + read_ns {
                break;
            }
            start = start + sent.since(start + read_ns);
        }
        die.array.book(start, read_ns + transfer_ns);
        bus.book(start + read_ns, transfer_ns);
        let end = start + (read_ns + transfer_ns);
        let planes = plane_bit(place);
        die.last = Some(Group {
            op: ArrayOp::Read,
            issued: now,
            page: place.page,
            planes,
            registers: start,
            start,
            end,
        });
        block.used = block.used.max(end);
        end
    }

    #[inline]
    fn program(&mut self, now: SimTime, place: impl FnOnce() -> Place) -> SimTime {
        let place = place();
        let (die, bus) = (&mut self.dies[place.die.index()], &mut self.buses[place.channel.index()]);
        let block = &mut self.blocks[place.block.index()];
        let (program_ns, transfer_ns) = (self.config.program_ns, self.page_transfer_ns);

        if let Some(joined) = die.joins(ArrayOp::Program, now, place) {
            let loading = bus.next_fit(joined.registers, transfer_ns);
            let start = joined.start.max(loading + transfer_ns);
            let end = start + program_ns;
            if block.written <= start && die.array.extend(joined.end, end) {
                bus.book(loading, transfer_ns);
                (block.written, block.used) = (end, block.used.max(end));
                die.last = Some(Group { planes: joined.planes | plane_bit(place), start, end, ..joined });
                return end;
            }
        }
        let (loading, start) = if self.config.cache_program {
            let mut loading = now;
            loop {
                loading = bus.next_fit(loading, transfer_ns);
                let start = die.array.next_fit(block.written.max(loading + transfer_ns), program_ns);
                // The register is taken until the array has the page.
                let held_ns = start.since(loading);
                let free = die.register.next_fit(loading, held_ns);
                if free == loading {
                    die.register.book(loading, held_ns);
                    die.array.book(start, program_ns);
                    break (loading, start);
                }
                loading = free;
            }
        } else {
            let mut loading = now.max(block.written);
            loop {
                loading = die.array.next_fit(loading, transfer_ns + program_ns);
                let free = bus.next_fit(loading, transfer_ns);
                if free == loading {
                    break;
                }
                loading = free;
            }
            die.array.book(loading, transfer_ns + program_ns);
            (loading, loading + transfer_ns)
        };
        bus.book(loading, transfer_ns);
        let end = start + program_ns;
        (block.written, block.used) = (end, block.used.max(end));
        die.last = Some(Group {
            op: ArrayOp::Program,
            issued: now,
            page: place.page,
            planes: plane_bit(place),
            registers: loading,
            start,
            end,
        });
        end
    }

    #[inline]
    fn erase(&mut self, now: SimTime, place: impl FnOnce() -> Place) -> SimTime {
        let place = place();
        let die = &mut self.dies[place.die.index()];
        let block = &mut self.blocks[place.block.index()];
        let earliest = now.max(block.used);
        let joined = die.joins(ArrayOp::Erase, now, place).filter(|group| earliest <= group.start);
        let start = match joined {
            Some(group) => group.start,
            None => {
                let start = die.array.next_fit(earliest, self.config.erase_ns);
                die.array.book(start, self.config.erase_ns);
                start
            }
        };
        let end = start + self.config.erase_ns;
        let planes = joined.map_or(0, |group| group.planes) | plane_bit(place);
        die.last = Some(Group {
            op: ArrayOp::Erase,
            issued: now,
            page: place.page,
            planes,
            registers: start,
            start,
            end,
        });
        (block.written, block.used) = (end, end);
        end
    }
}
