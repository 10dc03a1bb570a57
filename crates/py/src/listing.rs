//! Lists of presets and policies.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use strobe_lab::{Experiment, load_drive_table, only_format};
use strobe_ssd::{DriveConfig, MAPPINGS, POLICIES, presets};
use strobe_types::Op;
use toml::Table;

use crate::errors;

/// Ready-made drives: name and description.
#[pyfunction(name = "presets")]
fn presets_() -> Vec<(&'static str, &'static str)> {
    presets::PRESETS.iter().map(|preset| (preset.name, preset.summary)).collect()
}

/// All keys of a preset, or of a drive file, as JSON.
#[pyfunction]
fn _preset_json(name: &str) -> PyResult<String> {
    let config = drive_config(preset_table(name)?, &[])?;
    Ok(serde_json::to_string(&config).expect("a configuration is plain data"))
}

/// Name of the only format that fits the start of a trace.
#[pyfunction]
fn _format_of(path: PathBuf) -> PyResult<&'static str> {
    only_format(&path).map_err(|error| errors::raised::ConfigError::new_err(error.to_string()))
}

pub(crate) fn preset_table(name: &str) -> PyResult<Table> {
    load_drive_table(name, "drive").map_err(errors::config)
}

pub(crate) fn drive_config(keys: Table, sets: &[String]) -> PyResult<DriveConfig> {
    let table = Table::from_iter([("drive".to_owned(), keys.into())]);
    Experiment::from_table(table, sets, Path::new(""))
        .map(|experiment| experiment.drive)
        .map_err(errors::config)
}

/// Built-in victim policies: name and the blocks they pick. A formula over block variables is a policy, too.
#[pyfunction]
fn policies() -> Vec<(&'static str, &'static str)> {
    POLICIES.iter().map(|policy| (policy.name, policy.picks)).collect()
}

/// Names of the mapping schemes.
#[pyfunction]
fn mappings() -> Vec<&'static str> {
    MAPPINGS.iter().map(|mapping| mapping.name).collect()
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(presets_, module)?)?;
    module.add_function(wrap_pyfunction!(_preset_json, module)?)?;
    module.add_function(wrap_pyfunction!(_format_of, module)?)?;
    module.add_function(wrap_pyfunction!(policies, module)?)?;
    module.add_function(wrap_pyfunction!(mappings, module)?)?;
    module.add("READ", Op::Read as u8)?;
    module.add("WRITE", Op::Write as u8)?;
    module.add("TRIM", Op::Trim as u8)?;
    module.add("FLUSH", Op::Flush as u8)
}
