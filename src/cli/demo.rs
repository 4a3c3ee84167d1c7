//! `lancegate demo`: the main job on a small data set, as a user would see it.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use lancegate_auth::Secret;

use super::{CommandResult, io_runtime, output};
use crate::admin::{self, FIRST_USER};
use crate::gateway::Gateway;
use crate::shutdown::Signals;
use crate::telemetry;
use lancegate_engine::config::{Config, Sources};

mod client;

use client::Client;

/// One statement may take so long; the data set is tiny.
const STATEMENT_DEADLINE: Duration = Duration::from_secs(120);

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Leave the gateway running and print how to connect.
    #[arg(long)]
    keep: bool,
    /// Use this empty folder, and leave it, instead of a temporary one.
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
}

/// What is shown, in order: a remark and a statement.
const BEFORE: &[(&str, &str)] = &[
    ("A table. It is a Lance table: docs.lance in the data folder.", "CREATE TABLE docs (id BIGINT, body TEXT)"),
    ("", "INSERT INTO docs VALUES (1, 'lance'), (2, 'gate'), (3, 'computed columns')"),
    (
        "A computed column. It is declared at once and filled by a refresh.",
        "ALTER TABLE docs ADD COLUMN body_len AS length(body)",
    ),
    ("What would a refresh do? Nothing runs yet.", "EXPLAIN REFRESH COLUMN body_len ON docs"),
];

/// The statement whose answer has the job id that the next ones need.
const REFRESH: (&str, &str) =
    ("Start it. The answer comes at once; the job goes on by itself.", "REFRESH COLUMN body_len ON docs");

const AFTER: &[(&str, &str)] = &[
    ("Watch it, or wait for it.", "SHOW JOBS"),
    ("", "WAIT JOB '{job}' TIMEOUT '60 seconds'"),
    ("Where did the time go?", "DESCRIBE JOB '{job}'"),
    ("The column is filled.", "SELECT * FROM docs ORDER BY id"),
    (
        "New and changed rows wait for the next refresh, which computes only those.",
        "INSERT INTO docs VALUES (4, 'later')",
    ),
    ("", "UPDATE docs SET body = 'gateway' WHERE id = 2"),
    ("", "REFRESH COLUMN body_len ON docs WAIT"),
    ("", "SELECT * FROM docs ORDER BY id"),
];

/// The question whose answer says that the job was done, and that answer.
const PROOF: (&str, &str) = ("SELECT count(*) FROM docs WHERE body_len = length(body)", "4");

pub(super) fn run(args: DemoArgs) -> CommandResult {
    let temporary = tempfile::Builder::new().prefix("lancegate-demo-").tempdir()?;
    let data = args.data.unwrap_or_else(|| temporary.path().display().to_string());
    let password = admin::random_password()?;
    let config = configure(&data, &password)?;
    if config.metadata_path().exists() {
        return Err(format!("{data} is in use already; the demo needs an empty folder").into());
    }
    telemetry::init(&config.log);
    io_runtime()?.block_on(show(config, password, args.keep))
}

fn configure(data: &str, password: &Secret<String>) -> Result<Config, lancegate_engine::config::Problems> {
    let flag = |key: &str, value: &str| ("--set".to_owned(), key.to_owned(), value.to_owned());
    Config::load(Sources {
        file: None,
        // Only the password: the demo shows the same thing whatever the environment says.
        environment: vec![(OsString::from("LANCEGATE_PASSWORD"), OsString::from(password.expose()))],
        flags: vec![
            flag("data", data),
            flag("pg.listen", "127.0.0.1:0"),
            flag("http.listen", "127.0.0.1:0"),
            flag("log.level", "warn,lance=error,lancegate=warn"),
        ],
    })
}

async fn show(config: Config, password: Secret<String>, keep: bool) -> CommandResult {
    let data = config.data.clone();
    let started = Instant::now();
    let gateway = Gateway::start(config).await?;
    output::line(format!("A gateway runs on {} with data in {data}.", gateway.pg_addr()));
    let shown = transcript(&gateway, &password).await;
    if shown.is_ok() {
        output::line(format!("\nDone in {:.1} s.", started.elapsed().as_secs_f64()));
        if keep {
            linger(&gateway, &password, Path::new(&data)).await?;
        }
    }
    gateway.stop().await;
    shown
}

async fn transcript(gateway: &Gateway, password: &Secret<String>) -> CommandResult {
    let client = Client::connect(gateway.pg_addr(), FIRST_USER, password).await?;
    output::line(format!("The statements go through {}.", client.name()));
    for (remark, statement) in BEFORE {
        step(&client, remark, statement).await?;
    }
    let answer = step(&client, REFRESH.0, REFRESH.1).await?;
    let job = job_id(&answer).ok_or("the answer of REFRESH COLUMN names no job")?;
    for (remark, statement) in AFTER {
        step(&client, remark, &statement.replace("{job}", job)).await?;
    }
    let (question, expected) = PROOF;
    let answer = ask(&client, question).await?;
    if answer.split_whitespace().any(|word| word == expected) {
        return Ok(());
    }
    Err(format!("the column is not filled as it should be; {question} answered\n{answer}").into())
}

/// Prints a remark and a statement, runs it and prints its answer.
async fn step(client: &Client, remark: &str, statement: &str) -> Result<String, Box<dyn std::error::Error>> {
    output::line("");
    if !remark.is_empty() {
        output::line(format!("-- {remark}"));
    }
    output::line(format!("lancegate=> {statement};"));
    let answer = ask(client, statement).await?;
    output::line(answer.trim_end());
    Ok(answer)
}

async fn ask(client: &Client, statement: &str) -> Result<String, Box<dyn std::error::Error>> {
    match tokio::time::timeout(STATEMENT_DEADLINE, client.run(statement)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {STATEMENT_DEADLINE:?} to {statement}").into()),
    }
}

/// Finds the first job id in an answer.
fn job_id(answer: &str) -> Option<&str> {
    let mut words = answer.split(|c: char| c.is_whitespace() || c == '|');
    // The heading is a word of this form, too.
    words.find(|word| word.starts_with("job_") && *word != "job_id")
}

async fn linger(gateway: &Gateway, password: &Secret<String>, data: &Path) -> CommandResult {
    let address = gateway.pg_addr();
    output::line("The gateway goes on; Ctrl-C stops it. Connect with");
    output::line(format!(
        "  PGPASSWORD={} psql -h {} -p {} -U {FIRST_USER}",
        password.expose(),
        address.ip(),
        address.port()
    ));
    output::line(format!("and look at the files in {}.", data.display()));
    Signals::listen()?.next().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_id_is_found_in_a_table_of_psql() {
        let answer = "  status   | job_id\n-----------+-------\n submitted | job_01ABC | \n(1 row)";
        assert_eq!(job_id(answer), Some("job_01ABC"));
        assert_eq!(job_id("submitted"), None);
    }
}
