select id, name, length(name) as n from {{ ref('people') }}
