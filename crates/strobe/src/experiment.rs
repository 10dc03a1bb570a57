//! The experiment file: reading, merging, checking.

use std::fmt;
use std::io::Read as _;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ftl::gc::Formula;
use strobe_ssd::{DriveConfig, MAPPINGS, POLICIES};
use strobe_workload::synthetic::SyntheticConfig;
use strobe_workload::trace;
use toml::{Table, Value};

use crate::effect::{self, Given, Ignored};
use crate::fio_names::accept_fio_names;
use crate::given::short;
use crate::lifetime::check_end;
use crate::names::nearest;
use crate::power::PowerConfig;
use crate::preset;
use crate::syntax::parse_table;
use crate::validate::validate;

/// Why an experiment was refused before it ran. Each message names the key, what was given, what
/// is allowed, and the nearest valid name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file could not be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not TOML.
    #[error("{path}: not valid TOML: {message}")]
    Syntax {
        /// The file or option.
        path: String,
        /// The parser's message, with line and column.
        message: String,
    },
    /// An error with the file it was found in.
    #[error("{path}: {error}")]
    In {
        /// The file.
        path: String,
        /// What is wrong.
        error: Box<ConfigError>,
    },
    /// An error with the option of the command line that gave what is wrong.
    #[error("{}: {error}", short(option))]
    Given {
        /// The option with its value.
        option: String,
        /// What is wrong.
        error: Box<ConfigError>,
    },
    /// A key that means nothing.
    #[error("unknown key {key}{}; valid here: {valid}", did_you_mean(nearest))]
    UnknownKey {
        /// The key as written.
        key: String,
        /// What was probably meant.
        nearest: Option<String>,
        /// Keys that are valid in this table.
        valid: String,
    },
    /// A key that must be given.
    #[error("{key} is missing: {meaning}")]
    MissingKey {
        /// The key.
        key: String,
        /// Its documentation.
        meaning: String,
    },
    /// A file that says nothing.
    #[error(
        "{0}: there is nothing in it; examples/quickstart.toml is a start, docs/REFERENCE.md has all keys"
    )]
    Empty(String),
    /// The table of a drive where an experiment should be.
    #[error(
        "this is a drive, not an experiment: name it in one, [drive] with preset = \"FILE.toml\", or use it with \
         `strobe replay TRACE --drive FILE.toml`"
    )]
    IsDrive,
    /// A value of the wrong type or out of range.
    #[error("{key} = {}: must be {allowed}. {meaning}", short(given))]
    BadValue {
        /// The key.
        key: String,
        /// The value given.
        given: String,
        /// What would be allowed.
        allowed: String,
        /// The key's documentation.
        meaning: String,
    },
    /// A name that is not known.
    #[error("{key} = {} is not known{}; known are {valid}", short(given), did_you_mean(nearest))]
    BadName {
        /// The key.
        key: String,
        /// The value given.
        given: String,
        /// What was probably meant.
        nearest: Option<String>,
        /// Valid names.
        valid: String,
    },
    /// A key that would change nothing.
    #[error("{key} has no effect here: it counts with {wants}; leave it out, or set that too")]
    NoEffect {
        /// The key.
        key: String,
        /// What makes it count.
        wants: String,
    },
    /// A victim policy that is neither a name nor a formula.
    #[error("{key}: {reason}; `strobe list policies` explains them")]
    BadFormula {
        /// The key.
        key: String,
        /// What is wrong, where, and what could be used.
        reason: String,
    },
    /// `--set` without `=`.
    #[error("--set {}: expected KEY.PATH=VALUE, for example --set drive.ftl.gc.victim=fifo", short(.0))]
    BadSet(String),
    /// A key in something that has no keys.
    #[error("{0} is not a table, so nothing in it can be set")]
    NoTable(String),
}

/// Longest configuration file in bytes: enough for any, and /dev/zero ends.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Most names in the path of a `--set`; no key lies deeper than half of it.
const SET_DEPTH_MAX: usize = 8;

/// Reads a configuration file; "-" is standard input.
pub(crate) fn read_text(path: &Path) -> Result<String, ConfigError> {
    let mut text = String::new();
    let file: std::io::Result<Box<dyn std::io::Read>> = match path.to_str() {
        Some("-") => Ok(Box::new(std::io::stdin())),
        _ => std::fs::File::open(path).map(|file| Box::new(file) as Box<dyn std::io::Read>),
    };
    file.and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .and_then(|read| match read as u64 > FILE_BYTES_MAX {
            true => Err(std::io::Error::other(format!("longer than {FILE_BYTES_MAX} bytes"))),
            false => Ok(text),
        })
        .map_err(|source| ConfigError::File { path: path.display().to_string(), source })
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// An amount of work: a number of host pages (mapping units), or "12x" for twelve times the
/// logical capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Mapping units.
    Pages(u64),
    /// Multiples of the logical capacity.
    Capacities(f64),
}

