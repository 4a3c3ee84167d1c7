//! Sources that cannot be the code of their Function are refused before there is a version, and nothing of them is run.

use super::{config, numbers};
use crate::harness::Gateway;
use crate::rows::{error, rows, run};

fn create(signature: &str, source: &str, options: &str) -> String {
    let source = source.replace('\'', "''");
    format!("CREATE FUNCTION g {signature} LANGUAGE python AS '{source}' {options}")
}

#[tokio::test]
async fn a_source_that_does_not_compile_is_refused_with_its_line() {
    let (_gateway, client) = numbers().await;
    for (source, line, part) in [
        ("def g(x): return (x", 1, "'(' was never closed"),
        ("import os\ndef g(x):\n    return x\n  return 2", 4, "unindent does not match"),
        ("def g(x):\n    return x\nreturn 1", 3, "'return' outside function"),
        ("def g(x):\n    yield = x", 2, "SyntaxError"),
    ] {
        let refused = error(&client, &create("(x int64) RETURNS int64", source, "")).await;
        assert!(refused.starts_with("42601"), "{refused}");
        for part in ["could not compile function \"g\"", part, &format!("(line {line})")] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
    }
    assert!(rows(&client, "SHOW FUNCTIONS").await.is_empty() && rows(&client, "SHOW JOBS").await.is_empty());
}

#[tokio::test]
async fn a_source_without_a_callable_that_takes_the_parameters_is_refused() {
    let (_gateway, client) = numbers().await;
    let one = "(x int64) RETURNS int64";
    for (signature, source, part) in [
        (one, "x = 1", "the source defines no callable \"g\""),
        (one, "def one(x): return x\ndef two(x): return x", "it defines one, two"),
        (one, "def g(): return 1", "g takes 0 arguments, and the Function has 1 parameter (line 1)"),
        (one, "\ndef g(x, y, z=1): return x", "g takes 2 to 3 arguments, and the Function has 1 parameter (line 2)"),
        ("(x int64, y int64) RETURNS int64", "def g(x): return x", "the Function has 2 parameters"),
        (one, "def g(x, *, k): return x", "keyword argument \"k\""),
        (one, "async def g(x): return x", "coroutine"),
        (one, "class g: pass", "no method __call__"),
        (one, "class g:\n def __call__(self): return 1", "g.__call__ takes 0 arguments"),
        (one, "class g:\n def __init__(self, k): pass\n def __call__(self, x): return x", "__init__ needs \"k\""),
    ] {
        let refused = error(&client, &create(signature, source, "")).await;
        assert!(refused.starts_with("42P13"), "{source}\n{refused}");
        assert!(refused.contains("function \"g\"") && refused.contains(part), "{source}\n{refused}");
    }
    assert!(rows(&client, "SHOW FUNCTIONS").await.is_empty());
}

#[tokio::test]
async fn what_only_a_run_could_tell_is_not_refused_and_nothing_is_run() {
    let (_gateway, client) = numbers().await;
    for source in [
        "raise RuntimeError('at import')\ndef g(x): return x",
        "from math import sqrt as g",
        "from math import *",
        "import functools\n@functools.cache\ndef g(x, y): return x",
        "def g(*args): return args[0]",
        "def g(x, y=1): return x",
        "g = lambda x: x",
        "class Base:\n def __call__(self, x): return x\nclass g(Base): pass",
        "try:\n from nowhere import g\nexcept ImportError:\n def g(x): return x",
        "def other(x): return x",
    ] {
        run(&client, &create("(x float64) RETURNS float64", source, "")).await;
    }
    // The last one is called by its own name, because it is the only one.
    assert_eq!(rows(&client, "SELECT g(4.0)").await, ["4"]);
}

#[tokio::test]
async fn altering_looks_at_the_source_again() {
    let (_gateway, client) = numbers().await;
    let initialized = "[{\"name\": \"k\", \"arrow_type\": \"int64\"}]";
    run(&client, &create("(x int64) RETURNS int64", "def g(x): return x", "")).await;
    let refused = error(&client, &format!("ALTER FUNCTION g SET (initialization = '{initialized}')")).await;
    assert!(refused.starts_with("42P13") && refused.contains("need a class"), "{refused}");
    assert_eq!(rows(&client, "SHOW FUNCTIONS").await.len(), 1);
}

#[tokio::test]
async fn w01_a_source_is_compiled_in_a_confined_process_with_limits() {
    let gateway = Gateway::start_with(&config("memory = \"256MiB\"\n"));
    let client = gateway.connect().await;
    let nested = format!("def g(x): return {}x{}", "[".repeat(100_000), "]".repeat(100_000));
    // The compiler gives up at this depth, by an error or by its end.
    let refused = error(&client, &create("(x int64) RETURNS int64", &nested, "")).await;
    assert!(refused.starts_with("42601") || refused.starts_with("38000"), "{refused}");
    run(&client, &create("(x int64) RETURNS int64", "def g(x): return x", "")).await;
}
