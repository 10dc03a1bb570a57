//! Streams chosen by a Python object, for exploration: each batch of writes and each victim costs a call.
//!
//! 1. `on_write(units)` is called before a batch of host writes; its answers apply as each unit is written.
//! 2. `on_relocate(units)` is called before a block is emptied; its answers apply until the block is empty.
//! 3. `on_collect(block)`, optional, is called after a block has been emptied.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use strobe_ftl::{CopyContext, Placement, StreamId, StreamLayout, WriteContext};
use strobe_types::{BlockId, Lpn};

use crate::score::{Trouble, numbers_of};
use crate::table::Table;

const ON_WRITE: &str = "on_write";
const ON_RELOCATE: &str = "on_relocate";
const ON_COLLECT: &str = "on_collect";

/// A Python object that places units, and its streams.
pub(crate) struct PlacementObject {
    object: Arc<Py<PyAny>>,
    pub(crate) layout: StreamLayout,
}

impl PlacementObject {
    /// The attribute `streams` gives the number of streams; without it, there are `default`.
    pub(crate) fn of(given: &Bound<'_, PyAny>, default: u8) -> PyResult<Self> {
        for method in [ON_WRITE, ON_RELOCATE] {
            if !given.getattr(method).is_ok_and(|method| method.is_callable()) {
                let text = format!(
                    "placement={}: it has no method {method}; a placement is a name, a formula, or an object with \
                     {ON_WRITE}(units), {ON_RELOCATE}(units) and, if wanted, {ON_COLLECT}(block)",
                    given.get_type().name()?
                );
                return Err(PyTypeError::new_err(text));
            }
        }
        let layout = match given.getattr_opt("streams")? {
            None => StreamLayout::shared(default),
            // One number: host writes and copies share these streams. A pair separates them.
            Some(streams) => match (streams.extract::<u8>(), streams.extract::<(u8, u8)>()) {
                (Ok(shared), _) => StreamLayout::shared(shared),
                (_, Ok((host, copies))) if host.checked_add(copies).is_some() => {
                    StreamLayout::separate(host, copies)
                }
                _ => {
                    let text = format!(
                        "streams = {streams}: expected a number of streams, or (streams of host writes, streams of \
                         relocated units), at most {} together",
                        StreamLayout::MOST
                    );
                    return Err(PyValueError::new_err(text));
                }
            },
        };
        Ok(Self { object: Arc::new(given.clone().unbind()), layout })
    }

    /// Python exceptions are stored in `trouble`.
    pub(crate) fn placement(&self, trouble: Trouble) -> Placed {
        let (object, layout) = (self.object.clone(), self.layout);
        Placed { object, layout, coming: VecDeque::new(), leaving: BTreeMap::new(), trouble }
    }
}

#[derive(Clone)]
pub(crate) struct Placed {
    object: Arc<Py<PyAny>>,
    layout: StreamLayout,
    /// Streams of coming writes, in order.
    coming: VecDeque<(Lpn, StreamId)>,
    /// Streams of relocated units, for each block being emptied.
    leaving: BTreeMap<BlockId, BTreeMap<Lpn, StreamId>>,
    trouble: Trouble,
}

impl std::fmt::Debug for Placed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Placed").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl Placed {
    /// Calls `method`. Valid streams are `first` to `end - 1`.
    fn asked(&self, method: &str, units: &[Lpn], (first, end): (u8, u8)) -> PyResult<Vec<StreamId>> {
        let numbers = units.iter().map(|lpn| lpn.get());
        let table = Table::new(vec![("unit", Arc::new(UInt32Array::from_iter_values(numbers)) as ArrayRef)])?;
        Python::attach(|py| {
            let column = table.column_of(py, "unit")?;
            let answer = self.object.bind(py).call_method1(method, (column,))?;
            let streams = numbers_of(&answer, units.len(), method, "streams", "unit")?;
            let checked = streams.iter().enumerate().map(|(row, &stream)| {
                let is_one = stream >= f64::from(first) && stream < f64::from(end) && stream == stream.trunc();
                is_one.then(|| StreamId::new(stream as u8)).ok_or_else(|| {
                    let (unit, last) = (units[row].get(), end - 1);
                    PyValueError::new_err(format!(
                        "{method} returned stream {stream} in row {row} (unit {unit}); expected a whole number from \
                         {first} to {last}"
                    ))
                })
            });
            checked.collect()
        })
    }

    fn streams(&self, method: &str, units: &[Lpn], range: (u8, u8)) -> Vec<StreamId> {
        let first = || vec![StreamId::new(range.0); units.len()];
        // After an exception the run is about to end. Until then, all units are placed in the first stream.
        if self.trouble.is_there() || units.is_empty() {
            return first();
        }
        self.asked(method, units, range).unwrap_or_else(|error| {
            self.trouble.put(error);
            first()
        })
    }

    fn report_collected(&self, block: BlockId) -> PyResult<()> {
        Python::attach(|py| {
            let Some(method) = self.object.bind(py).getattr_opt(ON_COLLECT)? else { return Ok(()) };
            method.call1((block.get(),)).map(drop)
        })
    }
}

impl Placement for Placed {
    fn on_batch(&mut self, lpns: &mut dyn Iterator<Item = Lpn>, _: WriteContext) {
        let units: Vec<Lpn> = lpns.collect();
        let streams = self.streams(ON_WRITE, &units, (0, self.layout.host));
        // Replaces the streams left from a failed batch, whose remaining units are never written.
        self.coming = units.into_iter().zip(streams).collect();
    }

    fn for_write(&mut self, lpn: Lpn, _: WriteContext, _: u64) -> StreamId {
        match self.coming.pop_front() {
            // A unit that was not announced in this order is placed by a separate call.
            Some((next, stream)) if next == lpn => stream,
            _ => self.streams(ON_WRITE, &[lpn], (0, self.layout.host))[0],
        }
    }

    fn on_victim(&mut self, from: &CopyContext, valid: &mut dyn Iterator<Item = Lpn>) {
        let units: Vec<Lpn> = valid.collect();
        let streams = self.streams(ON_RELOCATE, &units, self.layout.copies);
        self.leaving.insert(from.block, units.into_iter().zip(streams).collect());
    }

    fn for_copy(&mut self, lpn: Lpn, from: &CopyContext) -> StreamId {
        let known = self.leaving.get(&from.block).and_then(|units| units.get(&lpn));
        known.copied().unwrap_or_else(|| self.streams(ON_RELOCATE, &[lpn], self.layout.copies)[0])
    }

    fn on_collected(&mut self, from: &CopyContext) {
        self.leaving.remove(&from.block);
        if !self.trouble.is_there()
            && let Err(error) = self.report_collected(from.block)
        {
            self.trouble.put(error);
        }
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }
}
