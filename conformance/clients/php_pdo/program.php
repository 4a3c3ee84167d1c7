<?php
// PDO and the pgsql extension: statements by name, DEALLOCATE, metadata by object number.
echo "version ", PHP_VERSION, "\n";
$reference = getenv("CONFORMANCE_REFERENCE") !== false;
$c = new PDO("pgsql:dbname=" . getenv("PGDATABASE"), getenv("PGUSER"), getenv("PGPASSWORD"), [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
$p = pg_connect("dbname=" . getenv("PGDATABASE"));

function feature(string $name, callable $body, bool $product = false): void
{
    global $reference;
    if ($product && $reference) {
        echo "skip $name PostgreSQL has no computed columns\n";
        return;
    }
    try {
        $body();
        echo "ok $name\n";
    } catch (Throwable $error) {
        global $c;
        if ($c->inTransaction()) {
            $c->rollBack();
        }
        echo "fail $name ", preg_replace('/\s+/', ' ', $error->getMessage()), "\n";
    }
}

function want(mixed $found, mixed $expected): void
{
    if ($found !== $expected) {
        throw new Exception(json_encode($found) . " instead of " . json_encode($expected));
    }
}

set_error_handler(function (int $level, string $text) { throw new Exception($text); });

feature("connect", function () use ($c, $p) {
    want($c->query("SELECT 1")->fetchAll(PDO::FETCH_NUM), [[1]]);
    want(pg_fetch_all(pg_query($p, "SELECT 'x'::text AS a")), [["a" => "x"]]);
});
feature("types_out", function () use ($c) {
    want($c->query("SELECT 1::int2, 2::int8, 1.25::numeric(10,2), 'x'::text, true, NULL, '2024-01-02'::date")->fetch(PDO::FETCH_NUM),
        [1, 2, "1.25", "x", true, null, "2024-01-02"]);
    want(stream_get_contents($c->query("SELECT '\\x00ff'::bytea")->fetch(PDO::FETCH_NUM)[0]), "\x00\xff");
});
feature("types_in", function () use ($c) {
    $c->exec("CREATE TABLE docs (id bigint, body text, yes boolean, raw bytea)");
    $s = $c->prepare("INSERT INTO docs VALUES (:id, :body, :yes, :raw)");
    foreach ([[1, "lance", true, "\x00\xff"], [2, null, null, null]] as [$id, $body, $yes, $raw]) {
        $s->bindValue("id", $id, PDO::PARAM_INT);
        $s->bindValue("body", $body);
        $s->bindValue("yes", $yes, PDO::PARAM_BOOL);
        $s->bindValue("raw", $raw, PDO::PARAM_LOB);
        $s->execute();
    }
    want($c->query("SELECT id, body, yes FROM docs ORDER BY id")->fetchAll(PDO::FETCH_NUM), [[1, "lance", true], [2, null, null]]);
    want(stream_get_contents($c->query("SELECT raw FROM docs WHERE id = 1")->fetch(PDO::FETCH_NUM)[0]), "\x00\xff");
});
feature("prepare", function () use ($c, $p) {
    $s = $c->prepare("SELECT body FROM docs WHERE id = ?");
    foreach ([1, 1, 1] as $id) {
        $s->execute([$id]);
        want($s->fetchColumn(), "lance");
    }
    pg_prepare($p, "one", 'SELECT body FROM docs WHERE id = $1');
    want(pg_fetch_result(pg_execute($p, "one", [1]), 0, 0), "lance");
});
feature("transaction", function () use ($c) {
    $c->beginTransaction();
    foreach (["SELECT nothing" => "42703", "SELECT 1" => "25P02"] as $sql => $state) {
        try {
            $c->query($sql);
            throw new Exception("no error");
        } catch (PDOException $error) {
            want($error->getCode(), $state);
        }
    }
    $c->rollBack();
    want($c->inTransaction(), false);
});
feature("error", function () use ($c, $p) {
    try {
        $c->query("SELECT nothing FROM docs");
        throw new Exception("no error");
    } catch (PDOException $error) {
        want($error->getCode(), "42703");
    }
    pg_send_query($p, "SELECT nothing FROM docs");
    want(pg_result_error_field(pg_get_result($p), PGSQL_DIAG_STATEMENT_POSITION), "8");
    while (pg_get_result($p)) {
    }
});
feature("scroll", function () use ($c) {
    $c->beginTransaction();
    $s = $c->prepare("SELECT generate_series AS g FROM generate_series(1, 10)", [PDO::ATTR_CURSOR => PDO::CURSOR_SCROLL]);
    $s->execute();
    want((int) $s->fetch(PDO::FETCH_NUM)[0], 1);
    want((int) $s->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_LAST)[0], 10);
    $s = null;
    $c->commit();
});
feature("introspect", function () use ($c, $p) {
    $s = $c->query("SELECT id, body FROM docs");
    want([$s->getColumnMeta(0)["native_type"], $s->getColumnMeta(1)["native_type"]], ["int8", "text"]);
    want(array_keys(pg_meta_data($p, "docs")), ["id", "body", "yes", "raw"]);
    $found = pg_query($p, "SELECT id FROM docs");
    want([pg_field_name($found, 0), pg_field_type($found, 0)], ["id", "int8"]);
    pg_field_table($found, 0);
});
feature("copy_in", function () use ($c, $p) {
    $c->exec("CREATE TABLE copied (id bigint, body text)");
    $c->pgsqlCopyFromArray("copied", ["1\ta", "2\t\\N"]);
    pg_copy_from($p, "copied", ["3\tc\n"]);
    want((int) $c->query("SELECT count(*) FROM copied")->fetchColumn(), 3);
});
feature("copy_out", function () use ($c, $p) {
    want(count($c->pgsqlCopyToArray("copied")), 3);
    want(count(pg_copy_to($p, "copied")), 3);
});
feature("computed", function () use ($c) {
    $c->exec("ALTER TABLE docs ADD COLUMN n AS length(body)");
    want($c->query("REFRESH COLUMN n ON docs WAIT")->fetch()["status"], "succeeded");
    want((int) $c->query("SELECT n FROM docs WHERE id = 1")->fetchColumn(), 5);
}, true);
feature("jobs", function () use ($c) {
    want($c->query("SHOW JOBS")->fetch()["state"], "succeeded");
}, true);
