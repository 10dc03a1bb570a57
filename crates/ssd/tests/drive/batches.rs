//! All ways of running the same requests agree.

use strobe_nand::{Cause, NandOp, StampMedium};
use strobe_ssd::{
    DataMode, Device, DriveConfig, DriveStats, HostQueue, Inspect, Simulated, SlcConfig, WhenFull, build,
};
use strobe_types::{Op, Prng, Request, SimTime};

use crate::setup::{
    self, Host as _, T0, closed, config, contents, counting, mixed_requests, timed, unit_writes,
};

/// Drives that take different paths: whole units are gathered only without a cache and with one unit per
/// page.
fn variants() -> Vec<DriveConfig> {
    let mut variants = Vec::new();
    for (channels, planes, page_bytes) in [(1, 1, 4096), (2, 1, 4096), (1, 2, 8192), (1, 1, 16384)] {
        for (buffer_units, nvram_units) in [(0, 0), (1, 0), (7, 0), (300, 0), (0, 9), (7, 9)] {
            for data in [DataMode::None, DataMode::Stamp, DataMode::Bytes] {
                let config = setup::buffered(setup::shaped(channels, 1, planes), buffer_units);
                let mut config = setup::cached(config, nvram_units);
                config.nand.page_bytes = page_bytes;
                config.nand.data = data;
                variants.push(config);
            }
        }
    }
    variants
}

fn slc_variants() -> Vec<DriveConfig> {
    let mut variants = Vec::new();
    for (channels, static_blocks, dynamic_blocks, fold_at, when_full) in [
        (1, 3, 0, 0, WhenFull::Direct),
        (1, 0, 8, 0, WhenFull::Direct),
        (2, 4, 6, 3, WhenFull::Direct),
        (1, 2, 4, 0, WhenFull::Fold),
    ] {
        let mut config = setup::shaped(channels, 1, 1);
        config.nand.blocks_per_plane = 64;
        config.nand.slc.bits_per_cell = 2;
        let fold_idle_ns = 1_000_000_000_000;
        config.ftl.slc_cache = SlcConfig { static_blocks, dynamic_blocks, fold_at, fold_idle_ns, when_full };
        variants.push(config);
    }
    variants
}

fn requests_for(config: &DriveConfig, seed: u64) -> Vec<Request> {
    let sectors = config.logical_bytes() / 512;
    let mut requests = mixed_requests(sectors, setup::UNIT, 1500, seed);
    // A long run of whole-unit writes, then a mix again.
    requests.extend(unit_writes(config.logical_units() as u32, 1500, seed));
    requests.extend(mixed_requests(sectors, setup::UNIT, 500, seed + 1));
    requests
}

fn run_in_pieces(
    engine: &mut dyn Simulated,
    requests: &[Request],
    queue: &mut HostQueue,
    mut piece: impl FnMut() -> usize,
) {
    let mut rest = requests;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(piece().min(rest.len()));
        engine.issue(now, &[], queue).expect("runs");
        rest = later;
    }
    queue.finish(engine).expect("all are complete");
}

#[derive(Debug, PartialEq)]
struct Outcome {
    stats: DriveStats,
    mapped_units: u32,
    free_blocks: u32,
    finished: SimTime,
    mean_latency_ns: Vec<f64>,
}

fn outcome(engine: &dyn Simulated, queue: &HostQueue) -> Outcome {
    engine.check().expect("state");
    Outcome {
        stats: engine.stats(),
        mapped_units: engine.mapped_units(),
        free_blocks: engine.free_blocks(),
        finished: queue.finished(),
        mean_latency_ns: Op::ALL.iter().map(|&op| engine.latency().of(op).mean()).collect(),
    }
}

#[test]
fn the_size_of_batches_changes_nothing() {
    for (config, seed) in variants().iter().chain(&slc_variants()).zip(1..) {
        let requests = requests_for(config, seed);
        for (timing, depth) in [(false, 1), (true, 1), (true, 8)] {
            let outcomes = [0, 1, 2].map(|kind| {
                let mut engine = build(config, timing, 1).expect("valid");
                let mut queue = closed(depth);
                let mut rng = Prng::new(seed);
                run_in_pieces(engine.as_mut(), &requests, &mut queue, || match kind {
                    0 => requests.len(),
                    1 => 1,
                    _ => 1 + rng.below(100) as usize,
                });
                outcome(engine.as_ref(), &queue)
            });
            assert_eq!(outcomes[0], outcomes[1], "{config:?}");
            assert_eq!(outcomes[0], outcomes[2], "{config:?}");
        }
    }
}

