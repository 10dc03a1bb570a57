//! The experiment file.
//!
//! 1. Apply the `--set` options to the table of the file.
//! 2. Resolve the presets and read every table against its schema.
//! 3. Check the values against each other, and refuse or note keys without effect.

mod amount;
mod commands;
mod effect;
mod fio_names;
mod given;
mod jobs;
mod keys;
mod pace;
mod rules;
mod run;
mod settings;
mod synthetic;
mod time;
mod trace;
mod workload;

pub use amount::Amount;
pub use effect::Ignored;
pub use jobs::JobConfig;
pub use pace::{PaceConfig, RateAt};
pub(crate) use run::INTERVALS_MAX;
pub use run::{RunConfig, SteadyMetric};
pub use settings::apply_sets;
pub use synthetic::{HostConfig, SyntheticWorkload};
pub use time::Time;
pub use trace::{Devices, PacingName, TraceConfig, TraceKind};
pub use workload::WorkloadConfig;

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use strobe_ssd::schema::{self, nearest};
use strobe_ssd::{DriveConfig, KeyError};
use toml::{Table, Value};

use crate::power::PowerConfig;
use crate::syntax::{parse_table, read_text};
use crate::{ConfigError, preset};
use effect::Given;
use settings::{remove, sub_table};

/// A complete, checked experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Seed of everything random. Default 1.
    pub seed: u64,
    /// The drive.
    pub drive: DriveConfig,
    /// The workload, or the jobs.
    pub workload: WorkloadConfig,
    /// The run.
    pub run: RunConfig,
    /// Power cuts.
    pub power: PowerConfig,
    /// Keys of the file that the command line has switched off.
    pub ignored: Vec<Ignored>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Experiment", description = "A complete, checked experiment.")]
struct InFile<'a> {
    /// Seed of everything random. Default 1.
    seed: u64,
    /// The drive.
    drive: &'a DriveConfig,
    /// The workload. With [[jobs]]: keys that the jobs share. A key that every job sets itself is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "WorkloadConfig")]
    workload: Option<&'a WorkloadConfig>,
    /// Jobs that run on the drive in parallel, each with its own statistics; write [[jobs]] before each. They
    /// take the keys of a generator under [workload], and some more. Default: one job, described by
    /// [workload].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<JobConfig>")]
    jobs: Option<&'a [JobConfig]>,
    /// The run.
    run: &'a RunConfig,
    /// Power cuts, counted in flash operations: programs and erases since the drive was new. After each cut
    /// the drive recovers, every mapping unit is compared with its allowed contents, and the run continues.
    /// Needs drive.ftl.durable_map = true or "pages", and drive.nand.data = "stamp" or "bytes". Default: no
    /// cuts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PowerConfig")]
    power: Option<&'a PowerConfig>,
}

impl Serialize for Experiment {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { seed, drive, workload, run, power, ignored: _ } = self;
        let (workload, jobs) = match workload {
            WorkloadConfig::Jobs(jobs) => (None, Some(jobs.as_slice())),
            workload => (Some(workload), None),
        };
        let power = Some(power).filter(|power| !power.is_steady());
        InFile { seed: *seed, drive, workload, jobs, run, power }.serialize(serializer)
    }
}

impl JsonSchema for Experiment {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        InFile::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        InFile::json_schema(generator)
    }
}

impl Experiment {
    /// Reads an experiment file, applies `sets` (`key.path=value`) and checks everything.
    pub fn load(path: &Path, sets: &[String]) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let table = parse_table(&read_text(path)?, &name)?;
        if table.is_empty() {
            return Err(ConfigError::Empty(name));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::from_table(table, sets, folder).map_err(|error| error.found_in(name))
    }

