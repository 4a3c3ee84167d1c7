//! What the routes answer, as types for the document. The handlers write JSON; that it
//! has these shapes is tested with the document at hand.

#![expect(dead_code, reason = "only the shape of the types is used")]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::{Map, Value};

/// An error (Lance namespace specification, `ErrorResponse`).
#[derive(JsonSchema)]
pub(super) struct ErrorAnswer {
    /// What is wrong.
    error: String,
    /// The code of the specification.
    code: u8,
    /// What is known besides.
    detail: Option<String>,
    /// The id of the request.
    instance: Option<String>,
}

/// Nothing to tell.
#[derive(JsonSchema)]
pub(super) struct Done {}

/// The version of a table that a change has made.
#[derive(JsonSchema)]
pub(super) struct Versioned {
    version: u64,
}

/// The version that a change of metadata has made, and what the fields say in it.
#[derive(JsonSchema)]
pub(super) struct FieldsDescribed {
    version: u64,
    fields: BTreeMap<String, BTreeMap<String, String>>,
}

/// A job that was submitted.
#[derive(JsonSchema)]
pub(super) struct Submitted {
    job_id: String,
    context: Option<Context>,
}

/// What was ignored of a request.
#[derive(JsonSchema)]
pub(super) struct Context {
    warning: String,
}

/// Whether a Function was dropped.
#[derive(JsonSchema)]
pub(super) struct Dropped {
    dropped: bool,
}

/// A version of a Function: its registration document.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub(super) struct FunctionDocument(Map<String, Value>);

/// Versions of Functions.
#[derive(JsonSchema)]
pub(super) struct Functions {
    functions: Vec<ListedFunction>,
    page_token: Option<String>,
}

/// A version of a Function in a listing.
#[derive(JsonSchema)]
pub(super) struct ListedFunction {
    name: String,
    version: String,
    definition: FunctionDocument,
}

/// Rows that Functions failed on.
#[derive(JsonSchema)]
pub(super) struct RowErrors {
    records: Vec<RowError>,
    fragments: Vec<FragmentErrors>,
    /// Whether there are more than are told.
    truncated: bool,
}

/// A row that a Function failed on.
#[derive(JsonSchema)]
pub(super) struct RowError {
    job_id: String,
    fragment_id: u64,
    row_offset: Option<u64>,
    row_id: Option<u64>,
    column: String,
    function: Option<String>,
    function_version: Option<Value>,
    table_version: Option<u64>,
    error_type: Option<String>,
    error_message: Option<String>,
    attempts: Option<u64>,
    created_at_millis: i64,
}

/// A fragment with more failed rows than records.
#[derive(JsonSchema)]
pub(super) struct FragmentErrors {
    job_id: String,
    fragment_id: u64,
    rows_skipped: u64,
    rows_recorded: u64,
}

/// The indexes of a table.
#[derive(JsonSchema)]
pub(super) struct Indexes {
    indexes: Vec<IndexDescription>,
}

/// An index.
#[derive(JsonSchema)]
pub(super) struct IndexDescription {
    index_name: String,
    index_uuid: String,
    columns: Vec<String>,
    index_type: Option<String>,
    index_status: String,
    status: String,
    num_indexed_rows: Option<u64>,
    num_unindexed_rows: Option<u64>,
    num_segments: Option<u64>,
    index_version: Option<Value>,
    type_url: Option<String>,
    size_bytes: Option<u64>,
    index_details: Option<Value>,
    created_at: Option<String>,
}

/// How much of a table an index covers.
#[derive(JsonSchema)]
pub(super) struct IndexStatistics {
    num_indexed_rows: Option<u64>,
    num_unindexed_rows: Option<u64>,
    index_type: Option<String>,
    distance_type: Option<String>,
    num_indices: Option<u64>,
}

/// Jobs, newest first.
#[derive(JsonSchema)]
pub(super) struct Jobs {
    jobs: Vec<ListedJob>,
    page_token: Option<String>,
}

/// A job in a listing.
#[derive(JsonSchema)]
pub(super) struct ListedJob {
    job_id: String,
    table: String,
    job_type: String,
    job_subtype: String,
    state: String,
    created_at_millis: i64,
    progress: Option<Value>,
}

