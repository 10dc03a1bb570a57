//! Placement by the future of a trace.

use std::fmt::Write as _;
use std::path::PathBuf;

use strobe_ftl::{CopyContext, Placement, StreamId, StreamLayout, WriteContext};
use strobe_lab::{Experiment, RunResult, runner};
use strobe_ssd::DriveBuilder;
use strobe_types::{Lpn, Prng};
use strobe_workload::synthetic::{SyntheticConfig, Workload as _};

const UNITS: u32 = 1024;
const BLOCK_UNITS: usize = 32;

#[derive(Clone, Copy, PartialEq)]
enum Did {
    Write(u32),
    Trim(u32),
}

fn trace(name: &str) -> (PathBuf, Vec<Did>) {
    let mut rng = Prng::new(3);
    let (mut text, mut did) = ("fio version 3 iolog\n0 d add\n0 d open\n".to_owned(), Vec::new());
    for at in 0..8000 {
        let first = if rng.chance(0.7) { rng.below(UNITS / 8) } else { rng.below(UNITS - 4) };
        let (units, is_trim) = (1 + rng.below(3), rng.chance(0.1));
        // A write of one sector more touches another unit; a trim of it does not trim that unit.
        let bytes = 4096 * units + if rng.chance(0.3) { 512 } else { 0 };
        let action = if is_trim { "trim" } else { "write" };
        writeln!(text, "{at} d {action} {} {bytes}", 4096 * first).expect("text");
        let end = first + if is_trim { bytes / 4096 } else { bytes.div_ceil(4096) };
        did.extend((first..end).map(|unit| if is_trim { Did::Trim(unit) } else { Did::Write(unit) }));
    }
    let path = std::env::temp_dir().join(format!("strobe-future-{name}-{}", std::process::id()));
    std::fs::write(&path, text).expect("written");
    (path, did)
}

#[derive(Clone, Debug)]
struct Naive {
    /// Next write or trim of the unit, for each write.
    deaths: Vec<usize>,
    now: usize,
    death: Vec<usize>,
}

impl Naive {
    fn new(all: &[Did]) -> Self {
        let (mut last, mut deaths) = (vec![None; UNITS as usize], Vec::new());
        for &did in all {
            let (Did::Write(unit) | Did::Trim(unit)) = did;
            let now = deaths.len();
            if let Some(before) = last[unit as usize].take() {
                deaths[before] = now;
            }
            if let Did::Write(_) = did {
                last[unit as usize] = Some(now);
                deaths.push(usize::MAX);
            }
        }
        Self { deaths, now: 0, death: vec![usize::MAX; UNITS as usize] }
    }

    fn stream(&self, lpn: Lpn) -> StreamId {
        StreamId::new((self.death[lpn.index()].saturating_sub(self.now) / BLOCK_UNITS).min(5) as u8)
    }
}

impl Placement for Naive {
    fn for_write(&mut self, lpn: Lpn, _: WriteContext, _: u64) -> StreamId {
        self.death[lpn.index()] = self.deaths[self.now];
        let stream = self.stream(lpn);
        self.now += 1;
        stream
    }

    fn for_copy(&mut self, lpn: Lpn, _: &CopyContext) -> StreamId {
        self.stream(lpn)
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }
}

fn text(path: &str, workload: &str, run: &str) -> String {
    format!(
        "[drive.nand]\nchannels = 1\ndies_per_channel = 1\nplanes_per_die = 1\nblocks_per_plane = 60\n\
         pages_per_block = {BLOCK_UNITS}\npage_bytes = 4096\n[drive.ftl]\nmapping_unit_bytes = 4096\n\
         logical_pages = {UNITS}\nplacement.scheme = \"fk\"\n\
         [workload]\nkind = \"trace\"\nformat = \"fio\"\npath = \"{path}\"\n{workload}\n[run]\ntiming = false\n{run}"
    )
}

fn experiment(path: &str, workload: &str, run: &str) -> Experiment {
    Experiment::from_toml(&text(path, workload, run)).expect("an experiment")
}

