//! Experiments: reading, changing and running them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use strobe_lab::runner::{self, SaveAt, SaveState, States};
use strobe_lab::{ConfigError, Experiment, RunError, RunResult};
use strobe_ssd::{BuildError, DriveBuilder, DriveConfig, Scheme, Simulated, StateFile};
use toml::{Table, Value};

use crate::errors;
use crate::placed::PlacementObject;
use crate::score::{Scored, Trouble};
use crate::watch::Watcher;

/// A validated, complete experiment.
///
/// experiment is a mapping with the keys of an experiment file, or its TOML text. sets are
/// "key.path=value" strings that override keys.
#[pyclass(frozen, module = "strobe", name = "Experiment", from_py_object)]
#[derive(Clone)]
pub(crate) struct PyExperiment {
    pub(crate) experiment: Experiment,
    /// Table to which changes apply.
    table: Table,
    folder: PathBuf,
}

impl PyExperiment {
    fn of(table: Table, sets: &[String], folder: &Path) -> PyResult<Self> {
        let experiment = Experiment::from_table(table.clone(), sets, folder).map_err(errors::config)?;
        // Later changes apply to this table. It has no defaults, so a changed preset brings its own values.
        let mut table = table;
        for set in sets {
            set_key(&mut table, set)?;
        }
        Ok(Self { experiment, table, folder: folder.to_owned() })
    }

    pub(crate) fn with(&self, sets: &[String]) -> PyResult<Self> {
        Self::of(self.table.clone(), sets, &self.folder)
    }
}

/// Applies a setting, which was validated as part of the experiment.
fn set_key(table: &mut Table, set: &str) -> PyResult<()> {
    let wrong = || errors::raised::ConfigError::new_err(format!("{set:?}: expected KEY.PATH=VALUE"));
    let (key, value) = set.split_once('=').ok_or_else(wrong)?;
    // A value that is not TOML is text, as on the command line.
    let value = format!("value = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    let value =
        value.unwrap_or_else(|| Value::String(set.split_once('=').map_or("", |(_, text)| text).to_owned()));
    let mut path: Vec<&str> = key.split('.').collect();
    let last = path.pop().ok_or_else(wrong)?;
    let mut at = table;
    for part in path {
        let below = at.entry(part).or_insert_with(|| Table::new().into());
        at = below.as_table_mut().ok_or_else(wrong)?;
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

/// Table from a Python mapping or TOML text.
pub(crate) fn table_of(given: &Bound<'_, PyAny>) -> PyResult<Table> {
    if let Ok(text) = given.extract::<String>() {
        return text.parse().map_err(|error: toml::de::Error| {
            let message = error.message().to_owned();
            errors::config(ConfigError::Syntax { path: "experiment".to_owned(), message })
        });
    }
    let json = given.py().import("json")?.call_method1("dumps", (given,))?.extract::<String>()?;
    let wrong = |error: &dyn std::fmt::Display| errors::raised::ConfigError::new_err(error.to_string());
    let value: serde_json::Value = serde_json::from_str(&json).map_err(|error| wrong(&error))?;
    match Value::try_from(without_null(value)) {
        Ok(Value::Table(table)) => undotted(table),
        Ok(_) => Err(wrong(&"expected a mapping with the tables of an experiment file, or its text")),
        Err(error) => Err(wrong(&error)),
    }
}

/// Expands dotted keys, except in the table of a sweep.
fn undotted(table: Table) -> PyResult<Table> {
    let mut all = Table::new();
    for (key, value) in table {
        let value = match value {
            // The keys of a sweep's table are dotted paths themselves.
            Value::Table(below) if key != "sweep" => Value::Table(undotted(below)?),
            value => value,
        };
        let mut path: Vec<&str> = key.split('.').collect();
        let last = path.pop().unwrap_or_default();
        let mut at = &mut all;
        for part in path {
            let below = at.entry(part).or_insert_with(|| Table::new().into());
            let wrong = || errors::raised::ConfigError::new_err(format!("{key}: {part} is not a table"));
            at = below.as_table_mut().ok_or_else(wrong)?;
        }
        put(at, last, value, &key)?;
    }
    Ok(all)
}

/// Inserts `value`. Tables are merged; other duplicates are errors, which name `path`.
fn put(table: &mut Table, key: &str, value: Value, path: &str) -> PyResult<()> {
    match (table.get_mut(key), value) {
        (Some(Value::Table(there)), Value::Table(more)) => {
            more.into_iter().try_for_each(|(key, value)| put(there, &key, value, &format!("{path}.{key}")))
        }
        (Some(_), _) => Err(errors::raised::ConfigError::new_err(format!("{path} is given twice"))),
        (None, value) => {
            table.insert(key.to_owned(), value);
            Ok(())
        }
    }
}

/// Removes keys that are None: TOML has no null, and an absent key means the same.
fn without_null(value: serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Object(entries) => {
            let given = entries.into_iter().filter(|(_, value)| !value.is_null());
            serde_json::Value::Object(given.map(|(key, value)| (key, without_null(value))).collect())
        }
        value => value,
    }
}

#[pymethods]
impl PyExperiment {
    #[new]
    #[pyo3(signature = (experiment = None, *, sets = Vec::new()))]
    fn new(experiment: Option<&Bound<'_, PyAny>>, sets: Vec<String>) -> PyResult<Self> {
        let table = experiment.map(table_of).transpose()?.unwrap_or_default();
        Self::of(table, &sets, Path::new(""))
    }

    /// Reads an experiment file. sets are "key.path=value" strings, as for --set.
    #[staticmethod]
    #[pyo3(signature = (path, *, sets = Vec::new()))]
    fn load(path: PathBuf, sets: Vec<String>) -> PyResult<Self> {
        // Load like the command line, to name the file in messages.
        Experiment::load(&path, &sets).map_err(errors::config)?;
        let text = std::fs::read_to_string(&path)?;
        let table = text.parse().unwrap_or_default();
        Self::of(table, &sets, path.parent().unwrap_or(Path::new("")))
    }

    fn _with_sets(&self, sets: Vec<String>) -> PyResult<Self> {
        self.with(&sets)
    }

    /// Seed of all random decisions.
    #[getter]
    fn seed(&self) -> u64 {
        self.experiment.seed
    }

    /// Hash of the configuration, without the seed.
    #[getter]
    fn config_hash(&self) -> String {
        self.experiment.config_hash()
    }

    /// Returns the equivalent experiment as TOML, with all defaults filled in.
    fn to_toml(&self) -> String {
        self.experiment.to_toml()
    }

    fn _given<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.table).expect("a table is plain data");
        py.import("json")?.call_method1("loads", (text,))
    }

    fn _folder(&self) -> PathBuf {
        self.folder.clone()
    }

    fn _to_json(&self) -> String {
        serde_json::to_string(&self.experiment).expect("an experiment is plain data")
    }

    fn __repr__(&self) -> String {
        format!("<strobe.Experiment {} with seed {}>", self.config_hash(), self.seed())
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.experiment == other.experiment
    }
}

