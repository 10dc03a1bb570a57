//! Errors as exceptions: one for each kind of error of the library, below one of all.

use pyo3::prelude::*;
use strobe_lab::{ConfigError, RunError};
use strobe_ssd::{BuildError, CommandError, StateError, StateFileError};

/// The exceptions, under the names that they have in Python.
pub(crate) mod raised {
    use pyo3::create_exception;
    use pyo3::exceptions::PyException;

    create_exception!(
        strobe,
        StrobeError,
        PyException,
        "What this package raises: the base of all its exceptions."
    );
    create_exception!(
        strobe,
        ConfigError,
        StrobeError,
        "A configuration is refused; the message names the key and the cure."
    );
    create_exception!(
        strobe,
        BuildError,
        StrobeError,
        "A drive that could not work is refused, with the arithmetic that shows why."
    );
    create_exception!(
        strobe,
        CommandError,
        StrobeError,
        "A drive has refused a command, which has changed nothing; or data that it needs cannot be read."
    );
    create_exception!(strobe, RunError, StrobeError, "A run has ended without a result.");
    create_exception!(strobe, SweepError, StrobeError, "A sweep cannot go on; what is done is kept.");
    create_exception!(
        strobe,
        StateError,
        StrobeError,
        "A state cannot be saved, or is not one for this drive."
    );
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("StrobeError", py.get_type::<raised::StrobeError>())?;
    module.add("ConfigError", py.get_type::<raised::ConfigError>())?;
    module.add("BuildError", py.get_type::<raised::BuildError>())?;
    module.add("CommandError", py.get_type::<raised::CommandError>())?;
    module.add("RunError", py.get_type::<raised::RunError>())?;
    module.add("SweepError", py.get_type::<raised::SweepError>())?;
    module.add("StateError", py.get_type::<raised::StateError>())
}

pub(crate) fn config(error: ConfigError) -> PyErr {
    raised::ConfigError::new_err(error.to_string())
}

pub(crate) fn build(error: BuildError) -> PyErr {
    raised::BuildError::new_err(error.to_string())
}

pub(crate) fn command(error: CommandError) -> PyErr {
    raised::CommandError::new_err(error.to_string())
}

pub(crate) fn state(error: StateError) -> PyErr {
    raised::StateError::new_err(error.to_string())
}

pub(crate) fn state_file(error: StateFileError) -> PyErr {
    raised::StateError::new_err(error.to_string())
}

pub(crate) fn run(error: RunError) -> PyErr {
    let text = error.to_string();
    match error {
        RunError::Build(_) => raised::BuildError::new_err(text),
        RunError::Command(_) => raised::CommandError::new_err(text),
        RunError::FromState(_) | RunError::Save(_) => raised::StateError::new_err(text),
        RunError::Workload(_) | RunError::Job { .. } | RunError::PowerOfState => {
            raised::ConfigError::new_err(text)
        }
        _ => raised::RunError::new_err(text),
    }
}

pub(crate) fn sweep(error: strobe_sweep::SweepError) -> PyErr {
    let text = error.to_string();
    if error.is_bad_request() {
        raised::ConfigError::new_err(text)
    } else {
        raised::SweepError::new_err(text)
    }
}
