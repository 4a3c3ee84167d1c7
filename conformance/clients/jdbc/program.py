"""pgjdbc, driven from Python: the extended protocol, portals, and all of DatabaseMetaData."""

import sys

import jpype
import jpype.imports

from conformance import DATABASE, HOST, PASSWORD, PORT, USER, feature, product, version, want

jpype.startJVM(classpath=[sys.argv[1]])
from java.io import StringReader, StringWriter  # noqa: E402
from java.sql import DriverManager, SQLException, Timestamp, Types  # noqa: E402
from java.util import Properties  # noqa: E402

version(str(jpype.JClass("org.postgresql.util.DriverInfo").DRIVER_VERSION))


def connect(**options):
    properties = Properties()
    for name, value in {"user": USER, "password": PASSWORD, **options}.items():
        properties.setProperty(name, value)
    return DriverManager.getConnection(f"jdbc:postgresql://{HOST}:{PORT}/{DATABASE}", properties)


c = connect()


def read(result):
    width, found = result.getMetaData().getColumnCount(), []
    while result.next():
        values = [result.getString(i) for i in range(1, width + 1)]
        found.append([None if value is None else str(value) for value in values])
    result.close()
    return found


def run(sql, connection=None):
    statement = (connection or c).createStatement()
    has_rows = statement.execute(sql)
    found = read(statement.getResultSet()) if has_rows else statement.getUpdateCount()
    statement.close()
    return found


def column(result, name):
    found = []
    while result.next():
        value = result.getString(name)
        found.append(None if value is None else str(value))
    result.close()
    return found


run("CREATE TABLE docs (id bigint NOT NULL, body text, price numeric(10,2), at timestamp, v real[])")
run("CREATE INDEX docs_id ON docs (id)")


@feature("connect")
def _():
    want(run("SELECT 1"), [["1"]])
    assert c.isValid(5)
    assert c.getMetaData().getDatabaseMajorVersion() >= 15


@feature("session")
def _():
    c.setSchema("public")
    want(str(c.getSchema()), "public")
    c.setTransactionIsolation(8)
    want(c.getTransactionIsolation(), 8)
    c.setTransactionIsolation(2)
    c.setReadOnly(False)
    want(run("SHOW standard_conforming_strings"), [["on"]])


KINDS = (
    "SELECT 1::int2, 2::int4, 3::int8, 1.5::float4, 2.5::float8, 1.25::numeric(10,2), 'x'::text, true, '2024-01-02'::date,"
    " '2024-01-02 03:04:05'::timestamp, NULL::int4, ARRAY[1,2]::int4[], ARRAY[0.5,1]::float4[], ARRAY['a',NULL]::text[]"
)
SHOWN = ["1", "2", "3", "1.5", "2.5", "1.25", "x", "t", "2024-01-02", "2024-01-02 03:04:05", None, "{1,2}", "{0.5,1}", "{a,NULL}"]


def shown(row):
    return [value.replace('"', "").replace("1.0}", "1}") if value else value for value in row]


@feature("types_out")
def _():
    want(shown(run(KINDS)[0]), SHOWN)
    statement = c.createStatement()
    result = statement.executeQuery("SELECT '\\x00ff'::bytea, ARRAY[1,2]::int8[], timestamptz '2024-01-02 03:04:05+00'")
    result.next()
    want(list(result.getBytes(1)), [0, -1])
    want(list(result.getArray(2).getArray()), [1, 2])
    want(result.getTimestamp(3).getTime(), 1704164645000)


@feature("types_in")
def _():
    statement = c.prepareStatement("INSERT INTO docs VALUES (?, ?, ?, ?, ?)")
    statement.setLong(1, 1)
    statement.setString(2, "lance")
    statement.setBigDecimal(3, jpype.JClass("java.math.BigDecimal")("1.25"))
    statement.setTimestamp(4, Timestamp.valueOf("2024-01-02 03:04:05"))
    statement.setArray(5, c.createArrayOf("float4", jpype.JArray(jpype.JObject)([jpype.java.lang.Float(0.5), jpype.java.lang.Float(1.0)])))
    want(statement.executeUpdate(), 1)
    statement.setLong(1, 2)
    for place, kind in ((2, Types.VARCHAR), (3, Types.NUMERIC), (4, Types.TIMESTAMP), (5, Types.ARRAY)):
        statement.setNull(place, kind)
    want(statement.executeUpdate(), 1)
    want(shown(run("SELECT * FROM docs ORDER BY id")[0]), ["1", "lance", "1.25", "2024-01-02 03:04:05", "{0.5,1}"])


