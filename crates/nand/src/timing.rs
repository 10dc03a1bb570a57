//! When flash operations happen: dies and channels as resources in virtual time.

use std::collections::VecDeque;

use strobe_types::{Geometry, Place, SimTime};

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

/// Tells when an operation on flash is complete.
pub trait Timing: Clone {
    /// Whether returned times may mean anything.
    const TIMED: bool;
    /// Whether they do.
    fn is_timed(&self) -> bool {
        Self::TIMED
    }
    /// A page read that transfers `units` mapping units.
    fn read(&mut self, now: SimTime, units: u32, place: impl FnOnce() -> Place) -> SimTime;
    /// A page program.
    fn program(&mut self, now: SimTime, place: impl FnOnce() -> Place) -> SimTime;
    /// A block erase.
    fn erase(&mut self, now: SimTime, place: impl FnOnce() -> Place) -> SimTime;
    /// When everything issued so far is complete.
    fn idle_at(&self) -> SimTime;
}

/// Times, or none, as decided when the flash is made: one type for drives whose speed in runs that only count is
/// not worth a type of its own.
#[derive(Clone, Debug)]
pub struct SwitchedTiming(Option<ArrayTiming>);

impl SwitchedTiming {
    /// The times of `timing`; without it everything is instant.
    pub fn new(timing: Option<ArrayTiming>) -> Self {
        Self(timing)
    }
}

impl Timing for SwitchedTiming {
    const TIMED: bool = true;

    fn is_timed(&self) -> bool {
        self.0.is_some()
    }

    fn idle_at(&self) -> SimTime {
        self.0.as_ref().map_or(SimTime::ZERO, Timing::idle_at)
    }

    #[inline]
    fn read(&mut self, now: SimTime, units: u32, place: impl FnOnce() -> Place) -> SimTime {
        self.0.as_mut().map_or(now, |timing| timing.read(now, units, place))
    }

    #[inline]
    fn program(&mut self, now: SimTime, place: impl FnOnce() -> Place) -> SimTime {
        self.0.as_mut().map_or(now, |timing| timing.program(now, place))
    }

    #[inline]
    fn erase(&mut self, now: SimTime, place: impl FnOnce() -> Place) -> SimTime {
        self.0.as_mut().map_or(now, |timing| timing.erase(now, place))
    }
}

/// Everything is instant: for runs that only count operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untimed;

impl Timing for Untimed {
    const TIMED: bool = false;

    fn idle_at(&self) -> SimTime {
        SimTime::ZERO
    }

    #[inline(always)]
    fn read(&mut self, now: SimTime, _units: u32, _place: impl FnOnce() -> Place) -> SimTime {
        now
    }
    #[inline(always)]
    fn program(&mut self, now: SimTime, _place: impl FnOnce() -> Place) -> SimTime {
        now
    }
    #[inline(always)]
    fn erase(&mut self, now: SimTime, _place: impl FnOnce() -> Place) -> SimTime {
        now
    }
}

/// Dies and channels with their reservations.
///
/// A die does one array operation at a time and a channel carries one transfer at a time. An
/// operation takes the first gap in which it fits, so that one that has been booked for later (a
/// copy that waits for its read) holds nobody up until then. On one block, though, nothing
/// overtakes: pages are programmed in order, a read waits for the programs booked before it, an
/// erase for everything. Operations of the same kind on different planes of one die, issued at the
/// same instant at the same page number, share one array time (multi-plane command).
#[derive(Clone, Debug)]
pub struct ArrayTiming {
    config: TimingConfig,
    page_transfer_ns: u64,
    unit_transfer_ns: u64,
    dies_per_channel: u32,
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
            dies_per_channel: spec.dies_per_channel,
            dies: vec![Die::default(); geometry.dies() as usize],
            buses: vec![Schedule::default(); spec.channels as usize],
            blocks: vec![BlockTimes::default(); geometry.blocks() as usize],
        }
    }

    #[inline]
    fn channel(&self, place: Place) -> usize {
        (place.die.get() / self.dies_per_channel) as usize
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
        let channel = self.channel(place);
        let (die, bus) = (&mut self.dies[place.die.index()], &mut self.buses[channel]);
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
        let channel = self.channel(place);
        let (die, bus) = (&mut self.dies[place.die.index()], &mut self.buses[channel]);
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

/// The future of something that does one thing at a time: intervals that are taken, in order.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    taken: VecDeque<(SimTime, SimTime)>,
    /// Nothing is free before this.
    closed_before: SimTime,
}

