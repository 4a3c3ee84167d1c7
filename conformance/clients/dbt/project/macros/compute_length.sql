{% macro compute_length() %}
  {% do run_query("CREATE TABLE IF NOT EXISTS dbt.computed (id bigint, body text)") %}
  {% do run_query("INSERT INTO dbt.computed VALUES (1, 'lance')") %}
  {% do run_query("ALTER TABLE dbt.computed ADD COLUMN n AS length(body)") %}
  {% set found = run_query("REFRESH COLUMN n ON dbt.computed WAIT") %}
  {{ log("refresh_status=" ~ found.columns["status"].values()[0], info=True) }}
{% endmacro %}
