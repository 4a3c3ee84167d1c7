//! The splitting of COPY data into rows and fields.

use bytes::{Bytes, BytesMut};

use super::binary::{self, Item};
use super::{CopyFormat, CopyOptions, CopyRow, copy_error, csv, text};
use crate::error::WireError;

/// Reads one COPY FROM STDIN.
#[derive(Debug)]
pub struct CopyDecoder {
    options: CopyOptions,
    columns: Vec<String>,
    row_bytes_max: usize,
    buffer: BytesMut,
    /// Bytes of `buffer` already searched for the end of a line.
    searched: usize,
    inside_quotes: bool,
    /// Whether the header, if there is one, is still to come.
    before_header: bool,
    /// Whether lines end in CR LF, once the first has been seen.
    has_crlf: Option<bool>,
    ended: bool,
    lines: u64,
}

impl CopyDecoder {
    /// Makes a decoder of rows with these columns, each row of at most
    /// `row_bytes_max` bytes.
    ///
    /// # Errors
    ///
    /// As [`CopyOptions::ensure_valid`].
    pub fn new(options: &CopyOptions, columns: Vec<String>, row_bytes_max: usize) -> Result<Self, WireError> {
        options.ensure_valid()?;
        Ok(Self {
            before_header: options.header || options.format == CopyFormat::Binary,
            options: options.clone(),
            columns,
            row_bytes_max,
            buffer: BytesMut::new(),
            searched: 0,
            inside_quotes: false,
            has_crlf: None,
            ended: false,
            lines: 0,
        })
    }

    /// Returns the number of the last line or row that was read, from 1; for
    /// the context of an error.
    pub fn line(&self) -> u64 {
        self.lines
    }

    /// Takes a chunk and appends the rows it completes.
    ///
    /// # Errors
    ///
    /// 22P04 for data that does not follow the format, 54000 for a row over
    /// the limit. The decoder is of no use afterwards.
    pub fn push(&mut self, chunk: &[u8], rows: &mut Vec<CopyRow>) -> Result<(), WireError> {
        if self.ended {
            // Only the binary format has a trailer that must be the last.
            if self.options.format == CopyFormat::Binary && !chunk.is_empty() {
                return Err(copy_error("received copy data after EOF marker"));
            }
            return Ok(());
        }
        self.buffer.extend_from_slice(chunk);
        match self.options.format {
            CopyFormat::Binary => self.take_binary_rows(rows)?,
            CopyFormat::Text | CopyFormat::Csv => self.take_lines(rows)?,
        }
        if !self.ended && self.buffer.len() > self.row_bytes_max {
            return Err(self.row_too_large());
        }
        Ok(())
    }

    /// Ends the data, at CopyDone, and appends a last line without an end.
    ///
    /// # Errors
    ///
    /// As [`CopyDecoder::push`]; 22P04 if the data stops inside a row.
    pub fn finish(&mut self, rows: &mut Vec<CopyRow>) -> Result<(), WireError> {
        if self.ended {
            return Ok(());
        }
        if self.options.format == CopyFormat::Binary {
            // As in PostgreSQL, the data may end behind a row without the trailer; the ADBC driver leaves it out.
            if self.before_header || !self.buffer.is_empty() {
                return Err(copy_error("unexpected EOF in COPY data"));
            }
            self.ended = true;
            return Ok(());
        }
        if self.inside_quotes {
            return Err(copy_error("unterminated CSV quoted field"));
        }
        let rest = std::mem::take(&mut self.buffer).freeze();
        if !rest.is_empty() {
            self.take_line(rest, rows)?;
        }
        self.ended = true;
        Ok(())
    }

    fn take_binary_rows(&mut self, rows: &mut Vec<CopyRow>) -> Result<(), WireError> {
        if self.before_header {
            if !binary::take_header(&mut self.buffer, self.row_bytes_max)? {
                return Ok(());
            }
            self.before_header = false;
        }
        loop {
            match binary::take_item(&mut self.buffer, self.columns.len(), self.row_bytes_max)? {
                Item::Partial => return Ok(()),
                Item::Row(row) => {
                    self.lines += 1;
                    rows.push(row);
                }
                Item::End if self.buffer.is_empty() => {
                    self.ended = true;
                    return Ok(());
                }
                Item::End => return Err(copy_error("received copy data after EOF marker")),
            }
        }
    }

