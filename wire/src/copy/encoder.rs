//! Rows of Arrow batches as CopyData messages.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use bytes::{BufMut, BytesMut};

use super::binary::SIGNATURE;
use super::{CopyFormat, CopyOptions, csv, text};
use crate::encode::{Column, build_columns, patch_message_length};
use crate::error::WireError;
use crate::settings::{Format, FormatSettings};
use crate::types::{WireType, wire_type};

/// Writes one COPY TO STDOUT.
#[derive(Debug, Clone)]
pub struct CopyEncoder {
    names: Vec<String>,
    types: Vec<WireType>,
    options: CopyOptions,
    settings: FormatSettings,
    /// Whether the binary header is still to be written: it shares a message with
    /// what follows it, which is how clients expect it.
    header_due: bool,
}

impl CopyEncoder {
    /// Makes an encoder for batches of `schema`.
    ///
    /// # Errors
    ///
    /// As [`CopyOptions::ensure_valid`]; [`WireError::LimitExceeded`] for more
    /// columns than a row can count.
    pub fn new(schema: &Schema, options: &CopyOptions, settings: &FormatSettings) -> Result<Self, WireError> {
        options.ensure_valid()?;
        let fields = schema.fields();
        if fields.len() > i16::MAX as usize {
            return Err(WireError::LimitExceeded("target lists can have at most 1664 entries".into()));
        }
        Ok(Self {
            names: fields.iter().map(|field| field.name().clone()).collect(),
            types: fields.iter().map(|field| wire_type(field)).collect(),
            options: options.clone(),
            settings: settings.clone(),
            header_due: options.format == CopyFormat::Binary,
        })
    }

    /// Appends the line of column names, if it was asked for.
    ///
    /// # Errors
    ///
    /// [`WireError::LimitExceeded`] if the names exceed a message.
    pub fn start(&self, out: &mut BytesMut) -> Result<(), WireError> {
        match self.options.format {
            CopyFormat::Text | CopyFormat::Csv if self.options.header => message(out, |out| {
                for (index, name) in self.names.iter().enumerate() {
                    let start = self.put_delimiter(index, out);
                    out.put_slice(name.as_bytes());
                    self.escape_from(start, false, out);
                }
                out.put_u8(b'\n');
                Ok(())
            }),
            CopyFormat::Text | CopyFormat::Csv | CopyFormat::Binary => Ok(()),
        }
    }

    /// Appends one CopyData message for each row of `range`.
    ///
    /// # Errors
    ///
    /// As [`crate::RowEncoder::encode_rows`].
    pub fn encode_rows(
        &mut self,
        batch: &RecordBatch,
        range: Range<usize>,
        out: &mut BytesMut,
    ) -> Result<(), WireError> {
        let columns = build_columns(&self.types, batch, &range)?;
        for row in 0..range.len() {
            message(out, |out| match self.options.format {
                CopyFormat::Binary => self.encode_binary(&columns, row, out),
                CopyFormat::Text | CopyFormat::Csv => self.encode_line(&columns, row, out),
            })?;
            self.header_due = false;
        }
        Ok(())
    }

    /// Appends what comes after the last row: the binary trailer. CopyDone is
    /// the caller's.
    ///
    /// # Errors
    ///
    /// None that can occur; the type is that of [`CopyEncoder::start`].
    pub fn finish(&self, out: &mut BytesMut) -> Result<(), WireError> {
        match self.options.format {
            CopyFormat::Binary => message(out, |out| {
                self.put_header(out);
                out.put_i16(-1);
                Ok(())
            }),
            CopyFormat::Text | CopyFormat::Csv => Ok(()),
        }
    }

    /// Appends the binary header, if it is due.
    fn put_header(&self, out: &mut BytesMut) {
        if self.header_due {
            out.put_slice(SIGNATURE);
            out.put_u32(0);
            out.put_u32(0);
        }
    }

    fn encode_binary(&self, columns: &[Column], row: usize, out: &mut BytesMut) -> Result<(), WireError> {
        self.put_header(out);
        out.put_u16(columns.len() as u16);
        for column in columns {
            column.write_field(row, Format::Binary, &self.settings, out)?;
        }
        Ok(())
    }

    fn encode_line(&self, columns: &[Column], row: usize, out: &mut BytesMut) -> Result<(), WireError> {
        for (index, column) in columns.iter().enumerate() {
            let start = self.put_delimiter(index, out);
            let Some((column, row)) = column.resolve(row) else {
                out.put_slice(self.options.null.as_bytes());
                continue;
            };
            column.write_value(row, Format::Text, &self.settings, out)?;
            self.escape_from(start, self.options.force_quote.contains(&index), out);
        }
        out.put_u8(b'\n');
        Ok(())
    }

    /// Appends the delimiter before a field and returns where the field begins.
    fn put_delimiter(&self, index: usize, out: &mut BytesMut) -> usize {
        if index > 0 {
            out.put_u8(self.options.delimiter);
        }
        out.len()
    }

    fn escape_from(&self, start: usize, force_quote: bool, out: &mut BytesMut) {
        match self.options.format {
            CopyFormat::Text => text::escape_from(out, start, self.options.delimiter),
            CopyFormat::Csv => {
                let is_only = self.names.len() == 1;
                csv::quote_from(out, start, &self.options, force_quote, is_only);
            }
            CopyFormat::Binary => {}
        }
    }
}

/// Appends one CopyData message, or nothing if its body cannot be written.
fn message(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> Result<(), WireError>) -> Result<(), WireError> {
    let message = out.len();
    out.put_u8(b'd');
    let start = out.len();
    out.put_u32(0);
    let written = write(out).and_then(|()| patch_message_length(out, start));
    if written.is_err() {
        out.truncate(message);
    }
    written
}