/// A job.
#[derive(JsonSchema)]
pub(super) struct JobDescription {
    job_id: String,
    job_type: String,
    job_subtype: String,
    job_state: JobWord,
    status: String,
    creation_ms: i64,
    spec: JobSpec,
    result: Option<Value>,
    failure: Option<JobFailure>,
    progress: Option<Value>,
}

/// Where a job is.
#[derive(JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum JobWord {
    InProgress,
    Done,
    Failed,
    Cancelled,
}

/// What a job is about.
#[derive(JsonSchema)]
pub(super) struct JobSpec {
    database: String,
    namespace: Vec<String>,
    table: String,
    column: Option<String>,
    branch: Option<String>,
}

/// Why a job failed.
#[derive(JsonSchema)]
pub(super) struct JobFailure {
    phase: Option<String>,
    message: String,
    retryable: bool,
    error_code: String,
}

/// A job that was told to end.
#[derive(JsonSchema)]
pub(super) struct CancelledJob {
    job_id: String,
}

/// A job that was told to pause.
#[derive(JsonSchema)]
pub(super) struct PausedJob {
    job_id: String,
    paused: bool,
    committing: bool,
}

/// A job that was told to go on.
#[derive(JsonSchema)]
pub(super) struct ResumedJob {
    job_id: String,
    resumed: bool,
    still_pausing: bool,
}

/// The GPU classes of the deployment.
#[derive(JsonSchema)]
pub(super) struct GpuClasses {
    classes: Vec<GpuClass>,
}

/// A GPU class.
#[derive(JsonSchema)]
pub(super) struct GpuClass {
    name: String,
    resource_name: Option<String>,
    gpu_model: Option<String>,
    gpu_memory_bytes: Option<i64>,
    max_gpu_count_per_worker: Option<i64>,
    cpu_millis: Option<i64>,
    memory_bytes: Option<i64>,
    ephemeral_storage_bytes: Option<i64>,
}

/// A materialized view that was made: a job where rows are computed, and a version for
/// clients of the specification.
#[derive(JsonSchema)]
pub(super) struct MadeView {
    job_id: Option<String>,
    version: Option<u64>,
}

/// A materialized view.
#[derive(JsonSchema)]
pub(super) struct MaterializedViewDescription {
    source_table: String,
    source_namespace: Vec<String>,
    projections: Vec<Value>,
    query: String,
    incarnation: String,
}

/// Names of views.
#[derive(JsonSchema)]
pub(super) struct Views {
    views: Vec<String>,
    page_token: Option<String>,
}

/// A view.
#[derive(JsonSchema)]
pub(super) struct ViewDescription {
    name: String,
    namespace: Vec<String>,
    query: String,
    default_database: String,
    default_namespace: Vec<String>,
    schema: Value,
}

/// What a merge has done.
#[derive(JsonSchema)]
pub(super) struct Merged {
    version: u64,
    num_inserted_rows: u64,
    num_updated_rows: u64,
    num_deleted_rows: u64,
}

/// A secret, without its value.
#[derive(JsonSchema)]
pub(super) struct SecretDescription {
    name: String,
    created_at_millis: i64,
    updated_at_millis: i64,
}

/// Names of secrets.
#[derive(JsonSchema)]
pub(super) struct Secrets {
    secrets: Vec<ListedSecret>,
    page_token: Option<String>,
}

/// A secret in a listing.
#[derive(JsonSchema)]
pub(super) struct ListedSecret {
    name: String,
}

/// Grants.
#[derive(JsonSchema)]
pub(super) struct Grants {
    entries: Vec<GrantEntry>,
    continuation_token: Option<String>,
}

/// A grant.
#[derive(JsonSchema)]
pub(super) struct GrantEntry {
    subject_id: String,
    subject_name: String,
    object: String,
    privilege: String,
}

/// Roles of users.
#[derive(JsonSchema)]
pub(super) struct RoleBindings {
    bindings: Vec<RoleBinding>,
    continuation_token: Option<String>,
}

