//! Python package `strobe`: drives and experiments from Python. It contains no simulation logic.
//!
//! Doc comments of Python items are their docstrings. `python/strobe/_strobe.pyi` repeats them, and a test
//! compares both. `STROBE_BLESS=1 pytest python/tests/test_stubs.py` rewrites the file.

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

/// Compiled part of `strobe`.
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
