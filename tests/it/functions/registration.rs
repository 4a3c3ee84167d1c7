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
    let folder = tempfile::tempdir().unwrap();
    // The SDK packages the source of the callable, so it has to be in a file.
    let script = folder.path().join("registers.py");
    std::fs::write(&script, SDK).unwrap();
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
        (other("\"kind\":\"pip\"", "\"kind\":\"conda\""), "0A000", "conda"),
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
