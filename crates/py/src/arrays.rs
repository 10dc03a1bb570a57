//! Input columns of requests: one number for all, or NumPy and Arrow arrays, which are not copied.

use std::fmt::Display;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array as _, ArrayRef};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3_arrow::input::AnyArray;
use strobe_ssd::CommandKind;
use strobe_types::{Lba, Op, Request};

pub(crate) enum Column {
    Same(u64),
    U64(ScalarBuffer<u64>),
    I64(ScalarBuffer<i64>),
    U32(ScalarBuffer<u32>),
    I32(ScalarBuffer<i32>),
    U8(ScalarBuffer<u8>),
}

impl Column {
    /// Converts `given`. Messages call the column `name`.
    pub(crate) fn of(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(same) = given.extract::<u64>() {
            return Ok(Self::Same(same));
        }
        let wrong = |what: &dyn Display| {
            PyTypeError::new_err(format!(
                "{name}: {what}; give a whole number from 0 on, or an array of them (NumPy or Arrow, contiguous, of \
                 8, 32 or 64 bits)"
            ))
        };
        let array = given.extract::<AnyArray>().map_err(|_| wrong(&"unsupported type"))?;
        let (chunks, _) = array.into_chunked_array()?.into_inner();
        match &chunks[..] {
            [array] if array.null_count() == 0 => Self::of_array(array),
            [] => Some(Self::U64(Vec::new().into())),
            [_] => return Err(wrong(&"it contains nulls")),
            _ => return Err(wrong(&"it is in several chunks; make it one (combine_chunks, rechunk)")),
        }
        .ok_or_else(|| wrong(&format!("its type is {}", chunks[0].data_type())))
    }

    fn of_array(array: &ArrayRef) -> Option<Self> {
        Some(match array.data_type() {
            DataType::UInt64 => Self::U64(array.as_primitive::<UInt64Type>().values().clone()),
            DataType::Int64 => Self::I64(array.as_primitive::<Int64Type>().values().clone()),
            DataType::UInt32 => Self::U32(array.as_primitive::<UInt32Type>().values().clone()),
            DataType::Int32 => Self::I32(array.as_primitive::<Int32Type>().values().clone()),
            DataType::UInt8 => Self::U8(array.as_primitive::<UInt8Type>().values().clone()),
            _ => return None,
        })
    }

    fn len(&self) -> Option<usize> {
        match self {
            Self::Same(_) => None,
            Self::U64(values) => Some(values.len()),
            Self::I64(values) => Some(values.len()),
            Self::U32(values) => Some(values.len()),
            Self::I32(values) => Some(values.len()),
            Self::U8(values) => Some(values.len()),
        }
    }

    /// `None` for a negative number.
    pub(crate) fn get(&self, at: usize) -> Option<u64> {
        match self {
            Self::Same(same) => Some(*same),
            Self::U64(values) => Some(values[at]),
            Self::I64(values) => u64::try_from(values[at]).ok(),
            Self::U32(values) => Some(values[at].into()),
            Self::I32(values) => u64::try_from(values[at]).ok(),
            Self::U8(values) => Some(values[at].into()),
        }
    }
}

pub(crate) struct Requests {
    ops: Column,
    lbas: Column,
    sectors: Column,
    arrivals_ns: Option<Column>,
    pub(crate) len: usize,
}

impl Requests {
    /// Checks that all columns are equally long. A single number applies to all requests.
    pub(crate) fn new(
        op: &Bound<'_, PyAny>,
        lba: &Bound<'_, PyAny>,
        sectors: &Bound<'_, PyAny>,
        arrivals_ns: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let ops = match op.extract::<String>() {
            Ok(name) => Column::Same(op_named(&name)? as u64),
            Err(_) => Column::of("op", op)?,
        };
        let (lbas, sectors) = (Column::of("lba", lba)?, Column::of("sectors", sectors)?);
        let arrivals_ns = arrivals_ns.map(|given| Column::of("arrival_ns", given)).transpose()?;
        let columns = [("op", Some(&ops)), ("lba", Some(&lbas)), ("sectors", Some(&sectors))];
        let columns = columns.into_iter().chain([("arrival_ns", arrivals_ns.as_ref())]);
        let lengths: Vec<(&str, usize)> =
            columns.filter_map(|(name, column)| Some((name, column?.len()?))).collect();
        let len = lengths.first().map_or(1, |&(_, len)| len);
        if lengths.iter().any(|&(_, other)| other != len) {
            let said: Vec<String> = lengths.iter().map(|(name, len)| format!("{name} {len}")).collect();
            return Err(PyValueError::new_err(format!("arrays of different lengths: {}", said.join(", "))));
        }
        Ok(Self { ops, lbas, sectors, arrivals_ns, len })
    }

    pub(crate) fn has_arrivals(&self) -> bool {
        self.arrivals_ns.is_some()
    }

    pub(crate) fn get(&self, at: usize) -> Result<Request, String> {
        let wrong = |what: &str| format!("request {at}: {what}");
        let number = |column: &Column, what: &str| column.get(at).ok_or_else(|| wrong(what));
        let code = number(&self.ops, "a negative op")?;
        let op = usize::try_from(code).ok().and_then(|code| Op::ALL.get(code).copied());
        let op = op.ok_or_else(|| wrong(&format!("op {code}; READ, WRITE, TRIM and FLUSH are 0 to 3")))?;
        let lba = number(&self.lbas, "a negative lba")?;
        let sectors = u32::try_from(number(&self.sectors, "a negative number of sectors")?);
        let sectors = sectors.map_err(|_| wrong("more than 2^32 - 1 sectors"))?;
        Ok(Request::new(op, Lba::new(lba), sectors))
    }

    /// Arrival time in ns; 0 without arrival times.
    pub(crate) fn arrival_ns(&self, at: usize) -> Result<u64, String> {
        match &self.arrivals_ns {
            None => Ok(0),
            Some(column) => column.get(at).ok_or_else(|| format!("request {at}: a negative arrival_ns")),
        }
    }
}

pub(crate) fn op_named(name: &str) -> PyResult<Op> {
    Op::ALL.into_iter().find(|op| op.name() == name).ok_or_else(|| {
        let names = Op::ALL.map(Op::name).join(", ");
        PyValueError::new_err(format!("op {name:?}; the ops are {names}"))
    })
}

pub(crate) fn kind_named(name: &str) -> PyResult<CommandKind> {
    CommandKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
        let names = CommandKind::ALL.map(CommandKind::name).join(", ");
        PyValueError::new_err(format!("{name:?}; the commands are {names}"))
    })
}