@feature("prepare")
def _():
    statement = c.prepareStatement("SELECT body, ?::int + 1 FROM docs WHERE id = ?")
    for n in range(9):  # by name from the fifth execution on
        statement.setInt(1, n)
        statement.setLong(2, 1)
        want(read(statement.executeQuery()), [["lance", str(n + 1)]])
    want(statement.getParameterMetaData().getParameterTypeName(2), "int8")


@feature("binary")
def _():
    other = connect(prepareThreshold="-1")
    want(shown(run(KINDS, other)[0])[:9], SHOWN[:9])
    want(shown(run(KINDS, other)[0]), SHOWN)
    statement = other.prepareStatement("SELECT id, price, at, v FROM docs WHERE id = ?")
    statement.setLong(1, 1)
    want(shown(read(statement.executeQuery())[0]), ["1", "1.25", "2024-01-02 03:04:05", "{0.5,1}"])
    other.close()


@feature("transaction")
def _():
    other = connect()
    other.setAutoCommit(False)
    want(run("SELECT 1", other), [["1"]])
    try:
        run("SELECT nothing", other)
        raise AssertionError("no error")
    except SQLException as error:
        want(str(error.getSQLState()), "42703")
    try:
        run("SELECT 1", other)
        raise AssertionError("a failed block goes on")
    except SQLException as error:
        want(str(error.getSQLState()), "25P02")
    other.rollback()
    want(run("SELECT 1", other), [["1"]])
    other.commit()
    other.close()


@feature("savepoint")
def _():
    other = connect()
    other.setAutoCommit(False)
    point = other.setSavepoint("here")
    try:
        run("SELECT 1/0", other)
    except SQLException as error:
        want(str(error.getSQLState()), "22012")
    other.rollback(point)
    other.releaseSavepoint(other.setSavepoint())
    want(run("SELECT 1", other), [["1"]])
    other.close()


@feature("autosave")
def _():
    other = connect(autosave="always")
    other.setAutoCommit(False)
    run("SELECT 1", other)
    try:
        run("SELECT 1/0", other)
    except SQLException:
        pass
    want(run("SELECT 1", other), [["1"]])
    other.commit()
    other.close()


@feature("error")
def _():
    try:
        run("SELECT nothing FROM docs")
        raise AssertionError("no error")
    except SQLException as error:
        want((str(error.getSQLState()), error.getServerErrorMessage().getPosition()), ("42703", 8))


@feature("cursor")
def _():
    other = connect()
    other.setAutoCommit(False)
    for rows, fetch in ((5, 2), (3, 2), (4, 4), (0, 2)):
        statement = other.prepareStatement(f"SELECT generate_series FROM generate_series(1, {rows})")
        statement.setFetchSize(fetch)
        want([int(row[0]) for row in read(statement.executeQuery())], list(range(1, rows + 1)))
    statement.setMaxRows(1)
    other.close()


@feature("stream")
def _():
    other = connect()
    other.setAutoCommit(False)
    statement = other.prepareStatement("SELECT generate_series FROM generate_series(1, 100000)")
    statement.setFetchSize(5000)
    result, total = statement.executeQuery(), 0
    while result.next():
        total += result.getLong(1)
    want(total, 5000050000)
    other.close()


@feature("introspect")
def _():
    about = c.getMetaData()
    assert "docs" in column(about.getTables(None, "public", "%", ["TABLE"]), "TABLE_NAME")
    assert "public" in column(about.getSchemas(), "TABLE_SCHEM")
    assert DATABASE in column(about.getCatalogs(), "TABLE_CAT")
    assert "TABLE" in column(about.getTableTypes(), "TABLE_TYPE")


@feature("metadata_columns")
def _():
    about = c.getMetaData()
    want(column(about.getColumns(None, "public", "docs", "%"), "COLUMN_NAME"), ["id", "body", "price", "at", "v"])
    want(column(about.getColumns(None, "public", "docs", "%"), "TYPE_NAME"), ["int8", "text", "numeric", "timestamp", "_float4"])
    want(column(about.getColumns(None, "public", "docs", "%"), "IS_NULLABLE")[:2], ["NO", "YES"])
    assert about.getMaxColumnNameLength() == 63


@feature("metadata_keys")
def _():
    about = c.getMetaData()
    want(read(about.getPrimaryKeys(None, "public", "docs")), [])
    want(read(about.getImportedKeys(None, "public", "docs")), [])
    want(read(about.getExportedKeys(None, "public", "docs")), [])
    read(about.getCrossReference(None, "public", "docs", None, "public", "docs"))
    read(about.getBestRowIdentifier(None, "public", "docs", 2, True))
    read(about.getVersionColumns(None, "public", "docs"))


