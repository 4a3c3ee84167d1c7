# DBD::Pg: ping by a comment, statements prepared at their first execution, metadata by quote_ident.
use strict;
use warnings;
use DBI;
use DBD::Pg qw(:pg_types);
$| = 1;

print "version $DBD::Pg::VERSION\n";
my $reference = exists $ENV{CONFORMANCE_REFERENCE};
my $c = DBI->connect("dbi:Pg:dbname=$ENV{PGDATABASE}", $ENV{PGUSER}, $ENV{PGPASSWORD}, { RaiseError => 1, PrintError => 0, AutoCommit => 1 });

sub feature {
    my ($name, $body, $product) = @_;
    if ($product && $reference) { print "skip $name PostgreSQL has no computed columns\n"; return; }
    my $done = eval { local $SIG{ALRM} = sub { die "no answer in 20 s\n" }; alarm 20; $body->(); alarm 0; 1 };
    alarm 0;
    my $why = $@;
    $why =~ s/\s+/ /g;
    print $done ? "ok $name\n" : "fail $name $why\n";
}
sub want {
    my ($found, $expected) = @_;
    my $shown = join("|", map { $_ // "NULL" } @$found);
    die "$shown instead of $expected\n" unless $shown eq $expected;
}
sub row { my @found = $c->selectrow_array(@_); return \@found; }

feature("connect", sub { want(row("SELECT 1"), "1"); die "no ping\n" unless $c->ping; die "old\n" unless $c->{pg_server_version} >= 150000; });
feature("types_out", sub {
    want(row("SELECT 1::int2, 2::int8, 1.25::numeric(10,2), 'x'::text, true, NULL, '2024-01-02'::date"), "1|2|1.25|x|1|NULL|2024-01-02");
    want(row("SELECT ARRAY[1,2]")->[0], "1|2");
    die "bytea\n" unless row("SELECT '\\x00ff'::bytea")->[0] eq "\x00\xff";
});
feature("types_in", sub {
    $c->do("CREATE TABLE docs (id bigint, body text, raw bytea, v real[])");
    my $s = $c->prepare("INSERT INTO docs VALUES (?, ?, ?, ?)");
    $s->bind_param(3, undef, { pg_type => PG_BYTEA });
    $s->execute(1, "lance", "\x00\xff", [0.5, 1]);
    $s->execute(2, undef, undef, undef);
    want(row("SELECT id, body, v::text FROM docs WHERE id = ?", undef, 1), "1|lance|{0.5,1}");
    die "bytea\n" unless row("SELECT raw FROM docs WHERE id = 1")->[0] eq "\x00\xff";
});
feature("prepare", sub {
    my $s = $c->prepare("SELECT body FROM docs WHERE id = \$1");
    for my $n (1, 2, 1) { $s->execute($n); $s->fetchall_arrayref; }
    $s = $c->prepare("SELECT id FROM docs WHERE body = :body");
    $s->bind_param(":body", "lance");
    $s->execute;
    want($s->fetchrow_arrayref, "1");
});
feature("transaction", sub {
    $c->begin_work;
    eval { $c->do("SELECT nothing") };
    die "state " . $c->state . "\n" unless $c->state eq "42703";
    eval { $c->do("SELECT 1") };
    die "state " . $c->state . "\n" unless $c->state eq "25P02";
    $c->rollback;
    want(row("SELECT 1"), "1");
});
feature("savepoint", sub {
    $c->begin_work;
    $c->pg_savepoint("a");
    eval { $c->do("SELECT 1/0") };
    $c->pg_rollback_to("a");
    $c->pg_release("a");
    want(row("SELECT 1"), "1");
    $c->commit;
});
feature("error", sub {
    eval { $c->selectrow_array("SELECT nothing FROM docs") };
    want([$c->state, $c->pg_error_field("statement_position")], "42703|8");
});
feature("introspect", sub {
    die "no docs\n" unless grep { $_ =~ /docs/ } $c->tables(undef, "public", "%", "TABLE");
    my $columns = $c->column_info(undef, "public", "docs", "%")->fetchall_arrayref({});
    want([map { $_->{COLUMN_NAME} } @$columns], "id|body|raw|v");
    $c->primary_key_info(undef, "public", "docs");
    $c->foreign_key_info(undef, undef, undef, undef, "public", "docs");
    $c->statistics_info(undef, "public", "docs", 0, 0);
    die "no types\n" unless $c->type_info_all;
});
feature("copy_in", sub {
    $c->do("COPY docs (id, body) FROM STDIN");
    $c->pg_putcopydata("7\tcopied\n");
    $c->pg_putcopyend;
    want(row("SELECT body FROM docs WHERE id = 7"), "copied");
});
feature("copy_out", sub {
    $c->do("COPY (SELECT id, body FROM docs ORDER BY id) TO STDOUT");
    my ($text, $line) = ("", "");
    $text .= $line while $c->pg_getcopydata(\$line) >= 0;
    die "$text\n" unless $text eq "1\tlance\n2\t\\N\n7\tcopied\n";
});
feature("computed", sub {
    $c->do("ALTER TABLE docs ADD COLUMN n AS length(body)");
    die "not refreshed\n" unless row("REFRESH COLUMN n ON docs WAIT")->[2] eq "succeeded";
    want(row("SELECT n FROM docs WHERE id = 1"), "5");
}, 1);
feature("jobs", sub { die "no job\n" unless row("SHOW JOBS")->[3] eq "succeeded"; }, 1);
$c->disconnect;