/// A role of a user.
#[derive(JsonSchema)]
pub(super) struct RoleBinding {
    subject_id: String,
    subject_name: String,
    role: String,
}

/// A user.
#[derive(JsonSchema)]
pub(super) struct PrincipalDescription {
    principal_id: String,
    principal_name: String,
    groups: Vec<String>,
    roles: Vec<String>,
}

/// Names of namespaces.
#[derive(JsonSchema)]
pub(super) struct Namespaces {
    namespaces: Vec<String>,
    page_token: Option<String>,
}

/// The properties of a namespace.
#[derive(JsonSchema)]
pub(super) struct NamespaceProperties {
    properties: Map<String, Value>,
}

/// Names of tables.
#[derive(JsonSchema)]
pub(super) struct Tables {
    tables: Vec<String>,
    page_token: Option<String>,
}

/// A table.
#[derive(JsonSchema)]
pub(super) struct TableDescription {
    table: String,
    namespace: Vec<String>,
    version: u64,
    location: String,
    schema: Value,
}

/// How large a table is.
#[derive(JsonSchema)]
pub(super) struct TableStatistics {
    total_bytes: u64,
    num_rows: u64,
    num_deleted_rows: u64,
    num_indices: u64,
    fragment_stats: FragmentStatistics,
}

/// The fragments of a table.
#[derive(JsonSchema)]
pub(super) struct FragmentStatistics {
    num_fragments: u64,
    num_small_fragments: u64,
    lengths: Lengths,
}

/// Rows of fragments.
#[derive(JsonSchema)]
pub(super) struct Lengths {
    min: u64,
    max: u64,
    mean: u64,
    p25: u64,
    p50: u64,
    p75: u64,
    p99: u64,
}

/// Rows that were changed: `rows_updated` for LanceDB's client, `updated_rows` for others.
#[derive(JsonSchema)]
pub(super) struct Updated {
    rows_updated: Option<u64>,
    updated_rows: Option<u64>,
    version: u64,
}

/// Rows that were deleted.
#[derive(JsonSchema)]
pub(super) struct Deleted {
    num_deleted_rows: u64,
    version: u64,
}

/// A tier in memory before the table, which there is not.
#[derive(JsonSchema)]
pub(super) struct MemoryTier {
    lsm_write_spec: Option<Value>,
    rte_spec: Option<Value>,
    lsm_stats: Option<Value>,
    rte_stats: Option<Value>,
}

/// Versions of a table.
#[derive(JsonSchema)]
pub(super) struct Versions {
    versions: Vec<VersionDescription>,
}

/// A version of a table.
#[derive(JsonSchema)]
pub(super) struct VersionDescription {
    version: u64,
    timestamp: String,
    timestamp_millis: i64,
    metadata: Value,
}

/// Tags by name, or in `tags` for clients of the specification.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub(super) struct Tags(Map<String, Value>);

/// The version that a tag names.
#[derive(JsonSchema)]
pub(super) struct TaggedVersion {
    version: u64,
    branch: Option<String>,
}

/// Branches by name.
#[derive(JsonSchema)]
pub(super) struct Branches {
    branches: BTreeMap<String, BranchDescription>,
}

/// A branch.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BranchDescription {
    parent_branch: Option<String>,
    parent_version: u64,
    create_at: Value,
    manifest_size: Option<u64>,
}

/// The parameters of a merge.
#[derive(JsonSchema)]
pub(super) struct MergeParameters {
    /// The columns whose values make two rows the same; may come several times.
    on: Option<String>,
    when_matched_update_all: Option<bool>,
    when_matched_update_all_filt: Option<String>,
    when_not_matched_insert_all: Option<bool>,
    when_not_matched_by_source_delete: Option<bool>,
    when_not_matched_by_source_delete_filt: Option<String>,
    use_index: Option<bool>,
    branch: Option<String>,
}

/// That the process answers.
#[derive(JsonSchema)]
pub(in crate::http) struct Alive {
    status: String,
    version: String,
}

/// Where the gateway stands.
#[derive(JsonSchema)]
pub(in crate::http) struct Readiness {
    status: String,
}

/// This document.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub(in crate::http) struct Document(Map<String, Value>);
