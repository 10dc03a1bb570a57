//! CAPi: Hwang and Kwak 2016.

mod census;
mod claims;
mod figures;
mod metrics;
#[cfg(test)]
mod oracle;
mod readings;
mod schemes;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strobe_lab::points::{Stoppable, Watch};
use strobe_lab::runner;
use strobe_lab::{Experiment, RunConfig, SyntheticWorkload, WorkloadConfig};
use strobe_ssd::{GcConfig, WearLevelingName};
use strobe_workload::synthetic::{Kind, SyntheticConfig};

use super::pool::Bench;
use super::{Made, Options, Paper, PaperError, Scale};
use census::Census;
use metrics::Outcome;
use schemes::Scheme;

pub(crate) const CLAIMS: &str = include_str!("claims.toml");

pub(super) const PAPER: Paper = Paper {
    name: "capi",
    title: "Garbage Collection Technique for Reduction of Migration Overhead and Lifetime Prolongment \
            of NAND Flash Memory",
    authors: "Sang-Ho Hwang, Jong Wook Kwak, paper 2016-11-15, accepted 22 March 2016 (in Korean)",
    reproduces: "figures 3 to 8: lifetime, copies and erases of GA, CB, CAT, FeGC and CAPi for six \
                 shares of cold data; the effect of choices that the paper leaves open; fair settings; static \
                 wear levelling",
    takes: "a few minutes with --quick (100 erases per block instead of 1000), a quarter of an hour in full; no kernel",
    make,
};

/// A data set. `name` is the ratio of cold to hot pages.
#[derive(Clone, Copy, Debug)]
struct DataSet {
    name: &'static str,
    hot_share: f64,
}

/// Data sets of figure 3.
const DATA_SETS: [DataSet; 6] = [
    DataSet { name: "6.5:3.5", hot_share: 0.35 },
    DataSet { name: "7:3", hot_share: 0.30 },
    DataSet { name: "7.5:2.5", hot_share: 0.25 },
    DataSet { name: "8:2", hot_share: 0.20 },
    DataSet { name: "8.5:1.5", hot_share: 0.15 },
    DataSet { name: "9:1", hot_share: 0.10 },
];

/// Data set of figure 5.
const CURVE_SET: usize = 1;

/// Drive of the paper's table 2, possibly scaled down.
#[derive(Clone, Debug)]
struct Environment {
    blocks: u32,
    pages_per_block: u32,
    endurance_pe: u32,
    /// Number of writes drawn for figure 3.
    draws: u64,
    options: Options,
}

impl Environment {
    fn new(options: &Options) -> Self {
        let (blocks, pages_per_block, endurance_pe, draws) = match options.scale {
            Scale::Full => (1108, 256, 1000, 20_000_000),
            Scale::Quick => (1108, 256, 100, 20_000_000),
            Scale::Tiny => (160, 32, 8, 400_000),
        };
        Self { blocks, pages_per_block, endurance_pe, draws, options: options.clone() }
    }

    /// 85 % of all pages, as in the preset.
    fn logical_pages(&self) -> u32 {
        match self.blocks {
            1108 => 241_100,
            blocks => blocks * self.pages_per_block / 100 * 85,
        }
    }

    fn experiment(&self, scheme: &Scheme, data: &Data, run: RunConfig) -> Result<Experiment, PaperError> {
        let drive = super::drive("disksim-ssd", &self.options, |drive| {
            let (nand, ftl) = (&mut drive.nand, &mut drive.ftl);
            nand.blocks_per_plane = self.blocks;
            nand.pages_per_block = self.pages_per_block;
            nand.endurance_pe = self.endurance_pe;
            ftl.logical_pages = Some(self.logical_pages());
            ftl.allocation = scheme.allocation;
            ftl.gc = GcConfig {
                victim: scheme.victim.to_owned(),
                stream: scheme.stream,
                // The paper collects at 5 % free blocks, the drive only below `min_free_blocks`.
                min_free_blocks: self.blocks / 20 + 1,
                net_blocks: scheme.net_blocks,
                pad_moved: scheme.pad_moved,
                ..ftl.gc.clone()
            };
            ftl.placement.scheme = scheme.placement.into();
            ftl.placement.temperature = scheme.temperature;
            let (kind, percent) = scheme.leveling;
            ftl.wear_leveling.kind = kind;
            if kind != WearLevelingName::None {
                ftl.wear_leveling.threshold = (self.endurance_pe * percent / 100).max(1);
            }
        })?;
        let generator = SyntheticConfig {
            kind: Kind::Gaussian,
            block_bytes: 8192,
            hot_share: Some(data.set.hot_share),
            uniform_share: data.uniform_share,
            ..SyntheticConfig::default()
        };
        let workload = SyntheticWorkload { generator, ..SyntheticWorkload::default() };
        let experiment = Experiment::new(drive, WorkloadConfig::Synthetic(workload));
        Ok(Experiment { seed: self.options.seed, run, ..experiment })
    }
}

