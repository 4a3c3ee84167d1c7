//! Printing and parsing are inverse, for any names, strings and options; and no
//! text makes the parser panic.

use std::time::Duration;

use lancegate_sql::ast::*;
use lancegate_sql::{
    ColumnOptions, ErrorPolicy, FieldPath, Ident, Limits, ObjectName, OptionValue, RefreshOptions, RefreshViewOptions,
    SchemaName, SqlOption, Statement, ViewOptions, parse,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

/// Names as people write them, words that mean something, and anything at all.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_][a-z0-9_]{0,8}",
        "[A-Za-z$. -]{1,8}",
        prop::sample::select(vec![
            "table",
            "job",
            "jobs",
            "user",
            "role",
            "group",
            "id",
            "public",
            "where",
            "if",
            "exists",
            "on",
            "next",
            "all",
            "from",
            "in",
            "limit",
            "as",
            "filter",
            "add",
            "column",
            "with",
            "view",
            "materialized",
            "system",
            "for",
            "to",
            "version",
            "tag",
            "at",
            "namespace",
        ])
        .prop_map(str::to_owned),
        "[^\u{0}]{1,6}",
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9_]{0,8}", "[^\u{0}]{0,12}", Just("it's; -- $$ \\ \"x\"".to_owned())]
}

fn ident() -> impl Strategy<Value = Ident> {
    name().prop_map(Ident::from)
}

fn object() -> impl Strategy<Value = ObjectName> {
    (of(name()), of(name()), name()).prop_map(|(database, schema, name)| ObjectName {
        database: schema.as_ref().and(database),
        schema,
        name,
    })
}

fn schema() -> impl Strategy<Value = SchemaName> {
    (of(name()), name()).prop_map(|(database, schema)| SchemaName { database, schema })
}

fn path() -> impl Strategy<Value = FieldPath> {
    vec(name(), 1..4).prop_map(|parts| FieldPath::from_parts(parts).expect("at least one part"))
}

fn expression() -> impl Strategy<Value = SourceExpr> {
    prop::sample::select(vec![
        "a > 1",
        "x IS NULL AND _rowid IN (1, 2)",
        "f(a, 'it''s') || \"B c\"",
        "CASE WHEN a THEN 1 ELSE 2 END",
        "a -- why\n + 1",
        "(a + b) * 2",
    ])
    .prop_map(|text| {
        let sql = format!("REFRESH COLUMN c ON t WHERE {text}");
        match parse(&sql, &Limits::default()).expect("it parses").remove(0).statement {
            Statement::RefreshColumn(RefreshColumn { filter: Some(filter), .. }) => filter,
            other => panic!("{other:?}"),
        }
    })
}

fn refresh_options() -> impl Strategy<Value = RefreshOptions> {
    let budget = prop_oneof![
        Just((None, None, None)),
        (1_u32..9).prop_map(|gpus| (None, None, Some(gpus))),
        (1_u64.., 67_108_864_u64.., any::<u32>()).prop_map(|(cpu, memory, gpus)| (Some(cpu), Some(memory), Some(gpus))),
    ];
    let policy = prop::sample::select(vec![ErrorPolicy::Fail, ErrorPolicy::Skip]);
    let first = (of(1_u32..=1024), budget, of("[a-z0-9-]{1,63}"), of(1_u32..=1_000_000), of(policy));
    let second = (of(0.0..=1.0), of(any::<u64>()), of(1_u32..=86_400), of(1_u32..=86_400));
    let third = (of(1_u32..), of(1_u64..), of("[^\u{0}]{1,64}"));
    (first, second, third).prop_map(
        |(
            (num_workers, (cpu_millis, memory_bytes, gpu_count), gpu_class, batch_size, error_policy),
            (max_failed_fraction, max_failed_rows, row_timeout_seconds, init_timeout_seconds),
            (max_executor_processes_per_worker, publication_interval_rows, branch),
        )| RefreshOptions {
            num_workers,
            cpu_millis,
            memory_bytes,
            gpu_count,
            gpu_class,
            batch_size,
            error_policy,
            max_failed_fraction,
            max_failed_rows,
            row_timeout_seconds,
            init_timeout_seconds,
            max_executor_processes_per_worker,
            publication_interval_rows,
            branch,
            positions: Default::default(),
        },
    )
}

