//! The Python package `strobe`: drives and experiments, driven from Python.
//!
//! It holds no logic. `drive/` is one drive, command by command or many at a time; `experiment.rs` reads and runs
//! experiments; `sweep.rs` says what is to be run of a sweep; `score.rs` lets a Python function choose victims,
//! `placed.rs` an object streams; `arrays.rs` takes NumPy and Arrow in and gives them out, `table.rs` is a table that
//! goes out, `tables.rs` what a drive shows as such; `pictures.rs` draws results; `errors.rs` makes errors exceptions. Doc
//! comments of what Python sees are its documentation: `python/strobe/_strobe.pyi` repeats them, and a test compares.

mod arrays;
mod counts;
mod drive;
mod errors;
mod experiment;
mod listing;
mod pictures;
mod placed;
mod score;
mod sweep;
mod table;
mod tables;
mod watch;

use pyo3::prelude::*;

/// The compiled part of `strobe`.
#[pymodule]
fn _strobe(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    errors::add_to(module)?;
    module.add_class::<drive::PyDrive>()?;
    module.add_class::<experiment::PyExperiment>()?;
    module.add_class::<table::Table>()?;
    module.add_function(wrap_pyfunction!(experiment::run_json, module)?)?;
    module.add_class::<sweep::PySweep>()?;
    module.add_function(wrap_pyfunction!(sweep::carry_out, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::name_of_policy, module)?)?;
    pictures::add_to(module)?;
    listing::add_to(module)
}
