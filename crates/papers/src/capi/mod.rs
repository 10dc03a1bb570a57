//! CAPi: Hwang and Kwak 2016.

mod census;
mod figures;
mod metrics;
mod schemes;

use std::collections::BTreeMap;

use super::{Made, Options, Paper, PaperError, Scale, Watch, pool};
use schemes::Scheme;
use strobe_lab::RunResult;
use strobe_lab::runner::{self, Observer, Progress};
use strobe_lab::{ConfigError, Experiment};

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

    fn experiment(&self, scheme: &Scheme, set: &DataSet, end: &str) -> Result<Experiment, ConfigError> {
        let Scheme { victim, migration, temperature, stream, allocation, net_blocks, leveling, .. } = scheme;
        let (kind, percent) = leveling;
        let threshold = (self.endurance_pe * percent / 100).max(1);
        let mut sets = vec![
            format!("seed={}", self.seed),
            "drive.preset=disksim-ssd".to_owned(),
            format!("drive.nand.blocks_per_plane={}", self.blocks),
            format!("drive.nand.pages_per_block={}", self.pages_per_block),
            format!("drive.nand.endurance_pe={}", self.endurance_pe),
            format!("drive.ftl.logical_pages={}", self.logical_pages()),
            format!("drive.ftl.allocation={allocation}"),
            // 5 % of the blocks.
            format!("drive.ftl.gc.min_free_blocks={}", self.blocks / 20),
            format!("drive.ftl.gc.net_blocks={net_blocks}"),
            format!("drive.ftl.gc.victim={victim}"),
            format!("drive.ftl.gc.migration={migration}"),
            format!("drive.ftl.gc.stream={stream}"),
            format!("drive.ftl.wear_leveling.kind={kind}"),
            "workload.kind=gaussian".to_owned(),
            "workload.block_bytes=8192".to_owned(),
            format!("workload.hot_share={}", set.hot_share),
            "run.timing=false".to_owned(),
            format!("run.{end}"),
        ];
        // Nothing that would have no effect.
        if *migration != "none" {
            sets.push(format!("drive.ftl.gc.temperature={temperature}"));
        }
        if *kind != "none" {
            sets.push(format!("drive.ftl.wear_leveling.threshold={threshold}"));
        }
        Experiment::from_table(toml::Table::new(), &sets, std::path::Path::new(""))
    }
}

/// Ends a run with the first bad block: what figures 4, 6, 7 and 8 count.
const TO_FIRST_FAILURE: &str = "until_bad_blocks=1";
/// Ends a run with the drive: figure 5.
const TO_THE_END: &str = "until_end_of_life=true";

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
        end: &str,
    ) -> Result<usize, PaperError> {
        let run = format!("{} at {}", scheme.label, set.name);
        let experiment = match environment.experiment(scheme, set, end) {
            Ok(experiment) => experiment,
            Err(error) => return Err(PaperError::Config { run, error: Box::new(error) }),
        };
        let place = *self.by_hash.entry(experiment.config_hash()).or_insert(self.experiments.len());
        if place == self.experiments.len() {
            self.experiments.push((run, experiment));
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
                *place = self.want(environment, scheme, set, TO_FIRST_FAILURE)?;
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
        let place = plan.want(&environment, scheme, &DATA_SETS[CURVE_SET], TO_THE_END)?;
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
