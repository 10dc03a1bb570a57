//! Victims chosen by a Python function: for exploration, as each choice costs a call and a look at every closed block.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{ArrayRef, Float64Array, UInt32Array, UInt64Array};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use pyo3_arrow::input::AnyArray;
use strobe_ftl::gc::{BlockView, VictimPolicy};
use strobe_types::{BlockId, Ppa, Prng};

use crate::table::Table;

/// First Python exception raised during a simulation, kept until control returns to Python.
#[derive(Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<PyErr>>>);

impl Trouble {
    fn lock(&self) -> MutexGuard<'_, Option<PyErr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `error`, if it is the first.
    pub(crate) fn put(&self, error: PyErr) {
        self.lock().get_or_insert(error);
    }

    pub(crate) fn is_there(&self) -> bool {
        self.lock().is_some()
    }

    /// Raises the kept exception, if any.
    pub(crate) fn raised(&self) -> PyResult<()> {
        self.lock().take().map_or(Ok(()), Err)
    }
}

/// Block statistics for a victim score.
#[derive(Clone, Copy, Default)]
struct Block {
    is_closed: bool,
    erase_count: u32,
    opened: u64,
    closed: u64,
    invalidated: u64,
}

/// Picks the closed block with the largest score, of equals the one with the lowest number; the scores are those of a
/// function that gets a table of the closed blocks. Blocks without an invalid unit are not among them.
#[derive(Clone)]
pub(crate) struct Scored {
    function: Arc<Py<PyAny>>,
    blocks: Vec<Block>,
    candidates: u32,
    trouble: Trouble,
}

impl Scored {
    pub(crate) fn new(blocks: u32, function: Arc<Py<PyAny>>, trouble: Trouble) -> Self {
        Self { function, blocks: vec![Block::default(); blocks as usize], candidates: 0, trouble }
    }

    /// The numbers of the blocks that may be chosen.
    fn choices(&self, view: &BlockView<'_>) -> Vec<u32> {
        let numbers = (0..).zip(&self.blocks).filter(|(_, block)| block.is_closed).map(|(number, _)| number);
        numbers.filter(|&number| view.valid(BlockId::new(number)) < view.units_per_block()).collect()
    }

    fn asked(&self, numbers: &[u32], view: &BlockView<'_>) -> PyResult<usize> {
        let of = |what: &dyn Fn(&Block) -> u64| -> ArrayRef {
            let values: Vec<u64> =
                numbers.iter().map(|&number| what(&self.blocks[number as usize])).collect();
            Arc::new(UInt64Array::from(values))
        };
        let tick = view.tick();
        let valid: Vec<u32> = numbers.iter().map(|&number| view.valid(BlockId::new(number))).collect();
        let units = f64::from(view.units_per_block());
        let used: Vec<f64> = valid.iter().map(|&valid| f64::from(valid) / units).collect();
        let erases = numbers.iter().map(|&number| self.blocks[number as usize].erase_count);
        let table = Table::new(vec![
            ("block", Arc::new(UInt32Array::from(numbers.to_vec())) as ArrayRef),
            ("valid", Arc::new(UInt32Array::from(valid))),
            ("u", Arc::new(Float64Array::from(used))),
            ("erase_count", Arc::new(UInt32Array::from_iter_values(erases))),
            ("age_opened", of(&|block| tick.saturating_sub(block.opened))),
            ("age_closed", of(&|block| tick.saturating_sub(block.closed))),
            ("age_invalidated", of(&|block| tick.saturating_sub(block.invalidated))),
        ])?;
        Python::attach(|py| {
            let answer = self.function.bind(py).call1((Bound::new(py, table)?,))?;
            let scores = numbers_of(&answer, numbers.len(), "the victim function", "scores", "row")?;
            let best = scores.iter().enumerate().filter(|(_, score)| !score.is_nan());
            let best = best.reduce(|best, other| if other.1 > best.1 { other } else { best });
            best.map(|(at, _)| at).ok_or_else(|| PyValueError::new_err("all scores are NaN"))
        })
    }
}

