//! A version of a Function: everything that its values depend on. Immutable; a change makes a new version.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::models::Model;
use crate::types::{parse_type, print_type};

/// An Arrow type in JSON, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrowType(pub DataType);

impl Serialize for ArrowType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&print_type(&self.0))
    }
}

impl<'de> Deserialize<'de> for ArrowType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse_type(&String::deserialize(deserializer)?).map(Self).map_err(serde::de::Error::custom)
    }
}

/// How the code is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallMode {
    /// Once for each row, with Python values.
    #[default]
    Scalar,
    /// Once for each batch, with Arrow arrays.
    Vectorized,
    /// Once for each batch, with one Arrow record batch.
    RecordBatch,
    /// As the annotations of the code say: what the SDK registers. [`crate::check`] finds out which of the others it is
    /// before there is a version.
    Annotated,
}

/// Whether equal arguments give equal results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultStability {
    /// Equal inputs in the same context give equal results.
    InputAndContext,
    /// Each call may give another.
    PerCall,
}

/// What else a call changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SideEffects {
    /// Nothing.
    None,
    /// Something that may be done twice.
    Idempotent,
    /// Something that must not be done twice.
    NonIdempotent,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type.
    pub arrow_type: ArrowType,
    /// Whether the code is called with None for NULL; otherwise such a row is NULL without a call.
    pub nullable: bool,
}

/// A secret of the database that the Function is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretRef {
    /// Its schema, as a path; empty for the root.
    pub namespace: Vec<String>,
    /// Its name.
    pub name: String,
}

/// A version of a Function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The parameters in order.
    pub parameters: Vec<Parameter>,
    /// The type of the result; a struct has one named output per field.
    pub output: ArrowType,
    /// See [`CallMode`].
    #[serde(default)]
    pub mode: CallMode,
    /// The Python source.
    pub source: String,
    /// The function or class in it.
    pub entrypoint: String,
    /// Modules that the source imports, by their paths on the import path: what came with it in a bundle.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// What `__init__` of a class takes; each binding gives the values. A NULL takes the default of Python.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initialization: Vec<Parameter>,
    /// Declared or not; an undeclared Function is not called again for a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_stability: Option<ResultStability>,
    /// Declared or not; as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffects>,
    /// Packages to install, as `pip` takes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pip: Vec<String>,
    /// Packages to install, as `conda` takes them; not beside `pip`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conda: Vec<String>,
    /// Where `conda` looks, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conda_channels: Vec<String>,
    /// The Python to use, for example `3.11`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python_version: Option<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Environment variables that hold the values of secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, SecretRef>,
    /// Model snapshots that are on the node before it is initialized.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<Model>,
    /// Whether it may use the network.
    #[serde(default)]
    pub network: bool,
    /// Whether its workers need a GPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gpu: bool,
    /// The class of the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_class: Option<String>,
}

impl Definition {
    /// A Function of these parameters and this result, called once for each row, that declares nothing else.
    pub fn new(parameters: Vec<Parameter>, output: ArrowType, source: String, entrypoint: String) -> Self {
        Self {
            parameters,
            output,
            mode: CallMode::Scalar,
            source,
            entrypoint,
            files: BTreeMap::new(),
            initialization: Vec::new(),
            result_stability: None,
            side_effects: None,
            pip: Vec::new(),
            conda: Vec::new(),
            conda_channels: Vec::new(),
            python_version: None,
            env: BTreeMap::new(),
            secrets: BTreeMap::new(),
            models: Vec::new(),
            network: false,
            gpu: false,
            gpu_class: None,
        }
    }

    /// Returns the SHA-256 of the definition, hex.
    pub fn digest(&self) -> String {
        let text = serde_json::to_string(self).expect("plain data");
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether it runs in an environment of its own, which is built first.
    pub fn has_environment(&self) -> bool {
        !self.pip.is_empty() || self.brings_python()
    }

    /// Whether that environment has a Python other than the gateway's own.
    pub fn brings_python(&self) -> bool {
        !self.conda.is_empty() || self.python_version.is_some()
    }

    /// Whether a call may be made again and gives the same: what range recovery needs under any policy (ERR-06).
    pub fn replay_safe(&self) -> bool {
        self.result_stability == Some(ResultStability::InputAndContext) && self.effect_free()
    }

    /// Whether a call may be made again.
    pub fn effect_free(&self) -> bool {
        self.side_effects == Some(SideEffects::None)
    }

    /// Returns the schema of the batches that the Function is called with.
    pub fn input_schema(&self) -> SchemaRef {
        schema_of(&self.parameters)
    }

    /// Returns the schema of the one row that an instance is made with.
    pub fn initialization_schema(&self) -> SchemaRef {
        schema_of(&self.initialization)
    }

    /// Returns the schema of its results, one column.
    pub fn output_schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("value", self.output.0.clone(), true)]))
    }
}

fn schema_of(parameters: &[Parameter]) -> SchemaRef {
    let field = |p: &Parameter| Field::new(&p.name, p.arrow_type.0.clone(), p.nullable);
    Arc::new(Schema::new(parameters.iter().map(field).collect::<Vec<_>>()))
}
