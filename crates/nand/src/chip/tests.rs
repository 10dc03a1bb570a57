use strobe_types::GeometrySpec;

use super::*;
use crate::{CutPlan, PowerCuts as _, ReadOutcome, StampMedium, Untimed, verify_page};

type TestChip = Chip<Untimed, StampMedium>;

fn chip(wear: WearConfig) -> TestChip {
    let geometry = Geometry::new(GeometrySpec {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: 4,
        pages_per_block: 3,
        page_bytes: 8192,
        unit_bytes: 4096,
    })
    .expect("valid");
    Chip::new(geometry, wear, Untimed::default(), 1)
}

fn unit(lpn: u32, stamp: u64) -> Unit<u64> {
    Unit { lpn: Lpn::new(lpn), payload: stamp }
}

const T0: When = When::START;

#[test]
fn a_page_reads_back_as_programmed_until_erased() {
    let mut c = chip(WearConfig::default());
    let ppn = c.geometry().page(BlockId::new(1), 0);
    c.program(T0, ppn, &[unit(7, 70), unit(8, 80)], 1, Cause::Host).expect("programs");
    c.read(T0, ppn, Wanted::first(2), Cause::Host);
    let first = c.geometry().first_unit_of_page(ppn);
    assert_eq!((c.lpn(first), c.payload(first)), (Some(Lpn::new(7)), 70));
    assert_eq!((c.lpn(first.plus(1)), c.payload(first.plus(1))), (Some(Lpn::new(8)), 80));
    assert_eq!(verify_page(&c, ppn), Ok(()));
    c.erase(T0, BlockId::new(1), Cause::Gc).expect("erases");
    assert_eq!(c.block(BlockId::new(1)).pages_programmed, 0);
    assert_eq!(c.block(BlockId::new(1)).erase_count, 1);
    assert_eq!(c.counts().get(NandOp::Erase, Cause::Gc), 1);
    assert_eq!(c.counts().total(NandOp::Program), 1);
}

#[test]
fn missing_units_are_padding() {
    let mut c = chip(WearConfig::default());
    c.program(T0, Ppn::new(0), &[unit(7, 70)], 1, Cause::Host).expect("programs");
    assert_eq!(c.lpn(Ppa::new(1)), None);
    assert_eq!(verify_page(&c, Ppn::new(0)), Ok(()));
}

#[test]
#[should_panic(expected = "flash rule broken: program of 1 pages from 0 of block 0, page 1 is next")]
fn programming_a_page_twice_panics() {
    let mut c = chip(WearConfig::default());
    for _ in 0..2 {
        let _ = c.program(T0, Ppn::new(0), &[unit(7, 70)], 1, Cause::Host);
    }
}

#[test]
#[should_panic(expected = "flash rule broken: program of 1 pages from 1 of block 0, page 0 is next")]
fn programming_out_of_order_panics() {
    let _ = chip(WearConfig::default()).program(T0, Ppn::new(1), &[unit(1, 1)], 1, Cause::Host);
}

#[test]
#[should_panic(expected = "flash rule broken: read of page 0")]
fn reading_an_erased_page_panics() {
    chip(WearConfig::default()).read(T0, Ppn::new(0), Wanted::first(1), Cause::Host);
}

#[test]
fn a_block_survives_exactly_its_endurance() {
    let mut c = chip(WearConfig { endurance_pe: Some(3), ..WearConfig::default() });
    let block = BlockId::new(2);
    for _ in 0..3 {
        assert!(c.erase(T0, block, Cause::Gc).is_ok());
    }
    assert!(c.erase(T0, block, Cause::Gc).is_err());
    assert!(c.block(block).bad);
    assert_eq!(c.block(block).erase_count, 3);
}

#[test]
#[should_panic(expected = "flash rule broken: erase of bad block 2")]
fn erasing_a_bad_block_panics() {
    let mut c = chip(WearConfig::default());
    c.mark_bad(BlockId::new(2));
    let _ = c.erase(T0, BlockId::new(2), Cause::Gc);
}

#[test]
fn factory_bad_blocks_are_as_many_as_asked() {
    let c = chip(WearConfig { factory_bad_blocks: 3, ..WearConfig::default() });
    assert_eq!((0..4).filter(|&b| c.block(BlockId::new(b)).bad).count(), 3);
}

#[test]
fn a_failed_program_uses_up_the_page() {
    let mut c = chip(WearConfig { program_fail_rate: 1.0, ..WearConfig::default() });
    assert!(c.program(T0, Ppn::new(0), &[unit(7, 70)], 1, Cause::Host).is_err());
    assert_eq!(c.block(BlockId::new(0)).pages_programmed, 1);
    assert_eq!(c.lpn(Ppa::new(0)), None);
}

fn slc_chip() -> TestChip {
    chip(WearConfig::default()).with_slc(3)
}

#[test]
fn slc_mode_ends_with_the_erase() {
    let mut c = slc_chip();
    let block = BlockId::new(2);
    c.set_mode(block, CellMode::Slc);
    assert_eq!((c.pages_of(block), c.pages_of(BlockId::new(1))), (1, 3));
    c.program(T0, c.geometry().page(block, 0), &[unit(7, 70)], 1, Cause::Host).expect("programs");
    assert_eq!(c.block(block).mode, CellMode::Slc);
    c.erase(T0, block, Cause::Gc).expect("erases");
    assert_eq!((c.block(block).mode, c.pages_of(block)), (CellMode::Normal, 3));
}