/// Temporary file that replaces `path` when complete.
fn part_of(path: &Path, overwrite: bool) -> PyResult<tempfile::NamedTempFile> {
    if !overwrite && path.exists() {
        let text = format!("{} exists; give another name, or overwrite=True", path.display());
        return Err(pyo3::exceptions::PyFileExistsError::new_err(text));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(tempfile::NamedTempFile::new_in(folder)?)
}

/// Writes a file, which appears only when complete.
pub(crate) fn written<T>(
    path: &Path,
    overwrite: bool,
    write: impl FnOnce(std::fs::File) -> PyResult<(T, bool)>,
) -> PyResult<T> {
    let part = part_of(path, overwrite)?;
    let (value, is_complete) = write(part.reopen()?)?;
    match (is_complete, overwrite) {
        (false, _) => {}
        (true, true) => drop(part.persist(path).map_err(|error| error.error)?),
        // Another process may have created the file since the check.
        (true, false) => drop(part.persist_noclobber(path).map_err(|error| error.error)?),
    }
    Ok(value)
}

pub(crate) const VICTIM: &str = "drive.ftl.gc.victim";
pub(crate) const PLACEMENT: &str = "drive.ftl.placement.scheme";

/// Name of a policy: its attribute `name`, or the name of its function or class, such as `score()`.
pub(crate) fn name_of(policy: &Bound<'_, PyAny>) -> PyResult<String> {
    let own = policy.getattr_opt("name")?.and_then(|name| name.extract::<String>().ok());
    if let Some(own) = own.filter(|own| !own.is_empty()) {
        return Ok(own);
    }
    let name = match policy.getattr_opt("__qualname__")? {
        Some(name) => name,
        None => policy.get_type().getattr("__qualname__")?,
    };
    let name: String = name.extract()?;
    Ok(format!("{}()", name.rsplit('.').next().unwrap_or(&name)))
}

/// Policies given as Python functions or objects.
pub(crate) struct OwnPolicies {
    victim: Option<Arc<Py<PyAny>>>,
    placement: Option<PlacementObject>,
    names: (Option<String>, Option<String>),
}

impl OwnPolicies {
    pub(crate) fn of(
        victim: Option<&Bound<'_, PyAny>>,
        placement: Option<&Bound<'_, PyAny>>,
        drive: &DriveConfig,
    ) -> PyResult<Self> {
        let streams = drive.ftl.placement.streams;
        if let Some(victim) = victim.filter(|victim| !victim.is_callable()) {
            let text = format!(
                "victim={}: a victim policy is a name, a formula, or a function of a table of blocks",
                victim.get_type().name()?
            );
            return Err(pyo3::exceptions::PyTypeError::new_err(text));
        }
        let names = (victim.map(name_of).transpose()?, placement.map(name_of).transpose()?);
        let placement = placement.map(|object| PlacementObject::of(object, streams)).transpose()?;
        Ok(Self { victim: victim.map(|victim| Arc::new(victim.clone().unbind())), placement, names })
    }

    /// Runs `experiment`. The configuration in the result names these policies.
    pub(crate) fn run(
        self,
        experiment: &Experiment,
        watcher: &mut Watcher,
        trouble: &Trouble,
    ) -> Result<RunResult, RunError> {
        let names = self.names.clone();
        let builder = DriveBuilder::new(&experiment.drive, experiment.run.timing, experiment.seed)?;
        let drive = self.build(runner::with_future(builder, experiment)?, trouble)?;
        let mut result = runner::run_on(experiment, drive, watcher)?;
        let ftl = &mut result.config.drive.ftl;
        if let Some(victim) = names.0 {
            ftl.gc.victim = victim;
        }
        if let Some(placement) = names.1 {
            ftl.placement.scheme = Scheme::Formula(placement);
        }
        result.config_hash = result.config.config_hash();
        Ok(result)
    }

    pub(crate) fn is_any(&self) -> bool {
        self.victim.is_some() || self.placement.is_some()
    }

    /// Builds the drive. Python exceptions are stored in `trouble`.
    pub(crate) fn build(
        self,
        mut builder: DriveBuilder<'_>,
        trouble: &Trouble,
    ) -> Result<Box<dyn Simulated>, BuildError> {
        if let Some(function) = self.victim {
            let (blocks, units) = (builder.geometry().blocks(), builder.geometry().units_per_block());
            builder = builder.with_victims(Scored::new(blocks, units, function, trouble.clone()));
        }
        if let Some(object) = self.placement {
            builder = builder.with_placement(object.layout, object.placement(trouble.clone()));
        }
        builder.build()
    }
}

/// Runs an experiment; returns the JSON that the command line prints.
#[pyfunction(name = "_run")]
#[pyo3(signature = (experiment, progress, victim, placement, from_state, save_state, save_at, overwrite))]
#[allow(clippy::too_many_arguments, reason = "the Python function above it names them all")]
pub(crate) fn run_json(
    py: Python<'_>,
    experiment: PyExperiment,
    progress: Option<Py<PyAny>>,
    victim: Option<Bound<'_, PyAny>>,
    placement: Option<Bound<'_, PyAny>>,
    from_state: Option<PathBuf>,
    save_state: Option<PathBuf>,
    save_at: &str,
    overwrite: bool,
) -> PyResult<String> {
    let trouble = Trouble::default();
    let mut watcher = Watcher::new(progress, trouble.clone());
    let at = SaveAt::ALL.into_iter().find(|at| at.name() == save_at).ok_or_else(|| {
        let names = SaveAt::ALL.map(SaveAt::name).join(", ");
        errors::raised::ConfigError::new_err(format!("save_at={save_at:?}; allowed are {names}"))
    })?;
    // A state file holds no Python objects.
    if (victim.is_some() || placement.is_some()) && (from_state.is_some() || save_state.is_some()) {
        let text = "from_state or save_state with a victim function or a placement object: a state does not contain \
                    their data";
        return Err(errors::raised::ConfigError::new_err(text));
    }
    let from = from_state.map(|path| StateFile::open(&path)).transpose().map_err(errors::state_file)?;
    let experiment = &experiment.experiment;
    let own = OwnPolicies::of(victim.as_ref(), placement.as_ref(), &experiment.drive)?;
    let result = match (own.is_any(), save_state) {
        (true, _) => py.detach(|| own.run(experiment, &mut watcher, &trouble).map_err(errors::run)),
        (false, Some(path)) => py.detach(|| {
            written(&path, overwrite, |file| {
                let mut save = SaveState { at, out: Box::new(file), is_saved: false };
                let states = States { from, save: Some(&mut save) };
                let result = runner::run_with(experiment, states, &mut watcher).map_err(errors::run)?;
                Ok((result, save.is_saved))
            })
        }),
        (false, None) => py.detach(|| {
            runner::run_with(experiment, States { from, save: None }, &mut watcher).map_err(errors::run)
        }),
    };
    // A Python exception is the cause of any other error: raise it instead.
    trouble.raised()?;
    let result = result?;
    Ok(py.detach(|| serde_json::to_string(&result).expect("results are plain data")))
}
