//! sqlx: a pool, statements that are prepared behind one's back, migrations.

use std::borrow::Cow;
use std::env::var;
use std::error::Error;

use chrono::{DateTime, NaiveDate, Utc};
use futures::TryStreamExt;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolCopyExt, PgPoolOptions};
use sqlx::{Acquire, Column, Executor, Postgres, Row, TypeInfo};
use uuid::Uuid;

type Told = Result<(), Box<dyn Error>>;

/// Fails with a text unless two values are equal.
macro_rules! want {
    ($found:expr, $wanted:expr) => {
        let (found, wanted) = (&$found, &$wanted);
        if found != wanted {
            return Err(format!("{found:?} instead of {wanted:?}").into());
        }
    };
}

fn options() -> Result<PgConnectOptions, Box<dyn Error>> {
    let options = PgConnectOptions::new_without_pgpass().host(&var("PGHOST")?).port(var("PGPORT")?.parse()?);
    let options = options.username(&var("PGUSER")?).password(&var("PGPASSWORD")?).database(&var("PGDATABASE")?);
    Ok(options.ssl_mode(sqlx::postgres::PgSslMode::Prefer))
}

async fn types_out(pool: &PgPool) -> Told {
    let row = pool.fetch_one("SELECT 1 AS a, 2::int8 AS b, 'x' AS c, ARRAY[1, 2] AS d, now() AS e").await?;
    let names: Vec<&str> = row.columns().iter().map(|column| column.type_info().name()).collect();
    want!(names, ["INT4", "INT8", "TEXT", "INT4[]", "TIMESTAMPTZ"]);
    want!(row.try_get::<i32, _>("a")?, 1);
    want!(row.try_get::<Vec<i32>, _>("d")?, vec![1, 2]);
    row.try_get::<DateTime<Utc>, _>("e")?;
    Ok(())
}

async fn both_ways<T>(pool: &PgPool, name: &str, value: T) -> Told
where
    T: Clone + PartialEq + std::fmt::Debug + Send + Unpin + 'static,
    T: for<'q> sqlx::Encode<'q, Postgres> + for<'r> sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
{
    let asked = format!("SELECT $1::{name}");
    let found: T = sqlx::query_scalar(&asked).bind(value.clone()).fetch_one(pool).await?;
    want!(found, value);
    Ok(())
}

async fn types_in(pool: &PgPool) -> Told {
    both_ways(pool, "bool", true).await?;
    both_ways(pool, "int2", -3i16).await?;
    both_ways(pool, "int4", 70_000i32).await?;
    both_ways(pool, "int8", 1i64 << 40).await?;
    both_ways(pool, "float8", -2.25f64).await?;
    both_ways(pool, "text", "a'b\"ü\n".to_owned()).await?;
    both_ways(pool, "bytea", vec![0u8, 255]).await?;
    both_ways(pool, "date", NaiveDate::from_ymd_opt(1969, 7, 20).ok_or("a date")?).await?;
    both_ways(pool, "uuid", Uuid::from_u128(5)).await?;
    both_ways(pool, "json", serde_json::json!({"a": [1, null]})).await?;
    both_ways(pool, "int4[]", vec![Some(1i32), None, Some(3)]).await?;
    both_ways(pool, "text[]", vec!["a".to_owned(), "b,c".to_owned()]).await
}

async fn prepare(pool: &PgPool) -> Told {
    for (over, count) in [(0i64, 3), (1, 2), (9, 0)] {
        let rows = sqlx::query("SELECT id, body FROM docs WHERE id > $1 ORDER BY id").bind(over).fetch_all(pool).await?;
        want!(rows.len(), count);
    }
    Ok(())
}

async fn transaction(pool: &PgPool) -> Told {
    let mut transaction = pool.begin().await?;
    let done = sqlx::query("INSERT INTO docs (id, body) VALUES ($1, $2)").bind(4i64).bind("four");
    want!(done.execute(&mut *transaction).await?.rows_affected(), 1);
    transaction.commit().await?;
    want!(pool.execute("DELETE FROM docs WHERE id = 4").await?.rows_affected(), 1);
    Ok(())
}

async fn savepoint(pool: &PgPool) -> Told {
    let mut transaction = pool.begin().await?;
    let mut inner = transaction.begin().await?;
    let failed = sqlx::query("SELECT nope FROM docs").fetch_all(&mut *inner).await.err().ok_or("no error")?;
    want!(failed.as_database_error().and_then(|error| error.code()), Some(Cow::Borrowed("42703")));
    inner.rollback().await?;
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM docs").fetch_one(&mut *transaction).await?;
    want!(count, 3);
    Ok(transaction.commit().await?)
}

async fn error(pool: &PgPool) -> Told {
    let failed = sqlx::query("SELECT body FROM nope").fetch_all(pool).await.err().ok_or("no error")?;
    let failed = failed.into_database_error().ok_or("an error of the server")?;
    want!((failed.code(), failed.message()), (Some(Cow::Borrowed("42P01")), "relation \"nope\" does not exist"));
    let one: i32 = sqlx::query_scalar("SELECT 1").fetch_one(pool).await?;
    want!(one, 1);
    Ok(())
}