@feature("metadata_indexes")
def _():
    about = c.getMetaData()
    want(column(about.getIndexInfo(None, "public", "docs", False, True), "COLUMN_NAME"), ["id"])
    want(column(about.getIndexInfo(None, "public", "nothing", False, True), "COLUMN_NAME"), [])


@feature("metadata_functions")
def _():
    about = c.getMetaData()
    assert "abs" in column(about.getFunctions(None, "pg_catalog", "abs"), "FUNCTION_NAME")
    read(about.getProcedures(None, None, "%"))
    assert read(about.getFunctionColumns(None, "pg_catalog", "abs", "%"))
    read(about.getUDTs(None, None, "%", None))


@feature("metadata_types")
def _():
    about = c.getMetaData()
    assert "int8" in column(about.getTypeInfo(), "TYPE_NAME")
    assert str(about.getSQLKeywords())
    read(about.getClientInfoProperties())


@feature("metadata_privileges")
def _():
    about = c.getMetaData()
    read(about.getTablePrivileges(None, "public", "docs"))
    read(about.getColumnPrivileges(None, "public", "docs", "%"))


@feature("copy_in")
def _():
    manager = c.getCopyAPI()
    run("CREATE TABLE copied (id bigint, body text)")
    want(manager.copyIn("COPY copied FROM STDIN WITH (FORMAT csv)", StringReader("1,a\n2,\n")), 2)
    try:
        manager.copyIn("COPY copied FROM STDIN", StringReader("x\ty\tz\n"))
        raise AssertionError("a bad row was taken")
    except SQLException as error:
        assert str(error.getSQLState()) in ("22P02", "22P04"), error
    want(run("SELECT count(*) FROM copied"), [["2"]])


@feature("copy_out")
def _():
    out = StringWriter()
    want(c.getCopyAPI().copyOut("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT", out), 2)
    want(str(out.toString()), "1\ta\n2\t\\N\n")


@feature("cancel")
def _():
    statement = c.createStatement()
    statement.setQueryTimeout(1)
    try:
        statement.executeQuery("SELECT pg_sleep(20)")
        raise AssertionError("not canceled")
    except SQLException as error:
        want(str(error.getSQLState()), "57014")
    want(run("SELECT 1"), [["1"]])


@feature("batch")
def _():
    for rewritten in ("false", "true"):
        other = connect(reWriteBatchedInserts=rewritten)
        statement = other.prepareStatement("INSERT INTO copied VALUES (?, ?)")
        for n in range(20):
            statement.setLong(1, n)
            statement.setString(2, "b")
            statement.addBatch()
        want(len(statement.executeBatch()), 20)
        other.close()
    want(run("SELECT count(*) FROM copied WHERE body = 'b'"), [["40"]])


@feature("generated_keys")
def _():
    statement = c.prepareStatement("INSERT INTO copied VALUES (77, 'k')", 1)
    want(statement.executeUpdate(), 1)
    want(read(statement.getGeneratedKeys()), [["77", "k"]])


@feature("simple_mode")
def _():
    other = connect(preferQueryMode="simple")
    statement = other.prepareStatement("SELECT ? + 1, ?")
    statement.setInt(1, 41)
    statement.setString(2, "a'b")
    want(read(statement.executeQuery()), [["42", "a'b"]])
    other.close()


@feature("result_metadata")
def _():
    statement = c.createStatement()
    about = statement.executeQuery("SELECT id, body, price FROM docs").getMetaData()
    want([str(about.getColumnTypeName(i)) for i in (1, 2, 3)], ["int8", "text", "numeric"])
    want((about.getPrecision(3), about.getScale(3)), (10, 2))
    about.isNullable(1), about.getTableName(1), about.isAutoIncrement(1)


@feature("computed")
def _():
    product()
    run("ALTER TABLE copied ADD COLUMN n AS length(body)")
    want(run("REFRESH COLUMN n ON copied WAIT")[0][2], "succeeded")
    want(run("SELECT n FROM copied WHERE id = 77"), [["1"]])


@feature("jobs")
def _():
    product()
    job = run("SHOW JOBS")[0]
    statement = c.prepareStatement("SELECT state FROM system.public.jobs WHERE job_id = ?")
    statement.setString(1, job[0])
    want(read(statement.executeQuery()), [["succeeded"]])
    want(run("SELECT count(*) FROM (SELECT * FROM system.public.jobs) AS wrapped"), [["1"]])
