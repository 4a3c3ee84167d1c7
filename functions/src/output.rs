//! What a worker prints, bounded: an endless loop of `print` costs no memory here (W11).

use std::collections::VecDeque;

/// What is kept of the output at its start and at its end.
const OUTPUT_BYTES: usize = 32 << 10;

/// The start and the end of what a worker prints.
#[derive(Debug, Default)]
pub(crate) struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
    /// Whether nothing more will come.
    pub(crate) ended: bool,
}

impl Output {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(OUTPUT_BYTES - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = if rest.len() > OUTPUT_BYTES {
            self.left_out += (rest.len() - OUTPUT_BYTES) as u64;
            &rest[rest.len() - OUTPUT_BYTES..]
        } else {
            rest
        };
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(OUTPUT_BYTES);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    pub(crate) fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let gap = if self.left_out > 0 { format!("\n… {} bytes …\n", self.left_out) } else { String::new() };
        format!("{}{gap}{}", String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail))
    }
}
