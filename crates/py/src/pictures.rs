//! Pages and figures of results, as drawn by `strobe report`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use strobe_report::Run;

use crate::errors;

fn read(name: &str, result: &str) -> PyResult<Run> {
    Run::read(name, result).map_err(|error| errors::report(&error))
}

/// Page of results, given as names with their JSON.
#[pyfunction]
fn _page(py: Python<'_>, results: Vec<(String, String)>) -> PyResult<String> {
    py.detach(|| {
        let runs: PyResult<Vec<Run>> = results.iter().map(|(name, result)| read(name, result)).collect();
        Ok(strobe_report::page(&runs?))
    })
}

/// Page of a result for a notebook cell.
#[pyfunction]
fn _cell(py: Python<'_>, name: &str, result: &str) -> PyResult<String> {
    py.detach(|| Ok(strobe_report::cell(&read(name, result)?)))
}

/// Figures of a result: names and SVG.
#[pyfunction]
fn _figures(py: Python<'_>, name: &str, result: &str) -> PyResult<Vec<(String, String)>> {
    py.detach(|| {
        let pictures = strobe_report::pictures(&[read(name, result)?]);
        Ok(pictures.into_iter().map(|picture| (picture.name, picture.svg)).collect())
    })
}

/// SVG figure with a printed width.
#[pyfunction]
fn _sized(svg: &str, width_mm: f64) -> PyResult<String> {
    strobe_report::sized(svg, width_mm).map_err(|error| PyValueError::new_err(format!("width_mm: {error}")))
}

/// SVG figure in greys.
#[pyfunction]
fn _grey(svg: &str) -> String {
    strobe_report::grey(svg)
}

/// SVG figure converted to PDF, with the font of a TrueType file.
#[pyfunction]
#[pyo3(signature = (svg, font=None))]
fn _pdf<'py>(py: Python<'py>, svg: &str, font: Option<&[u8]>) -> PyResult<Bound<'py, PyBytes>> {
    let file = strobe_report::pdf(svg, font).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(PyBytes::new(py, &file))
}

/// Page of power cuts.
#[pyfunction]
fn _crash_page(name: &str, result: &str) -> PyResult<String> {
    strobe_report::crash_page(name, result).map_err(|error| errors::report(&error))
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_page, module)?)?;
    module.add_function(wrap_pyfunction!(_cell, module)?)?;
    module.add_function(wrap_pyfunction!(_figures, module)?)?;
    module.add_function(wrap_pyfunction!(_sized, module)?)?;
    module.add_function(wrap_pyfunction!(_grey, module)?)?;
    module.add_function(wrap_pyfunction!(_pdf, module)?)?;
    module.add_function(wrap_pyfunction!(_crash_page, module)?)
}
