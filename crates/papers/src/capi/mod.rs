//! CAPi: Hwang and Kwak 2016.

mod census;
mod figures;
mod metrics;
mod schemes;

use std::collections::BTreeMap;

use strobe_lab::runner::{self, Observer, Progress};
use strobe_lab::{Experiment, RunConfig, RunResult, SyntheticWorkload, WorkloadConfig};
use strobe_ssd::{GcConfig, WearLevelingName};
use strobe_workload::synthetic::{Kind, SyntheticConfig};

use super::{Made, Options, Paper, PaperError, Scale, Watch, pool};
use schemes::Scheme;

pub(super) const PAPER: Paper = Paper {
    name: "capi",
    title: "Garbage Collection Technique for Reduction of Migration Overhead and Lifetime Prolongment \
            of NAND Flash Memory",
    authors: "Sang-Ho Hwang, Jong Wook Kwak, 2016 (in Korean)",
    reproduces: "figures 3 to 8: lifetime, copies and erases of GA, CB, CAT, FeGC and CAPi for six \
                 shares of cold data; fair settings and static wear levelling beside them",
    make,
};

/// A data set: the paper's name, cold to hot, and the share of hot pages.
#[derive(Clone, Copy, Debug)]
struct DataSet {
    name: &'static str,
    hot_share: f64,
}

/// The paper's figure 3.
const DATA_SETS: [DataSet; 6] = [
    DataSet { name: "6.5:3.5", hot_share: 0.35 },
    DataSet { name: "7:3", hot_share: 0.30 },
    DataSet { name: "7.5:2.5", hot_share: 0.25 },
    DataSet { name: "8:2", hot_share: 0.20 },
    DataSet { name: "8.5:1.5", hot_share: 0.15 },
    DataSet { name: "9:1", hot_share: 0.10 },
];

/// The data set of figure 5.
const CURVE_SET: usize = 1;

/// The paper's Table 2, or less of it.
#[derive(Clone, Copy, Debug)]
struct Environment {
    blocks: u32,
    pages_per_block: u32,
    endurance_pe: u32,
    /// Draws for figure 3.
    draws: u64,
    seed: u64,
}

impl Environment {
    fn new(options: &Options) -> Self {
        let full = Self {
            blocks: 1108,
            pages_per_block: 256,
            endurance_pe: 1000,
            draws: 20_000_000,
            seed: options.seed,
        };
        match options.scale {
            Scale::Full => full,
            Scale::Quick => Self { endurance_pe: 100, ..full },
            Scale::Tiny => Self { blocks: 160, pages_per_block: 32, endurance_pe: 8, draws: 400_000, ..full },
        }
    }

    /// 85 % of all pages, as in the preset.
    fn logical_pages(&self) -> u32 {
        match self.blocks {
            1108 => 241_100,
            blocks => blocks * self.pages_per_block / 100 * 85,
        }
    }

    fn experiment(&self, scheme: &Scheme, set: &DataSet, run: RunConfig) -> Result<Experiment, PaperError> {
        let drive = super::drive("disksim-ssd", |drive| {
            let (nand, ftl) = (&mut drive.nand, &mut drive.ftl);
            nand.blocks_per_plane = self.blocks;
            nand.pages_per_block = self.pages_per_block;
            nand.endurance_pe = self.endurance_pe;
            ftl.logical_pages = Some(self.logical_pages());
            ftl.allocation = scheme.allocation;
            ftl.gc = GcConfig {
                victim: scheme.victim.to_owned(),
                migration: scheme.migration,
                temperature: scheme.temperature,
                stream: scheme.stream,
                // 5 % of the blocks.
                min_free_blocks: self.blocks / 20,
                net_blocks: scheme.net_blocks,
                ..GcConfig::default()
            };
            let (kind, percent) = scheme.leveling;
            ftl.wear_leveling.kind = kind;
            if kind != WearLevelingName::None {
                ftl.wear_leveling.threshold = (self.endurance_pe * percent / 100).max(1);
            }
        })?;
        let (kind, block_bytes, hot_share) = (Kind::Gaussian, 8192, Some(set.hot_share));
        let generator = SyntheticConfig { kind, block_bytes, hot_share, ..SyntheticConfig::default() };
        let workload = SyntheticWorkload { generator, ..SyntheticWorkload::default() };
        let experiment = Experiment::new(drive, WorkloadConfig::Synthetic(workload));
        Ok(Experiment { seed: self.seed, run, ..experiment })
    }
}

/// Runs without time.
fn counted() -> RunConfig {
    RunConfig { timing: false, ..RunConfig::default() }
}

/// Ends a run with the first bad block: what figures 4, 6, 7 and 8 count.
fn to_first_failure() -> RunConfig {
    RunConfig { until_bad_blocks: Some(1), ..counted() }
}

/// Ends a run with the drive: figure 5.
fn to_the_end() -> RunConfig {
    RunConfig { until_end_of_life: true, ..counted() }
}

/// Experiments to run, each once however many figures want it.
#[derive(Debug, Default)]
struct Plan {
    experiments: Vec<(String, Experiment)>,
    by_hash: BTreeMap<String, usize>,
}

impl Plan {
    /// The place of the result of `scheme` on `set`.
    fn want(
        &mut self,
        environment: &Environment,
        scheme: &Scheme,
        set: &DataSet,
        run: RunConfig,
    ) -> Result<usize, PaperError> {
        let experiment = environment.experiment(scheme, set, run)?;
        let place = *self.by_hash.entry(experiment.config_hash()).or_insert(self.experiments.len());
        if place == self.experiments.len() {
            self.experiments.push((format!("{} at {}", scheme.label, set.name), experiment));
        }
        Ok(place)
    }