fn column_options() -> impl Strategy<Value = ColumnOptions> {
    (of(any::<bool>()), of(1_u64..=u64::MAX / 1000), of("[^\u{0}]{1,9}"), of("[a-z]{1,9}")).prop_map(
        |(auto_refresh_enabled, auto_refresh_interval_seconds, version, branch)| ColumnOptions {
            auto_refresh_enabled,
            auto_refresh_interval_seconds,
            version,
            branch,
            positions: Default::default(),
        },
    )
}

fn wait() -> impl Strategy<Value = Option<Wait>> {
    of(prop::sample::select(vec![Wait::Wait, Wait::NoWait]))
}

fn refresh() -> impl Strategy<Value = RefreshColumn> {
    (path(), object(), of(expression()), refresh_options(), wait())
        .prop_map(|(column, table, filter, options, wait)| RefreshColumn { column, table, filter, options, wait })
}

fn computed() -> impl Strategy<Value = AlterOperation> {
    let application = (of(expression()), any::<bool>(), vec(ident(), 1..3))
        .prop_map(|(filter, ignore_nulls, partition_by)| FunctionApplication { filter, ignore_nulls, partition_by });
    (of(path()), vec(ident(), 1..4), any::<bool>(), expression(), of(application), column_options()).prop_map(
        |(parent, names, if_not_exists, mut expression, application, options)| {
            // A list of outputs has no path.
            let parent = parent.filter(|_| names.len() == 1);
            if application.is_some() {
                let sql = "REFRESH COLUMN c ON t WHERE f(a, g(b))";
                let parsed = parse(sql, &Limits::default()).expect("it parses").remove(0);
                let Statement::RefreshColumn(RefreshColumn { filter: Some(call), .. }) = parsed.statement else {
                    panic!("a filter");
                };
                expression = call;
            }
            AlterOperation::AddComputedColumn(Box::new(AddComputedColumn {
                parent,
                names,
                if_not_exists,
                data_type: None,
                expression,
                application,
                options,
            }))
        },
    )
}

fn operation() -> impl Strategy<Value = AlterOperation> {
    prop_oneof![
        computed(),
        (of(path()), ident(), any::<bool>(), any::<bool>()).prop_map(|(parent, name, if_exists, cascade)| {
            AlterOperation::DropColumn(DropColumn { parent, name, if_exists, cascade })
        }),
        (ident(), ident()).prop_map(|(from, to)| AlterOperation::RenameColumn(RenameColumn { from, to })),
        ident().prop_map(AlterOperation::RenameTable),
        ident().prop_map(AlterOperation::DropNotNull),
        ident().prop_map(AlterOperation::SetNotNull),
        ident().prop_map(AlterOperation::DropDefault),
        vec(ident(), 1..4).prop_map(AlterOperation::SetUnenforcedPrimaryKey),
    ]
}

fn privilege() -> impl Strategy<Value = Privilege> {
    prop::sample::select(Privilege::ALL.to_vec())
}

fn target() -> impl Strategy<Value = GrantTarget> {
    prop_oneof![
        Just(GrantTarget::System),
        ident().prop_map(GrantTarget::Database),
        schema().prop_map(GrantTarget::Schema),
        object().prop_map(GrantTarget::Table),
        object().prop_map(GrantTarget::MaterializedView),
        ident().prop_map(GrantTarget::StorageIntegration),
        object().prop_map(GrantTarget::Function),
    ]
}

fn identity() -> impl Strategy<Value = Identity> {
    prop_oneof![ident().prop_map(Identity::Name), text().prop_map(Identity::Id)]
}

fn member() -> impl Strategy<Value = Grantee> {
    prop_oneof![identity().prop_map(Grantee::User), identity().prop_map(Grantee::Group)]
}

fn grantee() -> impl Strategy<Value = Grantee> {
    prop_oneof![ident().prop_map(Grantee::Role), member()]
}

