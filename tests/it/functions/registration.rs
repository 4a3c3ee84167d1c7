//! CREATE FUNCTION … FROM, and environments with packages of their own.

use std::io::Write as _;
use std::path::Path;

use super::{config, counts, declare, numbers, values};
use crate::harness::{Gateway, python};
use crate::rows::{error, rows, run, value};

/// What the published SDK makes of a decorated callable.
const SDK: &str = r#"
from lancedb.functions import udf
@udf
def f(x: int) -> int:
    return 2 * x
print(f.registration_request.model_dump_json())
"#;

fn document() -> String {
    registered(SDK)
}

/// Returns what a script of the SDK prints; a module `helpers` is beside it.
fn registered(sdk: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    // The SDK packages the source of the callable, so it has to be in a file.
    let script = folder.path().join("registers.py");
    std::fs::write(&script, sdk).unwrap();
    let helpers = folder.path().join("helpers");
    std::fs::create_dir(&helpers).unwrap();
    std::fs::write(helpers.join("__init__.py"), "from .times import times\n").unwrap();
    std::fs::write(helpers.join("times.py"), "def times(x, by):\n    return x * by if x != 3 else 1 // 0\n").unwrap();
    let output = python().arg(&script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn sdk_02_a_document_of_the_published_client_registers_its_function() {
    let (_gateway, client) = numbers().await;
    let document = document();
    let create =
        |document: &str, with: &str| format!("CREATE FUNCTION f FROM '{}' {with}", document.replace('\'', "''"));
    let made = value(&client, &create(&document, ""), "definition").await.unwrap();
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    assert_eq!((&made["name"], &made["version"]), (&"f".into(), &"1".into()), "{made}");
    assert_eq!(made["signature"]["inputs"][0]["arrow_type"], "int64");
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x)").await;
    assert_eq!(counts(&client, "").await, "10|0|0");
    assert_eq!(values(&client).await, "0 2 4 6 8 10 12 14 16 18");
    let job = value(&client, &create(&document, "WITH (wait = false)"), "job_id").await.unwrap();
    rows(&client, &format!("WAIT JOB '{job}' TIMEOUT '50 s'")).await;
    assert_eq!(rows(&client, "SHOW FUNCTIONS").await.len(), 2);
    let other = |from: &str, to: &str| create(&document.replacen(from, to, 1), "");
    for (sql, code, part) in [
        (create("{", ""), "22023", "invalid registration document"),
        (create("{}", ""), "22023", "artifact"),
        (other("sha256:", "sha256:0"), "22023", "digest"),
        (other("python_callable", "oci_image"), "0A000", "oci_image"),
        (other("\"kind\":\"pip\"", "\"kind\":\"image\""), "0A000", "image"),
        (other("scalar_to_arrow_batch", "pickle"), "0A000", "pickle"),
    ] {
        let refused = error(&client, &sql).await;
        assert!(refused.starts_with(code) && refused.contains(part), "{sql}\n{refused}");
    }
}

/// Writes a wheel of one module by hand.
fn wheel(folder: &Path, name: &str, source: &str) {
    let info = format!("{name}-1.0.dist-info");
    let files = [
        (format!("{name}.py"), source.to_owned()),
        (format!("{info}/METADATA"), format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")),
        (
            format!("{info}/WHEEL"),
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_owned(),
        ),
    ];
    let record: String = files.iter().map(|(path, _)| format!("{path},,\n")).collect();
    let mut program = String::from("import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1], 'w')\n");
    for (path, text) in files.iter().cloned().chain([(format!("{info}/RECORD"), format!("{record}{info}/RECORD,,\n"))])
    {
        program.push_str(&format!("z.writestr({path:?}, {text:?})\n"));
    }
    program.push_str("z.close()\n");
    let script = folder.join("wheel.py");
    std::fs::File::create(&script).unwrap().write_all(program.as_bytes()).unwrap();
    let path = folder.join(format!("{name}-1.0-py3-none-any.whl"));
    assert!(python().arg(&script).arg(path).status().unwrap().success());
}

#[tokio::test]
async fn a_job_builds_the_environment_of_a_function_once_and_tells_what_the_tool_said() {
    // Outside of `/tmp`, which workers do not see.
    let folder = tempfile::Builder::new().prefix("lancegate-wheels-").tempdir_in("/var/tmp").unwrap();
    wheel(folder.path(), "lgnumbers", "def twice(x): return 2 * x\n");
    let environments = folder.path().join("environments");
    let gateway = Gateway::start_with_env(
        &config(&format!("environments = {environments:?}\n")),
        &[("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", folder.path().to_str().unwrap())],
    );
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n SELECT * FROM generate_series(0, 9)").await;
    declare(&client, "import lgnumbers\ndef f(x): return lgnumbers.twice(x)", "WITH (pip = 'lgnumbers==1.0')").await;
    assert_eq!(counts(&client, "").await, "10|0|0");
    assert_eq!(values(&client).await, "0 2 4 6 8 10 12 14 16 18");
    let jobs = "SELECT job_type, table_name, state FROM system.public.jobs ORDER BY created_at";
    assert_eq!(rows(&client, jobs).await, ["create_function|f|succeeded", "function_refresh|n|succeeded"]);
    let said = "SELECT details FROM system.public.job_events WHERE message = 'environment built'";
    assert!(rows(&client, said).await[0].contains("lgnumbers-1.0"), "{:?}", rows(&client, said).await);
    // The same packages again are there already.
    run(&client, "ALTER FUNCTION f SET (mode = 'scalar')").await;
    assert_eq!(rows(&client, said).await.len(), 1);
    assert_eq!(std::fs::read_dir(&environments).unwrap().count(), 1);
    // A refresh that finds it gone builds it again, as a part of its own.
    std::fs::remove_dir_all(&environments).unwrap();
    let refresh = "REFRESH COLUMN y ON n WHERE x < 4 WAIT";
    let job = value(&client, refresh, "job_id").await.unwrap();
    let parts = format!("SELECT job_type, state, job_id FROM job_children('{job}') ORDER BY created_at");
    let parts = rows(&client, &parts).await;
    assert!(parts.len() == 2 && parts[0].starts_with("build_environment|succeeded|"), "{parts:?}");
    assert!(parts[1].starts_with("refresh_splits|succeeded|"), "{parts:?}");
    let child = parts[0].rsplit('|').next().unwrap();
    let built = rows(&client, &format!("SHOW JOB EVENTS '{child}' WHERE message = 'environment built'")).await;
    assert!(built.len() == 1 && built[0].contains("lgnumbers-1.0"), "{built:?}");
    assert_eq!(rows(&client, said).await.len(), 1, "events of a part are not those of the job");
    // A package that is not there fails the job with the tool's own words, and there is no version.
    let create =
        "CREATE FUNCTION g (x int64) RETURNS int64 LANGUAGE python AS 'def g(x): return x' WITH (pip = 'lgnosuch')";
    let failed = error(&client, create).await;
    assert!(failed.starts_with("38000") && failed.contains("FunctionBuildError"), "{failed}");
    assert!(failed.contains("No matching distribution found for lgnosuch"), "{failed}");
    assert_eq!(rows(&client, "SHOW FUNCTIONS").await.len(), 2);
    assert_eq!(std::fs::read_dir(&environments).unwrap().count(), 1, "no half environment stays");
}

#[tokio::test]
async fn packages_are_names_and_neither_paths_nor_urls_nor_options() {
    let (_gateway, client) = numbers().await;
    for pip in
        ["/etc", "./x", "git+https://example.org/x", "x @ file:///etc", "-r /etc/passwd", "https://example.org/x.whl"]
    {
        let create = "CREATE FUNCTION g (x int64) RETURNS int64 LANGUAGE python AS 'def g(x): return x'";
        let refused = error(&client, &format!("{create} WITH (pip = '{pip}')")).await;
        assert!(refused.starts_with("22023") && refused.contains("\"pip\""), "{pip}: {refused}");
    }
    assert!(rows(&client, "SHOW JOBS").await.is_empty());
}

fn create(document: &str) -> String {
    format!("CREATE FUNCTION f FROM '{}'", document.replace('\'', "''"))
}

const CLASS: &str = r#"
import os
import helpers
from lancedb.functions import udf
from lancedb.secrets import EnvVarSecret
@udf(code=[helpers])
class f:
    def __init__(self, by: int, unit: str = "m"):
        self.by, self.unit = by, unit
    def __call__(self, x: int) -> str:
        return f"{helpers.times(x, self.by)}{self.unit}{len(os.environ['KEY'])}"
print(f.bind_secrets([EnvVarSecret(secret_name="key", env_variable="KEY")]).model_dump_json())
"#;

#[tokio::test]
async fn sdk_02_a_class_of_the_client_brings_its_modules_its_constants_and_its_secrets() {
    let (gateway, client) = numbers().await;
    let document = registered(CLASS);
    let missing = error(&client, &create(&document)).await;
    assert!(missing.starts_with("42704") && missing.contains("key"), "{missing}");
    run(&client, "CREATE SECRET key TYPE = GENERIC_STRING SECRET_STRING = 'abcd'").await;
    let made = value(&client, &create(&document), "definition").await.unwrap();
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["secret_bindings"][0]["secret_ref"]["name"], "key", "{made}");
    assert_eq!(made["signature"]["initialization"][0]["name"], "by", "{made}");
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x, by => 3); ALTER TABLE n ADD COLUMN z AS f(x, 2, 'km')").await;
    let failed = error(&client, "REFRESH COLUMN y ON n WAIT").await;
    assert!(failed.contains("row 3 of fragment 0") && failed.contains("helpers/times.py"), "{failed}");
    run(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip') WAIT").await;
    run(&client, "REFRESH COLUMN z ON n WHERE x = 5 WAIT").await;
    assert_eq!(rows(&client, "SELECT y, z FROM n WHERE x IN (3, 5) ORDER BY x").await, ["∅|∅", "15m4|10km4"]);
    // Whoever registers needs the secret.
    run(&client, "CREATE USER ann PASSWORD 'ann-password'; GRANT USAGE ON DATABASE lancegate TO USER ann").await;
    run(&client, "GRANT USAGE, CREATE FUNCTION ON SCHEMA public TO USER ann").await;
    let ann = gateway.connect_as("ann", "ann-password").await.unwrap();
    let refused = error(&ann, &create(&document).replacen("FUNCTION f", "FUNCTION other", 1)).await;
    assert!(refused.starts_with("42501") || refused.starts_with("42704"), "{refused}");
    let changed = |from: &str, to: &str| create(&document.replacen(from, to, 1));
    for (sql, code, part) in [
        (changed("\"kind\":\"env\"", "\"kind\":\"file\""), "0A000", "file"),
        (changed("\"variable\":\"KEY\"", "\"variable\":\"K-Y\""), "22023", "K-Y"),
    ] {
        let refused = error(&client, &sql).await;
        assert!(refused.starts_with(code) && refused.contains(part), "{sql}\n{refused}");
    }
}

const VECTORIZED: &str = r#"
from typing import Annotated
import pyarrow as pa
import pyarrow.compute as pc
from lancedb.functions import udf
schema = dict(input_schema=pa.schema([pa.field("x", pa.int64())]), output_schema=pa.field("r", pa.int64(), nullable=False))
@udf(**schema)
def f(x: pa.Array) -> pa.Array:
    return pc.add(x, len(x))
print(f.registration_request.model_dump_json())
"#;

#[tokio::test]
async fn sdk_02_annotations_decide_how_a_callable_of_the_client_is_called() {
    let (_gateway, client) = numbers().await;
    run(&client, &create(&registered(VECTORIZED))).await;
    assert_eq!(value(&client, "DESCRIBE FUNCTION f", "mode").await.as_deref(), Some("vectorized"));
    run(&client, "ALTER TABLE n ADD COLUMN y AS f(x)").await;
    assert_eq!(counts(&client, "WITH (batch_size = 5)").await, "10|0|0");
    assert_eq!(values(&client).await, "5 6 7 8 9 10 11 12 13 14");
    let batch = VECTORIZED.replace("x: pa.Array", "x: pa.RecordBatch").replace("pc.add(x, len(x))", "x.column('x')");
    run(&client, &create(&registered(&batch))).await;
    assert_eq!(value(&client, "DESCRIBE FUNCTION f", "mode").await.as_deref(), Some("record_batch"));
    assert_eq!(rows(&client, "SELECT f(x) FROM n WHERE x = 4").await, ["4"]);
}

/// A gateway whose environments are in a folder of the test, with other variables.
fn gateway_with(folder: &Path, variables: &[(&str, &str)]) -> Gateway {
    let environments = folder.join("environments");
    Gateway::start_with_env(&config(&format!("environments = {environments:?}\n")), variables)
}

#[tokio::test]
async fn uv_builds_the_environment_where_it_is_found() {
    let folder = tempfile::Builder::new().prefix("lancegate-uv-").tempdir_in("/var/tmp").unwrap();
    wheel(folder.path(), "lgnumbers", "def twice(x): return 2 * x\n");
    let bin = Path::new(&std::env::var("LANCEGATE_TEST_PYTHON").unwrap()).parent().unwrap().to_owned();
    assert!(bin.join("uv").exists(), "tests/requirements.txt has uv");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let (links, cache) = (folder.path().to_str().unwrap(), folder.path().join("cache"));
    let variables = [
        ("PATH", path.as_str()),
        ("UV_OFFLINE", "1"),
        ("UV_FIND_LINKS", links),
        ("UV_CACHE_DIR", cache.to_str().unwrap()),
    ];
    let gateway = gateway_with(folder.path(), &variables);
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n SELECT * FROM generate_series(0, 9)").await;
    declare(&client, "import lgnumbers\ndef f(x): return lgnumbers.twice(x)", "WITH (pip = 'lgnumbers==1.0')").await;
    assert_eq!(counts(&client, "").await, "10|0|0");
    assert_eq!(values(&client).await, "0 2 4 6 8 10 12 14 16 18");
    let said = "SELECT details FROM system.public.job_events WHERE message = 'environment built'";
    let said = rows(&client, said).await.join("\n");
    assert!(said.contains("+ lgnumbers==1.0"), "what uv says: {said}");
    let create =
        "CREATE FUNCTION g (x int64) RETURNS int64 LANGUAGE python AS 'def g(x): return x' WITH (pip = 'lgnosuch')";
    let failed = error(&client, create).await;
    assert!(failed.starts_with("38000") && failed.contains("lgnosuch was not found"), "{failed}");
}

const WITH_CONDA: &str =
    "WITH (conda = 'lgnumbers=1.0 conda-forge::other>=2', conda_channels = 'conda-forge bioconda')";

#[tokio::test]
async fn packages_of_conda_without_conda_are_a_failed_job_that_says_what_is_missing() {
    let folder = tempfile::Builder::new().prefix("lancegate-conda-").tempdir_in("/var/tmp").unwrap();
    let gateway = gateway_with(folder.path(), &[("PATH", "/nowhere")]);
    let client = gateway.connect().await;
    let create = |with: &str| {
        format!("CREATE FUNCTION f (x int64) RETURNS int64 LANGUAGE python AS 'def f(x): return x' {with}")
    };
    let failed = error(&client, &create(WITH_CONDA)).await;
    assert!(failed.starts_with("38000") && failed.contains("FunctionBuildError"), "{failed}");
    assert!(failed.contains("micromamba or conda on the PATH"), "{failed}");
    assert_eq!(rows(&client, "SELECT job_type, state FROM system.public.jobs").await, ["create_function|failed"]);
    for (with, part) in [
        ("WITH (conda = 'a', pip = 'b')", "exclude each other"),
        ("WITH (conda_channels = 'conda-forge')", "needs \"conda\""),
        ("WITH (conda = 'a', conda_channels = 'https://example.org')", "channels"),
        ("WITH (conda = '../a')", "conda"),
        ("WITH (conda = '--file=/etc/passwd')", "conda"),
    ] {
        let refused = error(&client, &create(with)).await;
        assert!(refused.starts_with("22023") && refused.contains(part), "{with}: {refused}");
    }
    assert!(rows(&client, "SHOW FUNCTIONS").await.is_empty());
}

/// Stands for the tool: makes a prefix that has the module, and says what it was asked for.
const MICROMAMBA: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo 2.0.0; exit 0; }
echo "asked: $*"
while [ "$1" != --prefix ]; do shift; done
prefix=$2
case "$*" in *nosuch*) mkdir -p "$prefix"; echo "nosuch does not exist"; exit 1;; esac
PYTHON -m venv "$prefix" || exit 1
for packages in "$prefix"/lib/python*/site-packages; do
    echo "def twice(x): return 2 * x" > "$packages/lgnumbers.py"
    ln -s "$(PYTHON -c 'import os, pyarrow; print(os.path.realpath(os.path.dirname(pyarrow.__file__)))')" "$packages/pyarrow"
