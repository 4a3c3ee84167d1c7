//! What keeps a Function to itself, as an operator and a client see it. The rest of W01 to W16 is in the functions crate.

use std::process::Command;

use super::{config, counts, declare, numbers, values};
use crate::harness::{Gateway, LANCEGATE, text};
use crate::rows::{error, rows};

#[tokio::test]
async fn w01_w02_a_function_sees_neither_the_gateways_files_nor_a_network() {
    let (gateway, client) = numbers().await;
    let (data, port) = (gateway.data().display(), gateway.pg_addr().port());
    let source = format!(
        "import os, socket\ndef f(x):\n if x == 0: return int(os.path.exists('{data}')) + int(os.path.exists('/etc/passwd'))\n if x == 1: return len([p for p in os.listdir('/proc') if p.isdigit()])\n if x == 2: return int('LANCEGATE_PASSWORD' in os.environ)\n if x == 3: socket.create_connection(('127.0.0.1', {port}))\n return 5"
    );
    declare(&client, &source, "").await;
    assert_eq!(counts(&client, "WITH (error_policy = 'skip')").await, "9|1|1");
    assert_eq!(values(&client).await, "0 1 0 ∅ 5 5 5 5 5 5");
    assert!(rows(&client, "SHOW ERRORS ON n").await[0].contains("PermissionError"));
}

#[tokio::test]
async fn w11_what_a_function_prints_stays_out_of_the_log_and_of_the_answers() {
    let (gateway, client) = numbers().await;
    declare(&client, "import os\ndef f(x):\n for _ in range(64): os.write(1, b'LGF1' * 250_000); os.write(2, b'z' * 1_000_000)\n return x", "").await;
    assert_eq!(counts(&client, "").await, "10|0|0");
    assert_eq!(values(&client).await, "0 1 2 3 4 5 6 7 8 9");
    assert!(gateway.log().len() < 100_000);
}

#[tokio::test]
async fn w10_a_worker_that_ends_fails_its_job_and_no_other() {
    let (_gateway, client) = numbers().await;
    declare(&client, "import os\ndef f(x):\n if x == 3:\n  print('bye', flush=True)\n  os.abort()\n return x", "")
        .await;
    let failed = error(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip') WAIT").await;
    assert!(failed.starts_with("38000") && failed.contains("WorkerLost: It printed: bye"), "{failed}");
    assert_eq!(counts(&client, "WHERE x <> 3").await, "9|0|1");
}

#[tokio::test]
async fn w13_an_answer_that_is_none_fails_the_job_and_the_gateway_goes_on() {
    for (source, options) in [
        ("def f(x): return x[:-1]", "WITH (mode = 'vectorized')"),
        ("def f(x): return ['a'] * len(x)", "WITH (mode = 'vectorized')"),
        (
            "import os\ndef f(x):\n for fd in range(3, 64):\n  try: os.write(fd, b'LGF1' + b'\\xff' * 16)\n  except OSError: pass\n return x",
            "",
        ),
    ] {
        let (_gateway, client) = numbers().await;
        declare(&client, source, options).await;
        let failed = error(&client, "REFRESH COLUMN y ON n WITH (error_policy = 'skip') WAIT").await;
        assert!(failed.starts_with("39000") && failed.contains("ContractError"), "{source}\n{failed}");
        assert_eq!(rows(&client, "SELECT count(*) FROM n").await, ["10"]);
    }
}

#[tokio::test]
async fn the_start_says_what_confines_functions() {
    let gateway = Gateway::start_with(&config(""));
    let log = gateway.log();
    assert!(log.contains("Functions run in a sandbox"), "{log}");
    for part in ["namespaces", "private root", "landlock", "seccomp"] {
        assert!(log.contains(part), "{log}");
    }
    let gateway = Gateway::start_with("[functions]\nsandbox = \"off\"\n");
    assert!(gateway.log().contains("functions.sandbox is off"), "{}", gateway.log());
}

/// Runs the gateway where the kernel gives no more user namespaces.
fn without_namespaces(config: &str) -> std::process::Output {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lancegate.toml");
    std::fs::write(&file, config).unwrap();
    let refuse = "echo 0 > /proc/sys/user/max_user_namespaces && exec timeout 20 \"$0\" \"$@\"";
    let serve = ["serve", "--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"];
    Command::new("unshare")
        .args(["-r", "sh", "-c", refuse, LANCEGATE])
        .args(serve)
        .arg("--config")
        .arg(&file)
        .arg("--data")
        .arg(folder.path().join("data"))
        .env_remove("LANCEGATE_TEST_PYTHON")
        .env("LANCEGATE_PASSWORD", crate::harness::PASSWORD)
        .output()
        .unwrap()
}

#[test]
fn a_sandbox_that_is_required_and_not_to_be_had_refuses_the_start() {
    let output = without_namespaces("[functions]\nsandbox = \"require\"\n");
    let said = text(&output);
    assert!(!output.status.success() && output.status.code() != Some(124), "{said}");
    assert!(said.contains("functions.sandbox") && said.contains("namespaces"), "{said}");
    assert!(!said.contains("is ready"), "{said}");
}
