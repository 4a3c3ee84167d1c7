//! Rows of COPY FROM STDIN, cut at any place: the same rows, or an error both times.
#![no_main]

use lancegate_wire::copy::{CopyDecoder, CopyFormat, CopyOptions};
use libfuzzer_sys::fuzz_target;

fn rows(options: &CopyOptions, chunks: &[&[u8]]) -> Option<String> {
    let mut decoder = CopyDecoder::new(options, vec!["a".to_owned(), "b".to_owned()], 1 << 16).ok()?;
    let mut rows = Vec::new();
    for chunk in chunks {
        decoder.push(chunk, &mut rows).ok()?;
    }
    decoder.finish(&mut rows).ok()?;
    Some(format!("{rows:?}"))
}

fuzz_target!(|input: (u8, usize, &[u8])| {
    let (format, cut, data) = input;
    let format = [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary][usize::from(format % 3)];
    let mut options = CopyOptions::new(format);
    options.header = format != CopyFormat::Binary && cut % 2 == 1;
    let (one, other) = data.split_at(cut % (data.len() + 1));
    assert_eq!(rows(&options, &[data]), rows(&options, &[one, other]));
});