fn streams(result: &RunResult) -> Vec<(u64, u64, u64)> {
    let streams = result.streams.as_ref().expect("a placement");
    streams.iter().map(|stream| (stream.host_bytes, stream.media_bytes, stream.victims)).collect()
}

#[test]
fn a_trace_is_placed_by_what_a_look_through_all_of_it_says() {
    let (path, did) = trace("naive");
    let prefill: Vec<Did> = (0..UNITS).map(Did::Write).collect();
    for (repeat, is_filled) in [(1, false), (3, false), (3, true)] {
        let experiment = experiment(
            path.to_str().expect("a path"),
            &format!("repeat = {repeat}"),
            &format!("prefill = {is_filled}"),
        );
        let result = runner::run(&experiment, &mut ()).expect("runs");
        assert!(result.gc.units_moved > 500, "{:?}", result.gc);
        let before = if is_filled { &prefill[..] } else { &[] };
        let all: Vec<Did> = before.iter().copied().chain(did.repeat(repeat)).collect();
        let builder = DriveBuilder::new(&experiment.drive, false, 1).expect("a drive");
        let naive =
            builder.with_placement(StreamLayout::shared(6), Naive::new(&all)).build().expect("a drive");
        let by_naive = runner::run_on(&experiment, naive, &mut ()).expect("runs");
        assert_eq!(streams(&result), streams(&by_naive), "repeat = {repeat}, prefill = {is_filled}");
    }
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn the_writes_of_a_warm_up_have_a_future() {
    let (path, did) = trace("warm-up");
    let run = "prefill = true\nprecondition = \"0.5x\"\nwarmup = \"100 requests\"";
    let experiment = experiment(path.to_str().expect("a path"), "", run);
    let result = runner::run(&experiment, &mut ()).expect("runs");
    let mut all: Vec<Did> = (0..UNITS).map(Did::Write).collect();
    let overwrites = SyntheticConfig { block_bytes: 4096, ..SyntheticConfig::default() };
    let mut generator = overwrites.build(experiment.drive.logical_bytes(), 1).expect("a generator");
    let mut batch = Vec::new();
    generator.fill(&mut batch, (UNITS / 2) as usize);
    all.extend(batch.iter().map(|request| Did::Write((request.lba.get() / 8) as u32)));
    all.extend(did);
    let builder = DriveBuilder::new(&experiment.drive, false, 1).expect("a drive");
    let naive = builder.with_placement(StreamLayout::shared(6), Naive::new(&all)).build().expect("a drive");
    let by_naive = runner::run_on(&experiment, naive, &mut ()).expect("runs");
    assert_eq!(streams(&result), streams(&by_naive));
    assert_eq!(runner::warm_key(&experiment), None, "no state has the future");
    let mut other = experiment.clone();
    other.drive.ftl.placement.scheme = "sep-gc".into();
    assert!(runner::warm_key(&other).is_some());
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn a_future_that_nobody_knows_is_refused_with_the_reason() {
    let refusal =
        |experiment: &Experiment| runner::run(experiment, &mut ()).expect_err("no future").to_string();
    let (path, _) = trace("refused");
    let known = experiment(path.to_str().expect("a path"), "", "");
    let mut generated = known.clone();
    generated.workload = Experiment::from_toml("").expect("an experiment").workload;
    let text = refusal(&generated);
    assert!(text.contains("scheme = \"fk\"") && text.contains("workload.kind = \"trace\""), "{text}");
    let built = strobe_ssd::build(&known.drive, false, 1).err().map(|error| error.to_string());
    assert_eq!(built, Some(text), "a drive alone, as of Python or a guest");
    let text = refusal(&experiment("-", "", ""));
    assert!(text.contains("only once") && text.contains("file"), "{text}");
    let mut cut = known.clone();
    cut.power.cut_at = vec![100];
    let text = refusal(&cut);
    assert!(text.contains("power cut"), "{text}");
    let mut cached = known.clone();
    cached.drive.controller.write_buffer_bytes = 16 * 4096;
    let text = refusal(&cached);
    assert!(text.contains("write_buffer_bytes = 0"), "{text}");
    std::fs::remove_file(path).expect("removed");
}
