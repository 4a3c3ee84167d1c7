# ruby-pg: libpq with its own maps of types, which it reads from the catalog.
require "pg"
require "timeout"
$stdout.sync = true

puts "version #{PG::VERSION}"
REFERENCE = ENV.key?("CONFORMANCE_REFERENCE")
C = PG.connect

def feature(name, product: false)
  if product && REFERENCE
    puts "skip #{name} PostgreSQL has no computed columns"
    return
  end
  Timeout.timeout(20) { yield }
  puts "ok #{name}"
rescue StandardError => error
  warn error.full_message
  puts "fail #{name} #{error.class}: #{error.message.gsub(/\s+/, ' ')[0, 280]}"
end

def want(found, expected)
  raise "#{found.inspect} instead of #{expected.inspect}" unless found == expected
end

def state_of
  yield
  raise "no error"
rescue PG::Error => error
  error.result.error_field(PG::Result::PG_DIAG_SQLSTATE)
end

feature("connect") do
  want C.exec("SELECT 1").values, [["1"]]
  raise "old" unless C.server_version >= 150000
end
feature("introspect") do
  C.type_map_for_results = PG::BasicTypeMapForResults.new(C)
  C.type_map_for_queries = PG::BasicTypeMapForQueries.new(C)
end
feature("types_out") do
  C.type_map_for_results = PG::BasicTypeMapForResults.new(C)
  found = C.exec("SELECT 1::int2, 2::int8, 1.5::float8, 'x'::text, true, NULL, ARRAY[1,2]::int4[], '2024-01-02'::date").values
  want found[0][0..6], [1, 2, 1.5, "x", true, nil, [1, 2]]
  want C.exec_params("SELECT '\\x00ff'::bytea", [], 1).getvalue(0, 0), "\x00\xff".b
end
feature("types_in") do
  C.exec("CREATE TABLE docs (id bigint, body text, x float8, v int4[])")
  C.type_map_for_queries = PG::BasicTypeMapForQueries.new(C)
  C.exec_params("INSERT INTO docs VALUES ($1, $2, $3, $4)", [1, "lance", 0.5, [1, 2]])
  C.exec_params("INSERT INTO docs VALUES ($1, $2, $3, $4)", [2, nil, nil, nil])
  want C.exec("SELECT id::text, body FROM docs ORDER BY id").values, [["1", "lance"], ["2", nil]]
end
feature("prepare") do
  C.prepare("one", "SELECT body FROM docs WHERE id = $1")
  3.times { want C.exec_prepared("one", [1]).values, [["lance"]] }
  want C.describe_prepared("one").paramtype(0), 20
end
feature("transaction") do
  C.exec("BEGIN")
  want state_of { C.exec("SELECT nothing") }, "42703"
  want state_of { C.exec("SELECT 1") }, "25P02"
  want C.exec("COMMIT").cmd_status, "ROLLBACK"
end
feature("error") do
  C.exec("SELECT nothing FROM docs")
  raise "no error"
rescue PG::UndefinedColumn => error
  want error.result.error_field(PG::Result::PG_DIAG_STATEMENT_POSITION), "8"
end
feature("stream") do
  total = 0
  C.send_query("SELECT generate_series FROM generate_series(1, 100000)")
  C.set_single_row_mode
  C.get_result.stream_each { |row| total += row["generate_series"].to_i }
  C.get_last_result
  want total, 5000050000
end
feature("copy_in") do
  C.copy_data("COPY docs (id, body) FROM STDIN") { C.put_copy_data("7\tcopied\n") }
  want C.exec("SELECT body FROM docs WHERE id = 7").values, [["copied"]]
end
feature("copy_out") do
  text = +""
  C.copy_data("COPY (SELECT id, body FROM docs ORDER BY id) TO STDOUT CSV") { while (row = C.get_copy_data) do text << row end }
  want text, "1,lance\n2,\n7,copied\n"
end
feature("cancel") do
  C.send_query("SELECT pg_sleep(20)")
  sleep 0.3
  C.cancel
  want state_of { C.get_last_result }, "57014"
end
feature("pipeline") do
  C.enter_pipeline_mode
  C.send_query_params("SELECT 1::int8", [])
  C.send_query_params("SELECT 2::int8", [])
  C.pipeline_sync
  found = []
  while (result = C.get_result || C.get_result)
    break if result.result_status == PG::PGRES_PIPELINE_SYNC
    found << result.getvalue(0, 0).to_i
  end
  C.exit_pipeline_mode
  want found, [1, 2]
end
feature("computed", product: true) do
  C.exec("ALTER TABLE docs ADD COLUMN n AS length(body)")
  want C.exec("REFRESH COLUMN n ON docs WAIT")[0]["status"], "succeeded"
  want C.exec("SELECT n::text FROM docs WHERE id = 1").values, [["5"]]
end
feature("jobs", product: true) { want C.exec("SHOW JOBS")[0]["state"], "succeeded" }
