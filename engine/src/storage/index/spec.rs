//! What an index is to be: the method and its parameters, read from a flat list of
//! options, the same for SQL and for the client library.

use lance::index::vector::VectorIndexParams;
use lance_index::scalar::{BuiltinIndexType, InvertedIndexParams, ScalarIndexParams};
use lance_index::vector::bq::RQBuildParams;
use lance_index::vector::hnsw::builder::HnswBuildParams;
use lance_index::vector::ivf::IvfBuildParams;
use lance_index::vector::pq::PQBuildParams;
use lance_index::vector::sq::builder::SQBuildParams;
use lance_index::{IndexParams, IndexType};
use serde_json::{Map, Value, json};

use crate::storage::StorageError;
use crate::storage::search::Distance;

/// The kind of an index and how it is built.
#[derive(Debug, Clone)]
pub enum IndexSpec {
    /// What fits the column: `btree`, or `ivf_pq` for vectors.
    Auto,
    /// An index of single values.
    Scalar(ScalarKind),
    /// Zones of rows with a filter that says which values are not there.
    BloomFilter {
        /// Rows of a zone.
        number_of_items: Option<u64>,
        /// How often a filter is wrong.
        probability: Option<f64>,
    },
    /// An index of words.
    FullText(Box<InvertedIndexParams>),
    /// An index of vectors.
    Vector(VectorSpec),
}

/// Indexes of single values without parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the methods'")]
pub enum ScalarKind {
    BTree,
    Bitmap,
    LabelList,
    NGram,
    ZoneMap,
    Fm,
}

/// How vectors are kept in an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the methods'")]
pub enum VectorKind {
    IvfFlat,
    IvfSq,
    IvfPq,
    IvfRq,
    IvfHnswFlat,
    IvfHnswSq,
    IvfHnswPq,
}

/// An index of vectors; what is not set is chosen from rows and width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VectorSpec {
    /// How vectors are kept.
    pub kind: VectorKind,
    /// How distance is measured.
    pub distance: Distance,
    /// Partitions.
    pub num_partitions: Option<u32>,
    /// Rows of a partition, instead of their number.
    pub target_partition_size: Option<u32>,
    /// Rows for each partition that training reads.
    pub sample_rate: u32,
    /// Rounds of training.
    pub max_iterations: u32,
    /// Parts of a vector in product quantization.
    pub num_sub_vectors: Option<u32>,
    /// Bits of a quantized number.
    pub num_bits: Option<u32>,
    /// Edges of a node of the graph.
    pub m: u32,
    /// Candidates while the graph is built.
    pub ef_construction: u32,
}

/// What is wrong with a method or an option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No such method.
    #[error("access method \"{0}\" does not exist")]
    Method(String),
    /// No such option of the method.
    #[error("unrecognized option \"{name}\" for an index of method {method}")]
    Unknown {
        /// The option.
        name: String,
        /// The method.
        method: String,
        /// What there is.
        supported: Vec<&'static str>,
    },
    /// A value that an option does not take.
    #[error("invalid value for option \"{name}\": \"{value}\"")]
    Value {
        /// The option.
        name: String,
        /// The value.
        value: String,
        /// What it takes.
        takes: String,
    },
}

/// The methods by their names in SQL.
pub const METHODS: [&str; 16] = [
    "btree",
    "bitmap",
    "label_list",
    "ngram",
    "zonemap",
    "bloom_filter",
    "fm",
    "fts",
    "ivf_flat",
    "ivf_sq",
    "ivf_pq",
    "ivf_rq",
    "ivf_hnsw_flat",
    "ivf_hnsw_sq",
    "ivf_hnsw_pq",
    "hash",
];

const BLOOM: [&str; 2] = ["number_of_items", "probability"];
const FULL_TEXT: [&str; 19] = [
    "lance_tokenizer",
    "base_tokenizer",
    "language",
    "with_position",
    "max_token_length",
    "lower_case",
    "stem",
    "remove_stop_words",
    "custom_stop_words",
    "ascii_folding",
    "min_ngram_length",
    "max_ngram_length",
    "prefix_only",
    "block_size",
    "split_identifiers",
    "split_on_numerics",
    "preserve_original",
    "index_operators",
    "document_granularity",
];
const IVF: [&str; 6] =
    ["metric_type", "distance_type", "num_partitions", "target_partition_size", "sample_rate", "max_iterations"];

