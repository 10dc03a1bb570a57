//! The device interface: completions of submitted commands, and equal drives whatever the way of submission.

use proptest::prelude::*;
use strobe_ftl::Inspectable as _;
use strobe_ssd::{
    Command, CommandError, Completion, DataMode, Device, DriveConfig, Hint, HostCounts, HostQueue, Inspect,
    LimitsConfig, NvramPolicyName, Pacing, Range, Simulated, build,
};
use strobe_types::{Geometry, Lba, Prng, Request, SimTime};

use crate::setup::{
    T0, UNIT, buffered, cached, closed, config, mixed_requests, read_unit, shaped, write_unit,
};

fn ns(n: u64) -> SimTime {
    SimTime::from_ns(n)
}

fn unit(number: u64) -> Range {
    Range::new(Lba::new(number * u64::from(UNIT)), UNIT)
}

struct OneByOne(Box<dyn Simulated>);

impl Device for OneByOne {
    fn sectors(&self) -> u64 {
        self.0.sectors()
    }
    fn geometry(&self) -> &Geometry {
        self.0.geometry()
    }
    fn limits(&self) -> LimitsConfig {
        self.0.limits()
    }
    fn keeps_contents(&self) -> bool {
        self.0.keeps_contents()
    }
    fn submit(&mut self, now: SimTime, tag: u64, command: &Command<'_>, data: Option<&[u8]>) {
        self.0.submit(now, tag, command, data);
    }
    fn outstanding(&self) -> usize {
        self.0.outstanding()
    }
    fn host_counts(&self) -> &HostCounts {
        self.0.host_counts()
    }
    fn next_event(&self) -> Option<SimTime> {
        self.0.next_event()
    }
    fn has_completion(&self, until: SimTime) -> bool {
        self.0.has_completion(until)
    }
    fn advance(&mut self, until: SimTime, completions: &mut Vec<Completion>) {
        self.0.advance(until, completions);
    }
    fn set_write_cache(&mut self, enabled: bool) {
        self.0.set_write_cache(enabled);
    }
    fn settle(&mut self, now: SimTime) -> Result<SimTime, CommandError> {
        self.0.settle(now)
    }
}

