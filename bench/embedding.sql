-- An embedding column over many rows of which one in a hundred is poisoned, from psql:
--   psql -v ON_ERROR_STOP=1 -v rows=200000 -f bench/embedding.sql
-- `make embedding` starts a gateway for it. The embedding is a toy (384 floats from numpy), the rest is not.
\timing on
\pset null ∅

CREATE TABLE docs AS SELECT id, 'document ' || id AS body FROM generate_series(0, :rows - 1) AS s(id);

CREATE FUNCTION embed (id int64) RETURNS fixed_size_list<float32, 384> LANGUAGE python AS $$
import numpy as np
import pyarrow as pa


class embed:
    def __init__(self):
        self.weights = np.linspace(0.1, 3.0, 384, dtype=np.float32)

    def __call__(self, id):
        ids = id.to_numpy()
        if (ids % 100 == 7).any():
            raise ValueError("a poisoned row")
        values = np.sin(np.outer(ids % 997 + 1, self.weights)).astype(np.float32)
        values /= np.linalg.norm(values, axis=1, keepdims=True)
        return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 384)
$$ WITH (mode = 'vectorized', result_stability = 'input_and_context', side_effects = 'none');

ALTER TABLE docs ADD COLUMN embedding AS embed(id);

-- What would be done? Nothing runs yet.
EXPLAIN REFRESH COLUMN embedding ON docs WITH (error_policy = 'skip');

-- Under the default policy the first poisoned row ends it, and the error names the row.
\set ON_ERROR_STOP 0
REFRESH COLUMN embedding ON docs WAIT;
\set ON_ERROR_STOP 1

-- Under skip, poisoned rows are NULL and listed, and their neighbours in the same call have values.
REFRESH COLUMN embedding ON docs WITH (error_policy = 'skip') WAIT;
SELECT count(*) AS rows, count(embedding) AS embedded, count(*) FILTER (WHERE embedding IS NULL) AS missing FROM docs;
SHOW ERRORS ON docs LIMIT 3;
SELECT count(*) AS errors, count(DISTINCT error_message) AS messages FROM function_errors('docs');

-- The cause is mended: the second version forgives. A column of it computes what the first one could not, and nothing else.
CREATE FUNCTION embed (id int64) RETURNS fixed_size_list<float32, 384> LANGUAGE python AS $$
import numpy as np
import pyarrow as pa


def embed(id):
    values = np.sin(np.outer(id.to_numpy() % 997 + 1, np.linspace(0.1, 3.0, 384))).astype(np.float32)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 384)
$$ WITH (mode = 'vectorized');
ALTER TABLE docs ADD COLUMN mended AS embed(id) FILTER (WHERE id % 100 = 7);
REFRESH COLUMN mended ON docs WAIT;
SELECT count(coalesce(embedding, mended)) AS embedded FROM docs;

-- Where the time went.
SELECT job_id FROM system.public.jobs WHERE state = 'succeeded' AND job_type = 'function_refresh' ORDER BY created_at LIMIT 1 \gset
DESCRIBE JOB :'job_id';
