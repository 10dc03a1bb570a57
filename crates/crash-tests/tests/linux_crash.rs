//! Power cuts under ext4, F2FS and FAT of a real Linux kernel: data synced by fsync(2) is intact, and the volume is
//! sound.
//!
//! The kernel is `STROBE_KERNEL` or the one built by `strobe linux build-kernel`. Without a kernel the tests are
//! skipped, or fail with `STROBE_REQUIRE_KERNEL=1`.

#![cfg(target_os = "linux")]

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use strobe_crash_tests::{Config, CrashError, CutReport, Parts, Prepared};
use strobe_ftl::{CheckError, Recovery, RecoveryError, WearSummary};
use strobe_lab::machine::Stopwatch;
use strobe_linux::command::FileSystem;
use strobe_linux::{LinuxError, kernel};
use strobe_ssd::{
    Command, CommandError, CommandKind, Completion, Device, DriveStats, HostCounts, Inspect, Latency,
    LimitsConfig, PowerCut, Range, Simulated, Verdict,
};
use strobe_testing::{Need, found};
use strobe_types::{Geometry, Lba, Prng, SimTime};

const SEED: u64 = 7;

fn parts() -> Option<Parts> {
    let kernel = found(Need::Kernel, kernel::installed())?;
    Some(Parts { kernel, program: env!("CARGO_BIN_EXE_crash-guest").into() })
}

fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || {
        while let Some((at, item)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            items.get(at).map(|item| (at, item))
        } {
            let result = work(item);
            results.lock().expect("no thread has panicked").push((at, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(worker);
        }
    });
    let mut results = results.into_inner().expect("no thread has panicked");
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

fn prepare(
    parts: &Parts,
    config: &Config,
    wrap: fn(Box<dyn Simulated>) -> Box<dyn Simulated>,
) -> Result<Prepared, String> {
    match Prepared::new(parts, config, SEED, wrap) {
        Ok(volume) => Ok(volume),
        Err(CrashError::Lacking(what)) => Err(format!("{}: this kernel cannot: {what}", config.name)),
        Err(CrashError::Guest(LinuxError::Missing(program))) => Err(format!("{}: {program}", config.name)),
        Err(error) => panic!("{}: {error}", config.name),
    }
}

/// Power fails once more after every third cut, if the file system survives it.
fn cuts(config: &Config, volume: &Prepared, count: usize) -> Vec<(u64, Option<u64>)> {
    if let Ok(given) = std::env::var("STROBE_CRASH_AT") {
        let number = |text: &str| text.parse().expect("STROBE_CRASH_AT is OPERATION or OPERATION+AGAIN");
        return vec![match given.split_once('+') {
            Some((operation, again)) => (number(operation), Some(number(again))),
            None => (number(&given), None),
        }];
    }
    let mut rng = Prng::derive(SEED, config.name);
    let (first, last) = volume.operations().into_inner();
    let mut cut = |number: usize| {
        let again = u64::from(rng.below(60));
        (first + rng.below_u64(last - first + 1), (config.recovers_again && number % 3 == 1).then_some(again))
    };
    (0..count).map(&mut cut).collect()
}

fn cut(config: &Config, volume: &Prepared, (operation, again): (u64, Option<u64>)) -> CutReport {
    volume.cut(operation, again).unwrap_or_else(|error| panic!("{}, {operation}: {error}", config.name))
}

fn test(configs: &[Config], count: usize) {
    assert!(!configs.is_empty(), "no configuration is left");
    let Some(parts) = parts() else { return };
    let watch = Stopwatch::start();
    let volumes = in_parallel(configs, |config| prepare(&parts, config, |drive| drive));
    // Skips happen here, because only this thread has the test's name.
    let volumes: Vec<_> = volumes.into_iter().map(|volume| found(Need::Kernel, volume)).collect();
    let mut items = Vec::new();
    for (config, volume) in configs.iter().zip(&volumes) {
        if let Some(volume) = volume {
            items.extend(cuts(config, volume, count).into_iter().map(|at| (config, volume, at)));
        }
    }
    let reports = in_parallel(&items, |(config, volume, at)| {
        let report = cut(config, volume, *at);
        if !report.violations.is_empty() {
            eprintln!("{}, cut at {at:?}:\n  {}", config.name, report.violations.join("\n  "));
        }
        report
    });
    let mut wrong = 0;
    for (config, volume) in configs.iter().zip(&volumes).filter_map(|(c, v)| Some((c, v.as_ref()?))) {
        let own: Vec<_> = items.iter().zip(&reports).filter(|((of, ..), _)| of.name == config.name).collect();
        let bad = own.iter().filter(|(_, report)| !report.violations.is_empty()).count();
        let again = own.iter().filter(|(_, report)| report.was_cut_again).count();
        let acknowledged: usize = own.iter().map(|(_, report)| report.acknowledged).sum();
        eprintln!(
            "{:18} {:3} cuts ({again} of them twice) among {} flash operations, {} blocks collected; {acknowledged} \
             acknowledgements; {bad} volumes with losses or faults",
            config.name,
            own.len(),
            volume.operations().count(),
            volume.collected_blocks()
        );
        wrong += bad;
    }
    let ran = volumes.iter().flatten().count();
    let all = configs.len();
    eprintln!("{} cuts in {ran} of {all} configurations in {:.1} s", reports.len(), watch.wall_s());
    assert_eq!(wrong, 0, "volumes with losses or faults");
    assert!(reports.len() >= ran, "a configuration was not cut at all");
    // Without an acknowledgement before a cut, nothing could have been lost.
    let promised: usize = reports.iter().map(|report| report.acknowledged).sum();
    assert!(ran == 0 || promised > 0, "no cut came after an acknowledgement");
}

#[test]
fn what_was_synced_survives_power_cuts() {
    test(&Config::all(), 2);
}

/// 100 cuts in each configuration by default.
///
/// `STROBE_CRASH_CUTS` sets another number, `STROBE_CRASH_ONLY` selects configurations by a part of their names.
/// `STROBE_CRASH_AT` sets the operation to cut, as OPERATION or OPERATION+AGAIN.
#[test]
#[ignore = "100 cuts per file system, many minutes: make test-long"]
fn what_was_synced_survives_many_power_cuts() {
    let number = std::env::var("STROBE_CRASH_CUTS").ok().and_then(|text| text.parse().ok());
    let only = std::env::var("STROBE_CRASH_ONLY").unwrap_or_default();
    let configs: Vec<_> = Config::all().into_iter().filter(|config| config.name.contains(&only)).collect();
    test(&configs, number.unwrap_or(100));
}

#[test]
fn a_drive_that_does_not_flush_is_found_out() {
    let Some(parts) = parts() else { return };
    let lying = |drive| Box::new(Liar(drive)) as Box<dyn Simulated>;
    let configs = Config::all();
    let mut tried = 0;
    for file_system in [FileSystem::Ext4, FileSystem::F2fs, FileSystem::Vfat] {
        let config = configs.iter().find(|config| config.file_system == file_system).expect("it is tested");
        let Some(volume) = found(Need::Kernel, prepare(&parts, config, lying)) else { continue };
        tried += 1;
        LIES.store(0, Ordering::Relaxed);
        let exposed = cuts(config, &volume, 10).into_iter().position(|at| {
            let report = cut(config, &volume, at);
            report.violations.first().inspect(|violation| eprintln!("{}: {violation}", config.name)).is_some()
        });
        let lies = LIES.load(Ordering::Relaxed);
        assert!(lies > 0, "{}: the drive was never asked to flush, so it has not lied", config.name);
        let at = exposed.unwrap_or_else(|| {
            panic!("{}: 10 power cuts of a drive that lied {lies} times, and nothing is wrong", config.name)
        });
        eprintln!("{}: found out by cut {} of 10, after {lies} lies", config.name, at + 1);
    }
    assert!(tried > 0, "no file system was there to find it out");
    eprintln!("a drive that lies was found out on {tried} of 3 file systems");
}

static LIES: AtomicUsize = AtomicUsize::new(0);

struct Liar(Box<dyn Simulated>);

impl Liar {
    fn cut(cut: PowerCut) -> PowerCut {
        PowerCut { drive: Box::new(Self(cut.drive)), ..cut }
    }
}

impl Device for Liar {
    fn submit(&mut self, now: SimTime, tag: u64, command: &Command<'_>, data: Option<&[u8]>) {
        match command {
            Command::Flush => {
                LIES.fetch_add(1, Ordering::Relaxed);
                // An empty trim completes without effect.
                self.0.submit(now, tag, &Command::Deallocate(&[Range::new(Lba::new(0), 0)]), None);
            }
            _ => self.0.submit(now, tag, command, data),
        }
    }

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

    fn outstanding(&self) -> usize {
        self.0.outstanding()
    }
    fn host_counts(&self) -> &HostCounts {
        self.0.host_counts()
    }

    fn next_event(&self) -> Option<SimTime> {
        self.0.next_event()
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

impl Inspect for Liar {
    fn logical_units(&self) -> u32 {
        self.0.logical_units()
    }

    fn oldest_outstanding(&self) -> Option<(CommandKind, SimTime)> {
        self.0.oldest_outstanding()
    }

    fn mapped_units(&self) -> u32 {
        self.0.mapped_units()
    }

    fn free_blocks(&self) -> u32 {
        self.0.free_blocks()
    }

    fn stats(&self) -> DriveStats {
        self.0.stats()
    }

    fn stats_at(&self, now: SimTime) -> DriveStats {
        self.0.stats_at(now)
    }

    fn latency(&self) -> &Latency {
        self.0.latency()
    }

    fn clear_latency(&mut self) {
        self.0.clear_latency();
    }

    fn wear(&self) -> WearSummary {
        self.0.wear()
    }

    fn check(&self) -> Result<(), CheckError> {
        self.0.check()
    }

    fn failure(&self) -> Option<&str> {
        self.0.failure()
    }

    fn operations(&self) -> u64 {
        self.0.operations()
    }
}

impl Simulated for Liar {
    fn freeze(&self) -> Box<dyn Simulated> {
        Box::new(Self(self.0.freeze()))
    }

    fn plan_cut(&mut self, operation: u64) {
        self.0.plan_cut(operation);
    }

    fn was_cut(&self) -> bool {
        self.0.was_cut()
    }

    fn cut_everywhere(&mut self) {
        self.0.cut_everywhere();
    }

    fn take_cuts(&mut self) -> Vec<PowerCut> {
        self.0.take_cuts().into_iter().map(Self::cut).collect()
    }

    fn cut_now(&mut self) -> PowerCut {
        Self::cut(self.0.cut_now())
    }

    fn watch(&mut self) {
        self.0.watch();
    }

    fn verify(&mut self) -> Option<Verdict> {
        self.0.verify()
    }

    fn restart(self: Box<Self>, now: SimTime) -> Result<(Box<dyn Simulated>, Recovery), RecoveryError> {
        let (drive, recovery) = self.0.restart(now)?;
        Ok((Box::new(Self(drive)), recovery))
    }
}