fn option() -> impl Strategy<Value = SqlOption> {
    let value = prop_oneof![
        text().prop_map(OptionValue::String),
        any::<i64>().prop_map(|number| OptionValue::Number(number.to_string())),
        any::<bool>().prop_map(OptionValue::Boolean),
        name().prop_filter("a boolean", |word| word != "true" && word != "false").prop_map(OptionValue::Word),
    ];
    (name(), value).prop_map(|(name, value)| SqlOption::new(name, value))
}

fn job_statement() -> impl Strategy<Value = Statement> {
    let scope =
        prop_oneof![Just(JobScope::All), object().prop_map(JobScope::ForTable), text().prop_map(JobScope::ForJob),];
    let formats = vec![JobFormat::Text, JobFormat::Table, JobFormat::Json];
    prop_oneof![
        (scope, of(1_u32..=10_000)).prop_map(|(scope, limit)| Statement::ShowJobs(ShowJobs { scope, limit })),
        (text(), of(expression()), of(1_u32..=10_000))
            .prop_map(|(id, filter, limit)| { Statement::ShowJobEvents(ShowJobEvents { id, filter, limit }) }),
        (text(), prop::sample::select(formats))
            .prop_map(|(id, format)| Statement::DescribeJob(DescribeJob { id, format })),
        (object(), of(text()), of(1_u32..=100_000))
            .prop_map(|(table, job_id, limit)| { Statement::ShowErrors(ShowErrors { table, job_id, limit }) }),
        (text(), of(0_u64..1_000_000_000)).prop_map(|(id, millis)| {
            Statement::WaitJob(WaitJob { id, timeout: millis.map(Duration::from_millis) })
        }),
        text().prop_map(|id| Statement::CancelJob(CancelJob { id })),
        (any::<bool>(), text()).prop_map(|(verbose, job_id)| Statement::ExplainJob(ExplainJob { verbose, job_id })),
    ]
}

fn session_statement() -> impl Strategy<Value = Statement> {
    let item = prop_oneof![
        name().prop_filter("a keyword", |word| word != "default").prop_map(SetItem::Word),
        text().prop_map(SetItem::String),
        any::<i32>().prop_map(|number| SetItem::Number(number.to_string())),
    ];
    let value = prop_oneof![Just(SetValue::Default), vec(item, 1..4).prop_map(SetValue::Items)];
    let scope = prop::sample::select(vec![SetScope::Session, SetScope::Local]);
    let direction = prop_oneof![
        any::<u32>().prop_map(|rows| FetchDirection::Forward(rows.into())),
        (1_u32..).prop_map(|rows| FetchDirection::Backward(rows.into())),
        any::<i64>().prop_map(FetchDirection::Absolute),
        any::<i64>().prop_map(FetchDirection::Relative),
        Just(FetchDirection::ForwardAll),
        Just(FetchDirection::BackwardAll),
    ];
    prop_oneof![
        (scope, "[a-z_]{1,9}(\\.[a-z_]{1,9})?", value).prop_map(|(scope, name, value)| Statement::Set(Set {
            scope,
            name,
            value
        })),
        "[a-z_]{1,9}(\\.[a-z_]{1,9})?".prop_map(|name| Statement::Show(Show::Setting(name))),
        ident().prop_map(|name| Statement::Savepoint(Savepoint { name })),
        ident().prop_map(|name| Statement::Release(Release { name })),
        ident().prop_map(|name| Statement::RollbackTo(RollbackTo { name })),
        of(ident()).prop_map(|name| Statement::Deallocate(Deallocate { name })),
        of(ident()).prop_map(|channel| Statement::Unlisten(Unlisten { channel })),
        (direction, ident()).prop_map(|(direction, cursor)| Statement::Fetch(Fetch { direction, cursor })),
        of(ident()).prop_map(|cursor| Statement::CloseCursor(CloseCursor { cursor })),
    ]
}