#[test]
#[should_panic(expected = "which is in SLC mode")]
fn a_block_in_slc_mode_has_fewer_pages() {
    let mut c = slc_chip();
    c.set_mode(BlockId::new(0), CellMode::Slc);
    let first = c.geometry().page(BlockId::new(0), 0);
    c.program(T0, first, &[unit(1, 1), unit(2, 2), unit(3, 3)], 1, Cause::Host).expect("programs");
}

#[test]
#[should_panic(expected = "is not erased")]
fn the_mode_of_a_programmed_block_is_decided() {
    let mut c = slc_chip();
    c.program(T0, Ppn::new(0), &[unit(1, 1)], 1, Cause::Host).expect("programs");
    c.set_mode(BlockId::new(0), CellMode::Slc);
}

#[test]
#[should_panic(expected = "cannot be in SLC mode")]
fn cells_of_which_nothing_is_said_hold_what_they_hold() {
    chip(WearConfig::default()).set_mode(BlockId::new(0), CellMode::Slc);
}

#[test]
fn a_cut_before_the_first_program_leaves_no_mode_and_one_during_it_does() {
    let mut c = slc_chip();
    c.plan_cuts(CutPlan::Everywhere);
    c.set_mode(BlockId::new(0), CellMode::Slc);
    c.program(T0, Ppn::new(0), &[unit(1, 1)], 1, Cause::Host).expect("programs");
    let modes: Vec<_> =
        c.take_snapshots().iter().map(|cut| (cut.begun, cut.flash.block(BlockId::new(0)).mode)).collect();
    assert_eq!(modes, [(false, CellMode::Normal), (true, CellMode::Slc)]);
}

fn outcome(chip: &mut TestChip, ppn: Ppn) -> ReadOutcome {
    chip.read(T0, ppn, Wanted::first(2), Cause::Host).outcome
}

#[test]
fn a_lost_unit_is_lost_until_its_block_is_erased() {
    let mut c = chip(WearConfig::default());
    c.program(T0, Ppn::new(0), &[unit(7, 70), unit(8, 80)], 1, Cause::Host).expect("programs");
    assert_eq!(outcome(&mut c, Ppn::new(0)), ReadOutcome::Clean);
    c.lose(Ppa::new(1), Lasts::UntilErased);
    for _ in 0..2 {
        assert_eq!(outcome(&mut c, Ppn::new(0)), ReadOutcome::Uncorrectable);
        assert_eq!([0, 1].map(|at| c.has_failed(Ppa::new(at))), [false, true]);
    }
    // The out-of-band area alone is always readable.
    let oob = c.read(T0, Ppn::new(0), Wanted::NONE, Cause::Host);
    assert_eq!((oob.outcome, c.lpn(Ppa::new(1))), (ReadOutcome::Clean, Some(Lpn::new(8))));
    assert_eq!(c.uncorrectable(), 2);
    c.erase(T0, BlockId::new(0), Cause::Gc).expect("erases");
    c.program(T0, Ppn::new(0), &[unit(7, 70), unit(8, 80)], 1, Cause::Host).expect("programs");
    assert_eq!((outcome(&mut c, Ppn::new(0)), c.has_losses()), (ReadOutcome::Clean, false));
}

#[test]
fn a_transient_fault_fails_one_host_read_and_is_repeated_by_others() {
    let mut c = chip(WearConfig::default());
    c.program(T0, Ppn::new(0), &[unit(7, 70), unit(8, 80)], 1, Cause::Host).expect("programs");
    c.lose(Ppa::new(0), Lasts::Once);
    assert_eq!(outcome(&mut c, Ppn::new(0)), ReadOutcome::Uncorrectable);
    assert_eq!((c.has_failed(Ppa::new(0)), c.is_lost(Ppa::new(0))), (true, false));
    assert_eq!(outcome(&mut c, Ppn::new(0)), ReadOutcome::Clean);
    c.lose(Ppa::new(0), Lasts::Once);
    let moved = c.read(T0, Ppn::new(0), Wanted::first(2), Cause::Gc);
    assert_eq!(moved.outcome, ReadOutcome::Corrected { retries: 1 });
    assert_eq!(c.counts().get(NandOp::Read, Cause::Gc), 2);
    assert_eq!(outcome(&mut c, Ppn::new(0)), ReadOutcome::Clean);
}

#[test]
fn a_copy_of_a_lost_unit_carries_its_mark_through_a_power_cut() {
    let mut c = chip(WearConfig::default());
    c.program(T0, Ppn::new(0), &[unit(7, 70), unit(8, 80), unit(9, 90)], 1, Cause::Host).expect("programs");
    c.lose(Ppa::new(0), Lasts::UntilErased);
    c.lose(Ppa::new(2), Lasts::UntilErased);
    let second_copy = c.counts().changes() + 2;
    c.plan_cuts(CutPlan::At(second_copy));
    c.mark_next([7, 9].map(Lpn::new).into_iter());
    c.program(T0, Ppn::new(3), &[unit(7, 70), unit(8, 80), unit(9, 90)], 3, Cause::Gc).expect("programs");
    assert_eq!([6, 7, 8].map(|at| c.is_lost(Ppa::new(at))), [true, false, true]);
    let left = c.take_snapshots().pop().expect("a cut").flash;
    assert_eq!(
        [6, 7, 8].map(|at| left.is_lost(Ppa::new(at))),
        [true, false, false],
        "the second page is torn"
    );
    // Marks are used once: a host write of the same unit is not lost.
    c.program(T0, Ppn::new(6), &[unit(7, 71)], 5, Cause::Host).expect("programs");
    assert!(!c.is_lost(Ppa::new(12)));
}