impl IndexSpec {
    /// Reads a method, in any case, and its options. Numbers and booleans may be
    /// texts; an option that is null is as if it were not there.
    ///
    /// # Errors
    /// [`SpecError`].
    pub fn read(method: &str, options: &Map<String, Value>) -> Result<Self, SpecError> {
        let method = method.to_ascii_lowercase();
        let options = Options { method: &method, values: options };
        let scalar = |kind| options.only(&[]).map(|()| Self::Scalar(kind));
        match method.as_str() {
            // A hash index finds equal values only, which a B-tree does as well.
            "btree" | "hash" => scalar(ScalarKind::BTree),
            "bitmap" => scalar(ScalarKind::Bitmap),
            "label_list" | "labellist" | "gin" => scalar(ScalarKind::LabelList),
            "ngram" => scalar(ScalarKind::NGram),
            "zonemap" | "zone_map" | "brin" => scalar(ScalarKind::ZoneMap),
            "fm" | "fmindex" => scalar(ScalarKind::Fm),
            "bloom_filter" | "bloomfilter" | "bloom" => {
                options.only(&BLOOM)?;
                Ok(Self::BloomFilter {
                    number_of_items: options.integer("number_of_items", 1, 1 << 32)?,
                    probability: options.fraction("probability")?,
                })
            }
            "fts" | "inverted" => options.full_text(),
            "ivf_flat" => options.vector(VectorKind::IvfFlat, &[]),
            "ivf_sq" => options.vector(VectorKind::IvfSq, &[]),
            "ivf_pq" => options.vector(VectorKind::IvfPq, &["num_sub_vectors", "num_bits"]),
            "ivf_rq" => options.vector(VectorKind::IvfRq, &["num_bits"]),
            "ivf_hnsw_flat" => options.vector(VectorKind::IvfHnswFlat, &["m", "ef_construction"]),
            "ivf_hnsw_sq" => options.vector(VectorKind::IvfHnswSq, &["m", "ef_construction"]),
            "ivf_hnsw_pq" => {
                options.vector(VectorKind::IvfHnswPq, &["m", "ef_construction", "num_sub_vectors", "num_bits"])
            }
            _ => Err(SpecError::Method(method)),
        }
    }

    /// Returns the name of the method in SQL; none of [`IndexSpec::Auto`].
    pub fn method(&self) -> Option<&'static str> {
        Some(match self {
            Self::Auto => return None,
            Self::Scalar(ScalarKind::BTree) => "btree",
            Self::Scalar(ScalarKind::Bitmap) => "bitmap",
            Self::Scalar(ScalarKind::LabelList) => "label_list",
            Self::Scalar(ScalarKind::NGram) => "ngram",
            Self::Scalar(ScalarKind::ZoneMap) => "zonemap",
            Self::Scalar(ScalarKind::Fm) => "fm",
            Self::BloomFilter { .. } => "bloom_filter",
            Self::FullText(_) => "fts",
            Self::Vector(vector) => match vector.kind {
                VectorKind::IvfFlat => "ivf_flat",
                VectorKind::IvfSq => "ivf_sq",
                VectorKind::IvfPq => "ivf_pq",
                VectorKind::IvfRq => "ivf_rq",
                VectorKind::IvfHnswFlat => "ivf_hnsw_flat",
                VectorKind::IvfHnswSq => "ivf_hnsw_sq",
                VectorKind::IvfHnswPq => "ivf_hnsw_pq",
            },
        })
    }

    /// Returns whether this is an index of words.
    pub fn is_full_text(&self) -> bool {
        matches!(self, Self::FullText(_))
    }

    /// Returns what Lance builds: for vectors of `width` elements, and with at most
    /// `memory_mib` while an index of words is built.
    ///
    /// # Errors
    /// What Lance says of parameters that do not go together.
    pub(super) fn parameters(
        &self,
        width: usize,
        memory_mib: u64,
    ) -> Result<(IndexType, Box<dyn IndexParams>), StorageError> {
        Ok(match self {
            Self::Auto => return Err(super::invalid("the method of an index was not chosen")),
            Self::Scalar(kind) => {
                let (index_type, builtin) = kind.lance();
                (index_type, Box::new(ScalarIndexParams::for_builtin(builtin)))
            }
            Self::BloomFilter { number_of_items, probability } => {
                let mut given = Map::new();
                given.extend(number_of_items.map(|items| ("number_of_items".to_owned(), json!(items))));
                given.extend(probability.map(|probability| ("probability".to_owned(), json!(probability))));
                let params = ScalarIndexParams::for_builtin(BuiltinIndexType::BloomFilter);
                (IndexType::BloomFilter, Box::new(params.with_params(&Value::Object(given))))
            }
            Self::FullText(params) => {
                (IndexType::Inverted, Box::new(params.as_ref().clone().memory_limit_mb(memory_mib)))
            }
            Self::Vector(spec) => (IndexType::Vector, Box::new(spec.parameters(width)?)),
        })
    }
}

