//! A cursor over one message body that cannot leave it.

use bytes::{Buf, Bytes};

use crate::error::{WireError, invalid_sequence, message_name, protocol};

/// Reads the fields of a message body in order.
#[derive(Debug)]
pub(crate) struct Reader {
    message_type: u8,
    body: Bytes,
}

impl Reader {
    pub(crate) fn new(message_type: u8, body: Bytes) -> Self {
        Self { message_type, body }
    }

    pub(crate) fn message_name(&self) -> &'static str {
        message_name(self.message_type)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        self.body.try_get_u8().map_err(|_| self.too_short())
    }

    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.body.try_get_u16().map_err(|_| self.too_short())
    }

    pub(crate) fn i16(&mut self) -> Result<i16, WireError> {
        self.body.try_get_i16().map_err(|_| self.too_short())
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.body.try_get_u32().map_err(|_| self.too_short())
    }

    pub(crate) fn i32(&mut self) -> Result<i32, WireError> {
        self.body.try_get_i32().map_err(|_| self.too_short())
    }

    /// Reads an item count and ensures that so many items of at least
    /// `item_bytes_min` can follow, before anything is allocated for them.
    pub(crate) fn count(&mut self, item_bytes_min: usize) -> Result<usize, WireError> {
        let count = usize::from(self.u16()?);
        if count * item_bytes_min > self.body.len() {
            return Err(self.too_short());
        }
        Ok(count)
    }

    /// Reads a zero-terminated string.
    pub(crate) fn cstring(&mut self) -> Result<String, WireError> {
        let Some(end) = self.body.iter().position(|byte| *byte == 0) else {
            return Err(protocol(format!("invalid string in {}", self.message_name())));
        };
        let text = self.body.split_to(end);
        self.body.advance(1);
        match std::str::from_utf8(&text) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(WireError::MessageText {
                message_type: self.message_type,
                bytes: invalid_sequence(&text, error.valid_up_to()),
            }),
        }
    }

    /// Reads a length and so many bytes; a length of -1 is NULL.
    pub(crate) fn value(&mut self) -> Result<Option<Bytes>, WireError> {
        let length = self.i32()?;
        if length == -1 {
            return Ok(None);
        }
        let Ok(length) = usize::try_from(length) else {
            return Err(protocol(format!("invalid value length {length} in {}", self.message_name())));
        };
        if length > self.body.len() {
            return Err(self.too_short());
        }
        Ok(Some(self.body.split_to(length)))
    }

    /// Takes all that is left.
    pub(crate) fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.body)
    }

    /// Ensures that nothing is left.
    pub(crate) fn finish(&self) -> Result<(), WireError> {
        if self.body.is_empty() {
            return Ok(());
        }
        Err(protocol(format!("invalid {} format: {} trailing bytes", self.message_name(), self.body.len())))
    }

    fn too_short(&self) -> WireError {
        protocol(format!("insufficient data left in {}", self.message_name()))
    }
}