#[derive(Clone, Copy, Debug)]
struct Data {
    set: DataSet,
    /// Share of writes uniform over all pages. It changes neither the bell nor the share of hot pages.
    uniform_share: f64,
}

impl From<DataSet> for Data {
    fn from(set: DataSet) -> Self {
        Self { set, uniform_share: 0.0 }
    }
}

fn counted() -> RunConfig {
    RunConfig { timing: false, ..RunConfig::default() }
}

/// Run of figures 4, 6, 7 and 8.
fn to_first_failure() -> RunConfig {
    RunConfig { until_bad_blocks: Some(1), ..counted() }
}

/// Run of figure 5.
fn to_the_end() -> RunConfig {
    RunConfig { until_end_of_life: true, ..counted() }
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    #[serde(skip)]
    name: String,
    #[serde(skip)]
    experiment: Experiment,
    hash: String,
    seed: u64,
    /// Number of draws to count; `None` for a simulation.
    draws: Option<u64>,
}

impl Point {
    fn new(name: String, experiment: Experiment, draws: Option<u64>) -> Self {
        Self { name, hash: experiment.config_hash(), seed: experiment.seed, experiment, draws }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Done {
    Run(Outcome),
    Census(Census),
}

/// Experiments; each runs once, even if several figures need it.
#[derive(Debug, Default)]
struct Plan {
    points: Vec<Point>,
    by_hash: BTreeMap<String, usize>,
}

impl Plan {
    /// Adds an experiment unless known; returns the index of its result.
    fn want(
        &mut self,
        environment: &Environment,
        scheme: &Scheme,
        data: &Data,
        run: RunConfig,
    ) -> Result<usize, PaperError> {
        let name = format!("{} at {}", scheme.label, data.set.name);
        let point = Point::new(name, environment.experiment(scheme, data, run)?, None);
        let place = *self.by_hash.entry(point.hash.clone()).or_insert(self.points.len());
        if place == self.points.len() {
            self.points.push(point);
        }
        Ok(place)
    }

    fn want_all(
        &mut self,
        environment: &Environment,
        schemes: impl IntoIterator<Item = Scheme>,
        data: &[Data],
    ) -> Result<CutPoints, PaperError> {
        let mut places = Vec::new();
        for scheme in schemes {
            let of_scheme: Result<Vec<usize>, _> =
                data.iter().map(|data| self.want(environment, &scheme, data, to_first_failure())).collect();
            places.push((scheme, of_scheme?));
        }
        Ok(places)
    }
}

/// Schemes with an index of the result for each data set.
type CutPoints = Vec<(Scheme, Vec<usize>)>;

#[derive(Debug, Default)]
struct Group {
    sets: Vec<DataSet>,
    schemes: Vec<(Scheme, Vec<Outcome>)>,
}

impl Group {
    fn new(data: &[Data], places: CutPoints, outcomes: &[Outcome]) -> Self {
        let of = |(scheme, places): (Scheme, Vec<usize>)| {
            (scheme, places.into_iter().map(|place| outcomes[place].clone()).collect())
        };
        let sets = data.iter().map(|data| data.set).collect();
        Self { sets, schemes: places.into_iter().map(of).collect() }
    }

    fn of(&self, label: &str) -> Option<&[Outcome]> {
        self.schemes.iter().find(|(scheme, _)| scheme.label == label).map(|(_, outcomes)| outcomes.as_slice())
    }
}

type Curves = Vec<(Scheme, Outcome)>;

#[derive(Debug, Default)]
struct Results {
    censuses: Vec<Census>,
    paper: Group,
    fair: Group,
    beyond: Group,
    parts: Group,
    curves: Curves,
}

fn perform(point: &Point, watch: &dyn Watch) -> Result<Done, PaperError> {
    let done = match point.draws {
        None => runner::run(&point.experiment, &mut Stoppable(watch))
            .map(|result| Done::Run(Outcome::of(&result))),
        Some(draws) => census::count(&point.experiment, draws).map(Done::Census),
    };
    match done {
        Ok(_) if watch.stopped() => Err(PaperError::Interrupted),
        Ok(done) => Ok(done),
        Err(error) => Err(PaperError::Run { run: point.name.clone(), error: Box::new(error) }),
    }
}

fn make(options: &Options, bench: &Bench<'_>) -> Result<Made, PaperError> {
    let environment = Environment::new(options);
    let all: Vec<Data> = DATA_SETS.map(Data::from).into();
    let mut plan = Plan::default();
    let paper = plan.want_all(&environment, schemes::PAPER.iter().copied(), &all)?;
    // Every other data set for figures that are not in the paper.
    let some: Vec<Data> = all.iter().copied().skip(1).step_by(2).collect();
    let mut want = |of: &[Scheme]| plan.want_all(&environment, of.iter().copied(), &some);
    let [fair, beyond, parts] = [want(schemes::FAIR)?, want(schemes::BEYOND)?, want(schemes::PARTS)?];
    let asked = readings::Asked::of(&mut plan, &environment)?;
    let mut curves = Vec::new();
    for scheme in schemes::PAPER {
        let place = plan.want(&environment, scheme, &DATA_SETS[CURVE_SET].into(), to_the_end())?;
        curves.push((*scheme, place));
    }
    let runs = plan.points.len();
    // Only the workload is counted, so the experiments of any scheme will do.
    let censuses = paper[0].1.iter().map(|&place| &plan.points[place]);
    let censuses: Vec<Point> = censuses
        .map(|point| Point::new(point.name.clone(), point.experiment.clone(), Some(environment.draws)))
        .collect();
    plan.points.extend(censuses);
    let done = bench.points("capi", &plan.points, |point| perform(point, bench.watch))?;
    let (mut outcomes, mut counted) = (Vec::with_capacity(runs), Vec::new());
    for done in done {
        match done {
            Done::Run(outcome) => outcomes.push(outcome),
            Done::Census(census) => counted.push(census),
        }
    }
    let results = Results {
        censuses: counted,
        paper: Group::new(&all, paper, &outcomes),
        fair: Group::new(&some, fair, &outcomes),
        beyond: Group::new(&some, beyond, &outcomes),
        parts: Group::new(&some, parts, &outcomes),
        curves: curves.into_iter().map(|(scheme, place)| (scheme, outcomes[place].clone())).collect(),
    };
    let mut figures = figures::all(&results);
    figures.extend(asked.figures(&outcomes));
    Ok(Made { notes: notes(&environment), claims: claims::all(&results), figures })
}

fn notes(environment: &Environment) -> Vec<String> {
    let Environment { blocks, pages_per_block, endurance_pe, .. } = environment;
    let mut notes = vec![
        format!(
            "{blocks} blocks of {pages_per_block} pages of 8 KiB, {} logical pages, collection at {} free \
             blocks, {endurance_pe} erases per block; filled once, then single pages written, Gaussian over the \
             addresses",
            environment.logical_pages(),
            blocks / 20,
        ),
        "every scheme as the paper describes it. Collection stops the world and gains two blocks per call, as DiskSim's \
         ssd_clean does for every policy. CAT, SCATA and FeGC move hot and cold pages to separate blocks (section \
         II.2). Figure readings shows other readings of the paper"
            .to_owned(),
        "the bars of the paper's figures are not legible in our copy: the averages in its text are compared"
            .to_owned(),
        "the paper gives only the share of hot pages of a data set. Less skewed writes, of which a part is uniform over \
         all pages, have the same share: figure skew"
            .to_owned(),
    ];
    match environment.options.scale {
        Scale::Full => {}
        Scale::Quick => notes.push(format!(
            "QUICK: {endurance_pe} erases per block instead of 1000, so wear has less time to diverge: leads in lifetime over GA \
             and CB and leads in erases are smaller than in a full run (docs/lab/findings.md#capi)"
        )),
        Scale::Tiny => notes.push("TINY: these numbers are meaningless".to_owned()),
    }
    notes
}
