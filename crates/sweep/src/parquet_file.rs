use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use crate::{Column, Rows, Store, SweepError, Values};

/// Rows per row group. One group is held in memory.
const GROUP: usize = 1000;

fn failed(error: ParquetError) -> SweepError {
    SweepError::Made(format!("the Parquet file cannot be written: {error}"))
}

/// Writes `rows`. Equal rows give equal bytes.
pub fn write_parquet<W: Write + Send>(rows: &Rows<'_>, store: &Store, out: W) -> Result<(), SweepError> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    // The empty range gives the names and kinds of the columns.
    let first = rows.columns(0..0, store)?;
    let schema = schema(&first).map_err(failed)?;
    let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(failed)?;
    for begin in (0..rows.len()).step_by(GROUP) {
        let columns = rows.columns(begin..(begin + GROUP).min(rows.len()), store)?;
        group(&mut writer, &columns).map_err(failed)?;
    }
    writer.close().map(drop).map_err(failed)
}

fn schema(columns: &[Column]) -> Result<TypePtr, ParquetError> {
    let fields: Result<Vec<TypePtr>, ParquetError> = columns
        .iter()
        .map(|column| {
            let physical = match &column.values {
                Values::Whole(_) => Physical::INT64,
                Values::Number(_) => Physical::DOUBLE,
                Values::Truth(_) => Physical::BOOLEAN,
                Values::Text(_) => Physical::BYTE_ARRAY,
            };
            let builder =
                Type::primitive_type_builder(&column.name, physical).with_repetition(Repetition::OPTIONAL);
            let builder = match &column.values {
                Values::Text(_) => builder
                    .with_logical_type(Some(LogicalType::String))
                    .with_converted_type(ConvertedType::UTF8),
                _ => builder,
            };
            builder.build().map(Arc::new)
        })
        .collect();
    Type::group_type_builder("rows").with_fields(fields?).build().map(Arc::new)
}

/// Definition levels of all rows (1: has a value), and the values.
fn split<T: Clone, U>(values: &[Option<T>], make: impl Fn(T) -> U) -> (Vec<i16>, Vec<U>) {
    let there = values.iter().map(|value| i16::from(value.is_some())).collect();
    (there, values.iter().flatten().cloned().map(make).collect())
}

fn group<W: Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    columns: &[Column],
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for column in columns {
        let Some(mut writer) = group.next_column()? else { break };
        // Absent values are marked in the definition levels and have no entry among the values.
        match &column.values {
            Values::Whole(values) => {
                let (there, values) = split(values, |value| value);
                writer.typed::<Int64Type>().write_batch(&values, Some(&there), None)?;
            }
            Values::Number(values) => {
                let (there, values) = split(values, |value| value);
                writer.typed::<DoubleType>().write_batch(&values, Some(&there), None)?;
            }
            Values::Truth(values) => {
                let (there, values) = split(values, |value| value);
                writer.typed::<BoolType>().write_batch(&values, Some(&there), None)?;
            }
            Values::Text(values) => {
                let (there, values) = split(values, |value: String| ByteArray::from(value.into_bytes()));
                writer.typed::<ByteArrayType>().write_batch(&values, Some(&there), None)?;
            }
        }
        writer.close()?;
    }
    group.close().map(drop)
}
