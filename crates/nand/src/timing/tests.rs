//! Times of single operations and pairs, to the nanosecond.

mod in_order;
mod reading;
mod urgency;

use strobe_types::{BlockId, Geometry, GeometrySpec, Place, SimTime};

use super::{ArrayTiming, Class, Timing, TimingConfig, When};

const READ: u64 = 60_000;
const PROGRAM: u64 = 700_000;
const ERASE: u64 = 5_000_000;
const TRANSFER: u64 = 5_120;

const NOW: When = When::START;

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

fn config() -> TimingConfig {
    TimingConfig {
        read_ns: READ.into(),
        program_ns: PROGRAM.into(),
        erase_ns: ERASE,
        channel_mb_s: 800,
        ..TimingConfig::default()
    }
}

fn array(cache_program: bool) -> ArrayTiming {
    ArrayTiming::new(TimingConfig { cache_program, ..config() }, &geometry())
}

fn at(die: u32, plane: u32, page: u32) -> impl FnOnce() -> Place {
    in_block(die, plane, 0, page)
}

fn in_block(die: u32, plane: u32, block: u32, page: u32) -> impl FnOnce() -> Place {
    move || geometry().place(geometry().page(BlockId::new(die * 8 + plane * 4 + block), page))
}

trait Issue {
    fn host_read(&mut self, place: impl FnOnce() -> Place) -> When;
    fn host_program(&mut self, place: impl FnOnce() -> Place) -> When;
    fn clear(&mut self, place: impl FnOnce() -> Place) -> When;
    fn end(&mut self, when: When) -> u64;
}

impl Issue for ArrayTiming {
    fn host_read(&mut self, place: impl FnOnce() -> Place) -> When {
        self.read(NOW, Class::HostRead, 1, place)
    }

    fn host_program(&mut self, place: impl FnOnce() -> Place) -> When {
        self.program(NOW, Class::HostProgram, place)
    }

    fn clear(&mut self, place: impl FnOnce() -> Place) -> When {
        self.erase(NOW, Class::Erase, place)
    }

    fn end(&mut self, when: When) -> u64 {
        self.finish(when).as_ns()
    }
}

fn ends<const N: usize>(array: &mut ArrayTiming, whens: [When; N]) -> [u64; N] {
    let mut ends = [0; N];
    whens.iter().zip(0..).for_each(|(&when, token)| array.watch(when, token));
    while array.run(SimTime::from_ns(u64::MAX)) {
        let mut tokens = Vec::new();
        array.reported(&mut tokens);
        tokens.iter().for_each(|&token| ends[token as usize] = array.now().as_ns());
    }
    ends
}

#[test]
fn single_operations_take_array_plus_bus_time() {
    let mut a = array(false);
    let read = a.host_read(at(0, 0, 0));
    assert_eq!(a.end(read), READ + TRANSFER);
    let mut a = array(false);
    let program = a.host_program(at(0, 0, 0));
    assert_eq!(a.end(program), TRANSFER + PROGRAM);
    let mut a = array(false);
    let erase = a.clear(at(0, 0, 0));
    assert_eq!(a.end(erase), ERASE);
    assert_eq!(a.now().as_ns(), ERASE);
    a.start();
    assert_eq!((a.next_event(), a.busy_dies()), (None, 0));
}

#[test]
fn an_operation_starts_when_it_may() {
    let mut a = array(false);
    let late = a.read(When::At(SimTime::from_ns(9_000)), Class::HostRead, 1, at(0, 0, 0));
    let later = a.read(late, Class::HostRead, 1, at(2, 0, 0));
    assert_eq!(ends(&mut a, [late, later]), [9_000 + READ + TRANSFER, 9_000 + 2 * (READ + TRANSFER)]);
}

#[test]
fn one_die_works_serially() {
    let mut a = array(false);
    let first = a.host_program(at(0, 0, 0));
    let second = a.host_program(at(0, 0, 1));
    let read = a.read(second, Class::HostRead, 1, at(0, 0, 0));
    let program = TRANSFER + PROGRAM;
    assert_eq!(ends(&mut a, [first, second, read]), [program, 2 * program, 2 * program + READ + TRANSFER]);
}

#[test]
fn cache_program_hides_the_transfer() {
    let mut a = array(true);
    a.host_program(at(0, 0, 0));
    let second = a.host_program(at(0, 0, 1));
    assert_eq!(a.end(second), TRANSFER + 2 * PROGRAM);
}

