//! Texts of statements: parsed or refused on a small stack, and what is parsed prints.
#![no_main]

use lancegate_sql::{Limits, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(script) = parse(text, &Limits::default()) {
        for one in script {
            assert!(!one.statement.to_string().is_empty());
        }
    }
});
