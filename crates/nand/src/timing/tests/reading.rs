use super::*;
use crate::SuspendConfig;

const COMMAND: u64 = 300;

fn with_commands() -> ArrayTiming {
    ArrayTiming::new(TimingConfig { command_ns: COMMAND, ..config() }, &geometry())
}

fn cached(command_ns: u64, read_ns: u64) -> ArrayTiming {
    let config = TimingConfig { cache_read: true, command_ns, read_ns: read_ns.into(), ..config() };
    ArrayTiming::new(config, &geometry())
}

fn independent(config: TimingConfig) -> ArrayTiming {
    ArrayTiming::new(TimingConfig { independent_plane_reads: true, ..config }, &geometry())
}

fn alone(config: TimingConfig) -> ArrayTiming {
    let spec = GeometrySpec { dies_per_channel: 1, planes_per_die: 1, ..*geometry().spec() };
    ArrayTiming::new(config, &Geometry::new(spec).expect("valid"))
}

#[test]
fn commands_come_before_array_times() {
    for mut a in [with_commands(), alone(TimingConfig { command_ns: COMMAND, ..config() })] {
        let place = || geometry().place_of_block(BlockId::new(0));
        let program = a.program(NOW, Class::HostProgram, place);
        let read = a.read(program, Class::HostRead, 1, place);
        let erase = a.erase(read, Class::Erase, place);
        let programmed = COMMAND + TRANSFER + PROGRAM;
        let done = programmed + COMMAND + READ + TRANSFER;
        assert_eq!(ends(&mut a, [program, read, erase]), [programmed, done, done + COMMAND + ERASE]);
        assert_eq!(a.occupancy(a.now()).total_ns(), done + COMMAND + ERASE);
    }
}

#[test]
fn each_plane_is_sent_its_command() {
    let mut a = with_commands();
    let reads = [a.host_read(at(0, 0, 5)), a.host_read(at(0, 1, 5))];
    let sensed = 2 * COMMAND + READ;
    assert_eq!(ends(&mut a, reads), [sensed + TRANSFER, sensed + 2 * TRANSFER]);
    let mut a = with_commands();
    let erases = [a.clear(at(0, 0, 0)), a.clear(at(0, 1, 0))];
    assert_eq!(ends(&mut a, erases), [2 * COMMAND + ERASE; 2]);
    let mut a = with_commands();
    let programs = [a.host_program(at(0, 0, 0)), a.host_program(at(0, 1, 0))];
    assert_eq!(ends(&mut a, programs), [2 * (COMMAND + TRANSFER) + PROGRAM; 2]);
}

#[test]
fn short_reads_of_many_dies_are_bound_by_commands_and_transfers() {
    let spec = GeometrySpec { channels: 1, dies_per_channel: 64, planes_per_die: 1, ..*geometry().spec() };
    let geometry = Geometry::new(spec).expect("valid");
    let mut a = ArrayTiming::new(TimingConfig { command_ns: COMMAND, ..config() }, &geometry);
    let reads = 6400;
    let place = |read: u32| geometry.place_of_block(BlockId::new(read % 64 * 4));
    for read in 0..reads {
        a.read(NOW, Class::HostRead, 1, || place(read));
    }
    let least = u64::from(reads) * (COMMAND + TRANSFER);
    let done = a.drain().as_ns();
    assert!((least..=least + READ + TRANSFER).contains(&done), "{done} ns, {least} on the bus");
}

#[test]
fn cache_reads_overlap_array_and_bus() {
    const READS: u64 = 100;
    for (command, read) in [(0, READ), (0, TRANSFER / 3), (COMMAND, READ), (COMMAND, TRANSFER / 3)] {
        let mut a = cached(command, read);
        let mut plain = ArrayTiming::new(
            TimingConfig { command_ns: command, read_ns: read.into(), ..config() },
            &geometry(),
        );
        for page in 0..READS as u32 {
            a.host_read(at(0, 0, page % 8));
            plain.host_read(at(0, 0, page % 8));
        }
        let overlapped = command + read.max(TRANSFER);
        assert_eq!(a.drain().as_ns(), (READS - 1) * overlapped + command + read + TRANSFER);
        assert_eq!(plain.drain().as_ns(), READS * (command + read + TRANSFER));
        assert_eq!(a.occupancy(a.now()).total_ns(), a.now().as_ns(), "the die is held once at a time");
    }
}

