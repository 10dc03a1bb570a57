//! Errors as Python exceptions: one per kind, all below `StrobeError`.
//!
//! If Python has a matching exception, the class also derives from it: a refused configuration is a
//! `ValueError`, a missing file a `FileNotFoundError`.

use std::error::Error;
use std::io::ErrorKind;

use pyo3::prelude::*;
use strobe_lab::{ConfigError, RunError};
use strobe_ssd::{BuildError, CommandError, StateError, StateFileError};

/// Exceptions, under their Python names.
pub(crate) mod raised {
    use pyo3::exceptions::{PyException, PyFileNotFoundError, PyValueError};
    use pyo3::prelude::*;
    use pyo3::sync::PyOnceLock;
    use pyo3::types::{PyDict, PyType};
    use pyo3::{PyTypeInfo, create_exception};

    create_exception!(strobe, StrobeError, PyException, "Base of all exceptions of this package.");
    create_exception!(
        strobe,
        CommandError,
        StrobeError,
        "The drive refused a command, which changed nothing, or data could not be read."
    );
    create_exception!(strobe, RunError, StrobeError, "A run ended without a result.");
    create_exception!(strobe, SweepError, StrobeError, "A sweep stopped; finished points are kept.");
    create_exception!(
        strobe,
        StateError,
        StrobeError,
        "A state cannot be saved, or does not fit this drive."
    );

    macro_rules! exception_of_both {
        ($name:ident, $own:ty, $doc:literal) => {
            #[doc = $doc]
            pub(crate) struct $name;

            impl $name {
                pub(crate) fn class(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
                    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
                    let class = CLASS.get_or_try_init(py, || {
                        let bases = (StrobeError::type_object(py), <$own>::type_object(py));
                        let attributes = PyDict::new(py);
                        attributes.set_item("__doc__", $doc)?;
                        attributes.set_item("__module__", "strobe")?;
                        let class = PyType::type_object(py).call1((stringify!($name), bases, attributes))?;
                        Ok::<_, PyErr>(class.cast_into::<PyType>()?.unbind())
                    })?;
                    Ok(class.bind(py).clone())
                }

                pub(crate) fn new_err(text: impl Into<String>) -> PyErr {
                    let text = text.into();
                    Python::attach(|py| match Self::class(py) {
                        Ok(class) => PyErr::from_type(class, text),
                        Err(error) => error,
                    })
                }
            }
        };
    }

    exception_of_both!(
        ConfigError,
        PyValueError,
        "A configuration is refused; the message names the key and the fix."
    );
    exception_of_both!(
        BuildError,
        PyValueError,
        "The drive could not work; the message shows the calculation."
    );
    exception_of_both!(MissingFileError, PyFileNotFoundError, "A file does not exist.");
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("StrobeError", py.get_type::<raised::StrobeError>())?;
    module.add("ConfigError", raised::ConfigError::class(py)?)?;
    module.add("BuildError", raised::BuildError::class(py)?)?;
    module.add("MissingFileError", raised::MissingFileError::class(py)?)?;
    module.add("CommandError", py.get_type::<raised::CommandError>())?;
    module.add("RunError", py.get_type::<raised::RunError>())?;
    module.add("SweepError", py.get_type::<raised::SweepError>())?;
    module.add("StateError", py.get_type::<raised::StateError>())
}

/// True if a missing file is among the causes.
fn is_missing(error: &(dyn Error + 'static)) -> bool {
    let of_system =
        error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound);
    of_system || error.source().is_some_and(is_missing)
}

pub(crate) fn config(error: ConfigError) -> PyErr {
    match error {
        // The outer error names a command-line option, which Python does not have. The inner one names the
        // key.
        ConfigError::Given { error, .. } => config(*error),
        ConfigError::IsSweep => {
            raised::ConfigError::new_err("this is a sweep, not an experiment: run it with strobe.sweep")
        }
        ConfigError::IsDrive => raised::ConfigError::new_err(
            "this is a drive, not an experiment: use strobe.Drive, or put it under the key \"drive\" of an experiment",
        ),
        ConfigError::File { source, path } if source.kind() == ErrorKind::NotFound => {
            raised::MissingFileError::new_err(format!("{path}: {source}"))
        }
        error => raised::ConfigError::new_err(error.to_string()),
    }
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
    let text = error.to_string();
    if is_missing(&error) {
        raised::MissingFileError::new_err(text)
    } else {
        raised::StateError::new_err(text)
    }
}

pub(crate) fn run(error: RunError) -> PyErr {
    let text = error.to_string();
    if is_missing(&error) {
        return raised::MissingFileError::new_err(text);
    }
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
    if is_missing(&error) {
        raised::MissingFileError::new_err(text)
    } else if error.is_bad_request() {
        raised::ConfigError::new_err(text)
    } else {
        raised::SweepError::new_err(text)
    }
}

pub(crate) fn report(error: &strobe_report::ReadError) -> PyErr {
    raised::ConfigError::new_err(error.to_string())
}
