//! A copied drive is a second drive, not a second view.

use strobe_nand::ByteMedium;
use strobe_ssd::{DataMode, Device, DriveConfig, HostQueue, Simulated, build};
use strobe_types::{Op, Request};

use crate::setup::{UNIT, buffered, cached, closed, config, contents, mixed_requests, shaped, timed};

fn variants() -> Vec<DriveConfig> {
    let mut variants = Vec::new();
    for victim in ["greedy", "cost-benefit", "fifo", "random", "d-choices"] {
        for buffer_units in [0, 9] {
            for mut config in [config(), shaped(2, 1, 2)] {
                config.ftl.gc.victim = victim.to_owned();
                config.nand.data = DataMode::Stamp;
                config.controller.command_ns = 700;
                config.controller.link_mb_s = 3000;
                config.nand.program_fail_rate = if buffer_units == 0 { 0.0 } else { 0.0002 };
                variants.push(cached(config.clone(), 7));
                variants.push(buffered(config, buffer_units));
            }
        }
    }
    variants
}

fn appearance(engine: &dyn Simulated, queue: &HostQueue) -> String {
    engine.check().expect("state");
    let latency: Vec<(u64, u64, f64)> = Op::ALL
        .iter()
        .map(|&op| {
            let latencies = engine.latency().of(op);
            (latencies.count(), latencies.percentile(99.0), latencies.mean())
        })
        .collect();
    format!(
        "{:?} {:?} {latency:?} {} {} {:?} {:?}",
        engine.stats(),
        engine.wear(),
        engine.mapped_units(),
        engine.free_blocks(),
        queue.now(),
        queue.finished(),
    )
}

#[test]
fn original_and_frozen_copy_continue_like_twins_that_were_never_frozen() {
    for config in variants() {
        let sectors = config.logical_bytes() / 512;
        let past = mixed_requests(sectors, UNIT, 1000, 1);
        let futures = [2, 3].map(|seed| mixed_requests(sectors, UNIT, 1000, seed));
        let never_frozen = |future: &[Request]| {
            let (mut engine, mut queue) = (build(&config, true, 1).expect("valid"), closed(4));
            engine.run(&past, &[], &mut queue).expect("runs");
            engine.run(future, &[], &mut queue).expect("runs");
            appearance(engine.as_ref(), &queue)
        };
        let (mut original, mut queue) = (build(&config, true, 1).expect("valid"), closed(4));
        original.run(&past, &[], &mut queue).expect("runs");
        let (mut frozen, mut frozen_queue) = (original.freeze(), queue.clone());
        let at_freeze = appearance(frozen.as_ref(), &frozen_queue);
        assert_eq!(at_freeze, appearance(original.as_ref(), &queue));

        original.run(&futures[0], &[], &mut queue).expect("runs");
        assert_eq!(appearance(frozen.as_ref(), &frozen_queue), at_freeze, "the original moved the copy");
        frozen.run(&futures[1], &[], &mut frozen_queue).expect("runs");

        let (original, frozen) =
            (appearance(original.as_ref(), &queue), appearance(frozen.as_ref(), &frozen_queue));
        assert_eq!(original, never_frozen(&futures[0]));
        assert_eq!(frozen, never_frozen(&futures[1]));
        assert_ne!(original, frozen, "different futures must differ");
    }
}

#[test]
fn bytes_written_after_a_freeze_stay_on_their_side() {
    for buffer_units in [0, 9] {
        let config = buffered(config(), buffer_units);
        let sectors = config.logical_bytes() / 512;
        let mut original = timed::<ByteMedium>(&config);
        original.run(&mixed_requests(sectors, UNIT, 800, 1), &[], &mut closed(1)).expect("runs");
        let mut frozen = original.clone();
        let at_freeze = contents(&mut frozen);
        original.run(&mixed_requests(sectors, UNIT, 800, 2), &[], &mut closed(1)).expect("runs");
        assert_ne!(contents(&mut original), at_freeze);
        assert_eq!(contents(&mut frozen), at_freeze);
        frozen.run(&mixed_requests(sectors, UNIT, 800, 2), &[], &mut closed(1)).expect("runs");
        assert_eq!(contents(&mut original), contents(&mut frozen), "the same future gives the same drive");
    }
}

#[test]
fn a_freeze_of_a_freeze_is_a_freeze() {
    let sectors = config().logical_bytes() / 512;
    let mut engine = build(&config(), true, 1).expect("valid");
    let mut queue = closed(2);
    engine.run(&mixed_requests(sectors, UNIT, 500, 1), &[], &mut queue).expect("runs");
    let mut again = engine.freeze().freeze();
    let mut queue_again = queue.clone();
    let future = mixed_requests(sectors, UNIT, 500, 2);
    engine.run(&future, &[], &mut queue).expect("runs");
    again.run(&future, &[], &mut queue_again).expect("runs");
    assert_eq!(appearance(engine.as_ref(), &queue), appearance(again.as_ref(), &queue_again));
}
