//! Order of operations: deadlines, bus priority, and suspends for host reads.

use super::*;
use crate::SuspendConfig;

const SUSPEND: u64 = 20_000;
const RESUME: u64 = 8_000;

fn patient(patience_ns: [u64; Class::ALL.len()]) -> ArrayTiming {
    ArrayTiming::new(TimingConfig { patience_ns, ..config() }, &geometry())
}

fn suspending(most: u32, least_left_ns: u64) -> ArrayTiming {
    let suspend = SuspendConfig { most, suspend_ns: SUSPEND, resume_ns: RESUME, least_left_ns };
    ArrayTiming::new(TimingConfig { suspend, ..config() }, &geometry())
}

fn later(ns: u64) -> When {
    When::At(SimTime::from_ns(ns))
}

/// A die does something, and operations of all classes come while it does, the least urgent first.
fn all_classes(a: &mut ArrayTiming) -> [When; 5] {
    a.clear(in_block(0, 0, 3, 0));
    let erase = a.erase(later(1000), Class::Erase, in_block(0, 0, 0, 0));
    let moved = a.program(later(2000), Class::BackgroundProgram, in_block(0, 0, 1, 0));
    let fetched = a.read(later(3000), Class::BackgroundRead, 1, in_block(0, 1, 0, 0));
    let written = a.program(later(4000), Class::HostProgram, in_block(0, 1, 1, 0));
    let read = a.read(later(5000), Class::HostRead, 1, in_block(0, 1, 2, 0));
    [erase, moved, fetched, written, read]
}

#[test]
fn without_patience_it_is_first_come_first_served() {
    let mut a = patient([0; 5]);
    let operations = all_classes(&mut a);
    let [erase, moved, fetched, written, read] = ends(&mut a, operations);
    let order =
        [2 * ERASE, erase + TRANSFER + PROGRAM, moved + READ + TRANSFER, fetched + TRANSFER + PROGRAM];
    assert_eq!([erase, moved, fetched, written], order);
    assert_eq!(read, written + READ + TRANSFER);
}

#[test]
fn with_much_patience_the_most_urgent_is_first() {
    let mut a = patient([0, 1, 2, 3, 4].map(|class| class * 1_000_000_000));
    let operations = all_classes(&mut a);
    let [erase, moved, fetched, written, read] = ends(&mut a, operations);
    let order = [ERASE + READ + TRANSFER, read + TRANSFER + PROGRAM, written + READ + TRANSFER];
    assert_eq!([read, written, fetched], order);
    assert_eq!([moved, erase], [fetched + TRANSFER + PROGRAM, moved + ERASE]);
}

#[test]
fn of_equal_ones_the_one_issued_first_is_first() {
    let mut a = patient([500, 0, 0, 0, 0]);
    a.clear(in_block(0, 0, 3, 0));
    let program = a.program(later(1500), Class::HostProgram, in_block(0, 0, 0, 0));
    let read = a.read(later(1000), Class::HostRead, 1, in_block(0, 1, 0, 0));
    let programmed = ERASE + TRANSFER + PROGRAM;
    let expected = [programmed + READ + TRANSFER, programmed];
    assert_eq!(ends(&mut a, [read, program]), expected);
}

/// However many reads come, an erase waits no longer than its patience and what has begun by then.
#[test]
fn nobody_starves() {
    const PATIENCE: u64 = 3_000_000;
    let mut a = patient([0, 0, 0, 0, PATIENCE]);
    let mut reads = Vec::new();
    for number in 0..2000 {
        // Twice as many as the die can do.
        let time = number * (READ + TRANSFER) / 2;
        reads.push(a.read(later(time), Class::HostRead, 1, in_block(0, 0, 1, 0)));
    }
    let erase = a.clear(at(0, 0, 0));
    let done = a.end(erase);
    assert!((PATIENCE + ERASE..=2 * PATIENCE + READ + TRANSFER + ERASE).contains(&done), "{done}");
    assert!(a.has_begun(reads[1999]).is_some());
}

#[test]
fn the_bus_takes_the_most_urgent() {
    let geometry = Geometry::new(GeometrySpec { dies_per_channel: 4, ..*geometry().spec() }).expect("valid");
    let mut wide = ArrayTiming::new(config(), &geometry);
    let place = |die: u32| {
        let geometry = geometry.clone();
        move || geometry.place_of_block(BlockId::new(die * 8))
    };
    let blocker = wide.program(NOW, Class::HostProgram, place(0));
    let moved = wide.program(NOW, Class::BackgroundProgram, place(1));
    let moved_too = wide.program(NOW, Class::BackgroundProgram, place(2));
    let written = wide.program(later(1000), Class::HostProgram, place(3));
    let order = [1, 3, 4, 2].map(|turn| turn * TRANSFER + PROGRAM);
    assert_eq!(ends(&mut wide, [blocker, moved, moved_too, written]), order);
}

#[test]
fn a_host_read_that_meets_a_program_waits_for_the_suspend_only() {
    let mut a = suspending(1, 0);
    let program = a.host_program(at(0, 0, 0));
    let read = a.read(later(100_000), Class::HostRead, 1, in_block(0, 1, 1, 3));
    let latency = SUSPEND + READ + TRANSFER;
    let expected = [100_000 + latency, TRANSFER + PROGRAM + latency + RESUME];
    assert_eq!(ends(&mut a, [read, program]), expected);
    let held = a.occupancy(a.now());
    assert_eq!(held.suspends, 1);
    assert_eq!(held.held_ns[Class::HostRead as usize], READ + TRANSFER);
    assert_eq!(held.held_ns[Class::HostProgram as usize], TRANSFER + PROGRAM + SUSPEND + RESUME);
}

