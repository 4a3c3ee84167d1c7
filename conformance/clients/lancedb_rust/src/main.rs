//! The published crate on a gateway: a line for each feature, as conformance/run reads them.

use std::collections::BTreeMap;
use std::env::var;
use std::error::Error;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{Array, FixedSizeListArray, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use futures::TryStreamExt;
use lancedb::index::Index;
use lancedb::index::scalar::{FtsIndexBuilder, FullTextSearchQuery};
use lancedb::listing::ListingOptions;
use lancedb::query::{ExecutableQuery, QueryBase};
use lancedb::table::{ColumnAlteration, FieldMetadataUpdate};
use lancedb::{Connection, Table};

type Told = Result<(), Box<dyn Error>>;

/// Fails with a text unless a condition holds.
macro_rules! want {
    ($condition:expr, $($why:tt)*) => {
        if !$condition {
            return Err(format!($($why)*).into());
        }
    };
}

/// Makes a key over the wire, as a user does.
async fn api_key() -> Result<String, Box<dyn Error>> {
    let mut config = tokio_postgres::Config::new();
    config.host(var("PGHOST")?).port(var("PGPORT")?.parse()?).user(var("PGUSER")?);
    config.password(var("PGPASSWORD")?).dbname(var("PGDATABASE")?);
    let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    Ok(client.query_one("CREATE API KEY crate", &[]).await?.get("key"))
}

fn some_rows() -> Result<RecordBatch, Box<dyn Error>> {
    let vectors = (0..300).map(|i| Some(vec![Some(i as f32), Some(0.0)]));
    let words = (0..300).map(|i| if i == 7 { "a puppy runs".to_owned() } else { format!("row {i}") });
    let vectors = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(vectors, 2);
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("vector", vectors.data_type().clone(), true),
    ]);
    let columns = [
        Arc::new(Int64Array::from_iter_values(0..300)) as arrow_array::ArrayRef,
        Arc::new(StringArray::from_iter_values(words)),
        Arc::new(vectors),
    ];
    Ok(RecordBatch::try_new(Arc::new(schema), columns.to_vec())?)
}

fn ids(batches: &[RecordBatch]) -> Vec<i64> {
    let column = |batch: &RecordBatch| batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().clone();
    batches.iter().flat_map(|batch| column(batch).values().to_vec()).collect()
}

async fn rows(table: &Table) -> Told {
    want!(table.count_rows(None).await? == 300, "300 rows were sent");
    table.add(some_rows()?.slice(0, 10)).execute().await?;
    want!(table.count_rows(Some("id < 10".to_owned())).await? == 20, "ten rows were added");
    let updated = table.update().only_if("id = 5").column("text", "'five'").execute().await?;
    want!(updated.rows_updated == 2, "{} rows were updated", updated.rows_updated);
    let version = table.version().await?;
    table.delete("id = 5").await?;
    want!(table.version().await? == version + 1, "a delete is one version");
    let mut merge = table.merge_insert(&["id"]);
    merge.when_not_matched_insert_all();
    let batch = some_rows()?.slice(5, 1);
    let reader = arrow_array::RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
    let merged = merge.execute(Box::new(reader)).await?;
    want!(merged.num_inserted_rows == 1, "{} rows were merged", merged.num_inserted_rows);
    Ok(())
}

async fn search(table: &Table) -> Told {
    let near = table.query().nearest_to(vec![42.2_f32, 0.0])?.limit(2);
    let found = ids(&near.execute().await?.try_collect::<Vec<_>>().await?);
    want!(found == [42, 43], "{found:?} are near to 42.2");
    let filtered = table.query().only_if("id > 290 AND id < 293").execute().await?;
    let mut found = ids(&filtered.try_collect::<Vec<_>>().await?);
    found.sort_unstable();
    want!(found == [291, 292], "{found:?} pass the filter");
    Ok(())
}

async fn words(table: &Table) -> Told {
    table.create_index(&["text"], Index::FTS(FtsIndexBuilder::default())).execute().await?;
    let query = table.query().full_text_search(FullTextSearchQuery::new("puppy".to_owned()));
    let found = ids(&query.execute().await?.try_collect::<Vec<_>>().await?);
    want!(!found.is_empty() && found.iter().all(|id| *id == 7), "{found:?} hold the word");
    let indexes = table.list_indices().await?;
    want!(indexes.len() == 1, "{} indexes are listed", indexes.len());
    Ok(())
}

async fn versions(table: &Table) -> Told {
    let (version, rows) = (table.version().await?, table.count_rows(None).await?);
    let mut tags = table.tags().await?;
    tags.create("before", version).await?;
    table.delete("id > 250").await?;
    table.checkout_tag("before").await?;
    want!(table.count_rows(None).await? == rows, "a tag is read as it was");
    table.restore().await?;
    want!(table.count_rows(None).await? == rows, "the old version is the newest again");
    want!(table.list_versions().await?.len() as u64 >= version + 2, "every change is a version");
    Ok(())
}

