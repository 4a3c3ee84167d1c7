{{ config(materialized='incremental', incremental_strategy='append') }} select id, name from {{ ref('people') }}