    fn take_lines(&mut self, rows: &mut Vec<CopyRow>) -> Result<(), WireError> {
        while !self.ended {
            let Some(end) = self.find_line_end() else {
                return Ok(());
            };
            if end > self.row_bytes_max {
                return Err(self.row_too_large());
            }
            let mut line = self.buffer.split_to(end + 1);
            line.truncate(end);
            self.searched = 0;
            self.take_line(line.freeze(), rows)?;
        }
        Ok(())
    }

    /// Returns where the line feed is that ends the line at the front. A line
    /// feed behind a backslash (text) or in quotes (csv) is data.
    fn find_line_end(&mut self) -> Option<usize> {
        let is_csv = self.options.format == CopyFormat::Csv;
        let CopyOptions { quote, escape, .. } = self.options;
        while let Some(&byte) = self.buffer.get(self.searched) {
            let skips_next =
                if is_csv { self.inside_quotes && byte == escape && escape != quote } else { byte == b'\\' };
            if skips_next {
                // Wait for the byte behind it.
                self.buffer.get(self.searched + 1)?;
                self.searched += 2;
                continue;
            }
            if is_csv && byte == quote {
                self.inside_quotes = !self.inside_quotes;
            }
            if byte == b'\n' && !self.inside_quotes {
                return Some(self.searched);
            }
            self.searched += 1;
        }
        None
    }

    fn take_line(&mut self, line: Bytes, rows: &mut Vec<CopyRow>) -> Result<(), WireError> {
        self.lines += 1;
        let crlf = line.ends_with(b"\r");
        let has_crlf = *self.has_crlf.get_or_insert(crlf);
        let line = match line.strip_suffix(b"\r") {
            Some(shorter) if has_crlf => line.slice(..shorter.len()),
            _ => line,
        };
        if line == b"\\."[..] {
            // It is no line of the data: messages count those.
            self.lines -= 1;
            self.ended = true;
            self.buffer.clear();
            return Ok(());
        }
        if std::mem::take(&mut self.before_header) {
            return Ok(());
        }
        let row = match self.options.format {
            CopyFormat::Csv => self.forced(csv::split(&line, &self.options)?),
            CopyFormat::Text | CopyFormat::Binary => self.split_text(&line)?,
        };
        rows.push(self.ensure_columns(row, &line)?);
        Ok(())
    }

    /// Applies FORCE_NULL and FORCE_NOT_NULL.
    fn forced(&self, mut row: CopyRow) -> CopyRow {
        let CopyOptions { null, force_null, force_not_null, .. } = &self.options;
        for index in force_null {
            if let Some(column) = row.get_mut(*index) {
                *column = column.take().filter(|text| text != null.as_bytes());
            }
        }
        for (index, column) in row.iter_mut().enumerate().filter(|(_, column)| column.is_none()) {
            *column = force_not_null.contains(&index).then(|| Bytes::copy_from_slice(null.as_bytes()));
        }
        row
    }

    fn split_text(&self, line: &Bytes) -> Result<CopyRow, WireError> {
        // A carriage return of the data is written as \r.
        if line.contains(&b'\r') {
            return Err(copy_error("literal carriage return found in data"));
        }
        Ok(text::split(line, &self.options))
    }

    fn ensure_columns(&self, row: CopyRow, line: &[u8]) -> Result<CopyRow, WireError> {
        if self.columns.is_empty() && line.is_empty() {
            return Ok(Vec::new());
        }
        if row.len() > self.columns.len() {
            return Err(copy_error("extra data after last expected column"));
        }
        match self.columns.get(row.len()) {
            Some(missing) => Err(copy_error(format!("missing data for column \"{missing}\""))),
            None => Ok(row),
        }
    }

    fn row_too_large(&self) -> WireError {
        WireError::LimitExceeded(format!("COPY row exceeds the limit of {} bytes", self.row_bytes_max))
    }
}