impl ScalarKind {
    fn lance(self) -> (IndexType, BuiltinIndexType) {
        match self {
            Self::BTree => (IndexType::BTree, BuiltinIndexType::BTree),
            Self::Bitmap => (IndexType::Bitmap, BuiltinIndexType::Bitmap),
            Self::LabelList => (IndexType::LabelList, BuiltinIndexType::LabelList),
            Self::NGram => (IndexType::NGram, BuiltinIndexType::NGram),
            Self::ZoneMap => (IndexType::ZoneMap, BuiltinIndexType::ZoneMap),
            Self::Fm => (IndexType::Fm, BuiltinIndexType::Fm),
        }
    }
}

impl VectorSpec {
    /// Returns the kind with what the client library sets by itself.
    pub fn new(kind: VectorKind) -> Self {
        Self {
            kind,
            distance: Distance::L2,
            num_partitions: None,
            target_partition_size: None,
            sample_rate: 256,
            max_iterations: 50,
            num_sub_vectors: None,
            num_bits: None,
            m: 20,
            ef_construction: 300,
        }
    }

    fn parameters(&self, width: usize) -> Result<VectorIndexParams, StorageError> {
        let distance = self.distance.as_str().try_into().map_err(super::invalid)?;
        let mut ivf = match (self.num_partitions, self.target_partition_size) {
            (Some(partitions), _) => IvfBuildParams::new(partitions as usize),
            (None, Some(rows)) => IvfBuildParams::with_target_partition_size(rows as usize),
            (None, None) => IvfBuildParams::default(),
        };
        ivf.sample_rate = self.sample_rate as usize;
        ivf.max_iters = self.max_iterations as usize;
        let sq = || SQBuildParams { sample_rate: self.sample_rate as usize, ..SQBuildParams::default() };
        let hnsw = || {
            let graph = HnswBuildParams::default().num_edges(self.m as usize);
            graph.ef_construction(self.ef_construction as usize)
        };
        let pq = || {
            let bits = self.num_bits.unwrap_or(8);
            let parts = self.num_sub_vectors.map_or_else(|| sub_vectors(width, bits), |parts| parts as usize);
            let mut pq = PQBuildParams::new(parts, bits as usize);
            pq.max_iters = self.max_iterations as usize;
            pq
        };
        Ok(match self.kind {
            VectorKind::IvfFlat => VectorIndexParams::with_ivf_flat_params(distance, ivf),
            VectorKind::IvfSq => VectorIndexParams::with_ivf_sq_params(distance, ivf, sq()),
            VectorKind::IvfPq => VectorIndexParams::with_ivf_pq_params(distance, ivf, pq()),
            VectorKind::IvfRq => {
                let bits = self.num_bits.and_then(|bits| u8::try_from(bits).ok());
                let rq = bits.map_or_else(RQBuildParams::default, RQBuildParams::new);
                VectorIndexParams::with_ivf_rq_params(distance, ivf, rq)
            }
            VectorKind::IvfHnswFlat => VectorIndexParams::ivf_hnsw(distance, ivf, hnsw()),
            VectorKind::IvfHnswSq => VectorIndexParams::with_ivf_hnsw_sq_params(distance, ivf, hnsw(), sq()),
            VectorKind::IvfHnswPq => VectorIndexParams::with_ivf_hnsw_pq_params(distance, ivf, hnsw(), pq()),
        })
    }
}

/// Sixteen elements of a vector in each part, as the client library has it; with
/// four bits the number of parts must be even.
fn sub_vectors(width: usize, bits: u32) -> usize {
    let parts = match width {
        width if width.is_multiple_of(16) => width / 16,
        width if width.is_multiple_of(8) => width / 8,
        _ => 1,
    };
    if bits == 4 && parts % 2 == 1 { parts + 1 } else { parts }
}

