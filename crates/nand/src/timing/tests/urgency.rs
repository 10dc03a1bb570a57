//! Order of operations: deadlines, bus priority, and suspends for host reads.

use super::*;
use crate::SuspendConfig;

const SUSPEND: u64 = 20_000;
const RESUME: u64 = 8_000;

fn patient(deadline_ns: [u64; Class::ALL.len()]) -> ArrayTiming {
    ArrayTiming::new(TimingConfig { deadline_ns, ..config() }, &geometry())
}

fn suspending(most: u32, least_left_ns: u64) -> ArrayTiming {
    let suspend = SuspendConfig { most, suspend_ns: SUSPEND, resume_ns: RESUME, least_left_ns };
    ArrayTiming::new(TimingConfig { suspend, ..config() }, &geometry())
}

fn suspending_until(most: u32, deadline_ns: u64) -> ArrayTiming {
    let suspend = SuspendConfig { most, suspend_ns: SUSPEND, resume_ns: RESUME, least_left_ns: 0 };
    let deadline_ns = [0, deadline_ns, deadline_ns, deadline_ns, deadline_ns];
    ArrayTiming::new(TimingConfig { suspend, deadline_ns, ..config() }, &geometry())
}

fn later(ns: u64) -> When {
    When::At(SimTime::from_ns(ns))
}

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
fn without_deadlines_it_is_first_come_first_served() {
    let mut a = patient([0; 5]);
    let operations = all_classes(&mut a);
    let [erase, moved, fetched, written, read] = ends(&mut a, operations);
    let order =
        [2 * ERASE, erase + TRANSFER + PROGRAM, moved + READ + TRANSFER, fetched + TRANSFER + PROGRAM];
    assert_eq!([erase, moved, fetched, written], order);
    assert_eq!(read, written + READ + TRANSFER);
}

#[test]
fn with_long_deadlines_the_most_urgent_is_first() {
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

/// Under any load of reads, an erase begins at its deadline, after operations that have begun.
#[test]
fn nobody_starves() {
    const DEADLINE: u64 = 3_000_000;
    let mut a = patient([0, 0, 0, 0, DEADLINE]);
    let mut reads = Vec::new();
    for number in 0..2000 {
        // Twice the load that the die can serve.
        let time = number * (READ + TRANSFER) / 2;
        reads.push(a.read(later(time), Class::HostRead, 1, in_block(0, 0, 1, 0)));
    }
    let erase = a.clear(at(0, 0, 0));
    let done = a.end(erase);
    assert!((DEADLINE + ERASE..=2 * DEADLINE + READ + TRANSFER + ERASE).contains(&done), "{done}");
    assert!(a.has_begun(reads[1999]).is_some());
}

fn on_one_bus(deadline_ns: [u64; Class::ALL.len()]) -> [u64; 4] {
    let geometry = Geometry::new(GeometrySpec { dies_per_channel: 4, ..*geometry().spec() }).expect("valid");
    let mut wide = ArrayTiming::new(TimingConfig { deadline_ns, ..config() }, &geometry);
    let place = |die: u32| {
        let geometry = geometry.clone();
        move || geometry.place_of_block(BlockId::new(die * 8))
    };
    let blocker = wide.program(NOW, Class::HostProgram, place(0));
    let moved = wide.program(NOW, Class::BackgroundProgram, place(1));
    let moved_too = wide.program(NOW, Class::BackgroundProgram, place(2));
    let written = wide.program(later(1000), Class::HostProgram, place(3));
    ends(&mut wide, [blocker, moved, moved_too, written])
}

#[test]
fn the_bus_takes_the_earliest_deadline() {
    let in_turns = |turns: [u64; 4]| turns.map(|turn| turn * TRANSFER + PROGRAM);
    assert_eq!(on_one_bus([0, 1, 2, 3, 4].map(|class| class * 1_000_000)), in_turns([1, 3, 4, 2]));
    assert_eq!(on_one_bus([0; 5]), in_turns([1, 2, 3, 4]), "first come, first served");
}

#[test]
fn reads_that_fill_the_bus_do_not_keep_a_program_from_it() {
    const DEADLINE: u64 = 1_000_000;
    let geometry = Geometry::new(GeometrySpec { dies_per_channel: 3, ..*geometry().spec() }).expect("valid");
    let deadline_ns = [0, DEADLINE, 0, 0, 0];
    let times = TimingConfig { read_ns: 1.into(), deadline_ns, cache_read: true, ..config() };
    let mut wide = ArrayTiming::new(times, &geometry);
    let place = |die: u32| geometry.place_of_block(BlockId::new(die * 8));
    for _ in 0..2000 {
        wide.read(NOW, Class::HostRead, 4, || place(0));
        wide.read(NOW, Class::HostRead, 4, || place(1));
    }
    let program = wide.program(later(10_000), Class::HostProgram, || place(2));
    let done = wide.end(program) - PROGRAM - 10_000;
    assert!((DEADLINE..=DEADLINE + 10 * TRANSFER).contains(&done), "the page is there after {done} ns");
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
    let mut a = suspending_until(1, 10_000_000);
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
fn past_its_deadline_a_suspended_program_goes_on() {
    const DEADLINE: u64 = 300_000;
    let mut a = suspending_until(1_000_000, DEADLINE);
    let program = a.host_program(at(0, 0, 0));
    let times: [u64; 12] = std::array::from_fn(|number| 100_000 + 50_000 * number as u64);
    let reads = times.map(|time| a.read(later(time), Class::HostRead, 1, in_block(0, 1, 1, 3)));
    let before = times.iter().filter(|&&time| time <= TRANSFER + DEADLINE).count() as u64;
    let one = READ + TRANSFER;
    let mut operations = [program; 13];
    operations[1..].copy_from_slice(&reads);
    let [done, reads @ ..] = ends(&mut a, operations);
    assert_eq!(done, TRANSFER + PROGRAM + SUSPEND + before * one + RESUME);
    for (number, read) in (0..).zip(reads) {
        let expected = if number < before {
            100_000 + SUSPEND + (number + 1) * one
        } else {
            done + (number - before + 1) * one
        };
        assert_eq!(read, expected, "read {number}");
    }
    assert_eq!(a.occupancy(a.now()).suspends, 1);
}

#[test]
fn without_a_deadline_reads_that_wait_at_the_suspend_go_first() {
    let mut a = suspending(1, 0);
    let program = a.host_program(at(0, 0, 0));
    let [first, second, third] =
        [100_000, 100_000, 150_000].map(|time| a.read(later(time), Class::HostRead, 1, in_block(0, 1, 1, 3)));
    let one = READ + TRANSFER;
    let done = TRANSFER + PROGRAM + SUSPEND + 2 * one + RESUME;
    let read = 100_000 + SUSPEND + one;
    assert_eq!(ends(&mut a, [first, second, program, third]), [read, read + one, done, done + one]);
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