#[test]
fn dies_of_a_channel_share_only_the_bus() {
    let mut a = array(false);
    a.host_program(at(0, 0, 0));
    let neighbour = a.host_program(at(1, 0, 0));
    let far = a.host_program(at(2, 0, 0));
    assert_eq!(ends(&mut a, [neighbour, far]), [2 * TRANSFER + PROGRAM, TRANSFER + PROGRAM]);
}

#[test]
fn planes_of_a_die_work_together() {
    let mut a = array(false);
    let pair = [a.host_program(at(0, 0, 3)), a.host_program(at(0, 1, 3))];
    assert_eq!(ends(&mut a, pair), [2 * TRANSFER + PROGRAM; 2], "programs, complete together");
    let mut a = array(false);
    a.host_program(at(0, 0, 3));
    let other_page = a.host_program(at(0, 1, 4));
    assert_eq!(a.end(other_page), 2 * (TRANSFER + PROGRAM), "different page numbers cannot share");
    let mut a = array(false);
    let pair = [a.clear(at(0, 0, 0)), a.clear(at(0, 1, 0))];
    assert_eq!(ends(&mut a, pair), [ERASE; 2]);
    let mut a = array(false);
    let pair = [a.host_read(at(0, 0, 5)), a.host_read(at(0, 1, 5))];
    assert_eq!(ends(&mut a, pair), [READ + TRANSFER, READ + 2 * TRANSFER], "reads, page by page");
}

#[test]
fn what_stands_between_keeps_planes_apart() {
    let mut a = array(false);
    let first = a.host_program(at(0, 0, 3));
    let same_plane = a.host_program(in_block(0, 0, 1, 3));
    let second = a.host_program(at(0, 1, 3));
    let program = TRANSFER + PROGRAM;
    let third_too = 2 * program + TRANSFER;
    assert_eq!(ends(&mut a, [first, same_plane, second]), [program, third_too, third_too]);
}

#[test]
fn what_is_issued_after_an_operation_began_does_not_share_with_it() {
    let mut a = array(false);
    let first = a.clear(at(0, 0, 0));
    a.start();
    let second = a.clear(at(0, 1, 0));
    assert_eq!(ends(&mut a, [first, second]), [ERASE, 2 * ERASE]);
}

#[test]
fn a_read_that_transfers_nothing_needs_no_bus() {
    let mut a = array(false);
    let full = a.host_read(at(0, 0, 5));
    let spare = a.read(NOW, Class::HostRead, 0, at(0, 1, 5));
    let neighbour = a.host_read(at(1, 0, 5));
    // The neighbour occupies the bus when the spare area is due.
    assert_eq!(
        ends(&mut a, [full, spare, neighbour]),
        [READ + TRANSFER, READ + TRANSFER, READ + 2 * TRANSFER]
    );
    let mut a = array(false);
    let spare = a.read(NOW, Class::HostRead, 0, at(0, 0, 5));
    let full = a.host_read(at(0, 1, 5));
    assert_eq!(ends(&mut a, [spare, full]), [READ, READ + TRANSFER]);
}

#[test]
fn a_transfer_uses_the_gap_while_another_die_senses() {
    let mut a = array(false);
    let read = a.host_read(at(0, 0, 0));
    let program = a.host_program(at(1, 0, 0));
    assert_eq!(ends(&mut a, [read, program]), [READ + TRANSFER, TRANSFER + PROGRAM]);
}

#[test]
fn pages_of_a_block_are_programmed_in_order() {
    let mut a = array(false);
    let first = a.program(When::At(SimTime::from_ns(10_000)), Class::BackgroundProgram, at(0, 0, 0));
    let second = a.host_program(at(0, 0, 1));
    let other = a.host_program(in_block(0, 0, 1, 0));
    let program = TRANSFER + PROGRAM;
    // The second page has the more urgent class; it still follows the first in its queue.
    assert_eq!(ends(&mut a, [other, first, second]), [program, 2 * program, 3 * program]);
}

#[test]
fn an_erase_waits_for_reads_issued_before_it() {
    let mut a = array(false);
    let read = a.read(When::At(SimTime::from_ns(10_000)), Class::BackgroundRead, 1, at(0, 0, 0));
    let erase = a.clear(at(0, 0, 0));
    let elsewhere = a.clear(in_block(0, 1, 1, 0));
    assert_eq!(
        ends(&mut a, [elsewhere, read, erase]),
        [ERASE, ERASE + READ + TRANSFER, 2 * ERASE + READ + TRANSFER]
    );
}