done
"#;

#[tokio::test]
async fn the_tool_of_conda_is_asked_for_an_environment_in_its_place() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::Builder::new().prefix("lancegate-conda-").tempdir_in("/var/tmp").unwrap();
    let tool = folder.path().join("micromamba");
    std::fs::write(&tool, MICROMAMBA.replace("PYTHON", &std::env::var("LANCEGATE_TEST_PYTHON").unwrap())).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let gateway = gateway_with(folder.path(), &[("PATH", &path)]);
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE n (x BIGINT); INSERT INTO n SELECT * FROM generate_series(0, 9)").await;
    declare(&client, "import lgnumbers\ndef f(x): return lgnumbers.twice(x)", WITH_CONDA).await;
    assert_eq!(counts(&client, "").await, "10|0|0");
    assert_eq!(values(&client).await, "0 2 4 6 8 10 12 14 16 18");
    let said = "SELECT details FROM system.public.job_events WHERE message = 'environment built'";
    let said = rows(&client, said).await.join("\n");
    for part in ["--channel conda-forge --channel bioconda", "lgnumbers=1.0 conda-forge::other>=2 pyarrow", "python=3."]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let create =
        "CREATE FUNCTION g (x int64) RETURNS int64 LANGUAGE python AS 'def g(x): return x' WITH (conda = 'nosuch')";
    let failed = error(&client, create).await;
    assert!(failed.contains("nosuch does not exist"), "{failed}");
    let environments = std::fs::read_dir(folder.path().join("environments")).unwrap();
    assert_eq!(environments.count(), 1, "no half environment stays");
    // A source for a Python that is built first is looked at by that one, in the job.
    let create = "CREATE FUNCTION g (x int64) RETURNS int64 LANGUAGE python AS 'def g(x:' WITH (conda = 'lgnumbers')";
    let failed = error(&client, create).await;
    assert!(failed.starts_with("42601") && failed.contains("(line 1)"), "{failed}");
}