/// A shared bus or link.
pub type Bus = Schedule;

impl Schedule {
    /// Intervals remembered. Older gaps are forgotten (counted as taken), which bounds the cost of
    /// a booking; it is several collections deep.
    const MEMORY: usize = 1024;

    /// Books `duration_ns` at the first possible time from `earliest` on; returns the start.
    #[inline]
    pub fn reserve(&mut self, earliest: SimTime, duration_ns: u64) -> SimTime {
        let start = self.next_fit(earliest, duration_ns);
        self.book(start, duration_ns);
        start
    }

    /// The first time from `earliest` on at which `duration_ns` fits.
    #[inline]
    fn next_fit(&self, earliest: SimTime, duration_ns: u64) -> SimTime {
        if duration_ns == 0 {
            return earliest;
        }
        let earliest = earliest.max(self.closed_before);
        match self.taken.back() {
            Some(last) if earliest < last.1 => self.next_gap(earliest, duration_ns),
            _ => earliest,
        }
    }

    fn next_gap(&self, earliest: SimTime, duration_ns: u64) -> SimTime {
        let mut start = earliest;
        let first = self.taken.partition_point(|&(_, end)| end <= earliest);
        for &(from, until) in self.taken.range(first..) {
            if start + duration_ns <= from {
                break;
            }
            start = until;
        }
        start
    }

    /// Takes an interval that [`Schedule::next_fit`] has found free.
    #[inline]
    fn book(&mut self, start: SimTime, duration_ns: u64) {
        let end = start + duration_ns;
        if start == end {
            return;
        }
        match self.taken.back_mut() {
            Some(last) if last.1 == start => last.1 = end,
            Some(last) if start < last.1 => self.book_in_gap(start, end),
            _ => self.taken.push_back((start, end)),
        }
        if self.taken.len() > Self::MEMORY
            && let Some((_, until)) = self.taken.pop_front()
        {
            self.closed_before = until;
        }
    }

    /// Inserts an interval, joining it with neighbours that it touches.
    fn book_in_gap(&mut self, start: SimTime, end: SimTime) {
        let at = self.taken.partition_point(|&(_, until)| until <= start);
        debug_assert!(end <= self.taken[at].0, "booked twice");
        let follows = at > 0 && self.taken[at - 1].1 == start;
        let precedes = self.taken[at].0 == end;
        match (follows, precedes) {
            (true, true) => {
                self.taken[at - 1].1 = self.taken[at].1;
                self.taken.remove(at);
            }
            (true, false) => self.taken[at - 1].1 = end,
            (false, true) => self.taken[at].0 = start,
            (false, false) => self.taken.insert(at, (start, end)),
        }
    }

    /// Lets the booking that ends at `end` end at `later`; false, and nothing changed, if
    /// something else is booked there.
    fn extend(&mut self, end: SimTime, later: SimTime) -> bool {
        if later <= end {
            return true;
        }
        let free = self.next_fit(end, later.since(end)) == end;
        if free {
            self.book(end, later.since(end));
        }
        free
    }