impl Amount {
    /// The amount in mapping units for a drive of `logical_units`.
    pub fn pages(self, logical_units: u32) -> u64 {
        match self {
            Amount::Pages(pages) => pages,
            Amount::Capacities(times) => (times * f64::from(logical_units)).round() as u64,
        }
    }

    /// Reads "12x", "1.5x" or a whole number.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().replace('_', "");
        match text.strip_suffix(['x', 'X']) {
            Some(times) => {
                let times: f64 = times.trim().parse().ok()?;
                (times.is_finite() && (0.0..=1e9).contains(&times)).then_some(Amount::Capacities(times))
            }
            // TOML has no larger numbers.
            None => text.parse().ok().filter(|&pages| i64::try_from(pages).is_ok()).map(Amount::Pages),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Pages(pages) => write!(f, "{pages}"),
            Amount::Capacities(times) => write!(f, "{times}x"),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Amount::Pages(pages) => serializer.serialize_u64(*pages),
            Amount::Capacities(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Pages(u64),
            Text(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Pages(pages) => Ok(Amount::Pages(pages)),
            Either::Text(text) => Amount::parse(&text)
                .ok_or_else(|| serde::de::Error::custom(format!("\"{text}\" is no amount"))),
        }
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": ["string", "integer"],
            "minimum": 0,
            "description": "a count of host pages, or \"12x\" for twelve logical capacities",
        })
    }
}

/// How many requests are outstanding, and how fast they come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostConfig {
    /// Requests outstanding at any time (fio: iodepth). Default 1.
    #[schemars(range(min = 1, max = 65_536))]
    pub queue_depth: u32,
    /// Most requests per second (fio: rate_iops). 0 (default): no limit.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub rate_iops: u32,
    /// A flush after every so many requests of a generator (fio: fsync, which counts writes only). Traces
    /// bring their own. 0 (default): never.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 4_294_967_295u32))]
    pub flush_every: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Default for HostConfig {
    fn default() -> Self {
        Self { queue_depth: 1, rate_iops: 0, flush_every: 0 }
    }
}

/// A synthetic workload and its host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyntheticWorkload {
    /// The generator.
    #[serde(flatten)]
    pub generator: SyntheticConfig,
    /// The host.
    #[serde(flatten)]
    pub host: HostConfig,
}

/// When the requests of a trace are issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PacingName {
    /// At their timestamps, however many are outstanding.
    #[default]
    Open,
    /// As fast as the drive takes them, `queue_depth` outstanding.
    Closed,
}

/// What to do with trace requests that do not fit the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// Stop with an error that names the line.
    #[default]
    Refuse,
    /// Take offsets modulo the capacity; round misaligned requests outward to sectors, drop empty
    /// ones. Everything changed is counted.
    Wrap,
    /// Cut off what lies beyond the drive; otherwise like wrap.
    Clip,
}

/// What to do with trace requests that come later in the file than their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Late {
    /// Stop with an error that names the line.
    #[default]
    Refuse,
    /// Issue them at once, when their turn comes. They are counted.
    Issue,
}

/// The only kind a trace workload has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TraceKind {
    /// A block trace.
    Trace,
}

/// A block trace as workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceConfig {
    /// "trace".
    pub kind: TraceKind,
    /// The trace file, plain or gzip, or "-" for standard input; relative to the experiment file.
    pub path: String,
    /// Its format; see `strobe list formats`.
    pub format: String,
    /// Issue at timestamps (open) or as fast as possible (closed). Default open.
    #[serde(default)]
    pub pacing: PacingName,
    /// Requests that do not fit the drive: refuse, wrap or clip. Default refuse.
    #[serde(default)]
    pub fit: Fit,
    /// Requests that come later in the file than their time, with pacing open: refuse, or issue at once.
    /// Default refuse.
    #[serde(default, skip_serializing_if = "Late::is_default")]
    pub late: Late,
    /// Which device of the trace, or "all". Default: the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// blkparse and blktrace: replay dispatched (D) or queued (Q) requests. Default D.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// mqsim: nanoseconds per unit of the time column. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub time_unit_ns: Option<u64>,
    /// Replay the trace this many times, one after the other. Default 1.
    #[serde(default = "once")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub repeat: u32,
    /// The host; queue depth counts in closed loop only.
    #[serde(flatten)]
    pub host: HostConfig,
}

