//! Errors as exceptions: one for each kind of error of the library, below one of all. What Python has a word for is that,
//! too: a refused configuration is a `ValueError`, a file that is not there a `FileNotFoundError`.

use std::error::Error;
use std::io::ErrorKind;

use pyo3::prelude::*;
use strobe_lab::{ConfigError, RunError};
use strobe_ssd::{BuildError, CommandError, StateError, StateFileError};

/// The exceptions, under the names that they have in Python.
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

    /// An exception below `StrobeError` and one of Python's own.
    macro_rules! exception_of_both {
        ($name:ident, $own:ty, $doc:literal) => {
            #[doc = $doc]
            pub(crate) struct $name;

            impl $name {
                /// The class.
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

                /// The exception with this text.
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
        "A configuration is refused; the message names the key and the cure."
    );
    exception_of_both!(
        BuildError,
        PyValueError,
        "A drive that could not work is refused, with the arithmetic that shows why."
    );
    exception_of_both!(MissingFileError, PyFileNotFoundError, "A file that is named is not there.");
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

/// True if `error` comes from a file that is not there.
fn is_missing(error: &(dyn Error + 'static)) -> bool {
    let of_system =
        error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound);
    of_system || error.source().is_some_and(is_missing)
}

pub(crate) fn config(error: ConfigError) -> PyErr {
    match error {
        // An option of the command line, which nobody has typed: the error itself names the key.
        ConfigError::Given { error, .. } => config(*error),
        ConfigError::IsSweep => {
            raised::ConfigError::new_err("this is a sweep, not one experiment: strobe.sweep runs it")
        }
        ConfigError::IsDrive => raised::ConfigError::new_err(
            "this is a drive, not an experiment: strobe.Drive makes it; an experiment has it under the key \"drive\"",
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
