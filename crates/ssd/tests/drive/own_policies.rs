//! Drives with a custom placement: in Rust, or as a formula.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use strobe_ftl::gc::Greedy;
use strobe_ftl::{CopyContext, Placement, StreamId, StreamLayout, WriteContext};
use strobe_nand::NandOp;
use strobe_ssd::{DriveBuilder, GcMode, Scheme, SchemeName, Simulated, build, memory_bytes};
use strobe_types::{Geometry, Lpn};

use crate::setup::{closed, config, unit_writes};

#[derive(Clone, Debug)]
struct ByParity {
    copies: u8,
}

impl Placement for ByParity {
    fn for_write(&mut self, lpn: Lpn, _: WriteContext, _: u64) -> StreamId {
        StreamId::new((lpn.get() % 2) as u8)
    }

    fn for_copy(&mut self, _: Lpn, _: &CopyContext) -> StreamId {
        StreamId::new(self.copies)
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }
}

#[derive(Clone, Debug)]
struct Counting(Arc<AtomicU64>);

impl Placement for Counting {
    fn for_copy(&mut self, _: Lpn, _: &CopyContext) -> StreamId {
        self.0.fetch_add(1, Ordering::Relaxed);
        StreamId::new(1)
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }
}

/// Relocations are reported even with a single stream to choose (as WARCIP needs).
#[test]
fn a_placement_is_asked_about_each_unit_that_is_relocated() {
    let mut config = config();
    (config.nand.blocks_per_plane, config.ftl.logical_pages) = (70, Some(400));
    for (timing, mode) in
        [(false, GcMode::StopTheWorld), (true, GcMode::StopTheWorld), (true, GcMode::Background)]
    {
        config.ftl.gc.mode = mode;
        let asked = Arc::new(AtomicU64::new(0));
        let own = DriveBuilder::new(&config, timing, 1).expect("a drive");
        let own = own.with_placement(StreamLayout::separate(1, 1), Counting(asked.clone()));
        let mut drive = own.build().expect("a drive");
        for round in 0..30 {
            drive.run(&unit_writes(400, 500, round), &[], &mut closed(1)).expect("runs");
        }
        let moved = drive.stats().gc.units_moved;
        // In the background, the host may overwrite a unit between the choice of its stream and its move.
        let asked = asked.load(Ordering::Relaxed);
        assert!(moved > 500 && asked >= moved && asked < 2 * moved, "{mode:?}: {asked} of {moved}");
    }
}

fn programs(mut drive: Box<dyn Simulated>) -> u64 {
    for round in 0..30 {
        drive.run(&unit_writes(60, 500, round), &[], &mut closed(1)).expect("runs");
        drive.run(&unit_writes(160, 200, round), &[], &mut closed(1)).expect("runs");
    }
    drive.check().expect("state");
    drive.stats().nand.total(NandOp::Program)
}

#[test]
fn a_placement_of_your_own_chooses_the_streams() {
    let mut config = config();
    config.nand.blocks_per_plane = 70;
    for timing in [false, true] {
        let own = DriveBuilder::new(&config, timing, 1).expect("a drive");
        let own = own.with_placement(StreamLayout::separate(2, 1), ByParity { copies: 2 });
        let own = programs(own.build().expect("a drive"));
        assert_ne!(own, programs(build(&config, timing, 1).expect("a drive")), "it makes no difference");
        let victims = |geometry: &Geometry| Greedy::new(geometry.blocks());
        let builder = DriveBuilder::new(&config, timing, 1).expect("a drive");
        let greedy = victims(builder.geometry());
        let both =
            builder.with_victims(greedy).with_placement(StreamLayout::separate(2, 1), ByParity { copies: 2 });
        assert_eq!(own, programs(both.build().expect("a drive")));
    }
}

#[test]
#[should_panic(expected = "placement bug: stream 3 for a relocated unit; its layout has 2 to 2")]
fn a_stream_outside_its_layout_is_a_bug_of_the_placement() {
    let config = config();
    let own = DriveBuilder::new(&config, false, 1).expect("a drive");
    let own = own.with_placement(StreamLayout::separate(2, 1), ByParity { copies: 3 });
    programs(own.build().expect("a drive"));
}

#[test]
fn streams_that_no_drive_has_are_refused() {
    let config = config();
    for layout in [StreamLayout::separate(0, 1), StreamLayout::separate(2, 0), StreamLayout::shared(65)] {
        let own = DriveBuilder::new(&config, false, 1).expect("a drive");
        let Err(error) = own.with_placement(layout, ByParity { copies: 2 }).build() else {
            panic!("{layout:?} is built")
        };
        assert!(error.to_string().contains("at least one of each, and at most 64"), "{error}");
    }
}

#[test]
fn a_formula_as_scheme_is_the_placement_that_it_states() {
    for (name, formula) in
        [(SchemeName::SepGc, "is_copy"), (SchemeName::Hints, "is_metadata * (1 - is_copy) + 2 * is_copy")]
    {
        for timing in [false, true] {
            let programs_by = |scheme: Scheme| {
                let mut config = config();
                config.nand.blocks_per_plane = 70;
                config.ftl.placement.scheme = scheme;
                programs(build(&config, timing, 1).expect("a drive"))
            };
            let by_formula = programs_by(Scheme::Formula(formula.to_owned()));
            assert_eq!(programs_by(name.into()), by_formula, "{formula}, timing {timing}");
        }
    }
}

#[test]
fn a_formula_takes_memory_for_the_variables_that_it_uses() {
    let bytes = |scheme: &str| {
        let mut config = config();
        config.ftl.placement.scheme = Scheme::Formula(scheme.to_owned());
        memory_bytes(&config).expect("a drive")
    };
    let units = config().logical_units();
    assert_eq!(bytes("interval + is_copy") - bytes("is_copy"), 16 * units);
}
