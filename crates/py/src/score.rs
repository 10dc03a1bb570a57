//! Victims chosen by a Python function, for exploration: each choice costs a call and a scan of all closed
//! blocks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{ArrayRef, Float64Array, Int64Array, UInt32Array};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use pyo3_arrow::input::AnyArray;
use strobe_ftl::gc::{BlockView, Formula, VARIABLES, VictimPolicy};
use strobe_types::{BlockId, Ppa, Prng};

use crate::table::Table;

/// First Python exception, kept until control returns to Python.
#[derive(Clone, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<PyErr>>>);

impl Trouble {
    fn lock(&self) -> MutexGuard<'_, Option<PyErr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, error: PyErr) {
        self.lock().get_or_insert(error);
    }

    pub(crate) fn is_there(&self) -> bool {
        self.lock().is_some()
    }

    pub(crate) fn raised(&self) -> PyResult<()> {
        self.lock().take().map_or(Ok(()), Err)
    }
}

/// Victim policy that calls a Python function. On equal scores, the lowest block number wins.
///
/// The Python function scores a table of the closed blocks, whose columns are the variables of formulas.
/// Blocks without invalid units are left out.
#[derive(Clone)]
pub(crate) struct Scored {
    function: Arc<Py<PyAny>>,
    observed: Formula,
    trouble: Trouble,
}

impl Scored {
    pub(crate) fn new(blocks: u32, units_per_block: u32, function: Arc<Py<PyAny>>, trouble: Trouble) -> Self {
        Self { function, observed: Formula::observer(blocks, units_per_block), trouble }
    }

    fn asked(&self, choices: &[BlockId], view: &BlockView<'_>) -> PyResult<usize> {
        let numbers = UInt32Array::from_iter_values(choices.iter().map(|block| block.get()));
        let mut columns: Vec<(&str, ArrayRef)> = vec![("block", Arc::new(numbers))];
        for variable in VARIABLES {
            let all = self.observed.values(variable, view);
            let values = choices.iter().map(|block| all[block.index()]);
            let column: ArrayRef = match variable.name {
                "valid" | "invalid" | "units" | "erase_count" => {
                    Arc::new(UInt32Array::from_iter_values(values.map(|value| value as u32)))
                }
                "stream" => Arc::new(Int64Array::from_iter_values(values.map(|value| value as i64))),
                _ => Arc::new(Float64Array::from_iter_values(values)),
            };
            columns.push((variable.name, column));
        }
        let table = Table::new(columns)?;
        Python::attach(|py| {
            let answer = self.function.bind(py).call1((Bound::new(py, table)?,))?;
            let scores = numbers_of(&answer, choices.len(), "the victim function", "scores", "row")?;
            let best = scores.iter().enumerate().filter(|(_, score)| !score.is_nan());
            // `>` keeps the first of equal scores, which is the lowest block number.
            let best = best.reduce(|best, other| if other.1 > best.1 { other } else { best });
            best.map(|(at, _)| at).ok_or_else(|| PyValueError::new_err("all scores are NaN"))
        })
    }
}

/// Converts the array or list that the function `who` returned, one number per row. `what` names the numbers
/// and `row` a row, for messages.
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
            answer.extract().map_err(|_| wanted("a list with items other than numbers".to_owned()))?;
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
                "{what} of type {}; expected numbers such as float64",
                numbers.data_type()
            ))
        })?),
        parts => Err(wanted(format!("an array in {} parts", parts.len()))),
    }
}

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
        self.observed.opened(block, erase_count, tick);
    }

    fn written(&mut self, unit: Ppa, tick: u64) {
        self.observed.written(unit, tick);
    }

    fn closed(&mut self, block: BlockId, valid: u32, tick: u64) {
        self.observed.closed(block, valid, tick);
    }

    fn invalidated(&mut self, unit: Ppa, block: BlockId, valid: u32, tick: u64) {
        self.observed.invalidated(unit, block, valid, tick);
    }

    fn taken(&mut self, block: BlockId) {
        self.observed.taken(block);
    }

    fn choose(&mut self, view: &BlockView<'_>, _rng: &mut Prng) -> Option<BlockId> {
        let choices = self.observed.choices(view);
        // After an exception the run is about to end. Until then, the victim is the block with the fewest
        // valid units.
        let fewest = choices.iter().copied().min_by_key(|&block| view.valid(block))?;
        if self.trouble.is_there() {
            return Some(fewest);
        }
        match self.asked(&choices, view) {
            Ok(at) => Some(choices[at]),
            Err(error) => {
                self.trouble.put(error);
                Some(fewest)
            }
        }
    }

    fn candidates(&self) -> u32 {
        self.observed.candidates()
    }

    fn bytes_per_block() -> u64 {
        Formula::bytes_per_block()
    }
}