#[test]
fn a_block_erased_twice_keeps_the_order_of_everything_between() {
    let mut a = array(false);
    let busy = a.host_program(in_block(0, 1, 1, 0));
    let first = a.erase(busy, Class::Erase, at(0, 0, 0));
    let program = a.host_program(at(0, 0, 0));
    let spare = a.read(NOW, Class::HostRead, 0, at(0, 0, 1));
    let late = a.read(When::At(SimTime::from_ns(20_000_000)), Class::HostRead, 1, at(0, 0, 0));
    let second = a.clear(at(0, 0, 0));
    let afresh = a.host_program(at(0, 0, 0));
    let erased = TRANSFER + PROGRAM + ERASE;
    let again = 20_000_000 + READ + TRANSFER + ERASE;
    let [first, program, spare, late, second, afresh] =
        ends(&mut a, [first, program, spare, late, second, afresh]);
    assert_eq!([first, second, afresh], [erased, again, again + TRANSFER + PROGRAM]);
    // With equal deadlines, the operation issued first is served first.
    assert_eq!([program, spare], [erased + TRANSFER + PROGRAM, erased + TRANSFER + PROGRAM + READ]);
    assert_eq!(late, 20_000_000 + READ + TRANSFER);
}

#[test]
fn programs_and_reads_wait_for_an_erase_of_their_block() {
    let mut a = array(false);
    let erase = a.erase(When::At(SimTime::from_ns(10_000)), Class::Erase, at(0, 0, 0));
    let program = a.host_program(at(0, 0, 0));
    let spare = a.read(NOW, Class::HostRead, 0, at(0, 0, 1));
    let erased = 10_000 + ERASE;
    let programmed = erased + TRANSFER + PROGRAM;
    let expected = [erased, programmed + READ, programmed];
    assert_eq!(ends(&mut a, [erase, spare, program]), expected);
}

#[test]
fn both_are_there_when_the_later_one_is() {
    let mut a = array(false);
    let (program, erase) = (a.host_program(at(0, 0, 0)), a.clear(at(2, 0, 0)));
    let both = a.both(program, erase);
    let late = a.both(both, When::At(SimTime::from_ns(2 * ERASE)));
    assert_eq!(a.has_begun(both), Some(false));
    assert_eq!(ends(&mut a, [program, both, late]), [TRANSFER + PROGRAM, ERASE, 2 * ERASE]);
    assert_eq!(a.has_begun(both), None);
    assert_eq!(a.both(program, erase), erase, "what is there is nothing to wait for");
}

#[test]
fn time_passes_no_further_than_asked_and_stops_at_what_is_watched() {
    let mut a = array(false);
    let (program, erase) = (a.host_program(at(0, 0, 0)), a.clear(at(2, 0, 0)));
    a.watch(erase, 7);
    assert!(!a.run(SimTime::from_ns(1000)));
    assert_eq!(a.now().as_ns(), 1000);
    assert_eq!((a.has_begun(program), a.has_begun(erase), a.busy_dies()), (Some(true), Some(true), 2));
    assert_eq!(a.next_event(), Some(SimTime::from_ns(TRANSFER)));
    assert!(a.run(SimTime::from_ns(2 * ERASE)));
    assert_eq!(a.now().as_ns(), ERASE);
    let mut tokens = Vec::new();
    a.reported(&mut tokens);
    assert_eq!(tokens, [7]);
    assert!(!a.run(SimTime::from_ns(2 * ERASE)));
    assert_eq!(a.now().as_ns(), 2 * ERASE);
}

#[test]
fn after_a_power_cut_nothing_is_on_its_way() {
    let mut a = array(false);
    a.clear(at(0, 0, 0));
    a.host_program(at(0, 0, 0));
    a.run(SimTime::from_ns(1000));
    let mut rest = a.at_rest();
    assert_eq!(
        (rest.now().as_ns(), rest.next_event(), rest.busy_dies(), rest.backlog(0)),
        (1000, None, 0, 0)
    );
    let program = rest.host_program(at(0, 0, 0));
    assert_eq!(rest.end(program), 1000 + TRANSFER + PROGRAM);
}

#[test]
fn dies_are_held_while_they_wait_for_the_bus() {
    let mut a = array(false);
    a.host_program(at(0, 0, 0));
    a.host_program(at(1, 0, 0));
    a.host_read(at(2, 0, 0));
    a.drain();
    let held = a.occupancy(a.now()).held_ns;
    assert_eq!(held[Class::HostProgram as usize], 3 * TRANSFER + 2 * PROGRAM);
    assert_eq!(held[Class::HostRead as usize], READ + TRANSFER);
    assert_eq!(a.occupancy(a.now()).total_ns(), 4 * TRANSFER + 2 * PROGRAM + READ);
}