impl Late {
    /// Not printed then, so that experiments without it keep their hash.
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn once() -> u32 {
    1
}

/// Where requests come from.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum WorkloadConfig {
    /// A generator.
    Synthetic(SyntheticWorkload),
    /// A block trace.
    Trace(TraceConfig),
}

/// What to run and what to measure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunConfig {
    /// Write the whole drive once, in order, before anything else. Default: true for generators,
    /// false for traces.
    pub prefill: Option<bool>,
    /// Run the workload for this long before measuring: host pages (mapping units read, written or
    /// trimmed), or "12x" capacities. Default 0. For traces: overwrite the drive at random for
    /// this long.
    pub warmup: Amount,
    /// Measure this long: host pages (mapping units read, written or trimmed), or "10x" capacities.
    /// Default "1x"; for traces: to the end; with one of the until keys: without limit.
    pub measure: Option<Amount>,
    /// End the run when this many blocks have gone bad in use, at most 1024 requests later. A trace
    /// ends after `repeat` times in any case. Default: not.
    #[schemars(range(min = 1, max = 4_294_967_295u32))]
    pub until_bad_blocks: Option<u32>,
    /// Go on until the drive refuses writes because too many blocks have gone bad. A trace ends
    /// after `repeat` times in any case. With until_bad_blocks, what comes first ends the run.
    /// Default false.
    pub until_end_of_life: bool,
    /// Simulate time; false: count operations only. Default true.
    pub timing: bool,
    /// Run the whole-state checker after each phase and at each sample. Default false.
    pub check: bool,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            prefill: None,
            warmup: Amount::Pages(0),
            measure: None,
            until_bad_blocks: None,
            until_end_of_life: false,
            timing: true,
            check: false,
        }
    }
}

/// A complete, checked experiment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Experiment {
    /// Seed of everything random. Default 1.
    pub seed: u64,
    /// The drive.
    pub drive: DriveConfig,
    /// The workload.
    pub workload: WorkloadConfig,
    /// The run.
    pub run: RunConfig,
    /// When power fails.
    #[serde(default, skip_serializing_if = "PowerConfig::is_steady")]
    pub power: PowerConfig,
    /// Keys of the file that the command line has switched off.
    #[serde(skip)]
    pub ignored: Vec<Ignored>,
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

    /// Builds an experiment from a parsed file. A relative trace path is taken from `folder`.
    pub fn from_table(table: Table, sets: &[String], folder: &Path) -> Result<Self, ConfigError> {
        Self::of(table.clone(), sets, folder).map_err(|error| error.blamed(&table, sets, folder))
    }

    /// [`Experiment::from_table`] with errors that do not say who gave what is wrong.
    pub(crate) fn of(mut table: Table, sets: &[String], folder: &Path) -> Result<Self, ConfigError> {
        let given = Given::new(&table, sets);
        for set in sets {
            apply_set(&mut table, set)?;
        }
        // A path on the command line starts where one stands, one in a file where that is.
        let at = |key: &str| if given.on_command_line(key) { Path::new("") } else { folder };
        let folders = (at("drive.preset"), at("workload.path"));
        let mut experiment = Self::resolved(&table, folders)?;
        experiment.ignored = effect::check(&experiment, &given, |key| {
            let mut without = table.clone();
            remove(&mut without, key);
            Self::resolved(&without, folders).ok()
        })?;
        Ok(experiment)
    }

    /// What `table` comes to; presets and traces are looked for in these two folders.
    fn resolved(table: &Table, (presets, traces): (&Path, &Path)) -> Result<Self, ConfigError> {
        let valid = ["seed", "drive", "workload", "run", "power"];
        if let Some(key) = table.keys().find(|key| !valid.contains(&key.as_str())) {
            if ["nand", "ftl", "controller"].contains(&key.as_str()) {
                return Err(ConfigError::IsDrive);
            }
            return Err(ConfigError::UnknownKey {
                key: key.clone(),
                nearest: nearest(key, valid).map(str::to_owned),
                valid: valid.join(", "),
            });
        }
        let seed = match table.get("seed") {
            None => 1,
            Some(Value::Integer(seed)) if *seed >= 0 => *seed as u64,
            Some(other) => {
                return Err(ConfigError::BadValue {
                    key: "seed".into(),
                    given: other.to_string(),
                    allowed: "a whole number from 0 on".into(),
                    meaning: "Seed of everything random.".into(),
                });
            }
        };
        let experiment = Self {
            seed,
            drive: drive_config(sub_table(table, "drive")?, presets)?,
            workload: workload_config(sub_table(table, "workload")?, traces)?,
            run: run_config(sub_table(table, "run")?)?,
            power: power_config(sub_table(table, "power")?)?,
            ignored: Vec::new(),
        };
        if let Err([key, given, allowed]) = experiment.power.check(&experiment.drive) {
            return Err(ConfigError::BadValue { key, given, allowed, meaning: String::new() });
        }
        check_end(&experiment)?;
        Ok(experiment)
    }

    /// It as TOML that means the same, every default filled in; without keys that have no effect.
    pub fn to_toml(&self) -> String {
        let mut table = Table::try_from(self).expect("an experiment is plain data");
        self.ignored.iter().for_each(|ignored| remove(&mut table, &ignored.key));
        toml::to_string(&table).expect("an experiment is plain data")
    }

    /// Identifies the configuration (without the seed): the start of the SHA-256 of its JSON. A drive from a file
    /// counts by what it is, not by what the file is called.
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