/// A timed drive may read less: it finds units on their way to flash in memory.
fn assert_same_changes(counted: &DriveStats, timed: &DriveStats) {
    for cause in Cause::ALL {
        for op in [NandOp::Program, NandOp::Erase] {
            assert_eq!(counted.nand.get(op, cause), timed.nand.get(op, cause), "{op:?} {cause:?}");
        }
        let (counted, timed) = (counted.nand.get(NandOp::Read, cause), timed.nand.get(NandOp::Read, cause));
        assert!(timed <= counted && (timed == counted || cause == Cause::Host), "{timed} of {counted} reads");
    }
}

#[test]
fn batches_and_single_commands_leave_the_same_drive() {
    for (config, seed) in variants().iter().zip(100..) {
        let requests = requests_for(config, seed);
        let mut batch = counting::<StampMedium>(config);
        batch.run(&requests, &[], &mut closed(1)).expect("runs");
        let mut single = counting::<StampMedium>(config);
        let mut single_timed = timed::<StampMedium>(config);
        let mut now = T0;
        for &request in &requests {
            single.request(T0, request).expect("runs");
            now = single_timed.request(now, request).expect("runs");
        }
        assert_eq!(batch.stats(), single.stats(), "{config:?}");
        assert_eq!(batch.stats().host, single_timed.stats().host);
        assert_same_changes(&batch.stats(), &single_timed.stats());
        let content = contents(&mut batch);
        assert_eq!(content, contents(&mut single));
        assert_eq!(content, contents(&mut single_timed));
    }
}

#[test]
fn counting_and_timed_runs_do_the_same_flash_operations() {
    for (config, seed) in variants().iter().zip(200..) {
        let requests = requests_for(config, seed);
        let [counted, timed] = [false, true].map(|timing| {
            let mut engine = build(config, timing, 1).expect("valid");
            engine.run(&requests, &[], &mut closed(1)).expect("runs");
            engine.stats()
        });
        assert_eq!(counted.host, timed.host, "{config:?}");
        assert_same_changes(&counted, &timed);
        assert_eq!(counted.gc.units_moved, timed.gc.units_moved);
        assert!(counted.nand.total(NandOp::Erase) > 0, "the run must collect garbage: {config:?}");
    }
}

#[test]
fn stored_data_does_not_change_the_flash_operations() {
    for chunk in variants().chunks(3) {
        let requests = requests_for(&chunk[0], 3);
        let stats: Vec<DriveStats> = chunk
            .iter()
            .map(|config| {
                let mut engine = build(config, true, 1).expect("valid");
                engine.run(&requests, &[], &mut closed(4)).expect("runs");
                engine.stats()
            })
            .collect();
        assert_eq!(stats[0], stats[1]);
        assert_eq!(stats[0], stats[2]);
    }
}

#[test]
fn a_batch_of_arrivals_equals_its_requests_one_by_one() {
    let requests = requests_for(&config(), 5);
    let mut rng = Prng::new(5);
    let mut at = 0;
    let arrivals: Vec<SimTime> = requests
        .iter()
        .map(|_| {
            at += u64::from(rng.below(2_000_000));
            SimTime::from_ns(at)
        })
        .collect();
    let open = || HostQueue::new(strobe_ssd::Pacing::Open, T0);
    let (mut whole, mut whole_queue) = (build(&config(), true, 1).expect("valid"), open());
    whole.run(&requests, &arrivals, &mut whole_queue).expect("runs");
    let (mut single, mut single_queue) = (build(&config(), true, 1).expect("valid"), open());
    for (request, arrival) in requests.iter().zip(&arrivals) {
        single.issue(&[*request], &[*arrival], &mut single_queue).expect("runs");
        assert_eq!(single_queue.now(), *arrival);
    }
    single_queue.finish(&mut *single).expect("all are complete");
    assert_eq!(outcome(whole.as_ref(), &whole_queue), outcome(single.as_ref(), &single_queue));
}