#[test]
fn an_erase_is_suspended_as_a_program_is() {
    let mut a = suspending(1, 0);
    let erase = a.clear(at(0, 0, 0));
    let read = a.read(later(100_000), Class::HostRead, 1, in_block(0, 1, 1, 3));
    let latency = SUSPEND + READ + TRANSFER;
    assert_eq!(ends(&mut a, [read, erase]), [100_000 + latency, ERASE + latency + RESUME]);
}

#[test]
fn only_host_reads_are_served_meanwhile_and_all_of_them() {
    let mut a = suspending(1, 0);
    let program = a.host_program(at(0, 0, 0));
    let other = a.program(later(50_000), Class::HostProgram, in_block(0, 0, 1, 0));
    let fetched = a.read(later(60_000), Class::BackgroundRead, 1, in_block(0, 1, 1, 2));
    let first = a.read(later(100_000), Class::HostRead, 1, in_block(0, 1, 1, 3));
    let second = a.read(later(150_000), Class::HostRead, 1, in_block(0, 1, 1, 4));
    let [program, other, fetched, first, second] = ends(&mut a, [program, other, fetched, first, second]);
    let one = READ + TRANSFER;
    assert_eq!([first, second], [100_000 + SUSPEND + one, 100_000 + SUSPEND + 2 * one]);
    assert_eq!(program, TRANSFER + PROGRAM + SUSPEND + 2 * one + RESUME);
    assert_eq!([other, fetched], [program + TRANSFER + PROGRAM, other + one]);
}

#[test]
fn other_reads_suspend_nothing() {
    let mut a = suspending(5, 0);
    let program = a.host_program(at(0, 0, 0));
    let read = a.read(later(100_000), Class::BackgroundRead, 1, in_block(0, 1, 1, 3));
    let done = TRANSFER + PROGRAM;
    assert_eq!(ends(&mut a, [program, read]), [done, done + READ + TRANSFER]);
    assert_eq!(a.occupancy(a.now()).suspends, 0);
}

#[test]
fn an_operation_is_suspended_only_so_often() {
    for most in 0..4u64 {
        let mut a = suspending(most as u32, 0);
        a.host_program(at(0, 0, 0));
        let reads: Vec<When> = (0..5)
            .map(|number| a.read(later(100_000 + number * 150_000), Class::HostRead, 1, in_block(0, 1, 1, 3)))
            .collect();
        let reads: [When; 5] = reads.try_into().expect("five");
        let times = ends(&mut a, reads);
        for (number, time) in times.iter().enumerate().take(most as usize) {
            assert_eq!(*time, 100_000 + number as u64 * 150_000 + SUSPEND + READ + TRANSFER);
        }
        let done = TRANSFER + PROGRAM + most * (SUSPEND + READ + TRANSFER + RESUME);
        let waiting = &times[most as usize..];
        assert_eq!(waiting[0], done + READ + TRANSFER, "at most {most} times");
        assert_eq!(a.occupancy(a.now()).suspends, most);
    }
}

#[test]
fn what_is_nearly_done_is_not_suspended() {
    const LEAST: u64 = 50_000;
    let done = TRANSFER + PROGRAM;
    let read_at = |time: u64| {
        let mut a = suspending(1, LEAST);
        let program = a.host_program(at(0, 0, 0));
        let read = a.read(later(time), Class::HostRead, 1, in_block(0, 1, 1, 3));
        ends(&mut a, [program, read])
    };
    assert_eq!(read_at(done - LEAST), [done, done + READ + TRANSFER]);
    let latency = SUSPEND + READ + TRANSFER;
    assert_eq!(read_at(done - LEAST - 1), [done + latency + RESUME, done - LEAST - 1 + latency]);
}

#[test]
fn a_read_that_waits_for_a_program_suspends_it_when_it_begins() {
    let mut a = suspending(1, 0);
    let program = a.host_program(at(0, 0, 0));
    let read = a.read(later(1000), Class::HostRead, 1, in_block(0, 1, 1, 3));
    let latency = TRANSFER + SUSPEND + READ + TRANSFER;
    assert_eq!(ends(&mut a, [read, program]), [latency, latency + RESUME + PROGRAM]);
}

#[test]
fn a_program_is_not_suspended_while_the_next_page_is_loaded_but_right_after_it() {
    let suspend = SuspendConfig { most: 1, suspend_ns: SUSPEND, resume_ns: RESUME, least_left_ns: 0 };
    let mut a = ArrayTiming::new(TimingConfig { suspend, cache_program: true, ..config() }, &geometry());
    let first = a.host_program(at(0, 0, 0));
    let second = a.host_program(at(0, 0, 1));
    let read = a.read(later(TRANSFER + 1), Class::HostRead, 1, in_block(0, 1, 1, 3));
    let latency = SUSPEND + READ + TRANSFER;
    let [first, second, read] = ends(&mut a, [first, second, read]);
    assert_eq!(read, 2 * TRANSFER + latency);
    assert_eq!([first, second], [TRANSFER + PROGRAM + latency + RESUME, first + PROGRAM]);
}
