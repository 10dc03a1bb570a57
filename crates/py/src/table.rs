//! Output tables: Arrow through the PyCapsule interface, columns as NumPy arrays; neither is copied.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{DataType, Field};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyIterator, PyList};
use pyo3_arrow::buffer::PyArrowBuffer;
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};

use crate::errors;

/// A table of columns. pyarrow.table(t), polars.DataFrame(t) and pandas.DataFrame.from_arrow(t) use it
/// without a copy; pandas.DataFrame(t) copies it.
#[pyclass(frozen, module = "strobe")]
pub(crate) struct Table {
    batch: RecordBatch,
}

impl Table {
    pub(crate) fn new<N: AsRef<str>>(columns: Vec<(N, ArrayRef)>) -> PyResult<Self> {
        let batch = RecordBatch::try_from_iter(columns);
        batch
            .map(|batch| Self { batch })
            .map_err(|error| errors::raised::StrobeError::new_err(error.to_string()))
    }

    fn column(&self, name: &str) -> PyResult<&ArrayRef> {
        self.batch.column_by_name(name).ok_or_else(|| {
            let names: Vec<&str> = self.column_names();
            PyKeyError::new_err(format!("{name:?}; the columns are {}", names.join(", ")))
        })
    }

    pub(crate) fn column_of<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.__getitem__(py, name)
    }

    fn column_names(&self) -> Vec<&str> {
        self.batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect()
    }
}

#[pymethods]
impl Table {
    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.column_names().into_iter().map(str::to_owned).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<strobe.Table of {} rows: {}>", self.batch.num_rows(), self.column_names().join(", "))
    }

    /// Returns a column: a read-only NumPy array of numbers, or a list of strings.
    ///
    /// A column with missing values is a copy with NaN, or a list with None.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let column = self.column(name)?;
        if column.null_count() > 0 {
            return with_gaps(py, column);
        }
        let dtype = match column.data_type() {
            DataType::UInt64 => "uint64",
            DataType::UInt32 => "uint32",
            DataType::Int64 => "int64",
            DataType::Float64 => "float64",
            _ => return with_gaps(py, column),
        };
        let buffer = PyArrowBuffer::new(column.to_data().buffers()[0].clone());
        let numpy = py.import("numpy")?;
        numpy.call_method1("frombuffer", (Bound::new(py, buffer)?, dtype))
    }

    /// Iterates over the rows, each a dictionary by column name.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let rows = PyList::empty(py);
        for _ in 0..self.batch.num_rows() {
            rows.append(PyDict::new(py))?;
        }
        for name in self.column_names() {
            for (row, value) in rows.iter().zip(self.__getitem__(py, name)?.try_iter()?) {
                row.set_item(name, value?)?;
            }
        }
        rows.try_iter()
    }

    /// Returns all columns by name.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for name in self.column_names() {
            all.set_item(name, self.__getitem__(py, name)?)?;
        }
        Ok(all)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let array: ArrayRef = Arc::new(StructArray::from(self.batch.clone()));
        let field = Arc::new(Field::new_struct("", self.batch.schema_ref().fields().clone(), false));
        let reader = ArrayIterator::new(vec![Ok(array)], field);
        Ok(to_stream_pycapsule(py, Box::new(reader), requested_schema)?)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.batch.schema_ref().as_ref())?)
    }
}

/// Missing numbers are NaN; other columns become a list with None.
fn with_gaps<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let numbers: Option<Vec<f64>> = match column.data_type() {
        DataType::Float64 => {
            Some(column.as_primitive::<Float64Type>().iter().map(|value| value.unwrap_or(f64::NAN)).collect())
        }
        DataType::Int64 => {
            let values = column.as_primitive::<Int64Type>().iter();
            Some(values.map(|value| value.map_or(f64::NAN, |whole| whole as f64)).collect())
        }
        _ => None,
    };
    if let Some(numbers) = numbers {
        return py.import("numpy")?.call_method1("array", (numbers,));
    }
    if let Some(truths) = column.as_boolean_opt() {
        return PyList::new(py, truths.iter().collect::<Vec<_>>()).map(Bound::into_any);
    }
    PyList::new(py, column.as_string::<i32>().iter().collect::<Vec<_>>()).map(Bound::into_any)
}
