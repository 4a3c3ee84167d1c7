//! What commands print: results to standard output, the rest to standard error.

use std::io::{self, Write as _};

/// Writes one line of a result. A reader that has gone away ends the output
/// and nothing else, as with other tools in a pipe.
pub(super) fn line(text: impl AsRef<str>) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{}", text.as_ref()).and_then(|()| out.flush());
}

/// Writes text as it is.
pub(super) fn text(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes one line for the person at the terminal.
pub(super) fn note(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
}

/// Writes rows under their headings, in columns.
pub(super) fn table<const N: usize>(headings: [&str; N], rows: &[[String; N]]) {
    let mut widths = headings.map(|heading| heading.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let print = |cells: [&str; N]| {
        let padded: Vec<String> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        line(padded.join("  ").trim_end());
    };
    print(headings);
    for row in rows {
        print(row.each_ref().map(String::as_str));
    }
}

/// Writes a question and leaves the cursor behind it.
pub(super) fn prompt(text: &str) {
    let mut err = io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}