/// Takes the key at `path` out of `table`.
fn remove(table: &mut Table, path: &str) {
    match path.split_once('.') {
        None => drop(table.remove(path)),
        Some((first, rest)) => {
            if let Some(Value::Table(inner)) = table.get_mut(first) {
                remove(inner, rest);
            }
        }
    }
}

fn sub_table(table: &Table, key: &str) -> Result<Table, ConfigError> {
    match table.get(key) {
        None => Ok(Table::new()),
        Some(Value::Table(inner)) => Ok(inner.clone()),
        Some(other) => Err(ConfigError::BadValue {
            key: key.to_owned(),
            given: other.to_string(),
            allowed: format!("a table: write [{key}]"),
            meaning: String::new(),
        }),
    }
}

/// Applies one `key.path=value`. The value is TOML; what is not valid TOML is taken as text.
fn apply_set(table: &mut Table, set: &str) -> Result<(), ConfigError> {
    let bad = || ConfigError::BadSet(set.to_owned());
    let (path, text) = set.split_once('=').ok_or_else(bad)?;
    let text = text.trim();
    let value = format!("v = {text}")
        .parse::<Table>()
        .ok()
        .filter(|parsed| parsed.len() == 1)
        .and_then(|mut parsed| parsed.remove("v"))
        .unwrap_or_else(|| Value::String(text.to_owned()));
    let mut keys: Vec<&str> = path.trim().split('.').map(str::trim).collect();
    if keys.len() > SET_DEPTH_MAX {
        return Err(bad());
    }
    let last = keys.pop().filter(|key| !key.is_empty()).ok_or_else(bad)?;
    let mut target = table;
    for (at, key) in keys.iter().enumerate() {
        if key.is_empty() {
            return Err(bad());
        }
        let no_table = || ConfigError::NoTable(keys[..=at].join(".")).given_by_set(set);
        let entry = target.entry(*key).or_insert_with(|| Value::Table(Table::new()));
        target = entry.as_table_mut().ok_or_else(no_table)?;
    }
    // Giving one of a pair on the command line replaces the other.
    for (one, other) in [("logical_pages", "over_provisioning"), ("over_provisioning", "logical_pages")] {
        if last == one {
            target.remove(other);
        }
    }
    target.insert(last.to_owned(), value);
    Ok(())
}

