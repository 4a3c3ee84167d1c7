"""The suites of dbt-tests-adapter as they are, on our profile."""

import importlib

MODULES = """
basic.test_base basic.test_singular_tests basic.test_singular_tests_ephemeral basic.test_ephemeral basic.test_empty
basic.test_incremental basic.test_generic_tests basic.test_snapshot_check_cols basic.test_snapshot_timestamp
basic.test_adapter_methods basic.test_docs_generate basic.test_validate_connection basic.test_get_catalog_for_single_relation
basic.test_table_materialization caching.test_caching column_types.test_column_types concurrency.test_concurrency
constraints.test_constraints ephemeral.test_ephemeral empty.test_empty hooks.test_model_hooks hooks.test_run_hooks
incremental.test_incremental_unique_id incremental.test_incremental_on_schema_change incremental.test_incremental_merge_exclude_columns
incremental.test_incremental_predicates materialized_view.basic persist_docs.test_persist_docs query_comment.test_query_comment
relations.test_changing_relation_type simple_copy.test_simple_copy simple_seed.test_seed simple_snapshot.test_snapshot
store_test_failures_tests.test_store_test_failures unit_testing.test_unit_testing unit_testing.test_types
utils.test_concat utils.test_date_trunc utils.test_dateadd utils.test_datediff utils.test_hash utils.test_replace utils.test_split_part
utils.test_string_literal utils.test_safe_cast utils.test_length utils.test_last_day utils.test_listagg utils.test_current_timestamp
""".split()

for name in MODULES:
    try:
        module = importlib.import_module(f"dbt.tests.adapter.{name}")
    except ImportError:
        continue
    for attribute, value in list(vars(module).items()):
        own = isinstance(value, type) and value.__module__ == module.__name__
        if own and attribute.startswith("Base") and any(method.startswith("test") for method in dir(value)):
            short = name.replace(".", "_")
            globals()[f"Test_{short}_{attribute}"] = type(f"Test_{short}_{attribute}", (value,), {"__module__": __name__})
