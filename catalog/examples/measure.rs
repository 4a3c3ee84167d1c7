//! Measures the store on the disk of a folder:
//!
//! ```text
//! cargo run --profile quick -p lancegate-catalog --example measure -- /var/lib/lancegate
//! ```
//!
//! Prints the latency of a durable submission, alone and from eight callers,
//! the rate of claims, and of a listing in a store with many jobs.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use chrono::Utc;
use lancegate_catalog::{Catalog, GatewayId, JobFilter, JobKind, NewJob};
use serde_json::json;
use tokio::task::JoinSet;

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const SUBMISSIONS: usize = 1_000;
const CALLERS: usize = 8;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Outcome {
    let parent = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::TempDir::new_in(parent)?;
    let catalog = Catalog::open_sqlite(&folder.path().join("catalog.db")).await?;
    let gateway = GatewayId::new(Utc::now());

    let begun = Instant::now();
    let alone = submit_many(&catalog, SUBMISSIONS).await?;
    report("submit, 1 caller", alone, begun.elapsed())?;

    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let catalog = catalog.clone();
        callers.spawn(async move { submit_many(&catalog, SUBMISSIONS).await });
    }
    let mut together = Vec::new();
    while let Some(latencies) = callers.join_next().await {
        together.extend(latencies??);
    }
    report("submit, 8 callers", together, begun.elapsed())?;

    let begun = Instant::now();
    let mut claims = Vec::new();
    let mut claimed = None;
    for _ in 0..SUBMISSIONS {
        let one = Instant::now();
        claimed = catalog.claim_next(&gateway, Duration::from_secs(30), Utc::now()).await?;
        claims.push(one.elapsed());
    }
    report("claim_next, 1 caller", claims, begun.elapsed())?;

    if let Some(job) = claimed {
        let begun = Instant::now();
        let mut samples = Vec::new();
        for rows in 0..SUBMISSIONS {
            let one = Instant::now();
            let sample = json!({ "rows_computed": rows });
            catalog.record_progress(job.id, job.epoch, "running", sample, Utc::now()).await?;
            samples.push(one.elapsed());
        }
        report("record_progress, 1 caller", samples, begun.elapsed())?;
    }

    let begun = Instant::now();
    let mut pages = Vec::new();
    for _ in 0..SUBMISSIONS {
        let one = Instant::now();
        let filter = JobFilter { database: Some("db".to_owned()), limit: Some(100), ..JobFilter::default() };
        catalog.jobs(filter).await?;
        pages.push(one.elapsed());
    }
    report("jobs, 100 of 9000", pages, begun.elapsed())?;

    let begun = Instant::now();
    catalog.close().await;
    Catalog::open_sqlite(catalog.path()).await?.close().await;
    report("close, check and open", vec![begun.elapsed()], begun.elapsed())
}

async fn submit_many(catalog: &Catalog, count: usize) -> Outcome<Vec<Duration>> {
    let mut latencies = Vec::with_capacity(count);
    for _ in 0..count {
        let mut new = NewJob::new(JobKind::ComputedRefresh, "db", "docs", "alice");
        new.spec = json!({ "column": "embedding", "expression": "x * 2", "options": {} });
        let one = Instant::now();
        catalog.submit(new, Utc::now()).await?;
        latencies.push(one.elapsed());
    }
    Ok(latencies)
}

fn report(what: &str, mut latencies: Vec<Duration>, total: Duration) -> Outcome {
    latencies.sort();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    let rate = latencies.len() as f64 / total.as_secs_f64();
    writeln!(
        std::io::stdout(),
        "{what:<28} p50 {:>9.3?}  p99 {:>9.3?}  max {:>9.3?}  {rate:>8.0}/s",
        at(0.5),
        at(0.99),
        at(1.0),
    )?;
    Ok(())
}