/// The options of one index.
struct Options<'a> {
    method: &'a str,
    values: &'a Map<String, Value>,
}

impl Options<'_> {
    fn only(&self, supported: &[&'static str]) -> Result<(), SpecError> {
        match self.values.keys().find(|name| !supported.contains(&name.as_str())) {
            Some(name) => Err(SpecError::Unknown {
                name: name.clone(),
                method: self.method.to_owned(),
                supported: supported.to_vec(),
            }),
            None => Ok(()),
        }
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    fn integer(&self, name: &str, min: u64, max: u64) -> Result<Option<u64>, SpecError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        match number.filter(|number| (min..=max).contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(name, value, format!("an integer from {min} to {max}"))),
        }
    }

    fn small(&self, name: &str, min: u32, max: u32) -> Result<Option<u32>, SpecError> {
        Ok(self.integer(name, min.into(), max.into())?.and_then(|number| u32::try_from(number).ok()))
    }

    fn fraction(&self, name: &str) -> Result<Option<f64>, SpecError> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let number = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        match number.filter(|number| *number > 0.0 && *number < 1.0) {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(name, value, "a number between 0 and 1".to_owned())),
        }
    }

    fn vector(&self, kind: VectorKind, more: &[&'static str]) -> Result<IndexSpec, SpecError> {
        self.only(&[&IVF, more].concat())?;
        let mut spec = VectorSpec::new(kind);
        if let Some(value) = self.value("metric_type").or_else(|| self.value("distance_type")) {
            let known = value.as_str().and_then(Distance::parse);
            spec.distance = known
                .ok_or_else(|| wrong("metric_type", value, "\"l2\", \"cosine\", \"dot\" or \"hamming\"".to_owned()))?;
        }
        spec.num_partitions = self.small("num_partitions", 1, 1 << 20)?;
        spec.target_partition_size = self.small("target_partition_size", 1, 1 << 30)?;
        spec.sample_rate = self.small("sample_rate", 1, 1 << 16)?.unwrap_or(spec.sample_rate);
        spec.max_iterations = self.small("max_iterations", 1, 10_000)?.unwrap_or(spec.max_iterations);
        spec.num_sub_vectors = self.small("num_sub_vectors", 1, 1 << 16)?;
        spec.num_bits = match kind {
            VectorKind::IvfRq => self.small("num_bits", 1, 9)?,
            _ => self.small("num_bits", 4, 8)?,
        };
        spec.m = self.small("m", 2, 1 << 10)?.unwrap_or(spec.m);
        spec.ef_construction = self.small("ef_construction", 1, 1 << 16)?.unwrap_or(spec.ef_construction);
        Ok(IndexSpec::Vector(spec))
    }

    fn full_text(&self) -> Result<IndexSpec, SpecError> {
        self.only(&FULL_TEXT)?;
        let booleans = [
            "with_position",
            "lower_case",
            "stem",
            "remove_stop_words",
            "ascii_folding",
            "prefix_only",
            "split_identifiers",
            "split_on_numerics",
            "preserve_original",
            "index_operators",
        ];
        let numbers = ["max_token_length", "min_ngram_length", "max_ngram_length", "block_size"];
        let mut given = Map::new();
        for (name, value) in self.values {
            let value = match name.as_str() {
                // The client library says null for no bound.
                "max_token_length" if value.is_null() => Value::Null,
                _ if value.is_null() => continue,
                name if booleans.contains(&name) => Value::Bool(boolean(name, value)?),
                name if numbers.contains(&name) => json!(self.integer(name, 1, 1 << 20)?),
                "custom_stop_words" => words(value),
                _ => value.clone(),
            };
            given.insert(name.clone(), value);
        }
        let (least, most) = (given.get("min_ngram_length"), given.get("max_ngram_length"));
        if let (Some(least), Some(most)) = (least.and_then(Value::as_u64), most.and_then(Value::as_u64))
            && least > most
        {
            return Err(wrong("min_ngram_length", &json!(least), format!("at most max_ngram_length, {most}")));
        }
        match serde_json::from_value(Value::Object(given)) {
            Ok(params) => Ok(IndexSpec::FullText(Box::new(params))),
            Err(error) => Err(self.blamed(&error)),
        }
    }

    /// Finds the option that an index of words does not take.
    fn blamed(&self, error: &serde_json::Error) -> SpecError {
        let alone = |name: &str, value: &Value| {
            let one = Map::from_iter([(name.to_owned(), value.clone())]);
            serde_json::from_value::<InvertedIndexParams>(Value::Object(one)).is_err()
        };
        let guilty = self.values.iter().find(|(name, value)| value.is_string() && alone(name, value));
        match guilty {
            Some((name, value)) => wrong(name, value, format!("something else: {error}")),
            None => wrong("fts", &json!(self.values), format!("options that go together: {error}")),
        }
    }
}

