//! Rows of COPY in the formats text, csv and binary.
//!
//! Out: batches become CopyData messages, one a row. In: chunks of CopyData,
//! cut anywhere, become fields; a field is then read like a parameter. Formats
//! are those of <https://www.postgresql.org/docs/current/sql-copy.html>.

mod binary;
mod columns;
mod csv;
mod decoder;
mod encoder;
mod text;

use bytes::Bytes;

use crate::error::WireError;
use crate::settings::Format;

pub use columns::{CopyColumns, FieldError};
pub use decoder::CopyDecoder;
pub use encoder::CopyEncoder;

/// The fields of one row; `None` is NULL.
pub type CopyRow = Vec<Option<Bytes>>;

/// The format of COPY data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyFormat {
    /// Fields between delimiters, escaped with backslashes.
    #[default]
    Text,
    /// Comma-separated values.
    Csv,
    /// Fields with lengths, in binary form.
    Binary,
}

/// The options of a COPY statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOptions {
    /// Format.
    pub format: CopyFormat,
    /// Byte between fields.
    pub delimiter: u8,
    /// Text of NULL.
    pub null: String,
    /// Whether the first line holds column names.
    pub header: bool,
    /// Byte around a csv field.
    pub quote: u8,
    /// Byte before a quote inside a csv field.
    pub escape: u8,
    /// Columns (by index) that are always quoted in csv output.
    pub force_quote: Vec<usize>,
    /// Columns (by index) where csv input is never NULL.
    pub force_not_null: Vec<usize>,
    /// Columns (by index) where the text of NULL is NULL in csv input even in quotes.
    pub force_null: Vec<usize>,
}

impl CopyOptions {
    /// Returns the defaults of a format.
    pub fn new(format: CopyFormat) -> Self {
        let is_csv = format == CopyFormat::Csv;
        Self {
            format,
            delimiter: if is_csv { b',' } else { b'\t' },
            null: if is_csv { "" } else { "\\N" }.to_owned(),
            header: false,
            quote: b'"',
            escape: b'"',
            force_quote: Vec::new(),
            force_not_null: Vec::new(),
            force_null: Vec::new(),
        }
    }

    /// Returns the form of the fields.
    pub fn field_format(&self) -> Format {
        match self.format {
            CopyFormat::Text | CopyFormat::Csv => Format::Text,
            CopyFormat::Binary => Format::Binary,
        }
    }

    /// Ensures that the bytes of the format can be told apart.
    ///
    /// # Errors
    ///
    /// [`WireError::InvalidParameter`] with PostgreSQL's message.
    pub fn ensure_valid(&self) -> Result<(), WireError> {
        let invalid = |text: &str| Err(WireError::InvalidParameter(text.to_owned()));
        let is_csv = self.format == CopyFormat::Csv;
        if matches!(self.delimiter, b'\n' | b'\r' | 0) || !self.delimiter.is_ascii() {
            return invalid("COPY delimiter cannot be newline or carriage return");
        }
        let reserved = b"\\.abcdefghijklmnopqrstuvwxyz0123456789";
        if self.format == CopyFormat::Text && reserved.contains(&self.delimiter) {
            return invalid(&format!("COPY delimiter cannot be \"{}\"", char::from(self.delimiter)));
        }
        if self.null.contains(['\n', '\r']) {
            return invalid("COPY null representation cannot use newline or carriage return");
        }
        if self.null.as_bytes().contains(&self.delimiter) && self.format != CopyFormat::Binary {
            return invalid("COPY delimiter character must not appear in the NULL specification");
        }
        if is_csv && self.delimiter == self.quote {
            return invalid("COPY delimiter and quote must be different");
        }
        if is_csv && self.null.as_bytes().contains(&self.quote) {
            return invalid("CSV quote character must not appear in the NULL specification");
        }
        Ok(())
    }
}

pub(crate) fn copy_error(text: impl Into<String>) -> WireError {
    WireError::CopyFormat(text.into())
}

#[cfg(test)]
mod tests;