fn traces(drive: &dyn Simulated, queue: &HostQueue) -> String {
    drive.check().expect("sound");
    format!(
        "{:?} {:?} {:?} {:?}",
        drive.stats(),
        drive.latency(),
        drive.wear(),
        (queue.now(), queue.finished())
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_batch_is_the_same_as_its_requests_one_by_one(
        seed in any::<u64>(),
        depth in 1_u32..9,
        interval_ns in prop_oneof![Just(0_u64), 1_u64..2_000_000],
        buffer_units in prop_oneof![Just(0_u64), Just(12)],
        nvram_units in prop_oneof![Just(0_u64), Just(5)],
        dies in 1_u32..4,
        open in any::<bool>(),
    ) {
        let config = cached(buffered(shaped(dies, 1, 2), buffer_units), nvram_units);
        let batch = build(&config, true, 1).expect("a drive");
        let (mut one_by_one, mut batch) = (OneByOne(batch.freeze()), batch);
        let requests = mixed_requests(batch.sectors(), UNIT, 300, seed);
        let mut rng = Prng::new(seed);
        let mut now = 0;
        let arrivals: Vec<_> = requests.iter().map(|_| { now += rng.below_u64(900_000); ns(now) }).collect();
        let pacing = if open { Pacing::Open } else { Pacing::Closed { depth, interval_ns } };
        let arrivals = if open { &arrivals[..] } else { &[] };
        let [mut together, mut single] = [HostQueue::new(pacing, T0), HostQueue::new(pacing, T0)];
        batch.run(&requests, arrivals, &mut together).expect("runs");
        one_by_one.run(&requests, arrivals, &mut single).expect("runs");
        prop_assert_eq!(one_by_one.outstanding(), 0);
        prop_assert_eq!(traces(&*batch, &together), traces(&*one_by_one.0, &single));
    }
}

#[test]
fn a_refused_request_ends_a_run_at_its_place_either_way() {
    let mut batch = build(&config(), true, 1).expect("a drive");
    let mut one_by_one = OneByOne(batch.freeze());
    let beyond = Request::new(strobe_types::Op::Read, Lba::new(batch.sectors()), 1);
    let requests = [write_unit(0), read_unit(0), beyond, write_unit(1)];
    let (at, error) = batch.run(&requests, &[], &mut closed(4)).expect_err("leaves the drive");
    assert_eq!(at, 2);
    assert_eq!(one_by_one.run(&requests, &[], &mut closed(4)), Err((at, error)));
}

#[test]
fn completions_come_once_each_in_the_order_of_time() {
    let mut drive = build(&shaped(4, 2, 1), true, 1).expect("a drive");
    let mut rng = Prng::new(3);
    let (mut now, mut done, mut taken) = (0, Vec::new(), 0);
    for tag in 0..2000_u64 {
        now += rng.below_u64(40_000);
        drive.advance(ns(now), &mut done);
        for pair in done[taken..].windows(2) {
            assert!(pair[0].at <= pair[1].at);
        }
        assert!(done[taken..].iter().all(|completion| completion.at <= ns(now)));
        taken = done.len();
        assert!(drive.next_event().is_none_or(|next| next > ns(now)));
        let command = match rng.below(3) {
            0 => Command::Read { range: unit(rng.below_u64(160)) },
            1 => Command::write(unit(rng.below_u64(160))),
            _ => Command::Flush,
        };
        drive.submit(ns(now), tag, &command, None);
        assert_eq!(drive.outstanding() + done.len(), tag as usize + 1);
    }
    while let Some(next) = drive.next_event() {
        // Some events are invisible to the host.
        let before = done.len();
        drive.advance(next, &mut done);
        assert!(done[before..].iter().all(|completion| completion.at == next));
    }
    let mut tags: Vec<u64> = done.iter().map(|completion| completion.tag).collect();
    tags.sort_unstable();
    assert!(tags.into_iter().eq(0..2000));
}

#[test]
fn at_the_same_time_completions_keep_the_order_of_submission() {
    let mut drive = build(&config(), true, 1).expect("a drive");
    for tag in [7, 3, 9, 1] {
        // Unmapped reads take no time.
        drive.submit(ns(5), tag, &Command::Read { range: unit(tag) }, None);
    }
    let mut done = Vec::new();
    drive.advance(ns(4), &mut done);
    assert_eq!((done.len(), drive.next_event()), (0, Some(ns(5))));
    drive.advance(ns(5), &mut done);
    assert!(done.iter().map(|completion| completion.tag).eq([7, 3, 9, 1]));
}

#[test]
fn a_command_alone_is_refused_while_others_are_outstanding() {
    let mut drive = build(&config(), true, 1).expect("a drive");
    drive.submit(T0, 1, &Command::write(unit(0)), None);
    let stats = drive.stats();
    assert_eq!(drive.execute(T0, &Command::Flush), Err(CommandError::Busy(1)));
    assert_eq!(drive.stats(), stats);
    let mut done = Vec::new();
    while done.is_empty() {
        drive.advance(drive.next_event().expect("the write"), &mut done);
    }
    drive.execute(done[0].at, &Command::Flush).expect("alone now");
}

#[test]
fn a_read_brings_its_bytes_and_only_those_of_its_range() {
    let mut keeps = config();
    keeps.nand.data = DataMode::Bytes;
    let mut drive = build(&keeps, true, 1).expect("a drive");
    let data: Vec<u8> = (0..3 * 4096_u32).map(|n| (n / 512 * 37 + n) as u8).collect();
    drive.write_bytes(T0, Lba::new(8), &data).expect("runs");
    for (lba, sectors) in [(8, 24), (9, 3), (15, 2), (31, 1), (0, 9), (30, 40)] {
        let range = Range::new(Lba::new(lba), sectors);
        drive.submit(ns(10_000_000), 0, &Command::Read { range }, None);
        let mut done = Vec::new();
        drive.advance(ns(u64::MAX), &mut done);
        let sector = |at: u64| {
            if (8..32).contains(&at) { data[(at as usize - 8) * 512..][..512].to_vec() } else { vec![0; 512] }
        };
        let expected: Vec<u8> = (lba..lba + u64::from(sectors)).flat_map(sector).collect();
        assert_eq!(done[0].result.as_ref(), Ok(&expected), "{range:?}");
    }
    let mut counts = build(&config(), true, 1).expect("a drive");
    assert!(!counts.keeps_contents());
    counts.submit(T0, 0, &Command::Read { range: unit(0) }, None);
    let mut done = Vec::new();
    counts.advance(T0, &mut done);
    assert_eq!(done[0].result, Ok(Vec::new()));
}

/// Small enough that both caches overflow.
fn durable(policy: NvramPolicyName) -> DriveConfig {
    let mut config = cached(buffered(config(), 4), 3);
    config.controller.nvram.policy = policy;
    config.nand.data = DataMode::Bytes;
    config.nand.blocks_per_plane = 24;
    config.ftl.durable_map = true.into();
    config.ftl.logical_pages = Some(60);
    config
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Batch,
    Submit,
    Execute,
    Bytes,
    Settle,
}

/// Reads of bytes distinguish `way` from all others.
fn change(drive: &mut dyn Simulated, way: Way, step: u64) {
    let at = unit(step * 7 % 20);
    match way {
        Way::Batch => drive.run(&[write_unit(step * 7 % 20)], &[], &mut closed(1)).expect("runs"),
        Way::Submit => {
            drive.submit(T0, 0, &Command::Write { range: at, fua: true, tag: Hint::Metadata.into() }, None);
            drive.advance(ns(u64::MAX), &mut Vec::new());
        }
        Way::Execute => {
            let command = match step % 4 {
                0 => Command::Flush,
                1 => Command::Deallocate(&[at]),
                _ => Command::Write { range: at, fua: false, tag: Hint::Metadata.into() },
            };
            drive.execute(T0, &command).expect("runs");
        }
        Way::Bytes => {
            drive.write_bytes(T0, at.lba, &[step as u8; 4096]).expect("runs");
        }
        Way::Settle => {
            drive.settle(T0).expect("runs");
        }
    }
}

#[test]
fn the_cache_outlives_a_cut_inside_a_command_of_every_way() {
    let mut cuts = 0;
    for policy in [NvramPolicyName::Lru, NvramPolicyName::Hint] {
        for way in [Way::Batch, Way::Submit, Way::Execute, Way::Bytes, Way::Settle] {
            let mut drive = build(&durable(policy), false, 1).expect("a drive");
            drive.watch();
            for step in 0..120 {
                // Data for the caches to lose: a durable write to the one, a trim, a write to the other.
                let durable = Command::Write { range: unit(step % 9), fua: true, tag: Hint::Metadata.into() };
                drive.execute(T0, &durable).expect("runs");
                drive.execute(T0, &Command::Deallocate(&[unit((step + 5) % 9)])).expect("runs");
                drive.execute(T0, &Command::write(unit(20 + step % 30))).expect("runs");
                let first = drive.operations();
                let mut after = drive.freeze();
                change(&mut *after, way, step);
                for operation in first + 1..=after.operations() {
                    let mut cut = drive.freeze();
                    cut.plan_cut(operation);
                    change(&mut *cut, way, step);
                    assert!(cut.was_cut());
                    let (mut back, _) = cut.restart(T0).expect("recovers");
                    let verdict = back.verify().expect("watched");
                    assert_eq!(verdict.wrong, [], "{policy:?}, {way:?}, step {step}, operation {operation}");
                    back.check().expect("sound");
                    cuts += 1;
                }
                drive = after;
            }
        }
    }
    assert!(cuts > 500, "only {cuts} cuts");
}

#[test]
fn without_a_write_cache_what_is_complete_survives() {
    let mut drive = build(&durable(NvramPolicyName::Hint), false, 1).expect("a drive");
    drive.set_write_cache(false);
    drive.write_bytes(T0, Lba::new(0), &[1; 3 * 4096]).expect("runs");
    drive.run(&[write_unit(9)], &[], &mut closed(1)).expect("runs");
    drive.execute(T0, &Command::WriteZeroes { range: unit(1), deallocate: true }).expect("runs");
    let copy = Command::Copy { destination: unit(30).lba, sources: &[unit(0), unit(2)] };
    drive.execute(T0, &copy).expect("runs");
    let mut before = vec![0; 40 * 4096];
    drive.read_bytes(T0, Lba::new(0), &mut before).expect("runs");
    let (mut back, _) = drive.restart(T0).expect("recovers");
    let mut after = vec![0; 40 * 4096];
    back.read_bytes(T0, Lba::new(0), &mut after).expect("runs");
    assert_eq!(before, after);
    // With one, the same data may be lost.
    back.set_write_cache(true);
    back.write_bytes(T0, Lba::new(64), &[5; 4096]).expect("runs");
    let (mut back, _) = back.restart(T0).expect("recovers");
    let mut lost = vec![9; 4096];
    back.read_bytes(T0, Lba::new(64), &mut lost).expect("runs");
    assert_eq!(lost, vec![0; 4096]);
}

#[test]
fn a_restart_forgets_what_was_outstanding() {
    let mut drive = build(&durable(NvramPolicyName::Lru), true, 1).expect("a drive");
    drive.submit(T0, 1, &Command::write(unit(0)), None);
    drive.submit(T0, 2, &Command::Flush, None);
    assert_eq!(drive.freeze().outstanding(), 2);
    let (drive, _) = drive.restart(T0).expect("recovers");
    assert_eq!((drive.outstanding(), drive.next_event()), (0, None));
}

#[test]
fn units_in_the_caches_are_not_mapped_yet() {
    let mut drive = crate::setup::counting::<strobe_nand::StampMedium>(&buffered(config(), 8));
    drive.execute(T0, &Command::write(unit(3))).expect("runs");
    assert_eq!((drive.ftl().mapped_units(), drive.logical_units()), (0, 160));
}
