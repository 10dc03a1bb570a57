//! Errors as exceptions: one for each kind of error of the library, below one of all.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use strobe_lab::{ConfigError, RunError};
use strobe_ssd::{BuildError, CommandError, StateError, StateFileError};

create_exception!(
    strobe,
    StrobeError,
    PyException,
    "What this package raises: the base of all its exceptions."
);
create_exception!(
    strobe,
    ConfigurationError,
    StrobeError,
    "A configuration is refused; the message names the key and the cure."
);
create_exception!(
    strobe,
    BuildError_,
    StrobeError,
    "A drive that could not work is refused, with the arithmetic that shows why."
);
create_exception!(
    strobe,
    CommandError_,
    StrobeError,
    "A drive has refused a command, which has changed nothing."
);
create_exception!(strobe, RunError_, StrobeError, "A run has ended without a result.");
create_exception!(strobe, StateError_, StrobeError, "A state cannot be saved, or is not one for this drive.");

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("StrobeError", py.get_type::<StrobeError>())?;
    module.add("ConfigError", py.get_type::<ConfigurationError>())?;
    module.add("BuildError", py.get_type::<BuildError_>())?;
    module.add("CommandError", py.get_type::<CommandError_>())?;
    module.add("RunError", py.get_type::<RunError_>())?;
    module.add("StateError", py.get_type::<StateError_>())
}

pub(crate) fn config(error: ConfigError) -> PyErr {
    ConfigurationError::new_err(error.to_string())
}

pub(crate) fn build(error: BuildError) -> PyErr {
    BuildError_::new_err(error.to_string())
}

pub(crate) fn command(error: CommandError) -> PyErr {
    CommandError_::new_err(error.to_string())
}

pub(crate) fn state(error: StateError) -> PyErr {
    StateError_::new_err(error.to_string())
}

pub(crate) fn state_file(error: StateFileError) -> PyErr {
    StateError_::new_err(error.to_string())
}

pub(crate) fn run(error: RunError) -> PyErr {
    let text = error.to_string();
    match error {
        RunError::Build(_) => BuildError_::new_err(text),
        RunError::Command(_) => CommandError_::new_err(text),
        RunError::FromState(_) | RunError::Save(_) => StateError_::new_err(text),
        RunError::Workload(_)
        | RunError::Job { .. }
        | RunError::PowerOfState
        | RunError::IntervalsOfState => ConfigurationError::new_err(text),
        _ => RunError_::new_err(text),
    }
}