fn catalog_statement() -> impl Strategy<Value = Statement> {
    let behavior = || of(prop::sample::select(vec![DropBehavior::Cascade, DropBehavior::Restrict]));
    let columns = (path(), of(text()), of(1_u32..=10_000), of(text()));
    let comment = prop_oneof![
        object().prop_map(CommentTarget::Table),
        (object(), ident()).prop_map(|(table, column)| CommentTarget::Column { table, column }),
        schema().prop_map(CommentTarget::Schema),
    ];
    let at = prop_oneof![
        any::<u64>().prop_map(VersionReference::Version),
        text().prop_map(VersionReference::Tag),
        text().prop_map(VersionReference::Timestamp),
    ];
    prop_oneof![
        (of(schema()), columns).prop_map(|(scope, (_, like, limit, token))| {
            Statement::CatalogListing(CatalogListing {
                object: CatalogObject::Tables,
                scope: scope.map(ListingScope::Schema),
                like,
                name_after: None,
                limit,
                page_token: limit.and(token),
            })
        }),
        (schema(), any::<bool>(), vec((text(), text()), 0..3)).prop_map(|(schema, if_not_exists, pairs)| {
            let property = |(key, value)| Property { key, value };
            let properties = pairs.into_iter().map(property).collect();
            Statement::CreateSchema(CreateSchema { schema, if_not_exists, properties })
        }),
        (vec(object(), 1..4), any::<bool>(), behavior()).prop_map(|(tables, if_exists, behavior)| {
            Statement::DropTable(DropTable { if_exists, tables, behavior })
        }),
        (ident(), any::<bool>(), behavior()).prop_map(|(name, if_exists, behavior)| {
            Statement::DropDatabase(DropDatabase { name, if_exists, behavior })
        }),
        (comment, of(text())).prop_map(|(target, comment)| Statement::Comment(Comment { target, comment })),
        object().prop_map(|table| Statement::DescribeTable(DescribeTable { table })),
        object().prop_map(|name| { Statement::Describe(Describe { target: DescribeTarget::Function(name) }) }),
        (object(), any::<bool>(), object(), of(at)).prop_map(|(table, if_not_exists, source, at)| {
            Statement::CloneTable(CloneTable { table, if_not_exists, source, at })
        }),
        (of(ident()), object(), of("[a-z_]{1,9}"), vec(path(), 1..3), of(option())).prop_map(
            |(name, table, method, columns, option)| {
                Statement::CreateIndex(CreateIndex {
                    name,
                    if_not_exists: false,
                    unique: false,
                    table,
                    method,
                    columns,
                    options: option.into_iter().collect(),
                })
            }
        ),
        (object(), any::<bool>(), vec(option(), 1..2))
            .prop_map(|(name, _, options)| Statement::AlterFunction(AlterFunction { name, options })),
        (ident(), of(ident()), of(text())).prop_map(|(name, user, valid_until)| {
            Statement::CreateApiKey(CreateApiKey { name, user, valid_until })
        }),
        (ident(), any::<bool>(), of(text()), of(-1_i32..)).prop_map(
            |(name, if_not_exists, valid_until, connection_limit)| {
                let options = UserOptions { password: None, valid_until, connection_limit };
                Statement::CreateUser(CreateUser { name, if_not_exists, options })
            }
        ),
    ]
}

