{{ config(materialized='view') }} select id, name from {{ ref('people') }} where born is not null