    fn want_all(
        &mut self,
        environment: &Environment,
        schemes: &'static [Scheme],
    ) -> Result<Vec<(&'static Scheme, [usize; DATA_SETS.len()])>, PaperError> {
        let mut places = Vec::new();
        for scheme in schemes {
            let mut of_scheme = [0; DATA_SETS.len()];
            for (place, set) in of_scheme.iter_mut().zip(&DATA_SETS) {
                *place = self.want(environment, scheme, set, to_first_failure())?;
            }
            places.push((scheme, of_scheme));
        }
        Ok(places)
    }
}

/// The results of some schemes on every data set.
#[derive(Debug)]
struct Group<'a> {
    mode: &'static str,
    schemes: Vec<(&'static Scheme, [&'a RunResult; DATA_SETS.len()])>,
}

impl Group<'_> {
    fn of(&self, label: &str) -> Option<&[&RunResult; DATA_SETS.len()]> {
        self.schemes.iter().find(|(scheme, _)| scheme.label == label).map(|(_, results)| results)
    }
}

struct Stop<'a>(&'a dyn Watch);

impl Observer for Stop<'_> {
    fn progress(&mut self, _: Progress) -> std::ops::ControlFlow<()> {
        match self.0.stopped() {
            true => std::ops::ControlFlow::Break(()),
            false => std::ops::ControlFlow::Continue(()),
        }
    }
}

/// What a worker does: a run, or for figure 3 a count.
enum Task<'a> {
    Run(&'a str, &'a Experiment),
    Census(&'a str, &'a Experiment),
}

enum Done {
    Run(Box<RunResult>),
    Census(f64),
}

fn perform(task: &Task<'_>, environment: &Environment, watch: &dyn Watch) -> Result<Done, PaperError> {
    let (Task::Run(run, _) | Task::Census(run, _)) = task;
    let done = match task {
        Task::Run(_, experiment) => {
            runner::run(experiment, &mut Stop(watch)).map(|result| Done::Run(Box::new(result)))
        }
        Task::Census(_, experiment) => census::hot_share(experiment, environment).map(Done::Census),
    };
    match done {
        Ok(_) if watch.stopped() => Err(PaperError::Interrupted),
        Ok(done) => Ok(done),
        Err(error) => Err(PaperError::Run { run: (*run).to_owned(), error: Box::new(error) }),
    }
}

fn make(options: &Options, watch: &dyn Watch) -> Result<Made, PaperError> {
    let environment = Environment::new(options);
    let mut plan = Plan::default();
    let places = [
        ("paper", plan.want_all(&environment, schemes::PAPER)?),
        ("fair", plan.want_all(&environment, schemes::FAIR)?),
        ("beyond", plan.want_all(&environment, schemes::BEYOND)?),
    ];
    let mut curves = Vec::new();
    for scheme in schemes::PAPER {
        let place = plan.want(&environment, scheme, &DATA_SETS[CURVE_SET], to_the_end())?;
        curves.push((scheme, place));
    }
    let runs = plan.experiments.iter().map(|(name, experiment)| Task::Run(name, experiment));
    // Any scheme will do, as only its workload is looked at.
    let censuses = places[0].1[0].1.iter().map(|&place| &plan.experiments[place]);
    let censuses = censuses.map(|(name, experiment)| Task::Census(name, experiment));
    let tasks: Vec<Task<'_>> = runs.chain(censuses).collect();
    let done = pool::in_parallel(&tasks, watch, |task| perform(task, &environment, watch))?;
    let (mut results, mut shares) = (Vec::new(), Vec::new());
    for done in done {
        match done {
            Done::Run(result) => results.push(*result),
            Done::Census(share) => shares.push(share),
        }
    }
    let groups = places.map(|(mode, schemes)| Group {
        mode,
        schemes: schemes.into_iter().map(|(scheme, at)| (scheme, at.map(|place| &results[place]))).collect(),
    });
    let curves: Vec<_> = curves.into_iter().map(|(scheme, place)| (scheme, &results[place])).collect();
    let [paper, fair, beyond] = &groups;
    let figures = figures::all(&shares, paper, fair, beyond, &curves);
    Ok(Made { notes: notes(&environment, options.scale), figures })
}

fn notes(environment: &Environment, scale: Scale) -> Vec<String> {
    let Environment { blocks, pages_per_block, endurance_pe, .. } = environment;
    let mut notes = vec![
        format!(
            "{blocks} blocks of {pages_per_block} pages of 8 KiB, {} logical pages, collection below {} free \
             blocks, {endurance_pe} erases per block; filled once, then single pages written, Gaussian over the \
             addresses",
            environment.logical_pages(),
            blocks / 20,
        ),
        "mode paper: every scheme as the paper describes it. The paper does not say how many blocks one \
         collection gains: 2 for CAPi, whose sorting needs several victims, was found by trying (with 1 nothing \
         of its gain is left), and 1 for the others"
            .to_owned(),
        "mode fair: every victim policy with the migration and stream that suit it, the least worn block \
         first, and the same gain per collection as CAPi"
            .to_owned(),
        "the bars of the paper's figures are not legible in the copy at hand: compared are the averages that \
         its text gives. Bands are this project's, not the paper's"
            .to_owned(),
    ];
    match scale {
        Scale::Full => {}
        Scale::Quick => notes.push(format!(
            "QUICK: {endurance_pe} erases per block instead of 1000; lifetimes come out about a tenth, ratios \
             nearly the same"
        )),
        Scale::Tiny => notes.push("TINY: these numbers mean nothing".to_owned()),
    }
    notes
}
