//! The extended protocol, message by message.

use super::raw::{Raw, Reply, bind, close, code, describe, execute, kinds, parse, query, sync};
use crate::harness::Gateway;

const NUMBERS: &str = "SELECT n FROM (VALUES (1), (2), (3), (4), (5)) AS t (n) ORDER BY n";

#[tokio::test]
async fn one_sequence_answers_in_order() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    let replies = raw
        .exchange(&[
            parse("", "SELECT $1::int + 1"),
            describe(b'S', ""),
            bind("", "", &["41"]),
            describe(b'P', ""),
            execute("", 0),
            sync(),
        ])
        .await;
    assert_eq!(kinds(&replies), "1tT2TDCZ");
    assert_eq!(replies[1].body, [0, 1, 0, 0, 0, 23]);
    assert_eq!(replies[5].row(), [Some("42".to_owned())]);
    assert_eq!(replies[6].tag(), "SELECT 1");
}

#[tokio::test]
async fn a_row_limit_suspends_a_portal() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    assert_eq!(kinds(&raw.query("BEGIN").await), "CZ");
    let replies = raw.exchange(&[parse("", NUMBERS), bind("p", "", &[]), execute("p", 2), sync()]).await;
    assert_eq!(kinds(&replies), "12DDsZ");
    let replies = raw.exchange(&[execute("p", 2), execute("p", 2), execute("p", 0), sync()]).await;
    assert_eq!(kinds(&replies), "DDsDCCZ");
    let tags: Vec<String> = replies.iter().filter(|reply| reply.kind == 'C').map(|reply| reply.tag()).collect();
    assert_eq!(tags, ["SELECT 1", "SELECT 0"]);
    let replies = raw.exchange(&[close(b'P', "p"), execute("p", 0), sync()]).await;
    assert_eq!((kinds(&replies).as_str(), code(&replies).as_deref()), ("3EZ", Some("34000")));
}

#[tokio::test]
async fn a_portal_ends_with_its_transaction_and_a_statement_does_not() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    let replies = raw.exchange(&[parse("s", "SELECT 1"), bind("p", "s", &[]), sync()]).await;
    assert_eq!(kinds(&replies), "12Z");
    let replies = raw.exchange(&[execute("p", 0), sync()]).await;
    assert_eq!(code(&replies).as_deref(), Some("34000"));
    let replies = raw.exchange(&[bind("", "s", &[]), execute("", 0), sync()]).await;
    assert_eq!(kinds(&replies), "2DCZ");
}

#[tokio::test]
async fn the_unnamed_statement_survives_sync_and_ends_with_a_simple_query() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    raw.exchange(&[parse("", "SELECT 1"), sync()]).await;
    let replies = raw.exchange(&[bind("", "", &[]), execute("", 0), sync()]).await;
    assert_eq!(kinds(&replies), "2DCZ");
    raw.query("SELECT 2").await;
    let replies = raw.exchange(&[bind("", "", &[]), sync()]).await;
    assert_eq!(code(&replies).as_deref(), Some("26000"));
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_pipeline_skips_to_sync() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    let good = [parse("", "SELECT 1"), bind("", "", &[]), execute("", 0)].concat();
    let bad = [parse("", "SELECT 1/0 AS x FROM missing"), bind("", "", &[]), execute("", 0)].concat();
    let pipeline = [good.clone(), sync(), good.clone(), bad, good.clone(), query("SELECT 9"), sync(), good, sync()];
    raw.send(&pipeline.concat()).await;
    assert_eq!(kinds(&raw.until_ready().await), "12DCZ");
    let failed = raw.until_ready().await;
    assert_eq!((kinds(&failed).as_str(), code(&failed).as_deref()), ("12DCEZ", Some("42P01")));
    assert_eq!(kinds(&raw.until_ready().await), "12DCZ");
}

#[tokio::test]
async fn mistakes_have_their_codes_and_the_session_goes_on() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    let check: &[(&[Vec<u8>], &str)] = &[
        (&[bind("", "missing", &[]), sync()], "26000"),
        (&[parse("twice", "SELECT 1"), parse("twice", "SELECT 2"), sync()], "42P05"),
        (&[parse("", "SELECT 1"), bind("", "", &["surplus"]), sync()], "08P01"),
        (&[parse("", "SELECT $1::int"), bind("", "", &["x"]), sync()], "22P02"),
        (&[parse("", "SELECT 1; SELECT 2"), sync()], "42601"),
        (&[parse("", "SELECT 1"), bind("p", "", &[]), bind("p", "", &[]), sync()], "42P03"),
        (&[describe(b'P', "missing"), sync()], "34000"),
        (&[describe(b'S', "missing"), sync()], "26000"),
        (&[execute("missing", 0), sync()], "34000"),
    ];
    for (messages, expected) in check {
        let replies = raw.exchange(messages).await;
        assert_eq!(code(&replies).as_deref(), Some(*expected), "{replies:?}");
        assert_eq!(kinds(&replies).chars().last(), Some('Z'));
    }
    assert_eq!(kinds(&raw.query("SELECT 1").await), "TDCZ");
}

