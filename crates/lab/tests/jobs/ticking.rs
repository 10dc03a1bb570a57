use strobe_ftl::{CheckError, Recovery, RecoveryError, WearSummary};
use strobe_lab::runner;
use strobe_ssd::{
    Command, CommandError, CommandKind, Completion, Device, DriveStats, HostCounts, Inspect, Latency,
    LimitsConfig, PowerCut, Simulated, Verdict, build,
};
use strobe_types::{Geometry, SimTime};

use crate::{MIXED, experiment};

/// Reports an event every 7 µs while commands are outstanding, although nothing happens then.
struct Ticking {
    inner: Box<dyn Simulated>,
    now: SimTime,
}

const TICK_NS: u64 = 7_000;

impl Device for Ticking {
    fn sectors(&self) -> u64 {
        self.inner.sectors()
    }
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }
    fn limits(&self) -> LimitsConfig {
        self.inner.limits()
    }
    fn keeps_contents(&self) -> bool {
        self.inner.keeps_contents()
    }
    fn submit(&mut self, now: SimTime, tag: u64, command: &Command<'_>, data: Option<&[u8]>) {
        assert!(now >= self.now, "time goes back from {:?} to {now:?}", self.now);
        self.now = now;
        self.inner.submit(now, tag, command, data);
    }
    fn outstanding(&self) -> usize {
        self.inner.outstanding()
    }
    fn host_counts(&self) -> &HostCounts {
        self.inner.host_counts()
    }
    fn next_event(&self) -> Option<SimTime> {
        let tick = SimTime::from_ns((self.now.as_ns() / TICK_NS + 1) * TICK_NS);
        self.inner.next_event().map(|event| event.min(tick))
    }
    fn has_completion(&self, until: SimTime) -> bool {
        self.inner.has_completion(until)
    }

    fn advance(&mut self, until: SimTime, completions: &mut Vec<Completion>) {
        assert!(until >= self.now, "time goes back from {:?} to {until:?}", self.now);
        self.now = until;
        self.inner.advance(until, completions);
    }
    fn set_write_cache(&mut self, enabled: bool) {
        self.inner.set_write_cache(enabled);
    }
    fn settle(&mut self, now: SimTime) -> Result<SimTime, CommandError> {
        self.inner.settle(now)
    }
}

impl Inspect for Ticking {
    fn logical_units(&self) -> u32 {
        self.inner.logical_units()
    }
    fn oldest_outstanding(&self) -> Option<(CommandKind, SimTime)> {
        self.inner.oldest_outstanding()
    }
    fn mapped_units(&self) -> u32 {
        self.inner.mapped_units()
    }
    fn free_blocks(&self) -> u32 {
        self.inner.free_blocks()
    }
    fn stats(&self) -> DriveStats {
        self.inner.stats()
    }
    fn stats_at(&self, now: SimTime) -> DriveStats {
        self.inner.stats_at(now)
    }
    fn latency(&self) -> &Latency {
        self.inner.latency()
    }
    fn clear_latency(&mut self) {
        self.inner.clear_latency();
    }
    fn wear(&self) -> WearSummary {
        self.inner.wear()
    }
    fn check(&self) -> Result<(), CheckError> {
        self.inner.check()
    }
    fn failure(&self) -> Option<&str> {
        self.inner.failure()
    }
    fn operations(&self) -> u64 {
        self.inner.operations()
    }
}

impl Simulated for Ticking {
    fn freeze(&self) -> Box<dyn Simulated> {
        Box::new(Ticking { inner: self.inner.freeze(), now: self.now })
    }
    fn plan_cut(&mut self, operation: u64) {
        self.inner.plan_cut(operation);
    }
    fn was_cut(&self) -> bool {
        self.inner.was_cut()
    }
    fn cut_everywhere(&mut self) {
        self.inner.cut_everywhere();
    }
    fn take_cuts(&mut self) -> Vec<PowerCut> {
        self.inner.take_cuts()
    }
    fn cut_now(&mut self) -> PowerCut {
        self.inner.cut_now()
    }
    fn watch(&mut self) {
        self.inner.watch();
    }
    fn verify(&mut self) -> Option<Verdict> {
        self.inner.verify()
    }
    fn restart(self: Box<Self>, now: SimTime) -> Result<(Box<dyn Simulated>, Recovery), RecoveryError> {
        self.inner.restart(now)
    }
}

#[test]
fn events_at_which_nothing_is_complete_change_nothing_and_time_never_goes_back() {
    let experiment = experiment(MIXED);
    let drive = || build(&experiment.drive, true, experiment.seed).expect("a drive");
    let plain = runner::run_on(&experiment, drive(), &mut ()).expect("it runs").reproducible();
    let ticking = Box::new(Ticking { inner: drive(), now: SimTime::ZERO });
    let ticking = runner::run_on(&experiment, ticking, &mut ()).expect("it runs").reproducible();
    assert_eq!(plain, ticking);
}