    /// Reads an experiment from the text of a file. Files named in it are looked up in the current folder.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        Self::from_table(parse_table(text, "experiment")?, &[], Path::new(""))
    }

    /// Builds an experiment from a parsed file. Relative paths (`drive.preset`, `workload.path`) are relative
    /// to `folder`.
    pub fn from_table(table: Table, sets: &[String], folder: &Path) -> Result<Self, ConfigError> {
        let of = |sets: &[String]| Self::of(table.clone(), sets, folder);
        of(sets).map_err(|error| error.blamed(&table, sets, |sets| of(sets).err()))
    }

    /// [`Experiment::from_table`] without attribution of errors to options.
    fn of(mut table: Table, sets: &[String], folder: &Path) -> Result<Self, ConfigError> {
        let given = Given::new(&table, sets);
        apply_sets(&mut table, sets)?;
        // Paths on the command line are relative to the current folder, paths in a file to its folder.
        let at = |key: &str| if given.on_command_line(key) { Path::new("") } else { folder };
        let folders = (at("drive.preset"), at("workload.path"));
        let mut experiment = Self::resolved(&table, folders)?;
        commands::check_copies(&experiment, &given)?;
        experiment.ignored = effect::check(&experiment, &given, |key| {
            let mut without = table.clone();
            remove(&mut without, key);
            Self::resolved(&without, folders).ok()
        })?;
        Ok(experiment)
    }

    fn resolved(table: &Table, (presets, traces): (&Path, &Path)) -> Result<Self, ConfigError> {
        let valid = ["seed", "drive", "workload", "jobs", "run", "power"];
        if let Some(key) = table.keys().find(|key| !valid.contains(&key.as_str())) {
            if ["nand", "ftl", "controller"].contains(&key.as_str()) {
                return Err(ConfigError::IsDrive);
            }
            if key == "sweep" {
                return Err(ConfigError::IsSweep);
            }
            return Err(ConfigError::Key(KeyError::Unknown {
                key: key.clone(),
                nearest: nearest(key, valid).map(str::to_owned).or_else(|| keys::only_place(key)),
                valid: valid.join(", "),
            }));
        }
        let seed = match table.get("seed") {
            None => 1,
            Some(Value::Integer(seed)) if *seed >= 0 => *seed as u64,
            Some(other) => {
                let meaning = "Seed of everything random.";
                return Err(
                    KeyError::value("seed", other.to_string(), "a whole number from 0 on", meaning).into()
                );
            }
        };
        let experiment = Self {
            seed,
            drive: preset::drive(sub_table(table, "drive")?, presets)?,
            workload: match (table.get("jobs"), sub_table(table, "workload")?) {
                (Some(jobs), shared) => WorkloadConfig::Jobs(JobConfig::read_all(shared, jobs)?),
                (None, workload) => WorkloadConfig::read(workload, traces)?,
            },
            run: RunConfig::read(sub_table(table, "run")?)?,
            power: schema::read(sub_table(table, "power")?, schema::of::<PowerConfig>(), "power")?,
            ignored: Vec::new(),
        };
        // Every table is valid by itself; this checks them against each other.
        experiment.check()?;
        Ok(experiment)
    }

    /// Creates an experiment with the seed 1, a default run and no power cuts.
    pub fn new(drive: DriveConfig, workload: WorkloadConfig) -> Self {
        let (run, power) = (RunConfig::default(), PowerConfig::default());
        Self { seed: 1, drive, workload, run, power, ignored: Vec::new() }
    }

    /// Refuses contradictions: power cuts of a drive without a durable map, two rates for one workload, times
    /// without timing. Also refuses commands beyond the drive's limits, and runs that would never end.
    /// Experiments from files are checked already.
    pub fn check(&self) -> Result<(), KeyError> {
        self.power.check(&self.drive)?;
        self.workload.check()?;
        commands::check_sizes(self)?;
        run::check_times(self)?;
        run::check_end(self)
    }

    /// True for several jobs, arrival times, pauses, or phases measured in time. Other workloads are issued
    /// in batches, which is faster.
    pub(crate) fn needs_jobs(&self) -> bool {
        let run = &self.run;
        let amounts = [Some(run.warmup), run.measure, run.steady_interval];
        match &self.workload {
            WorkloadConfig::Trace(_) | WorkloadConfig::Lfs(_) => false,
            WorkloadConfig::Jobs(_) => true,
            WorkloadConfig::Synthetic(workload) => {
                let in_time = amounts.into_iter().flatten().any(|amount| amount.ns().is_some());
                run.timing && (workload.is_open_loop() || !workload.pace.is_plain() || in_time)
            }
        }
    }

    /// Returns equivalent TOML with every default filled in, without keys that have no effect.
    pub fn to_toml(&self) -> String {
        let mut table = Table::try_from(self).expect("an experiment is plain data");
        self.ignored.iter().for_each(|ignored| remove(&mut table, &ignored.key));
        toml::to_string(&table).expect("an experiment is plain data")
    }

    /// Identifies the configuration (without the seed): the start of the SHA-256 of its JSON. A drive from a
    /// file is identified by its values; the name of the file is left out.
    pub fn config_hash(&self) -> String {
        use sha2::Digest;
        let mut config = serde_json::to_value(self).expect("an experiment is plain data");
        config.as_object_mut().map(|object| object.remove("seed"));
        if self.drive.preset.as_deref().is_some_and(preset::is_path) {
            config["drive"].as_object_mut().map(|drive| drive.remove("preset"));
        }
        let digest = sha2::Sha256::digest(config.to_string());
        digest[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, sets: &[&str]) -> Result<Experiment, ConfigError> {
        let table = parse_table(text, "test")?;
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
        Experiment::from_table(table, &sets, Path::new("dir"))
    }

    fn refusal(text: &str, sets: &[&str]) -> String {
        load(text, sets).expect_err("refused").to_string()
    }

    #[test]
    fn an_empty_experiment_is_the_generic_cell_under_uniform_writes() {
        let e = load("", &[]).expect("defaults");
        assert_eq!((e.seed, e.drive.ftl.logical_pages), (1, Some(1_635_778)));
        assert!(matches!(e.workload, WorkloadConfig::Synthetic(_)));
    }

    #[test]
    fn keys_override_the_preset_and_sets_override_keys() {
        let text = "[drive]\npreset = \"generic-8g\"\n[drive.ftl]\nover_provisioning = 0.1\n[drive.nand]\nchannels = 2";
        let e = load(text, &["drive.nand.channels=4", "drive.ftl.gc.victim=fifo", "seed=7"]).expect("valid");
        assert_eq!(e.drive.nand.channels, 4);
        assert_eq!(e.drive.ftl.gc.victim, "fifo");
        assert_eq!((e.drive.ftl.logical_pages, e.drive.ftl.over_provisioning), (None, Some(0.1)));
        assert_eq!(e.seed, 7);
        let e = load(text, &["drive.ftl.logical_pages=1000"]).expect("valid");
        assert_eq!((e.drive.ftl.logical_pages, e.drive.ftl.over_provisioning), (Some(1000), None));
    }

    #[test]
    fn fio_names_mean_the_same() {
        let ours = load(
            "[workload]\nkind=\"zipf\"\ntheta=1.2\nblock_bytes=8192\nqueue_depth=4\nwrite_fraction=0.3",
            &[],
        );
        let fio =
            load("[workload]\nrandom_distribution=\"zipf:1.2\"\nbs=\"8k\"\niodepth=4\nrwmixwrite=30", &[]);
        assert_eq!(ours.expect("ours").workload, fio.expect("fio").workload);
        let e = load("[workload]\nrw=\"randread\"", &[]).expect("valid");
        let WorkloadConfig::Synthetic(w) = e.workload else { panic!("synthetic") };
        assert_eq!(w.generator.write_fraction, 0.0);
    }

    #[test]
    fn slips_are_answered_with_the_nearest_name() {
        let cases = [
            ("[drive]\npreset=\"generic8g\"", "generic-8g"),
            ("[drive.ftl.gc]\nvictim=\"gredy\"", "did you mean greedy?"),
            ("[worklod]", "did you mean workload?"),
            ("[workload]\nkind=\"unifrom\"", "did you mean uniform?"),
            ("[workload]\nkind=\"trce\"", "did you mean trace?"),
            ("[workload]\nqueue_dept=3", "did you mean workload.queue_depth?"),
            ("[workload]\nkind=\"trace\"\npath=\"a\"\nformat=\"blkparce\"", "did you mean blkparse?"),
            ("[run]\nwarm_up=\"3x\"", "did you mean run.warmup?"),
            ("victim=\"greedy\"", "did you mean drive.ftl.gc.victim?"),
            ("[gc]\nvictim=\"greedy\"", "did you mean drive.ftl.gc?"),
            ("over_provisioning=0.1", "did you mean drive.ftl.over_provisioning?"),
            ("queue_depth=4", "did you mean workload.queue_depth?"),
        ];
        for (text, expected) in cases {
            let error = refusal(text, &[]);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_the_key() {
        for (text, sets, expected) in [
            ("seed = -1", &[][..], "seed"),
            ("drive = 3", &[], "[drive]"),
            ("[workload]\nqueue_depth=1024\nblock_bytes=2097152", &[], "workload.queue_depth = 1024"),
            (
                "[[jobs]]\nname=\"a\"\nqueue_depth=512\nnumjobs=3\nblock_bytes=1048576",
                &[],
                "jobs[0].queue_depth = 512",
            ),
            ("[run]\nmeasure=\"12y\"", &[], "run.measure"),
            ("[run]\nmeasure=-4", &[], "run.measure"),
            ("[run]\nwarmup=\"nanx\"", &[], "run.warmup"),
            ("[workload]\nrwmixread=130", &[], "workload.rwmixread"),
            ("[drive.ftl]\nlogical_pages=1\nover_provisioning=0.2", &[], "over_provisioning"),
            ("", &["drive.nand"], "KEY.PATH=VALUE"),
            ("", &[".=3"], "KEY.PATH=VALUE"),
            ("", &["seed.x=3"], "seed"),
            ("[workload]\nkind=\"trace\"", &[], "workload.path"),
        ] {
            let error = refusal(text, sets);
            assert!(error.contains(expected), "{text} {sets:?}: {error}");
        }
    }

    #[test]
    fn the_hash_ignores_the_seed_and_nothing_else() {
        let hash = |text: &str| load(text, &[]).expect("valid").config_hash();
        assert_eq!(hash("seed=1"), hash("seed=2"));
        assert_ne!(hash(""), hash("[run]\ntiming=false"));
        assert_eq!(hash("").len(), 16);
    }

    #[test]
    fn a_trace_path_is_relative_to_the_experiment() {
        let e = load("[workload]\nkind=\"trace\"\npath=\"t.gz\"\nformat=\"fio\"", &[]).expect("valid");
        let WorkloadConfig::Trace(t) = e.workload else { panic!("trace") };
        assert_eq!(t.path, Path::new("dir/t.gz").display().to_string());
    }
}