async fn branches(table: &Table) -> Told {
    let rows = table.count_rows(None).await?;
    let branch = table.create_branch("try", table.version().await?).await?;
    branch.add(some_rows()?.slice(0, 3)).execute().await?;
    branch.delete("id = 200").await?;
    let (there, here) = (branch.count_rows(None).await?, table.count_rows(None).await?);
    want!(here == rows && there == rows + 2, "{here} rows on main and {there} on the branch, of {rows}");
    want!(table.list_branches().await?.contains_key("try"), "the branch is listed");
    table.delete_branch("try").await?;
    Ok(())
}

async fn metadata(table: &Table) -> Told {
    table.update_field_metadata(&[FieldMetadataUpdate::new("id").set("unit", "row")]).await?;
    let unit = table.schema().await?.field_with_name("id")?.metadata().get("unit").cloned();
    want!(unit.as_deref() == Some("row"), "the metadata says {unit:?}");
    table.alter_columns(&[ColumnAlteration::new("text".into()).rename("words".into())]).await?;
    want!(table.schema().await?.field_with_name("words").is_ok(), "the column was renamed");
    table.alter_columns(&[ColumnAlteration::new("words".into()).rename("text".into())]).await?;
    Ok(())
}

async fn computed(table: &Table) -> Told {
    table.add_columns().computed("twice", "id * 2").execute().await?;
    let done = table.refresh_column_async("twice").await?.wait().await?;
    let rows = table.count_rows(None).await? as u64;
    want!(done.rows_assigned == rows && done.rows_remaining == 0, "{done:?} of {rows} rows");
    want!(table.count_rows(Some("twice = id * 2".to_owned())).await? as u64 == rows, "every row has its value");
    Ok(())
}

async fn jobs(db: &Connection, table: &Table) -> Told {
    let job = table.refresh_column_async("twice").await?;
    let id = job.id().ok_or("the job has no id")?.to_owned();
    job.wait().await?;
    let mut listing = db.list_jobs(ListingOptions::default());
    let page = listing.next_page().await?.ok_or("no job is listed")?;
    want!(page.items.iter().any(|listed| listed.job_id == id), "job {id} is listed");
    let again = db.open_job(&id).await?;
    want!(again.job_type().as_deref() == Some("refresh_column"), "{:?} is its type", again.job_type());
    Ok(())
}

async fn sql(db: &Connection) -> Told {
    let query = db.execute_query_async("SELECT max(id) AS id FROM docs").execute().await?;
    let found = ids(&query.reader().await?.try_collect::<Vec<_>>().await?);
    want!(found == [299], "{found:?} is the largest");
    Ok(())
}

async fn views(db: &Connection) -> Told {
    db.create_view("few", "SELECT id FROM docs WHERE id < 3", &[]).await?;
    let rows = db.open_table("few").execute().await?.count_rows(None).await?;
    want!(rows >= 3, "{rows} rows are in the view");
    db.drop_view("few", &[]).await?;
    Ok(())
}

async fn secrets(db: &Connection) -> Told {
    db.create_secret("token", "a value", &[]).await?;
    let told = db.describe_secret("token", &[]).await?;
    want!(told.name == "token", "{} was described", told.name);
    db.drop_secret("token", &[]).await?;
    Ok(())
}

async fn error(db: &Connection) -> Told {
    match db.open_table("nothing").execute().await {
        Err(lancedb::Error::TableNotFound { .. }) => Ok(()),
        other => Err(format!("{:?}", other.map(|table| table.name().to_owned())).into()),
    }
}

#[tokio::main]
async fn main() -> Told {
    println!("version 0.41.0");
    if var("CONFORMANCE_REFERENCE").is_ok() {
        return Ok(());
    }
    let (url, key) = (var("LANCEGATE_HTTP")?, api_key().await?);
    let db = lancedb::connect("db://lancegate").api_key(&key).region("local").host_override(&url).execute().await?;
    let table = db.create_table("docs", some_rows()?).execute().await?;
    let mut told: BTreeMap<&str, Told> = BTreeMap::new();
    told.insert("connect", Ok(()));
    told.insert("rows", rows(&table).await);
    told.insert("search", search(&table).await);
    told.insert("words", words(&table).await);
    told.insert("versions", versions(&table).await);
    told.insert("branches", branches(&table).await);
    told.insert("metadata", metadata(&table).await);
    told.insert("computed", computed(&table).await);
    told.insert("jobs", jobs(&db, &table).await);
    told.insert("sql", sql(&db).await);
    told.insert("views", views(&db).await);
    told.insert("secrets", secrets(&db).await);
    told.insert("error", error(&db).await);
    for (feature, result) in told {
        match result {
            Ok(()) => println!("ok {feature}"),
            Err(why) => println!("fail {feature} {}", why.to_string().replace('\n', " ")),
        }
    }
    Ok(())
}