    /// When the last booking ends.
    fn idle_at(&self) -> SimTime {
        self.taken.back().map_or(self.closed_before, |last| last.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strobe_types::{BlockId, DieId, GeometrySpec};

    const READ: u64 = 60_000;
    const PROGRAM: u64 = 700_000;
    const ERASE: u64 = 5_000_000;
    /// 4096 bytes at 800 MB/s.
    const TRANSFER: u64 = 5_120;

    fn array(cache_program: bool) -> ArrayTiming {
        let geometry = Geometry::new(GeometrySpec {
            channels: 2,
            dies_per_channel: 2,
            planes_per_die: 2,
            blocks_per_plane: 4,
            pages_per_block: 8,
            page_bytes: 4096,
            unit_bytes: 4096,
        })
        .expect("valid");
        ArrayTiming::new(
            TimingConfig {
                read_ns: READ,
                program_ns: PROGRAM,
                erase_ns: ERASE,
                channel_mb_s: 800,
                spare_bytes: 0,
                cache_program,
            },
            &geometry,
        )
    }

    fn at(die: u32, plane: u32, page: u32) -> impl FnOnce() -> Place {
        // A block of its own for each plane.
        move || Place { block: BlockId::new(die * 8 + plane * 4), die: DieId::new(die), plane, page }
    }

    const T0: SimTime = SimTime::ZERO;

    #[test]
    fn single_operations_take_array_plus_bus_time() {
        assert_eq!(array(false).read(T0, 1, at(0, 0, 0)).as_ns(), READ + TRANSFER);
        assert_eq!(array(false).program(T0, at(0, 0, 0)).as_ns(), TRANSFER + PROGRAM);
        assert_eq!(array(false).erase(T0, at(0, 0, 0)).as_ns(), ERASE);
    }

    #[test]
    fn one_die_works_serially() {
        let mut a = array(false);
        a.program(T0, at(0, 0, 0));
        assert_eq!(a.program(T0, at(0, 0, 1)).as_ns(), 2 * (TRANSFER + PROGRAM));
        assert_eq!(a.read(T0, 1, at(0, 0, 0)).as_ns(), 2 * (TRANSFER + PROGRAM) + READ + TRANSFER);
    }

    #[test]
    fn cache_program_hides_the_transfer() {
        let mut a = array(true);
        a.program(T0, at(0, 0, 0));
        assert_eq!(a.program(T0, at(0, 0, 1)).as_ns(), TRANSFER + 2 * PROGRAM);
    }

    #[test]
    fn dies_of_a_channel_share_only_the_bus() {
        let mut a = array(false);
        a.program(T0, at(0, 0, 0));
        assert_eq!(a.program(T0, at(1, 0, 0)).as_ns(), 2 * TRANSFER + PROGRAM);
        assert_eq!(a.program(T0, at(2, 0, 0)).as_ns(), TRANSFER + PROGRAM, "other channel");
    }

    #[test]
    fn planes_of_a_die_program_and_erase_together() {
        let mut a = array(false);
        a.program(T0, at(0, 0, 3));
        assert_eq!(a.program(T0, at(0, 1, 3)).as_ns(), 2 * TRANSFER + PROGRAM);
        let mut a = array(false);
        a.program(T0, at(0, 0, 3));
        let other_page = a.program(T0, at(0, 1, 4)).as_ns();
        assert_eq!(other_page, 2 * (TRANSFER + PROGRAM), "different page numbers cannot share");
        let mut a = array(false);
        a.erase(T0, at(0, 0, 0));
        assert_eq!(a.erase(T0, at(0, 1, 0)).as_ns(), ERASE);
        let mut a = array(false);
        a.read(T0, 1, at(0, 0, 5));
        assert_eq!(a.read(T0, 1, at(0, 1, 5)).as_ns(), READ + 2 * TRANSFER);
    }

    #[test]
    fn a_transfer_uses_the_gap_while_another_die_senses() {
        let mut a = array(false);
        assert_eq!(a.read(T0, 1, at(0, 0, 0)).as_ns(), READ + TRANSFER);
        assert_eq!(a.program(T0, at(1, 0, 0)).as_ns(), TRANSFER + PROGRAM);
    }

    #[test]
    fn reservations_never_overlap() {
        let mut bus = Schedule::default();
        let mut rng = strobe_types::Prng::new(3);
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for _ in 0..2000 {
            let earliest = u64::from(rng.below(20_000));
            let length = 1 + u64::from(rng.below(9));
            let start = bus.reserve(SimTime::from_ns(earliest), length).as_ns();
            assert!(start >= earliest);
            assert!(taken.iter().all(|&(s, e)| start + length <= s || e <= start));
            taken.push((start, start + length));
        }
    }
}
