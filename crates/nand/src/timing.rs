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
    /// Whether returned times mean anything.
    const TIMED: bool;
    /// A page read that transfers `units` mapping units.
    fn read(&mut self, now: SimTime, units: u32, place: impl FnOnce() -> Place) -> SimTime;
    /// A page program.
    fn program(&mut self, now: SimTime, place: impl FnOnce() -> Place) -> SimTime;
    /// A block erase.
    fn erase(&mut self, now: SimTime, place: impl FnOnce() -> Place) -> SimTime;
    /// When everything issued so far is complete.
    fn idle_at(&self) -> SimTime;
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
/// A die does one array operation at a time, in call order. Operations of the same kind on
/// different planes of one die, issued at the same instant at the same page number, share one
/// array time (multi-plane command). A channel carries one transfer at a time; a transfer takes
/// the first gap that is long enough, so a die that is still reading does not hold the bus.
#[derive(Clone, Debug)]
pub struct ArrayTiming {
    config: TimingConfig,
    page_transfer_ns: u64,
    unit_transfer_ns: u64,
    dies_per_channel: u32,
    dies: Vec<Die>,
    buses: Vec<Bus>,
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
    start: SimTime,
    /// When the registers of all planes were free for this operation.
    registers_free: SimTime,
}

#[derive(Clone, Copy, Debug, Default)]
struct Die {
    /// When the array is idle again.
    array_free: SimTime,
    /// When the register that receives transfers is free again.
    register_free: SimTime,
    last: Option<Group>,
}

impl ArrayTiming {
    /// Idle dies and channels.
    pub fn new(config: TimingConfig, geometry: &Geometry) -> Self {
        let transfer_ns = |bytes: u64| match config.channel_mb_s {
            0 => 0,
            rate => (bytes * 1000).div_ceil(u64::from(rate)),
        };
        let spec = geometry.spec();
        Self {
            config,
            page_transfer_ns: transfer_ns(u64::from(spec.page_bytes) + u64::from(config.spare_bytes)),
            unit_transfer_ns: transfer_ns(
                u64::from(spec.unit_bytes)
                    + u64::from(config.spare_bytes / (spec.page_bytes / spec.unit_bytes)),
            ),
            dies_per_channel: spec.dies_per_channel,
            dies: vec![Die::default(); geometry.dies() as usize],
            buses: vec![Bus::default(); spec.channels as usize],
        }
    }

    fn bus_of(&mut self, place: Place) -> &mut Bus {
        &mut self.buses[(place.die.get() / self.dies_per_channel) as usize]
    }
}

impl Die {
    /// Whether an operation issued `now` at `place` can share the array time of the last one.
    #[inline]
    fn joins(&self, op: ArrayOp, now: SimTime, place: Place) -> Option<Group> {
        let group = self.last?;
        let same = group.op == op && group.issued == now && group.page == place.page;
        (same && group.planes & (1 << (place.plane & 63)) == 0).then_some(group)
    }

    #[inline]
    fn book(&mut self, op: ArrayOp, issued: SimTime, place: Place, start: SimTime, joined: Option<Group>) {
        let planes = joined.map_or(0, |g| g.planes) | 1 << (place.plane & 63);
        let registers_free = joined.map_or(start, |g| g.registers_free);
        self.last = Some(Group { op, issued, page: place.page, planes, start, registers_free });
    }
}

impl Timing for ArrayTiming {
    const TIMED: bool = true;

    fn idle_at(&self) -> SimTime {
        self.dies.iter().map(|die| die.array_free.max(die.register_free)).max().unwrap_or_default()
    }

    #[inline]
    fn read(&mut self, now: SimTime, units: u32, place: impl FnOnce() -> Place) -> SimTime {
        let place = place();
        let die = &mut self.dies[place.die.index()];
        let joined = die.joins(ArrayOp::Read, now, place);
        let start = joined.map_or_else(|| now.max(die.array_free).max(die.register_free), |g| g.start);
        let sensed = start + self.config.read_ns;
        die.book(ArrayOp::Read, now, place, start, joined);
        let transfer_ns = self.unit_transfer_ns * u64::from(units);
        let arrived = self.bus_of(place).reserve(sensed, transfer_ns) + transfer_ns;
        let die = &mut self.dies[place.die.index()];
        // The register holds the page until it has left the chip.
        die.array_free = die.array_free.max(arrived);
        die.register_free = die.register_free.max(arrived);
        arrived
    }