#[tokio::test]
async fn an_empty_statement_has_no_rows_and_no_error() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    let messages = [parse("", " -- nothing"), describe(b'S', ""), bind("", "", &[]), execute("", 0), sync()];
    assert_eq!(kinds(&raw.exchange(&messages).await), "1tn2IZ");
    assert_eq!(kinds(&raw.query("").await), "IZ");
    assert_eq!(kinds(&raw.query(" ; ").await), "IZ");
}

#[tokio::test]
async fn a_failed_block_refuses_everything_but_its_end() {
    let gateway = Gateway::start();
    let mut raw = Raw::session(&gateway).await;
    raw.query("BEGIN").await;
    let replies = raw.query("SELECT * FROM missing").await;
    assert_eq!(replies.last().unwrap().body, b"E");
    let replies = raw.exchange(&[parse("", "SELECT 1"), sync()]).await;
    assert_eq!(code(&replies).as_deref(), Some("25P02"));
    assert_eq!(code(&raw.query("SELECT 1").await).as_deref(), Some("25P02"));
    let replies = raw.exchange(&[parse("", "COMMIT"), bind("", "", &[]), execute("", 0), sync()]).await;
    assert_eq!(kinds(&replies), "12CZ");
    assert_eq!(replies[2].tag(), "ROLLBACK");
    assert_eq!(replies.last().unwrap().body, b"I");
}

/// How the statements of one sequence go: which of three fails, and at which message.
#[derive(Clone, Copy)]
enum Broken {
    Nowhere,
    AtParse(usize),
    AtBind(usize),
}

impl Broken {
    fn of(random: usize) -> Self {
        match random % 7 {
            at @ 0..3 => Self::AtParse(at),
            at @ 3..6 => Self::AtBind(at - 3),
            _ => Self::Nowhere,
        }
    }

    /// The messages of a sequence whose answers carry these tags.
    fn sequence(self, tags: &[String; 3]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, tag) in tags.iter().enumerate() {
            let (sql, value) = match self {
                Self::AtParse(at) if at == number => ("SELECT nothing".to_owned(), tag.as_str()),
                Self::AtBind(at) if at == number => ("SELECT $1::int".to_owned(), tag.as_str()),
                _ => (format!("SELECT '{tag}', $1::text"), tag.as_str()),
            };
            bytes.extend([parse("", &sql), bind("", "", &[value]), execute("", 0)].concat());
        }
        bytes.extend(sync());
        bytes
    }

    fn kinds(self) -> String {
        match self {
            Self::Nowhere => "12DC".repeat(3) + "Z",
            Self::AtParse(at) => "12DC".repeat(at) + "EZ",
            Self::AtBind(at) => "12DC".repeat(at) + "1EZ",
        }
    }

    fn rows(self) -> usize {
        match self {
            Self::Nowhere => 3,
            Self::AtParse(at) | Self::AtBind(at) => at,
        }
    }
}

#[tokio::test]
async fn p19_200_pipelining_clients_get_their_own_answers_whatever_fails_between() {
    const CLIENTS: usize = 200;
    const ROUNDS: usize = 10;
    const SEQUENCES: usize = 5;
    let gateway = Gateway::start_with("[pg]\nmax_connections = 250\n");
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let mut raw = Raw::session(&gateway).await;
        clients.spawn(async move {
            // xorshift: each client has its own errors, the same in every run.
            let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(client as u64 + 1);
            let mut counted = (0, 0);
            for round in 0..ROUNDS {
                let sequences: Vec<(Broken, [String; 3])> = (0..SEQUENCES)
                    .map(|sequence| {
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        let tag = |statement: usize| format!("c{client}-r{round}-s{sequence}-{statement}");
                        (Broken::of((state >> 8) as usize), [tag(0), tag(1), tag(2)])
                    })
                    .collect();
                let pipeline: Vec<u8> = sequences.iter().flat_map(|(broken, tags)| broken.sequence(tags)).collect();
                raw.send(&pipeline).await;
                for (broken, tags) in &sequences {
                    let replies = raw.until_ready().await;
                    assert_eq!(kinds(&replies), broken.kinds(), "{tags:?}: {replies:?}");
                    let rows: Vec<_> = replies.iter().filter(|reply| reply.kind == 'D').map(Reply::row).collect();
                    let expected = tags[..broken.rows()].iter().map(|tag| vec![Some(tag.clone()), Some(tag.clone())]);
                    assert_eq!(rows, expected.collect::<Vec<_>>());
                    if let Some(error) = replies.iter().find(|reply| reply.kind == 'E')
                        && let Broken::AtBind(at) = broken
                    {
                        let told = error.field('M').unwrap();
                        assert!(told.contains(&tags[*at]), "{told}");
                    }
                    counted.0 += rows.len();
                    counted.1 += replies.iter().filter(|reply| reply.kind == 'E').count();
                }
            }
            counted
        });
    }
    let (mut rows, mut errors) = (0, 0);
    while let Some(counted) = clients.join_next().await {
        let counted = counted.unwrap();
        (rows, errors) = (rows + counted.0, errors + counted.1);
    }
    eprintln!("{rows} rows and {errors} errors, each its client's");
    assert!(rows > CLIENTS * ROUNDS * SEQUENCES && errors > CLIENTS * ROUNDS, "{rows} {errors}");
}
