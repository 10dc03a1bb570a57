//! Times of operations and pairs of them, to the nanosecond.

use strobe_types::{BlockId, Geometry, GeometrySpec, Place, SimTime};

use super::schedule::Schedule;
use super::{ArrayTiming, Timing, TimingConfig};

const READ: u64 = 60_000;
const PROGRAM: u64 = 700_000;
const ERASE: u64 = 5_000_000;
/// 4096 bytes at 800 MB/s.
const TRANSFER: u64 = 5_120;

fn geometry() -> Geometry {
    Geometry::new(GeometrySpec {
        channels: 2,
        dies_per_channel: 2,
        planes_per_die: 2,
        blocks_per_plane: 4,
        pages_per_block: 8,
        page_bytes: 4096,
        unit_bytes: 4096,
    })
    .expect("valid")
}

fn array(cache_program: bool) -> ArrayTiming {
    ArrayTiming::new(
        TimingConfig {
            read_ns: READ,
            program_ns: PROGRAM,
            erase_ns: ERASE,
            channel_mb_s: 800,
            spare_bytes: 0,
            cache_program,
        },
        &geometry(),
    )
}

fn at(die: u32, plane: u32, page: u32) -> impl FnOnce() -> Place {
    // The first block of the plane.
    move || geometry().place(geometry().page(BlockId::new(die * 8 + plane * 4), page))
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
