//! Tables of blocks, units, completions and latencies. Columns share the names of the equivalent formula
//! variables.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray, UInt64Array};
use pyo3::prelude::*;
use strobe_ssd::{BlockInfo, Completion, Simulated};
use strobe_types::Lpn;

use crate::table::Table;

fn whole(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

pub(crate) fn blocks(blocks: &[BlockInfo]) -> PyResult<Table> {
    let texts = |of: fn(&BlockInfo) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(blocks.iter().map(of)))
    };
    let numbers = |of: fn(&BlockInfo) -> u32| whole(blocks.iter().map(|block| of(block).into()));
    let streams = blocks.iter().map(|block| block.number.map_or(-1, |stream| i64::from(stream.get())));
    let shares = blocks.iter().map(|block| f64::from(block.valid) / f64::from(block.units.max(1)));
    Table::new(vec![
        ("block", whole(0..blocks.len() as u64)),
        ("stage", texts(|block| block.stage.name())),
        ("purpose", texts(|block| block.stream.name())),
        ("stream", Arc::new(Int64Array::from_iter_values(streams))),
        ("u", Arc::new(Float64Array::from_iter_values(shares))),
        ("valid", numbers(|block| block.valid)),
        ("invalid", numbers(|block| block.written.saturating_sub(block.valid))),
        ("units", numbers(|block| block.units)),
        ("written", numbers(|block| block.written)),
        ("erase_count", numbers(|block| block.erases)),
    ])
}

pub(crate) fn units(drive: &dyn Simulated) -> PyResult<Table> {
    let place = |unit| drive.locate(Lpn::new(unit)).map(|(block, slot)| (unit, block.get(), slot));
    let places: Vec<(u32, u32, u32)> = (0..drive.logical_units()).filter_map(place).collect();
    let column = |of: fn(&(u32, u32, u32)) -> u32| whole(places.iter().map(|place| of(place).into()));
    Table::new(vec![
        ("unit", column(|place| place.0)),
        ("block", column(|place| place.1)),
        ("slot", column(|place| place.2)),
    ])
}

pub(crate) fn completions(done: &[Completion]) -> PyResult<Table> {
    let errors = done.iter().map(|done| done.result.as_ref().err().map(ToString::to_string));
    Table::new(vec![
        ("tag", whole(done.iter().map(|done| done.tag))),
        ("at_ns", whole(done.iter().map(|done| done.at.as_ns()))),
        ("error", Arc::new(StringArray::from_iter(errors))),
    ])
}

pub(crate) fn latencies(counts: &[(u64, u64)]) -> PyResult<Table> {
    Table::new(vec![
        ("ns", whole(counts.iter().map(|&(ns, _)| ns))),
        ("count", whole(counts.iter().map(|&(_, count)| count))),
    ])
}