/// Overlays `over` on `base`, table by table.
pub(crate) fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(over)) => merge(inner, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

fn check_name(key: &str, given: &str, valid: &[&str]) -> Result<(), ConfigError> {
    if valid.contains(&given) {
        return Ok(());
    }
    Err(ConfigError::BadName {
        key: key.to_owned(),
        given: format!("\"{given}\""),
        nearest: nearest(given, valid.iter().copied()).map(str::to_owned),
        valid: valid.join(", "),
    })
}

/// A victim policy is a name or a formula.
fn check_victim(given: &str) -> Result<(), ConfigError> {
    let policies: Vec<&str> = POLICIES.iter().map(|p| p.name).collect();
    if policies.contains(&given) {
        return Ok(());
    }
    let Err(error) = Formula::check(given) else { return Ok(()) };
    let key = "drive.ftl.gc.victim";
    let formula = |reason: String| Err(ConfigError::BadFormula { key: key.to_owned(), reason });
    if given.trim().is_empty() {
        let example = "or a formula such as \"age * (1-u) / (1+u)^2\"";
        return formula(format!(
            "it is empty; it must be one of the policies {}, {example}",
            policies.join(", ")
        ));
    }
    // A single word that is close to a policy, or to nothing, was probably meant as the name of one.
    let variables = error.known_names();
    let is_word = given.starts_with(|c: char| c.is_ascii_alphabetic())
        && given.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        && !given.split('-').any(|part| variables.contains(&part));
    let meant = nearest(given, policies.iter().chain(&variables).copied());
    if is_word && meant.is_none_or(|name| policies.contains(&name)) {
        return check_name(key, given, &policies);
    }
    let meant = error.unknown_name().and_then(|name| nearest(name, variables.iter().copied()));
    formula(meant.map_or_else(|| error.to_string(), |name| error.with_nearest(name)))
}

fn drive_config(given: Table, folder: &Path) -> Result<DriveConfig, ConfigError> {
    let mut table = preset::table(&given, folder)?;
    preset::overlay(&mut table, given)?;
    validate(&mut table, &schema::<DriveConfig>(), "drive")?;
    let config: DriveConfig = typed(table, "drive")?;
    check_victim(&config.ftl.gc.victim)?;
    let mappings: Vec<&str> = MAPPINGS.iter().map(|m| m.name).collect();
    check_name("drive.ftl.mapping", &config.ftl.mapping, &mappings)?;
    Ok(config)
}

/// The `[drive]` table named by `--drive`: a preset, or a TOML file with the keys of `[drive]`.
pub fn load_drive_table(name: &str) -> Result<Table, ConfigError> {
    // Here the option is still known.
    preset::text(name, Path::new(""), "--drive")?;
    Ok(Table::from_iter([("preset".to_owned(), Value::String(name.to_owned()))]))
}

fn workload_config(mut table: Table, folder: &Path) -> Result<WorkloadConfig, ConfigError> {
    if table.get("kind").and_then(Value::as_str) == Some("trace") {
        validate(&mut table, &schema::<TraceConfig>(), "workload")?;
        let mut config: TraceConfig = typed(table, "workload")?;
        let formats: Vec<&str> = trace::FORMATS.iter().map(|f| f.name).collect();
        check_name("workload.format", &config.format, &formats)?;
        if let Some(action) = &config.action {
            check_name("workload.action", action, &["D", "Q"])?;
        }
        if config.path != "-" {
            config.path = folder.join(&config.path).display().to_string();
        }
        return Ok(WorkloadConfig::Trace(config));
    }
    accept_fio_names(&mut table)?;
    let mut schema = schema::<SyntheticWorkload>();
    // An unknown kind should be answered with every kind there is.
    if let Some(kinds) = schema["$defs"]["Kind"]["oneOf"].as_array_mut() {
        kinds.push(serde_json::json!({ "const": "trace" }));
    }
    validate(&mut table, &schema, "workload")?;
    Ok(WorkloadConfig::Synthetic(typed(table, "workload")?))
}

fn run_config(mut table: Table) -> Result<RunConfig, ConfigError> {
    validate(&mut table, &schema::<RunConfig>(), "run")?;
    for key in ["warmup", "measure"] {
        if let Some(Value::String(text)) = table.get(key)
            && Amount::parse(text).is_none()
        {
            return Err(ConfigError::BadValue {
                key: format!("run.{key}"),
                given: format!("\"{text}\""),
                allowed: "a count of host pages such as 1000000, or capacities such as \"12x\"".into(),
                meaning: String::new(),
            });
        }
    }
    typed(table, "run")
}

fn power_config(mut table: Table) -> Result<PowerConfig, ConfigError> {
    validate(&mut table, &schema::<PowerConfig>(), "power")?;
    typed(table, "power")
}

fn schema<T: JsonSchema>() -> serde_json::Value {
    schemars::schema_for!(T).to_value()
}

fn typed<T: serde::de::DeserializeOwned>(table: Table, path: &str) -> Result<T, ConfigError> {
    // The schema check has already accepted it; what is left are relations between keys.
    table.try_into().map_err(|e: toml::de::Error| ConfigError::Syntax {
        path: path.to_owned(),
        message: e.to_string().trim_end().to_owned(),
    })
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
