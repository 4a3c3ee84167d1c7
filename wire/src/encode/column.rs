//! A column of one batch, downcast, and the writing of one value of it.

use arrow::array::{
    BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array, Decimal256Array, FixedSizeBinaryArray, Float16Array,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, IntervalDayTimeArray,
    IntervalMonthDayNanoArray, LargeBinaryArray, LargeStringArray, StringArray, StringViewArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::TimeUnit;
use bytes::{BufMut, BytesMut};

use super::{binary, text};
use crate::error::WireError;
use crate::settings::{Format, FormatSettings};
use crate::types::{WireType, oid};

/// The arrays behind a column. Temporal arrays are kept as their integers.
#[derive(Debug)]
pub(crate) enum Values {
    Null,
    Bool(BooleanArray),
    I8(Int8Array),
    I16(Int16Array),
    I32(Int32Array),
    I64(Int64Array),
    U8(UInt8Array),
    U16(UInt16Array),
    U32(UInt32Array),
    U64(UInt64Array),
    F16(Float16Array),
    F32(Float32Array),
    F64(Float64Array),
    Decimal(Decimal128Array, i8),
    /// Of the type without a modifier: see [`NUMERIC`](crate::types::NUMERIC).
    Numeric(Decimal128Array),
    Decimal256(Decimal256Array, i8),
    Utf8(StringArray),
    LargeUtf8(LargeStringArray),
    Utf8View(StringViewArray),
    Binary(BinaryArray),
    LargeBinary(LargeBinaryArray),
    BinaryView(BinaryViewArray),
    FixedBinary(FixedSizeBinaryArray),
    Date(Int32Array),
    Time(Int64Array, TimeUnit),
    Timestamp(Int64Array, TimeUnit),
    Duration(Int64Array, TimeUnit),
    Months(Int32Array),
    DayTime(IntervalDayTimeArray),
    MonthDayNano(IntervalMonthDayNanoArray),
    List(Offsets, Box<Column>),
    Struct(Vec<(String, Column)>),
    Map(OffsetBuffer<i32>, Box<Column>, Box<Column>),
    Dictionary(Vec<usize>, Box<Column>),
}

/// Where the items of a list are in the array of all items.
#[derive(Debug)]
pub(crate) enum Offsets {
    I32(OffsetBuffer<i32>),
    I64(OffsetBuffer<i64>),
    /// Every list has this many items.
    Fixed(usize),
}

impl Offsets {
    pub(crate) fn range(&self, row: usize) -> (usize, usize) {
        match self {
            Self::I32(offsets) => (offsets[row] as usize, offsets[row + 1] as usize),
            Self::I64(offsets) => (offsets[row] as usize, offsets[row + 1] as usize),
            Self::Fixed(size) => (row * size, (row + 1) * size),
        }
    }
}

/// A column of one batch.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) nulls: Option<NullBuffer>,
    pub(crate) values: Values,
    pub(crate) wire: WireType,
}

impl Column {
    /// Returns where the value of a row is, looking through dictionaries;
    /// `None` for NULL.
    #[inline]
    pub(crate) fn resolve(&self, row: usize) -> Option<(&Self, usize)> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        match &self.values {
            Values::Null => None,
            Values::Dictionary(keys, values) => values.resolve(keys[row]),
            _ => Some((self, row)),
        }
    }

    /// Writes a value with its length, or -1 for NULL.
    #[inline]
    pub(crate) fn write_field(
        &self,
        row: usize,
        format: Format,
        settings: &FormatSettings,
        out: &mut BytesMut,
    ) -> Result<(), WireError> {
        let Some((column, row)) = self.resolve(row) else {
            out.put_i32(-1);
            return Ok(());
        };
        let start = out.len();
        out.put_i32(0);
        column.write_value(row, format, settings, out)?;
        let length = out.len() - start - 4;
        out[start..start + 4].copy_from_slice(&(length as u32).to_be_bytes());
        Ok(())
    }

    /// Writes a value that is not NULL, without its length.
    #[inline]
    pub(crate) fn write_value(
        &self,
        row: usize,
        format: Format,
        settings: &FormatSettings,
        out: &mut BytesMut,
    ) -> Result<(), WireError> {
        match format {
            Format::Text => text::write(self, row, settings, out),
            Format::Binary => binary::write(self, row, settings, out),
        }
    }

    /// Returns the text of a row if the column holds text.
    #[inline]
    pub(crate) fn str_at(&self, row: usize) -> Option<&str> {
        match &self.values {
            Values::Utf8(array) => Some(array.value(row)),
            Values::LargeUtf8(array) => Some(array.value(row)),
            Values::Utf8View(array) => Some(array.value(row)),
            _ => None,
        }
    }

    /// Returns the bytes of a row if the column holds binary values.
    pub(crate) fn bytes_at(&self, row: usize) -> Option<&[u8]> {
        match &self.values {
            Values::Binary(array) => Some(array.value(row)),
            Values::LargeBinary(array) => Some(array.value(row)),
            Values::BinaryView(array) => Some(array.value(row)),
            Values::FixedBinary(array) => Some(array.value(row)),
            _ => None,
        }
    }

    /// Returns the integer of a row if the column holds integers.
    pub(crate) fn integer_at(&self, row: usize) -> Option<i128> {
        Some(match &self.values {
            Values::I8(array) => array.value(row).into(),
            Values::I16(array) => array.value(row).into(),
            Values::I32(array) => array.value(row).into(),
            Values::I64(array) => array.value(row).into(),
            Values::U8(array) => array.value(row).into(),
            Values::U16(array) => array.value(row).into(),
            Values::U32(array) => array.value(row).into(),
            Values::U64(array) => array.value(row).into(),
            _ => return None,
        })
    }

    /// Returns whether text of this type never needs quotes in an array.
    pub(crate) fn is_plain_text(&self) -> bool {
        matches!(
            self.wire.element.oid,
            oid::BOOL
                | oid::INT2
                | oid::INT4
                | oid::INT8
                | oid::OID
                | oid::FLOAT4
                | oid::FLOAT8
                | oid::NUMERIC
                | oid::UUID
                | oid::TIME
        )
    }
}
