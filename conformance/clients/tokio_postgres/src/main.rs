//! tokio-postgres: everything in binary, pipelines, COPY, cancel.

use std::env::var;
use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use futures::{SinkExt, StreamExt, TryStreamExt, pin_mut};
use tokio_postgres::types::{FromSql, ToSql};
use tokio_postgres::{AsyncMessage, Client, NoTls};
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

fn config() -> Result<tokio_postgres::Config, Box<dyn Error>> {
    let mut config = tokio_postgres::Config::new();
    config.host(var("PGHOST")?).port(var("PGPORT")?.parse()?).user(var("PGUSER")?);
    config.password(var("PGPASSWORD")?).dbname(var("PGDATABASE")?);
    Ok(config)
}

async fn connect() -> Result<Client, Box<dyn Error>> {
    let (client, connection) = config()?.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn both_ways<T>(c: &Client, name: &str, value: T) -> Told
where
    T: ToSql + Sync + for<'a> FromSql<'a> + PartialEq + std::fmt::Debug,
{
    let row = c.query_one(&format!("SELECT $1::{name} AS v, NULL::{name} AS n"), &[&value]).await;
    let row = row.map_err(|error| format!("{name}: {error}"))?;
    want!(row.try_get::<_, T>("v")?, value);
    want!(row.try_get::<_, Option<T>>("n")?, None);
    Ok(())
}

async fn types_in(c: &Client) -> Told {
    let date = NaiveDate::from_ymd_opt(1969, 7, 20).ok_or("a date")?;
    let time = NaiveTime::from_hms_micro_opt(1, 2, 3, 4).ok_or("a time")?;
    both_ways(c, "bool", true).await?;
    both_ways(c, "int2", -3i16).await?;
    both_ways(c, "int4", 70_000i32).await?;
    both_ways(c, "int8", 1i64 << 40).await?;
    both_ways(c, "float4", 1.5f32).await?;
    both_ways(c, "float8", -2.25f64).await?;
    both_ways(c, "text", "a'b\"ü\n".to_owned()).await?;
    both_ways(c, "bytea", vec![0u8, 255]).await?;
    both_ways(c, "date", date).await?;
    both_ways(c, "time", time).await?;
    both_ways(c, "timestamp", NaiveDateTime::new(date, time)).await?;
    both_ways(c, "timestamptz", DateTime::<Utc>::from_timestamp(1_709_208_000, 0).ok_or("an instant")?).await?;
    both_ways(c, "uuid", Uuid::from_u128(5)).await?;
    both_ways(c, "json", serde_json::json!({"a": [1, null]})).await?;
    both_ways(c, "int4[]", vec![Some(1i32), None, Some(3)]).await?;
    both_ways(c, "text[]", vec!["a".to_owned(), "b,c".to_owned(), String::new()]).await?;
    both_ways(c, "float4[]", vec![0.5f32, 1.0]).await
}

async fn types_out(c: &Client) -> Told {
    let row = c.query_one("SELECT 1 AS a, 2::int8 AS b, 'x' AS c, true AS d, now() AS e, ARRAY[1, 2] AS f", &[]).await?;
    let names: Vec<&str> = row.columns().iter().map(|column| column.type_().name()).collect();
    want!(names, ["int4", "int8", "text", "bool", "timestamptz", "_int4"]);
    want!(row.try_get::<_, i32>("a")?, 1);
    want!(row.try_get::<_, Vec<i32>>("f")?, vec![1, 2]);
    Ok(())
}

async fn prepare(c: &Client) -> Told {
    let statement = c.prepare("SELECT id, body FROM docs WHERE id > $1 ORDER BY id").await?;
    want!(statement.params()[0].name(), "int8");
    for (over, count) in [(0i64, 3), (1, 2), (9, 0)] {
        want!(c.query(&statement, &[&over]).await?.len(), count);
    }
    Ok(())
}

async fn transaction(c: &mut Client) -> Told {
    let transaction = c.transaction().await?;
    want!(transaction.execute("INSERT INTO docs (id, body) VALUES ($1, $2)", &[&4i64, &"four"]).await?, 1);
    transaction.commit().await?;
    want!(c.execute("DELETE FROM docs WHERE id = 4", &[]).await?, 1);
    Ok(())
}

async fn savepoint(c: &mut Client) -> Told {
    let mut transaction = c.transaction().await?;
    let inner = transaction.transaction().await?;
    let failed = inner.query("SELECT nope FROM docs", &[]).await.err().ok_or("no error")?;
    want!(failed.code().map(|code| code.code().to_owned()), Some("42703".to_owned()));
    inner.rollback().await?;
    want!(transaction.query_one("SELECT count(*) FROM docs", &[]).await?.try_get::<_, i64>(0)?, 3);
    Ok(transaction.commit().await?)
}

async fn error(c: &Client) -> Told {
    let failed = c.query("SELECT body FROM nope", &[]).await.err().ok_or("no error")?;
    let failed = failed.as_db_error().ok_or("an error of the server")?;
    want!((failed.code().code(), failed.message()), ("42P01", "relation \"nope\" does not exist"));
    want!(failed.position(), Some(&tokio_postgres::error::ErrorPosition::Original(18)));
    want!(c.query_one("SELECT 1", &[]).await?.try_get::<_, i32>(0)?, 1);
    Ok(())
}

async fn stream(c: &Client) -> Told {
    let rows = c.query_raw("SELECT i FROM generate_series(1, $1) AS g(i)", [100_000i64]).await?;
    pin_mut!(rows);
    let (mut count, mut sum) = (0, 0);
    while let Some(row) = rows.try_next().await? {
        count += 1;
        sum += row.try_get::<_, i64>(0)?;
    }
    want!((count, sum), (100_000, 5_000_050_000));
    Ok(())
}

async fn copy_in(c: &Client) -> Told {
    c.batch_execute("CREATE TABLE copied (id bigint, body text)").await?;
    let sink = c.copy_in("COPY copied FROM STDIN").await?;
    pin_mut!(sink);
    sink.send(Bytes::from_static(b"1\ta\n2\t\\N\n")).await?;
    want!(sink.finish().await?, 2);
    Ok(())
}

async fn copy_out(c: &Client) -> Told {
    let rows = c.copy_out("COPY (SELECT id, body FROM copied ORDER BY id) TO STDOUT").await?;
    let bytes: Vec<Bytes> = rows.try_collect().await?;
    want!(bytes.concat(), b"1\ta\n2\t\\N\n".to_vec());
    Ok(())
}

async fn cancel(c: &Client) -> Told {
    let token = c.cancel_token();
    let canceling = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        token.cancel_query(NoTls).await
    };
    let (failed, canceled) = tokio::join!(c.query("SELECT pg_sleep(30)", &[]), canceling);
    canceled?;
    let failed = failed.err().ok_or("it was not canceled")?;
    want!(failed.code().map(|code| code.code().to_owned()), Some("57014".to_owned()));
    want!(c.query_one("SELECT 1", &[]).await?.try_get::<_, i32>(0)?, 1);
    Ok(())
}

