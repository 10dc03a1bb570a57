use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use strobe_lab::runner::warm_key;
use strobe_lab::{ConfigError, Experiment, MODEL, WorkloadConfig, points};
use strobe_ssd::{BuildError, memory_bytes};
use toml::Value;

use crate::file::is_file;
use crate::measures::Features;
use crate::{SweepError, SweepFile};

const POINTS_MAX: u64 = 1_000_000;

/// A combination of values.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Values in the order of [`SweepFile::keys`]; `None` for a key without a value here.
    pub values: Vec<Option<Value>>,
    /// Error, if it cannot run.
    pub refused: Option<String>,
    /// Hash of the configuration; empty if it is refused.
    pub config_hash: String,
    /// True if the workload is a trace. Seeds then differ only if the drive is random, so a third seed runs
    /// only if the first two results differ.
    pub is_trace: bool,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Point {
    /// Index of the configuration.
    pub configuration: usize,
    /// Seed of the run.
    pub seed: u64,
    /// Key of the result: hash of configuration, seed, model and trace content. The folder of the trace is
    /// left out.
    pub key: String,
    /// Warm-up key; points with equal keys share a warm-up.
    pub warm: Option<String>,
}

/// A sweep with all its points.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sweep file.
    pub file: SweepFile,
    /// Keys that vary.
    pub keys: Vec<String>,
    /// Combinations; the last key changes fastest.
    pub configurations: Vec<Configuration>,
    /// Points, grouped by configuration. Refused configurations are included.
    pub points: Vec<Point>,
}

impl Plan {
    /// Plans a sweep. Each configuration is read and checked once.
    pub fn new(file: SweepFile) -> Result<Self, SweepError> {
        let keys = file.keys();
        let seeds = file.seeds.all.len() as u64;
        let combinations = file
            .grid
            .iter()
            .fold(file.points.len() as u128, |count, (_, values)| count.saturating_mul(values.len() as u128));
        let points = combinations.saturating_mul(u128::from(seeds));
        if points > u128::from(POINTS_MAX) {
            return Err(SweepError::TooMany {
                points,
                configurations: combinations,
                seeds,
                most: POINTS_MAX,
            });
        }
        let (mut traces, mut features) = (BTreeMap::new(), Features::default());
        let (mut configurations, mut all) = (Vec::new(), Vec::new());
        for number in 0..combinations as usize {
            let values = values_of(&file, &keys, number);
            let mut configuration =
                Configuration { values, refused: None, config_hash: String::new(), is_trace: false };
            match file.experiment_of(&keys, &configuration, file.seeds.all[0]) {
                Ok(mut experiment) => {
                    configuration.config_hash = experiment.config_hash();
                    let content = content_hash(&experiment);
                    features.add(&experiment);
                    configuration.is_trace = matches!(experiment.workload, WorkloadConfig::Trace(_));
                    let trace = trace_hash(&experiment, &mut traces)?;
                    // The warm-up key is as long as the configuration. It is computed once, and each seed is
                    // appended below.
                    experiment.seed = 0;
                    let own = file.own_of(&keys, &configuration);
                    // A state does not contain the memory of the caller's policies, so their warm-up is not
                    // shared.
                    let warm = warm_key(&experiment).filter(|_| file.share_warmup && own.is_empty());
                    let warm = warm.map(|key| points::key("warm", &(key, &trace)));
                    for &seed in &file.seeds.all {
                        all.push(Point {
                            configuration: number,
                            seed,
                            key: file.key_of(&content, seed, &trace, &own),
                            warm: warm.as_ref().map(|key| format!("{key}-{seed}")),
                        });
                    }
                }
                // An unknown key is an error of the whole sweep. Other refusals concern this combination
                // only.
                Err(Refusal::Config(error)) if is_unknown(&error) => return Err(error.into()),
                Err(error) => {
                    configuration.refused = Some(error.to_string());
                    for &seed in &file.seeds.all {
                        let key = points::key("refused", &(&configuration.values, seed));
                        all.push(Point { configuration: number, seed, key, warm: None });
                    }
                }
            }
            configurations.push(configuration);
        }
        let plan = Self { file, keys, configurations, points: all };
        plan.refuse_values()?;
        plan.refuse_axis()?;
        features.check(&plan.file.measure)?;
        Ok(plan)
    }

