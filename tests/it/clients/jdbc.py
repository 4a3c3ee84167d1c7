"""pgjdbc, driven from Python: what SHOW gives, read and wrapped. Arguments: host, port, password, job."""
import sys

import jpype

host, port, password, job = sys.argv[1:5]
jpype.startJVM(classpath=["/usr/share/java/postgresql.jar"])
manager = jpype.JClass("java.sql.DriverManager")
url = f"jdbc:postgresql://{host}:{port}/lancegate?user=lancegate&password={password.replace(' ', '%20')}"
connection = manager.getConnection(url)


def rows(sql, *parameters):
    statement = connection.prepareStatement(sql)
    for number, value in enumerate(parameters, 1):
        statement.setString(number, value)
    found = statement.executeQuery()
    width = found.getMetaData().getColumnCount()
    told = []
    while found.next():
        told.append([None if found.getString(i) is None else str(found.getString(i)) for i in range(1, width + 1)])
    found.close()
    statement.close()
    return told


# SHOW by itself, and the relation and table functions in its place, wrapped as tools do.
assert [row[0] for row in rows("SHOW JOBS LIMIT 10")] == [job]
for relation in (
    "system.public.jobs", "system.public.job_events", "system.public.job_splits", "system.public.function_errors",
    "system.public.functions", "system.public.grants", "function_errors('n')", "column_status('n')",
    f"job_children('{job}')", f"describe_job('{job}')", "gpu_classes()",
):
    wrapped = rows(f"SELECT count(*) FROM (SELECT * FROM {relation}) AS wrapped")
    assert int(wrapped[0][0]) == len(rows(f"SELECT * FROM {relation}")) > 0, relation
assert rows("SELECT state FROM system.public.jobs WHERE job_id = ?", job) == [["succeeded"]]
# Text at first, binary once the driver has prepared the statement by name.
for _ in range(8):
    assert rows("SELECT progress IS NULL, created_at <= now() FROM system.public.jobs WHERE job_id = ?", job)[0][1] == "t"
tables = connection.getMetaData().getTables(None, "public", "%", None)
names = set()
while tables.next():
    names.add(str(tables.getString("TABLE_NAME")))
assert "n" in names, names
connection.close()
print("ok")