    #[inline]
    fn program(&mut self, now: SimTime, place: impl FnOnce() -> Place) -> SimTime {
        let place = place();
        let die = self.dies[place.die.index()];
        let joined = die.joins(ArrayOp::Program, now, place);
        let register_free = match joined {
            // Every plane has a register of its own, all free at the same time.
            Some(group) => group.registers_free,
            None if self.config.cache_program => die.register_free,
            None => die.array_free.max(die.register_free),
        };
        let transfer_ns = self.page_transfer_ns;
        let loaded = self.bus_of(place).reserve(now.max(register_free), transfer_ns) + transfer_ns;
        let array_free = joined.map_or(die.array_free, |g| g.start);
        let start = loaded.max(array_free);
        let done = start + self.config.program_ns;
        let die = &mut self.dies[place.die.index()];
        die.book(ArrayOp::Program, now, place, start, joined);
        if let (None, Some(group)) = (joined, &mut die.last) {
            group.registers_free = register_free;
        }
        die.array_free = done;
        die.register_free = start;
        done
    }

    #[inline]
    fn erase(&mut self, now: SimTime, place: impl FnOnce() -> Place) -> SimTime {
        let place = place();
        let die = &mut self.dies[place.die.index()];
        let joined = die.joins(ArrayOp::Erase, now, place);
        let start = joined.map_or_else(|| now.max(die.array_free), |g| g.start);
        let done = start + self.config.erase_ns;
        die.book(ArrayOp::Erase, now, place, start, joined);
        die.array_free = done;
        done
    }
}

/// A shared bus or link: reserved intervals in order, and a time before which nothing more fits.
#[derive(Clone, Debug, Default)]
pub struct Bus {
    busy: VecDeque<(SimTime, SimTime)>,
    closed_before: SimTime,
}

impl Bus {
    /// Intervals remembered. Older gaps are forgotten (taken as busy), which keeps the cost of a
    /// reservation bounded; 64 is several times the dies a channel carries.
    const MEMORY: usize = 64;

    /// Reserves `duration_ns` at the first possible time from `earliest` on; returns the start.
    #[inline]
    pub fn reserve(&mut self, earliest: SimTime, duration_ns: u64) -> SimTime {
        if duration_ns == 0 {
            return earliest;
        }
        let earliest = earliest.max(self.closed_before);
        match self.busy.back_mut() {
            Some(last) if earliest < last.1 => {}
            Some(last) if earliest == last.1 => {
                last.1 = earliest + duration_ns;
                return earliest;
            }
            _ => {
                self.busy.push_back((earliest, earliest + duration_ns));
                if self.busy.len() > Self::MEMORY {
                    self.forget_oldest();
                }
                return earliest;
            }
        }
        self.reserve_in_gap(earliest, duration_ns)
    }

    fn reserve_in_gap(&mut self, earliest: SimTime, duration_ns: u64) -> SimTime {
        let mut start = earliest;
        let mut at = self.busy.partition_point(|&(_, end)| end <= earliest);
        while let Some(&(busy_from, busy_until)) = self.busy.get(at) {
            if start + duration_ns <= busy_from {
                break;
            }
            start = busy_until;
            at += 1;
        }
        self.busy.insert(at, (start, start + duration_ns));
        if self.busy.len() > Self::MEMORY {
            self.forget_oldest();
        }
        start
    }

    fn forget_oldest(&mut self) {
        if let Some((_, end)) = self.busy.pop_front() {
            self.closed_before = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strobe_types::{DieId, GeometrySpec};

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
        move || Place { die: DieId::new(die), plane, page }
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
        let mut bus = Bus::default();
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
