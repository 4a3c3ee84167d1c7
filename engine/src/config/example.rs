//! The commented example file, printed from the table of keys.

use std::fmt::Write as _;

use super::keys::{GPU_CLASS_KEYS, GPU_CLASSES, GPU_DEFAULT, JWT_ISSUER_KEYS, JWT_ISSUERS, KEYS, Key, SECTIONS};
use super::kind::Kind;

/// Columns of a comment line.
const COMMENT_WIDTH: usize = 100;

const HEAD: &str = "\
Configuration of lancegate, with every key. A key without a default is commented out and shows a sample; \
every other line shows the default, so all of them may be left out. \
Order: this file, then the environment (LANCEGATE_PG__LISTEN is pg.listen, LANCEGATE_DATA is data), then flags \
(--pg-listen, --set pg.listen=...); the later one wins. An unknown key is an error. \
Printed by `lancegate config-example`.";

/// Returns the example as TOML.
pub fn example() -> String {
    let mut text = String::new();
    comment(&mut text, HEAD);
    for section in SECTIONS {
        text.push('\n');
        comment(&mut text, section.doc);
        if !section.name.is_empty() {
            let _ = writeln!(text, "[{}]", section.name);
        }
        for key in KEYS {
            let (parent, name) = key.path.rsplit_once('.').unwrap_or(("", key.path));
            if parent == section.name && key.kind != Kind::Password {
                write_key(&mut text, key, name);
            }
        }
    }
    write_classes(&mut text);
    text
}

fn write_classes(text: &mut String) {
    let default_doc = "The GPU class named \"default\", which is always listed first. It has the keys of a named class \
                       except \"name\"; what is unset is NULL in `gpu_classes`.";
    text.push('\n');
    comment(text, default_doc);
    let _ = writeln!(text, "[{GPU_DEFAULT}]");
    for key in GPU_CLASS_KEYS.iter().filter(|key| key.path != "name") {
        let _ = writeln!(text, "# {} = {}", key.path, literal(key.kind, key.sample));
    }
    text.push('\n');
    comment(text, "A named GPU class; repeat the block for each.");
    let _ = writeln!(text, "# [[{GPU_CLASSES}]]");
    for key in GPU_CLASS_KEYS {
        write_key(text, key, key.path);
    }
    text.push('\n');
    let issuers = "An identity provider whose tokens log in, where a rule of pg.hba_file says jwt or oauth, and over HTTP as \
                   a Bearer token; repeat the block for each.";
    comment(text, issuers);
    let _ = writeln!(text, "# [[{JWT_ISSUERS}]]");
    for key in JWT_ISSUER_KEYS {
        write_key(text, key, key.path);
    }
}

fn write_key(text: &mut String, key: &Key, name: &str) {
    comment(text, &format!("{} Allowed: {}.", key.doc, key.kind.allowed()));
    let _ = match key.default {
        Some(default) => writeln!(text, "{name} = {}", literal(key.kind, default)),
        None => writeln!(text, "# {name} = {}", literal(key.kind, key.sample)),
    };
}

fn literal(kind: Kind, text: &str) -> String {
    kind.read(text).map(|value| value.to_string()).unwrap_or_default()
}

/// Writes sentences as comment lines, broken between words.
fn comment(text: &mut String, sentences: &str) {
    let mut line = String::from("#");
    for word in sentences.split_whitespace() {
        if line.len() + 1 + word.len() > COMMENT_WIDTH {
            let _ = writeln!(text, "{line}");
            line.truncate(1);
        }
        line.push(' ');
        line.push_str(word);
    }
    if line.len() > 1 {
        let _ = writeln!(text, "{line}");
    }
}
