//! Drive counters as dictionaries.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use strobe_ftl::WearSummary;
use strobe_nand::{Cause, NandOp};
use strobe_ssd::{CommandKind, DriveStats, Latencies};

pub(crate) fn stats<'py>(py: Python<'py>, stats: &DriveStats) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    let host = PyDict::new(py);
    for kind in CommandKind::ALL {
        let of = PyDict::new(py);
        of.set_item("commands", stats.host.commands(kind))?;
        of.set_item("bytes", stats.host.bytes(kind))?;
        of.set_item("errors", stats.host.errors(kind))?;
        host.set_item(kind.name(), of)?;
    }
    all.set_item("host", host)?;
    all.set_item("units_written", stats.host.units_written)?;
    let nand = PyDict::new(py);
    for op in NandOp::ALL {
        let of = PyDict::new(py);
        for cause in Cause::ALL {
            of.set_item(cause.name(), stats.nand.get(op, cause))?;
        }
        of.set_item("total", stats.nand.total(op))?;
        nand.set_item(op.name(), of)?;
    }
    all.set_item("nand", nand)?;
    let gc = PyDict::new(py);
    gc.set_item("runs", stats.gc.runs)?;
    gc.set_item("victims", stats.gc.victims)?;
    gc.set_item("units_moved", stats.gc.units_moved)?;
    all.set_item("gc", gc)?;
    all.set_item("read_retries", stats.read_retries)?;
    all.set_item("uncorrectable_reads", stats.uncorrectable_reads)?;
    Ok(all)
}

/// Latencies in ns. A percentile is None if too few requests were measured.
pub(crate) fn latency<'py>(py: Python<'py>, latencies: &Latencies) -> PyResult<Bound<'py, PyDict>> {
    let (min, max) = latencies.extremes();
    let all = PyDict::new(py);
    all.set_item("count", latencies.count())?;
    all.set_item("min", min)?;
    all.set_item("mean", latencies.mean())?;
    all.set_item("max", max)?;
    for percent in [50.0, 90.0, 99.0, 99.9, 99.99] {
        all.set_item(format!("p{percent}"), latencies.known_percentile(percent))?;
    }
    Ok(all)
}

pub(crate) fn wear<'py>(py: Python<'py>, wear: &WearSummary) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("erase_min", wear.erase_min)?;
    all.set_item("erase_mean", wear.erase_mean)?;
    all.set_item("erase_max", wear.erase_max)?;
    all.set_item("erase_stddev", wear.erase_stddev)?;
    all.set_item("bad_blocks", wear.bad_blocks)?;
    Ok(all)
}