async fn computed(c: &Client) -> Told {
    c.batch_execute("ALTER TABLE docs ADD COLUMN n AS length(body); REFRESH COLUMN n ON docs WAIT").await?;
    let rows = c.query("SELECT n FROM docs ORDER BY id", &[]).await?;
    let found: Vec<i64> = rows.iter().map(|row| row.try_get::<_, i32>(0).map(i64::from).or_else(|_| row.try_get(0))).collect::<Result<_, _>>()?;
    want!(found, [3, 3, 5]);
    Ok(())
}

async fn jobs(c: &Client) -> Told {
    let id: String = c.query_one("SELECT job_id FROM system.public.jobs ORDER BY created_at DESC LIMIT 1", &[]).await?.try_get(0)?;
    let found = c.query("SELECT * FROM describe_job($1)", &[&id]).await?;
    want!(found.is_empty(), false);
    Ok(())
}

async fn pipeline(c: &Client) -> Told {
    let numbers: Vec<i32> = (0..50).collect();
    let asked = numbers.iter().map(|number| async move { c.query_one("SELECT $1::int4 + 1", &[number]).await });
    let rows = futures::future::try_join_all(asked).await?;
    let found: Vec<i32> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    want!(found, (1..51).collect::<Vec<i32>>());
    Ok(())
}

async fn notices() -> Told {
    let (client, mut connection) = config()?.connect(NoTls).await?;
    let messages = futures::stream::poll_fn(move |context| connection.poll_message(context));
    let said = tokio::spawn(messages.filter_map(|message| async {
        match message {
            Ok(AsyncMessage::Notice(notice)) => Some(notice.message().to_owned()),
            _ => None,
        }
    }).collect::<Vec<_>>());
    client.batch_execute("DROP TABLE IF EXISTS nowhere").await?;
    drop(client);
    want!(said.await?, ["table \"nowhere\" does not exist, skipping".to_owned()]);
    Ok(())
}

#[tokio::main]
async fn main() -> Told {
    println!("version 0.7.18");
    let mut c = connect().await?;
    c.batch_execute("CREATE TABLE docs (id bigint, body text); INSERT INTO docs VALUES (1, 'one'), (2, 'two'), (3, 'three')").await?;
    let told = |feature: &str, result: Told| match result {
        Ok(()) => println!("ok {feature}"),
        Err(why) => println!("fail {feature} {}", why.to_string().replace('\n', " ")),
    };
    told("connect", Ok(()));
    told("types_out", types_out(&c).await);
    told("types_in", types_in(&c).await);
    told("prepare", prepare(&c).await);
    told("transaction", transaction(&mut c).await);
    told("savepoint", savepoint(&mut c).await);
    told("error", error(&c).await);
    told("stream", stream(&c).await);
    told("copy_in", copy_in(&c).await);
    told("copy_out", copy_out(&c).await);
    told("cancel", cancel(&c).await);
    told("pipeline", pipeline(&c).await);
    told("notices", notices().await);
    if var("CONFORMANCE_REFERENCE").is_ok() {
        println!("skip computed PostgreSQL has none\nskip jobs PostgreSQL has none");
        return Ok(());
    }
    told("computed", computed(&c).await);
    told("jobs", jobs(&c).await);
    Ok(())
}