fn boolean(name: &str, value: &Value) -> Result<bool, SpecError> {
    let read = match value {
        Value::Bool(value) => Some(*value),
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "on" | "yes" | "1" => Some(true),
            "false" | "off" | "no" | "0" => Some(false),
            _ => None,
        },
        Value::Number(number) => number.as_u64().filter(|number| *number < 2).map(|number| number == 1),
        _ => None,
    };
    read.ok_or_else(|| wrong(name, value, "true or false".to_owned()))
}

/// SQL has no lists among its options; there words are separated by commas.
fn words(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(text.split(',').map(str::trim).collect::<Vec<_>>()),
        other => other.clone(),
    }
}

fn wrong(name: &str, value: &Value, takes: String) -> SpecError {
    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    SpecError::Value { name: name.to_owned(), value, takes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, options: Value) -> Result<IndexSpec, SpecError> {
        IndexSpec::read(method, options.as_object().unwrap())
    }

    #[test]
    fn what_the_client_library_sends_is_read() {
        let options = json!({"max_iterations": 50, "metric_type": "cosine", "num_bits": 8, "num_partitions": 4, "sample_rate": 256});
        let IndexSpec::Vector(spec) = read("IVF_PQ", options).unwrap() else { panic!("not of vectors") };
        assert_eq!((spec.kind, spec.distance, spec.num_partitions), (VectorKind::IvfPq, Distance::Cosine, Some(4)));
        let options = json!({
            "lance_tokenizer": null, "base_tokenizer": "simple", "language": "English", "with_position": false,
            "max_token_length": null, "lower_case": true, "stem": true, "remove_stop_words": true, "ascii_folding": true,
            "custom_stop_words": null, "min_ngram_length": 3, "max_ngram_length": 3, "prefix_only": false,
            "block_size": 128, "split_identifiers": false, "split_on_numerics": false, "preserve_original": false,
            "index_operators": false,
        });
        assert!(read("FTS", options).unwrap().is_full_text());
        for method in ["BTREE", "BITMAP", "LABEL_LIST", "FM", "ZONEMAP", "NGRAM"] {
            assert!(matches!(read(method, json!({})), Ok(IndexSpec::Scalar(_))), "{method}");
        }
    }

    #[test]
    fn numbers_and_booleans_may_be_texts() {
        let spec = read("fts", json!({"with_position": "on", "min_ngram_length": "2", "custom_stop_words": "a, b"}));
        assert!(spec.unwrap().is_full_text());
        let spec = read("ivf_hnsw_sq", json!({"m": "8", "ef_construction": "40"})).unwrap();
        assert!(matches!(spec, IndexSpec::Vector(VectorSpec { m: 8, ef_construction: 40, .. })));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("gist", json!({}), "access method \"gist\" does not exist"),
            ("btree", json!({"fillfactor": 70}), "unrecognized option \"fillfactor\" for an index of method btree"),
            ("ivf_pq", json!({"num_bits": 9}), "invalid value for option \"num_bits\": \"9\""),
            ("ivf_flat", json!({"metric_type": "l1"}), "invalid value for option \"metric_type\": \"l1\""),
            ("ivf_flat", json!({"m": 4}), "unrecognized option \"m\" for an index of method ivf_flat"),
            ("fts", json!({"with_position": "maybe"}), "invalid value for option \"with_position\": \"maybe\""),
            ("fts", json!({"language": "Klingon"}), "invalid value for option \"language\": \"Klingon\""),
            ("bloom_filter", json!({"probability": 1.5}), "invalid value for option \"probability\": \"1.5\""),
        ];
        for (method, options, message) in cases {
            assert_eq!(read(method, options).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn parts_of_a_quantized_vector_divide_it() {
        for (width, bits, parts) in [(128, 8, 8), (24, 8, 3), (24, 4, 4), (10, 8, 1)] {
            assert_eq!(sub_vectors(width, bits), parts, "{width} elements, {bits} bits");
        }
    }
}
