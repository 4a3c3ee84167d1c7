//! `GET /v1/gpu/classes`: the GPU classes of the deployment.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::Routes;
use super::answers::GpuClasses;
use super::caller::Caller;
use super::error::Result;
use super::openapi::Doc;
use crate::http::reply;

/// The numbers of a class.
const NUMBERS: [&str; 5] =
    ["gpu_memory_bytes", "max_gpu_count_per_worker", "cpu_millis", "memory_bytes", "ephemeral_storage_bytes"];

pub(super) fn routes(routes: &mut Routes) {
    routes.get("/v1/gpu/classes", classes, Doc::json::<GpuClasses>("Lists the GPU classes of the deployment."));
}

async fn classes(mut caller: Caller) -> Result<Response> {
    let rows = caller.run("SHOW GPU CLASSES").await?;
    let class = |row| {
        let mut class = json!({});
        for column in ["name", "resource_name", "gpu_model"] {
            class[column] = json!(rows.text(row, column));
        }
        for column in NUMBERS {
            class[column] = json!(rows.number(row, column));
        }
        class
    };
    let classes: Vec<Value> = (0..rows.len()).map(class).collect();
    Ok(reply::json(StatusCode::OK, &json!({ "classes": classes })))
}
