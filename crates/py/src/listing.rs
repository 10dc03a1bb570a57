//! What there is: presets, policies.

use pyo3::prelude::*;
use strobe_lab::load_drive_table;
use strobe_ssd::{MAPPINGS, POLICIES, presets};
use strobe_types::Op;

use crate::errors;

/// Ready-made drives: name and what they are.
#[pyfunction]
fn presets_() -> Vec<(&'static str, &'static str)> {
    presets::PRESETS.iter().map(|preset| (preset.name, preset.summary)).collect()
}

/// The keys of a preset, as JSON.
#[pyfunction]
fn _preset_json(name: &str) -> PyResult<String> {
    let table = load_drive_table(name).map_err(errors::config)?;
    Ok(serde_json::to_string(&table).expect("a preset is plain data"))
}

/// Victim policies: name, and what they pick.
#[pyfunction]
fn policies() -> Vec<(&'static str, &'static str)> {
    POLICIES.iter().map(|policy| (policy.name, policy.picks)).collect()
}

/// Mapping schemes.
#[pyfunction]
fn mappings() -> Vec<&'static str> {
    MAPPINGS.iter().map(|mapping| mapping.name).collect()
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("presets", wrap_pyfunction!(presets_, module)?)?;
    module.add_function(wrap_pyfunction!(_preset_json, module)?)?;
    module.add_function(wrap_pyfunction!(policies, module)?)?;
    module.add_function(wrap_pyfunction!(mappings, module)?)?;
    module.add("READ", Op::Read as u8)?;
    module.add("WRITE", Op::Write as u8)?;
    module.add("TRIM", Op::Trim as u8)?;
    module.add("FLUSH", Op::Flush as u8)
}