/// Numbers that `who`, a Python function, has returned for `rows` rows: an array, or a list. `what` and `row` say what they
/// are and what a row is of.
pub(crate) fn numbers_of(
    answer: &Bound<'_, PyAny>,
    rows: usize,
    who: &str,
    what: &str,
    row: &str,
) -> PyResult<Vec<f64>> {
    let wanted = |found: String| {
        let text = format!(
            "{who} returned {found}; it must return an array or list of {rows} {what}, one for each {row}"
        );
        PyValueError::new_err(text)
    };
    let checked = |numbers: Vec<f64>| match numbers.len() {
        found if found == rows => Ok(numbers),
        found => Err(wanted(format!("{found} {what}"))),
    };
    if answer.is_instance_of::<PyList>() || answer.is_instance_of::<PyTuple>() {
        let numbers =
            answer.extract().map_err(|_| wanted("a list that holds more than numbers".to_owned()))?;
        return checked(numbers);
    }
    let Ok(array) = answer.extract::<AnyArray>() else {
        let kind =
            if answer.is_none() { "None".to_owned() } else { format!("a {}", answer.get_type().name()?) };
        return Err(wanted(kind));
    };
    let array = array.into_chunked_array()?.into_inner().0;
    match &array[..] {
        [numbers] => checked(floats(numbers).ok_or_else(|| {
            PyValueError::new_err(format!(
                "{what} of type {}; numbers such as float64 are wanted",
                numbers.data_type()
            ))
        })?),
        parts => Err(wanted(format!("an array in {} parts", parts.len()))),
    }
}

/// The values of an array of floats or whole numbers.
fn floats(array: &ArrayRef) -> Option<Vec<f64>> {
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{
        Float32Type, Float64Type, Int32Type, Int64Type, UInt8Type, UInt32Type, UInt64Type,
    };
    use arrow_schema::DataType;
    Some(match array.data_type() {
        DataType::Float64 => array.as_primitive::<Float64Type>().values().to_vec(),
        DataType::Float32 => array.as_primitive::<Float32Type>().values().iter().map(|&v| v.into()).collect(),
        DataType::Int64 => array.as_primitive::<Int64Type>().values().iter().map(|&v| v as f64).collect(),
        DataType::Int32 => array.as_primitive::<Int32Type>().values().iter().map(|&v| v.into()).collect(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().values().iter().map(|&v| v as f64).collect(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().values().iter().map(|&v| v.into()).collect(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().values().iter().map(|&v| v.into()).collect(),
        _ => return None,
    })
}

impl VictimPolicy for Scored {
    fn opened(&mut self, block: BlockId, erase_count: u32, tick: u64) {
        let invalidated = tick;
        self.blocks[block.index()] =
            Block { is_closed: false, erase_count, opened: tick, closed: tick, invalidated };
    }

    fn closed(&mut self, block: BlockId, _valid: u32, tick: u64) {
        let block = &mut self.blocks[block.index()];
        (block.is_closed, block.closed) = (true, tick);
        self.candidates += 1;
    }

    fn invalidated(&mut self, _unit: Ppa, block: BlockId, _valid: u32, tick: u64) {
        self.blocks[block.index()].invalidated = tick;
    }

    fn taken(&mut self, block: BlockId) {
        self.blocks[block.index()].is_closed = false;
        self.candidates -= 1;
    }

    fn choose(&mut self, view: &BlockView<'_>, _rng: &mut Prng) -> Option<BlockId> {
        let numbers = self.choices(view);
        if numbers.is_empty() {
            return None;
        }
        // Once something is wrong the run is on its way to its end, and any good choice will do until then.
        let fewest =
            || (0..numbers.len()).min_by_key(|&at| view.valid(BlockId::new(numbers[at]))).unwrap_or(0);
        let at = if self.trouble.is_there() {
            fewest()
        } else {
            self.asked(&numbers, view).unwrap_or_else(|error| {
                self.trouble.put(error);
                fewest()
            })
        };
        Some(BlockId::new(numbers[at]))
    }

    fn candidates(&self) -> u32 {
        self.candidates
    }

    fn bytes_per_block() -> u64 {
        size_of::<Block>() as u64
    }
}
