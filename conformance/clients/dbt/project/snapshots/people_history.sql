{% snapshot people_history %}
{{ config(target_schema='dbt', unique_key='id', strategy='check', check_cols=['name']) }}
select * from {{ ref('people') }}
{% endsnapshot %}