    /// Reports a value that is refused in every combination as an error of the file.
    fn refuse_values(&self) -> Result<(), SweepError> {
        let refused =
            || self.configurations.iter().filter_map(|found| Some((found, found.refused.as_ref()?)));
        let Some((_, first)) = refused().next() else { return Ok(()) };
        let count = self.configurations.len();
        if refused().count() == count {
            return Err(SweepError::AllRefused { count, first: first.clone() });
        }
        for (found, error) in refused() {
            for (at, value) in found.values.iter().enumerate() {
                let has = |other: &&Configuration| other.values[at] == *value;
                let is_refused = |other: &Configuration| other.refused.is_some();
                if let Some(value) = value
                    && self.configurations.iter().filter(has).all(is_refused)
                {
                    let (key, value) = (self.keys[at].clone(), value.to_string());
                    return Err(SweepError::ValueRefused { key, value, error: error.clone() });
                }
            }
        }
        Ok(())
    }

    pub(crate) fn is_numeric(&self, at: usize) -> bool {
        self.configurations.iter().all(|configuration| number(configuration.values[at].as_ref()).is_some())
    }

    /// Index of `key` among the keys that vary.
    pub(crate) fn place(&self, key: &str) -> Option<usize> {
        self.keys.iter().position(|other| other == key)
    }

    /// True if configurations have different values of the key at `at`.
    pub(crate) fn has_several(&self, at: usize) -> bool {
        self.configurations.windows(2).any(|pair| pair[0].values[at] != pair[1].values[at])
    }

    fn refuse_axis(&self) -> Result<(), SweepError> {
        let Some(key) = &self.file.x else { return Ok(()) };
        let at = self.keys.iter().position(|other| other == key);
        if at.is_some_and(|at| self.is_numeric(at)) {
            return Ok(());
        }
        Err(SweepError::key("x", format!("{key} has values that are not numbers; choose a key with numbers")))
    }

    /// Seeds per configuration.
    pub fn seeds(&self) -> usize {
        self.file.seeds.all.len()
    }

    /// Error of the configuration of `point`, if it cannot run.
    pub fn refused(&self, point: usize) -> Option<&str> {
        self.configurations[self.points[point].configuration].refused.as_deref()
    }

    /// Task for a worker. `state` is the path for the state of its prepared drive.
    pub fn task(&self, point: usize, state: Option<PathBuf>) -> crate::Task {
        let Point { configuration, seed, .. } = &self.points[point];
        let chosen = &self.configurations[*configuration];
        crate::Task {
            model: MODEL.to_owned(),
            point,
            experiment: toml::to_string(&self.file.experiment).expect("a table is TOML"),
            sets: self.file.sets(&self.keys, chosen, *seed),
            own: self.file.own_of(&self.keys, chosen),
            folder: std::path::absolute(&self.file.folder).unwrap_or_else(|_| self.file.folder.clone()),
            state,
        }
    }

    /// Text of all values except the one at `place`. Configurations with equal texts can be compared.
    pub(crate) fn all_else(&self, configuration: usize, place: usize) -> String {
        let mut values = self.configurations[configuration].values.clone();
        values[place] = None;
        format!("{values:?}")
    }

    /// Text such as `over_provisioning 0.15, victim fifo`.
    pub fn label(&self, configuration: usize) -> String {
        let named = self.keys.iter().zip(&self.configurations[configuration].values);
        let parts: Vec<String> = named
            .filter_map(|(key, value)| Some(format!("{} {}", short(key), shown(value.as_ref()?))))
            .collect();
        if parts.is_empty() { "the experiment".to_owned() } else { parts.join(", ") }
    }
}