async fn stream(pool: &PgPool) -> Told {
    let mut rows = sqlx::query("SELECT i FROM generate_series(1, $1) AS g(i)").bind(100_000i64).fetch(pool);
    let (mut count, mut sum) = (0, 0);
    while let Some(row) = rows.try_next().await? {
        count += 1;
        sum += row.try_get::<i64, _>(0)?;
    }
    want!((count, sum), (100_000, 5_000_050_000));
    Ok(())
}

async fn copy_in(pool: &PgPool) -> Told {
    pool.execute("CREATE TABLE copied (id bigint, body text)").await?;
    let mut copy = pool.copy_in_raw("COPY copied FROM STDIN").await?;
    copy.send(&b"1\ta\n2\t\\N\n"[..]).await?;
    want!(copy.finish().await?, 2);
    Ok(())
}

async fn copy_out(pool: &PgPool) -> Told {
    let mut rows = pool.copy_out_raw("COPY (SELECT id, body FROM copied ORDER BY id) TO STDOUT").await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = rows.try_next().await? {
        bytes.extend_from_slice(&chunk);
    }
    want!(bytes, b"1\ta\n2\t\\N\n".to_vec());
    Ok(())
}

async fn computed(pool: &PgPool) -> Told {
    pool.execute("ALTER TABLE docs ADD COLUMN n AS length(body)").await?;
    pool.execute("REFRESH COLUMN n ON docs WAIT").await?;
    let found: Vec<i64> = sqlx::query_scalar("SELECT n::bigint FROM docs ORDER BY id").fetch_all(pool).await?;
    want!(found, [3, 3, 5]);
    Ok(())
}

async fn jobs(pool: &PgPool) -> Told {
    let newest = "SELECT job_id FROM system.public.jobs ORDER BY created_at DESC LIMIT 1";
    let id: String = sqlx::query_scalar(newest).fetch_one(pool).await?;
    let found = sqlx::query("SELECT * FROM describe_job($1)").bind(id).fetch_all(pool).await?;
    want!(found.is_empty(), false);
    Ok(())
}

async fn in_a_pool(pool: &PgPool) -> Told {
    let asked = (0..40i32).map(|number| async move {
        sqlx::query_scalar::<_, i32>("SELECT $1::int4 + 1").bind(number).fetch_one(pool).await
    });
    let found = futures::future::try_join_all(asked).await?;
    want!(found, (1..41).collect::<Vec<i32>>());
    Ok(())
}

async fn listen(pool: &PgPool) -> Told {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(if var("CONFORMANCE_REFERENCE").is_ok() { "any" } else { "lancegate_jobs" }).await?;
    listener.unlisten_all().await?;
    Ok(())
}

async fn migrations(pool: &PgPool) -> Told {
    let texts = ["CREATE TABLE migrated (id bigint)", "ALTER TABLE migrated ADD COLUMN body text"];
    let steps = (1..).zip(texts).map(|(version, text)| {
        Migration::new(version, Cow::Borrowed("step"), MigrationType::Simple, Cow::Borrowed(text), false)
    });
    let mut migrator = Migrator { migrations: Cow::Owned(steps.collect()), ..Migrator::DEFAULT };
    migrator.set_locking(false);
    migrator.run(pool).await?;
    migrator.run(pool).await?;
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM _sqlx_migrations").fetch_one(pool).await?;
    want!(count, 2);
    pool.execute("INSERT INTO migrated (id, body) VALUES (1, 'x')").await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Told {
    println!("version 0.8.6");
    let pool = PgPoolOptions::new().max_connections(4).connect_with(options()?).await?;
    pool.execute("CREATE TABLE docs (id bigint, body text)").await?;
    pool.execute("INSERT INTO docs VALUES (1, 'one'), (2, 'two'), (3, 'three')").await?;
    let told = |feature: &str, result: Told| match result {
        Ok(()) => println!("ok {feature}"),
        Err(why) => println!("fail {feature} {}", why.to_string().replace('\n', " ")),
    };
    told("connect", Ok(()));
    told("types_out", types_out(&pool).await);
    told("types_in", types_in(&pool).await);
    told("prepare", prepare(&pool).await);
    told("transaction", transaction(&pool).await);
    told("savepoint", savepoint(&pool).await);
    told("error", error(&pool).await);
    told("stream", stream(&pool).await);
    told("copy_in", copy_in(&pool).await);
    told("copy_out", copy_out(&pool).await);
    told("pool", in_a_pool(&pool).await);
    told("listen", listen(&pool).await);
    told("migrations", migrations(&pool).await);
    if var("CONFORMANCE_REFERENCE").is_ok() {
        println!("skip computed PostgreSQL has none\nskip jobs PostgreSQL has none");
        return Ok(());
    }
    told("computed", computed(&pool).await);
    told("jobs", jobs(&pool).await);
    Ok(())
}
