//! How long what an LZ4 frame holds is, without unpacking it (LZ4, "Frame format" and "Block format").
//!
//! Arrow unpacks a frame to its end before it compares the length with the one that is written before it, so a frame of
//! a few megabytes that is said to have eight bytes could take all memory there is.

/// The first bytes of a frame, and of one in the form before frames were specified.
const MAGIC: u32 = 0x184D_2204;
const LEGACY_MAGIC: u32 = 0x184C_2102;
/// Bits of the first byte of a frame's description.
const BLOCK_CHECKSUMS: u8 = 1 << 4;
const CONTENT_SIZE: u8 = 1 << 3;
const DICTIONARY: u8 = 1;
/// What says of the length of a block that its bytes are as they are.
const PLAIN: u32 = 1 << 31;
/// The shortest repetition.
const MATCH_BYTES_MIN: u64 = 4;

/// Returns how many bytes a frame gives; for one that breaks off or is none, those up to there.
pub(super) fn unpacked_bytes(frame: &[u8]) -> u64 {
    let mut rest = Bytes(frame);
    let checksum = match rest.word() {
        Some(MAGIC) => {
            let Some(flags) = rest.skip(2).map(|described| described[0]) else { return 0 };
            let sizes = [(CONTENT_SIZE, 8), (DICTIONARY, 4)];
            let described: usize = sizes.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, bytes)| bytes).sum();
            // One byte more is the checksum of all this.
            if rest.skip(described + 1).is_none() {
                return 0;
            }
            if flags & BLOCK_CHECKSUMS != 0 { 4 } else { 0 }
        }
        Some(LEGACY_MAGIC) => 0,
        _ => return 0,
    };
    let mut sum = 0_u64;
    while let Some(length) = rest.word().filter(|length| *length != 0) {
        let bytes = usize::try_from(length & !PLAIN).unwrap_or(usize::MAX);
        let Some(block) = rest.skip(bytes) else { break };
        sum = sum.saturating_add(if length & PLAIN != 0 { block.len() as u64 } else { of_block(block) });
        if rest.skip(checksum).is_none() {
            break;
        }
    }
    sum
}

/// A block is pairs of bytes as they are and a repetition of earlier ones; the last has no repetition.
fn of_block(block: &[u8]) -> u64 {
    let (mut rest, mut sum) = (Bytes(block), 0_u64);
    while let Some(token) = rest.skip(1).map(|token| token[0]) {
        let plain = rest.length(token >> 4);
        sum = sum.saturating_add(plain);
        if rest.skip(usize::try_from(plain).unwrap_or(usize::MAX)).is_none() || rest.skip(2).is_none() {
            break;
        }
        sum = sum.saturating_add(rest.length(token & 15).saturating_add(MATCH_BYTES_MIN));
    }
    sum
}

/// What has not been read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn skip(&mut self, count: usize) -> Option<&'a [u8]> {
        let (skipped, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(skipped)
    }

    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*word))
    }

    /// Reads a length that begins in four bits and goes on in bytes as long as they are full.
    fn length(&mut self, bits: u8) -> u64 {
        let mut sum = u64::from(bits);
        if bits < 15 {
            return sum;
        }
        while let Some(more) = self.skip(1).map(|more| more[0]) {
            sum += u64::from(more);
            if more != u8::MAX {
                break;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use arrow::ipc::CompressionType;
    use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};

    use super::*;

    /// Returns the frames that Arrow makes of values, each with the length that it says.
    fn frames(values: Vec<i64>) -> Vec<(u64, Vec<u8>)> {
        let batch = RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(values)) as ArrayRef)]).unwrap();
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        let stream = writer.into_inner().unwrap();
        let magic = MAGIC.to_le_bytes();
        let found = stream.windows(4).enumerate().filter(|(_, window)| *window == magic);
        let frame = |(at, _): (usize, &[u8])| {
            let told = u64::from_le_bytes(*stream[at - 8..].first_chunk().unwrap());
            (told, stream[at..].to_vec())
        };
        found.map(frame).collect()
    }

    #[test]
    fn r02_a_frame_is_as_long_as_it_says_or_is_found_out() {
        // Repetitions, long and short; and numbers that repeat nothing.
        let mut state = 7_i64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state
        };
        let cases = [
            vec![7; 1_000_000],
            (0..300_000).collect(),
            (0..100_000).map(|_| random()).collect(),
            (0..100_000).map(|n| if n % 3 == 0 { random() } else { 5 }).collect(),
        ];
        let mut count = 0;
        for values in cases {
            for (told, frame) in frames(values) {
                assert_eq!(unpacked_bytes(&frame), told);
                count += 1;
            }
        }
        assert!(count >= 3, "{count}");
    }

    #[test]
    fn r02_bytes_that_are_no_frame_have_a_length_all_the_same() {
        let (told, frame) = frames(vec![7; 1_000_000]).remove(0);
        for end in 0..frame.len().min(200) {
            assert!(unpacked_bytes(&frame[..end]) <= told);
        }
        for at in 0..frame.len().min(200) {
            let mut broken = frame.clone();
            broken[at] ^= 0xff;
            // It ends, and does not panic.
            unpacked_bytes(&broken);
        }
        for bytes in [&[][..], &[0xff; 64], b"not a frame at all", &MAGIC.to_le_bytes(), &LEGACY_MAGIC.to_le_bytes()] {
            assert_eq!(unpacked_bytes(bytes), 0);
        }
    }
}
