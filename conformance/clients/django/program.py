"""Django: inspectdb, its schema editor and migrations, and the ORM on a table without a primary key."""

import io

import django
from django.conf import settings

from conformance import DATABASE, HOST, PASSWORD, PORT, USER, feature, product, version, want

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": DATABASE, "USER": USER, "PASSWORD": PASSWORD,
                           "HOST": HOST, "PORT": PORT}},
    USE_TZ=True, INSTALLED_APPS=["django.contrib.contenttypes"], DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()
from django.core.management import call_command  # noqa: E402
from django.db import DatabaseError, connection, models, transaction  # noqa: E402

version(django.__version__)


class Doc(models.Model):
    id = models.BigIntegerField(primary_key=True)
    body = models.TextField(null=True)
    at = models.DateTimeField(null=True)

    class Meta:
        app_label = "conformance"
        db_table = "docs"
        managed = False


class Many(models.Model):
    id = models.BigIntegerField(primary_key=True)

    class Meta:
        app_label = "conformance"
        db_table = "many"
        managed = False


def run(sql, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters or None)
        return cursor.fetchall() if cursor.description else None


@feature("connect")
def _():
    want(run("SELECT 1"), [(1,)])
    assert connection.pg_version >= 150000
    run("CREATE TABLE docs (id bigint NOT NULL, body text, at timestamptz)")


@feature("introspect")
def _():
    about = connection.introspection
    with connection.cursor() as cursor:
        assert "docs" in about.table_names(cursor)
        want([column.name for column in about.get_table_description(cursor, "docs")], ["id", "body", "at"])
        about.get_relations(cursor, "docs"), about.get_constraints(cursor, "docs"), about.get_sequences(cursor, "docs")
        about.get_primary_key_column(cursor, "docs")


@feature("inspectdb")
def _():
    out = io.StringIO()
    call_command("inspectdb", "docs", stdout=out)
    assert "body = models.TextField(blank=True, null=True)" in out.getvalue(), out.getvalue()


@feature("queries")
def _():
    Doc.objects.bulk_create([Doc(id=1, body="lance"), Doc(id=2)])
    want(Doc.objects.count(), 2)
    want(Doc.objects.filter(id__in=[1, 2], body__startswith="la").exists(), True)
    want(Doc.objects.filter(id=1).update(body="changed"), 1)
    want(list(Doc.objects.order_by("-id").values_list("body", flat=True)), [None, "changed"])
    want(Doc.objects.get(id=1).body, "changed")
    want(Doc.objects.filter(id=2).delete()[0], 1)
    Doc(id=3, body="saved").save()
    want(Doc.objects.aggregate(models.Max("id"))["id__max"], 3)


@feature("transaction")
def _():
    with transaction.atomic():
        want(run("SELECT 1"), [(1,)])


@feature("savepoint")
def _():
    with transaction.atomic():
        try:
            with transaction.atomic():
                run("SELECT 1/0")
        except DatabaseError:
            pass
        want(run("SELECT 1"), [(1,)])


@feature("error")
def _():
    try:
        run("SELECT nothing FROM docs")
        raise AssertionError("no error")
    except DatabaseError as error:
        want(error.__cause__.sqlstate, "42703")


@feature("stream")
def _():
    run("CREATE TABLE many (id bigint, body text, at timestamptz)")
    run("INSERT INTO many SELECT value, NULL, NULL FROM (SELECT unnest(array_agg(g)) AS value FROM generate_series(1, 3000) AS s(g)) x")
    with transaction.atomic():
        found = Many.objects.order_by("id").iterator(chunk_size=100)
        want(sum(one.id for one in found), 4501500)


@feature("migrations")
def _():
    call_command("migrate", verbosity=0)
    assert "django_migrations" in connection.introspection.table_names()
    with connection.schema_editor() as editor:
        field = models.IntegerField(null=True)
        field.set_attributes_from_name("extra")
        editor.add_field(Doc, field)


@feature("computed")
def _():
    product()
    run("ALTER TABLE docs ADD COLUMN n AS length(body)")
    want(run("REFRESH COLUMN n ON docs WAIT")[0][2], "succeeded")
    want(run("SELECT n FROM docs WHERE id = %s", 3), [(5,)])


@feature("jobs")
def _():
    product()
    want(run("SHOW JOBS")[0][3], "succeeded")