fn statement() -> impl Strategy<Value = Statement> {
    let position = || Just(Position::default());
    prop_oneof![
        4 => refresh().prop_map(Statement::RefreshColumn),
        1 => (any::<bool>(), refresh()).prop_map(|(verbose, refresh)| {
            Statement::ExplainRefresh(ExplainRefresh { verbose, refresh })
        }),
        1 => (object(), of(any::<bool>()), wait()).prop_map(|(view, full, wait)| {
            let options = RefreshViewOptions { full, ..Default::default() };
            Statement::RefreshMaterializedView(RefreshMaterializedView { view, options, wait })
        }),
        4 => (object(), any::<bool>(), vec(operation(), 1..4)).prop_map(
            |(table, if_exists, operations)| {
                Statement::AlterTable(AlterTable { table, if_exists, operations })
            }
        ),
        1 => (object(), any::<bool>(), of(0.001..1e9)).prop_map(|(view, if_exists, seconds)| {
            let options = ViewOptions {
                auto_refresh_enabled: Some(true),
                auto_refresh_interval_seconds: seconds,
                positions: Default::default(),
            };
            Statement::AlterMaterializedView(AlterMaterializedView { view, if_exists, options })
        }),
        4 => job_statement(),
        4 => session_statement(),
        4 => catalog_statement(),
        1 => (vec(privilege(), 1..4), target(), vec(grantee(), 1..4), position()).prop_map(
            |(privileges, target, grantees, position)| {
                Statement::Grant(Grant { privileges, target, grantees, position })
            }
        ),
        1 => (vec(privilege(), 1..4), target(), vec(grantee(), 1..4), position()).prop_map(
            |(privileges, target, grantees, position)| {
                Statement::Revoke(Revoke { privileges, target, grantees, position })
            }
        ),
        1 => (vec(ident(), 1..3), vec(member(), 1..4))
            .prop_map(|(roles, grantees)| Statement::GrantRole(GrantRole { roles, grantees })),
        1 => prop_oneof![
            grantee().prop_map(ShowGrants::For),
            target().prop_map(ShowGrants::On),
        ].prop_map(Statement::ShowGrants),
    ]
}

/// Pieces that meet each other in statements.
fn soup() -> impl Strategy<Value = String> {
    let words = vec![
        "SELECT",
        "FROM",
        "WHERE",
        "REFRESH",
        "COLUMN",
        "ON",
        "TABLE",
        "WITH",
        "(",
        ")",
        ",",
        ";",
        "=",
        "'x'",
        "\"Q\"",
        "`b`",
        "$1",
        "$$",
        "1",
        "-1",
        "ALTER",
        "ADD",
        "AS",
        "GRANT",
        "ROLE",
        "TO",
        "USER",
        "ID",
        "SHOW",
        "JOB",
        "JOBS",
        "FOR",
        "LIMIT",
        "CREATE",
        "FUNCTION",
        "SECRET",
        "INDEX",
        "VIEW",
        "MATERIALIZED",
        "DROP",
        "IF",
        "NOT",
        "EXISTS",
        "EXPLAIN",
        "ANALYZE",
        "COPY",
        "STDIN",
        "SET",
        "LOCAL",
        "TIME",
        "ZONE",
        "DECLARE",
        "CURSOR",
        "FETCH",
        "BEGIN",
        "ISOLATION",
        "LEVEL",
        "PREPARE",
        "EXECUTE",
        "COMMENT",
        "IS",
        "NULL",
        "--",
        "/*",
        "*/",
        "'",
        "\"",
        "E'\\",
        "U&'\\",
        ".",
        "<",
        ">>",
        "list<",
        "[",
        "]",
        "::",
        "int",
        "CASE",
        "WHEN",
        "END",
        "UNION",
        "DATA",
        "NO",
        "SYSTEM_TIME",
        "OF",
        "VERSION",
        "é",
        "\u{0}",
        "\n",
        "PASSWORD",
        "DESCRIBE",
        "WAIT",
        "TIMEOUT",
        "CLONE",
        "AT",
        "TAG",
    ];
    vec(prop::sample::select(words), 0..24).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn what_prints_is_read_back_the_same(statement in statement()) {
        let sql = statement.to_string();
        let parsed = parse(&sql, &Limits::default())
            .map_err(|error| TestCaseError::fail(format!("{sql}\n{error:?}")))?;
        prop_assert_eq!(parsed.len(), 1, "{}", &sql);
        prop_assert_eq!(&parsed[0].statement, &statement, "{}", &sql);
        prop_assert_eq!(&parsed[0].text, &sql);
    }

    #[test]
    fn no_text_panics_and_positions_lie_within_it(sql in prop_oneof![soup(), ".{0,60}"]) {
        match parse(&sql, &Limits::default()) {
            Ok(parsed) => for parsed in parsed {
                prop_assert!(sql[parsed.start..].starts_with(&parsed.text));
                let _ = parsed.statement.to_string();
            },
            Err(error) => {
                let end = sql.chars().count() + 1;
                prop_assert!(error.position.is_none_or(|at| (1..=end).contains(&at)), "{:?}", error);
            }
        }
    }
}
