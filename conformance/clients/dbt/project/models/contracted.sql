select id, name from {{ ref('people') }}