/// Last part of a key.
pub fn short(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

pub(crate) fn number(value: Option<&Value>) -> Option<f64> {
    let value = value?;
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

/// A value for display: text without quotes.
pub fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn values_of(file: &SweepFile, keys: &[String], number: usize) -> Vec<Option<Value>> {
    let mut values: Vec<Option<Value>> = vec![None; keys.len()];
    let mut rest = number;
    let mut put = |key: &String, value: &Value| {
        if let Some(at) = keys.iter().position(|other| other == key) {
            values[at] = Some(value.clone());
        }
    };
    // `number` has one digit per grid key, the last key lowest; the rest is the index of the point.
    for (key, choices) in file.grid.iter().rev() {
        put(key, &choices[rest % choices.len()]);
        rest /= choices.len();
    }
    file.points[rest].iter().for_each(|(key, value)| put(key, value));
    values
}

impl SweepFile {
    fn own_of(&self, keys: &[String], configuration: &Configuration) -> BTreeMap<String, String> {
        let named = keys.iter().zip(&configuration.values);
        named
            .filter_map(|(key, value)| {
                let name = value.as_ref()?.as_str().filter(|name| self.own.contains_key(*name))?;
                Some((key.clone(), name.to_owned()))
            })
            .collect()
    }

    /// Key of a result, with the identities of the caller's policies.
    fn key_of(&self, content: &str, seed: u64, trace: &str, own: &BTreeMap<String, String>) -> String {
        if own.is_empty() {
            return points::key("run", &(content, seed, trace));
        }
        let own: Vec<_> = own.iter().map(|(key, name)| (key, name, self.own.get(name))).collect();
        points::key("run", &(content, seed, trace, own))
    }

    /// Settings of a run. Relative paths are made absolute, so they are valid in any working directory.
    fn sets(&self, keys: &[String], configuration: &Configuration, seed: u64) -> Vec<String> {
        let named = keys.iter().zip(&configuration.values);
        let mut sets: Vec<String> = named
            .filter_map(|(key, value)| {
                let value = value.as_ref()?;
                if value.as_str().is_some_and(|name| self.own.contains_key(name)) {
                    return None;
                }
                let value = &self.names.resolved(key, value);
                match value.as_str().filter(|text| is_file(key, text)) {
                    Some(text) => {
                        let path = self.folder.join(text);
                        let path = std::path::absolute(&path).unwrap_or(path);
                        Some(format!("{key}={}", Value::String(path.display().to_string())))
                    }
                    None => Some(format!("{key}={value}")),
                }
            })
            .collect();
        sets.push(format!("seed={seed}"));
        sets
    }

    fn experiment_of(
        &self,
        keys: &[String],
        configuration: &Configuration,
        seed: u64,
    ) -> Result<Experiment, Refusal> {
        let sets = self.sets(keys, configuration, seed);
        let read = Experiment::from_table(self.experiment.clone(), &sets, &self.folder);
        // These options come from the sweep and not from the user, so the error must not name them.
        let unblamed = |error| if let ConfigError::Given { error, .. } = error { *error } else { error };
        let experiment = read.map_err(unblamed)?;
        memory_bytes(&experiment.drive).map_err(Refusal::Drive)?;
        Ok(experiment)
    }
}

#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Drive(BuildError),
}

fn is_unknown(error: &ConfigError) -> bool {
    match error {
        ConfigError::In { error, .. } | ConfigError::Given { error, .. } => is_unknown(error),
        ConfigError::Key(strobe_ssd::KeyError::Unknown { .. })
        | ConfigError::BadSet(_)
        | ConfigError::NoTable(_)
        | ConfigError::IsDrive => true,
        _ => false,
    }
}

/// Hash of the configuration without the folder of its trace, so a sweep is the same from any folder.
fn content_hash(experiment: &Experiment) -> String {
    let mut moved = experiment.clone();
    if let WorkloadConfig::Trace(trace) = &mut moved.workload
        && let Some(name) = Path::new(&trace.path).file_name().and_then(|name| name.to_str())
        // Files of other CPUs next to this one are part of the trace; only their folder identifies them.
        && !name.contains(".blktrace")
    {
        trace.path = name.to_owned();
    }
    moved.config_hash()
}

/// Hash of the trace, empty without one. Each file is read once.
fn trace_hash(experiment: &Experiment, known: &mut BTreeMap<String, String>) -> Result<String, SweepError> {
    let WorkloadConfig::Trace(trace) = &experiment.workload else { return Ok(String::new()) };
    if let Some(hash) = known.get(&trace.path) {
        return Ok(hash.clone());
    }
    let path = Path::new(&trace.path);
    // The content of the trace is part of a point's key, so a changed trace makes new points.
    let hashed = || -> std::io::Result<String> {
        if !std::fs::metadata(path)?.is_file() {
            return Err(std::io::Error::other("a sweep reads its trace many times: use a file, not a pipe"));
        }
        let (mut file, mut hash) = (std::fs::File::open(path)?, Sha256::new());
        let mut bytes = vec![0; 1 << 20];
        loop {
            match file.read(&mut bytes)? {
                0 => break,
                count => hash.update(&bytes[..count]),
            }
        }
        Ok(format!("{:x}", hash.finalize()))
    };
    let hash = hashed().map_err(|error| SweepError::File { path: path.to_owned(), error })?;
    known.insert(trace.path.clone(), hash.clone());
    Ok(hash)
}