#[test]
fn what_is_no_read_waits_until_the_cache_registers_are_empty() {
    let mut a = cached(0, READ);
    let read = a.host_read(at(0, 0, 5));
    let program = a.host_program(at(0, 1, 0));
    let late = a.host_read(at(0, 0, 6));
    let sent = READ + TRANSFER;
    let programmed = sent + TRANSFER + PROGRAM;
    assert_eq!(ends(&mut a, [read, program, late]), [sent, programmed, programmed + READ + TRANSFER]);
}

#[test]
fn planes_that_read_on_their_own_share_only_the_bus() {
    let mut a = independent(config());
    let first = a.host_read(at(0, 0, 5));
    let later = When::At(SimTime::from_ns(10_000));
    let second = a.read(later, Class::HostRead, 1, in_block(0, 1, 2, 3));
    let behind = a.host_read(in_block(0, 0, 1, 7));
    let expected = [READ + TRANSFER, 10_000 + READ + TRANSFER, 2 * (READ + TRANSFER)];
    assert_eq!(ends(&mut a, [first, second, behind]), expected);
    let mut a = independent(config());
    let reads = [a.host_read(at(0, 0, 5)), a.host_read(in_block(0, 1, 2, 3))];
    assert_eq!(ends(&mut a, reads), [READ + TRANSFER, READ + 2 * TRANSFER]);
    assert_eq!(a.occupancy(a.now()).total_ns(), READ + 2 * TRANSFER, "the die is held once at a time");
}

#[test]
fn a_program_takes_all_planes_and_has_its_turn() {
    let mut a = independent(config());
    let read = a.host_read(at(0, 0, 5));
    let program = a.program(When::At(SimTime::from_ns(1000)), Class::HostProgram, at(0, 0, 0));
    // The plane of the read is free, but the program became ready first.
    let late = a.read(When::At(SimTime::from_ns(2000)), Class::HostRead, 1, in_block(0, 1, 2, 3));
    let programmed = READ + TRANSFER + TRANSFER + PROGRAM;
    let expected = [READ + TRANSFER, programmed, programmed + READ + TRANSFER];
    assert_eq!(ends(&mut a, [read, program, late]), expected);
}

#[test]
fn a_plane_that_is_busy_holds_up_no_other() {
    let mut a = independent(config());
    let reads = [a.host_read(at(0, 0, 5)), a.host_read(at(0, 0, 6)), a.host_read(in_block(0, 1, 2, 3))];
    let one = READ + TRANSFER;
    assert_eq!(ends(&mut a, reads), [one, 2 * one, READ + 2 * TRANSFER]);
}

#[test]
fn a_suspended_program_frees_all_planes() {
    let suspend = SuspendConfig { most: 1, suspend_ns: 20_000, resume_ns: 8_000, least_left_ns: 0 };
    let deadline_ns = [0, 1_000_000, 0, 0, 0];
    let mut a = independent(TimingConfig { suspend, deadline_ns, ..config() });
    let program = a.host_program(at(0, 0, 0));
    let later = |ns| When::At(SimTime::from_ns(ns));
    let first = a.read(later(100_000), Class::HostRead, 1, in_block(0, 0, 1, 3));
    let second = a.read(later(130_000), Class::HostRead, 1, in_block(0, 1, 2, 4));
    let sent = 100_000 + 20_000 + READ + TRANSFER;
    let both = 130_000 + READ + TRANSFER;
    let left = TRANSFER + PROGRAM - 100_000;
    assert_eq!(ends(&mut a, [first, second, program]), [sent, both, both + 8_000 + left]);
}

#[test]
fn planes_have_registers_of_their_own() {
    let mut a = independent(TimingConfig { cache_read: true, read_ns: TRANSFER.into(), ..config() });
    let reads = [0, 1, 2, 3].map(|page| a.host_read(at(0, page % 2, page / 2)));
    // The bus is never idle after the first page.
    assert_eq!(ends(&mut a, reads), [2, 3, 4, 5].map(|turn| turn * TRANSFER));
}
