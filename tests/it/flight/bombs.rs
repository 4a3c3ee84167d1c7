//! Rows that are small on the wire and gigabytes, or say that they are, once they are unpacked; over Flight SQL and REST.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_flight::sql::{Command, CommandStatementIngest, TableDefinitionOptions};
use arrow_flight::sql::{TableExistsOption, TableNotExistOption};
use arrow_flight::{FlightData, FlightDescriptor};
use reqwest::Method;
use serde_json::json;
use tonic::Code;

use super::Flight;
use super::messages::{packed, statement_ticket};
use crate::rest::Rest;

/// Numbers in a batch, and the bytes that they have.
const NUMBERS: usize = 100_000;
const BYTES: i64 = 8 * NUMBERS as i64;
/// What the gateway may take in memory for any of this.
const GROWTH_MAX: u64 = 512 << 20;

/// A stream of one batch, and where it says how long its numbers are.
struct Bomb {
    stream: Vec<u8>,
    told_at: usize,
}

impl Bomb {
    fn new(codec: CompressionType) -> Self {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![7; NUMBERS]));
        let batch = RecordBatch::try_from_iter([("n", values)]).unwrap();
        let options = IpcWriteOptions::default().try_with_compression(Some(codec)).unwrap();
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.finish().unwrap();
        let stream = writer.into_inner().unwrap();
        let told_at = stream.windows(8).position(|window| window == BYTES.to_le_bytes()).expect("the length is told");
        Self { stream, told_at }
    }

    /// The same, saying that it has so many bytes.
    fn telling(&self, bytes: i64) -> Vec<u8> {
        let mut stream = self.stream.clone();
        stream[self.told_at..self.told_at + 8].copy_from_slice(&bytes.to_le_bytes());
        stream
    }
}

/// Replaces the only place where a number is written as eight bytes.
fn replace(bytes: &mut [u8], old: i64, new: i64) {
    let found: Vec<usize> = (0..bytes.len() - 7).filter(|at| bytes[*at..at + 8] == old.to_le_bytes()).collect();
    assert_eq!(found.len(), 1, "{old} is at {found:?}");
    bytes[found[0]..found[0] + 8].copy_from_slice(&new.to_le_bytes());
}

/// A stream whose numbers are one LZ4 frame of repetitions, of `blocks` times almost 4 MiB, which says that it has eight
/// bytes.
fn understated(blocks: usize) -> Vec<u8> {
    let mut frame = 0x184d_2204_u32.to_le_bytes().to_vec();
    // Independent blocks of at most 4 MiB; the last byte is the checksum of the two before it.
    frame.extend([0x60, 0x70, 0x73]);
    // One byte as it is, and a repetition of it that fills the block.
    let mut block = vec![0x1f, b'x', 1, 0];
    let more = (4 << 20) - 64;
    block.extend(std::iter::repeat_n(255, more / 255));
    block.push((more % 255) as u8);
    // The last five bytes of a block are as they are.
    block.extend([0x50, b'1', b'2', b'3', b'4', b'5']);
    for _ in 0..blocks {
        frame.extend((block.len() as u32).to_le_bytes());
        frame.extend(&block);
    }
    frame.extend(0_u32.to_le_bytes());
    // What Arrow has written, with another frame: the batch is the message behind the schema.
    let Bomb { stream, told_at } = Bomb::new(CompressionType::LZ4_FRAME);
    let of_schema = 8 + u32::from_le_bytes(*stream[4..].first_chunk().unwrap()) as usize;
    let of_header = u32::from_le_bytes(*stream[of_schema + 4..].first_chunk().unwrap()) as usize;
    let mut header = stream[of_schema..of_schema + 8 + of_header].to_vec();
    let message = arrow::ipc::root_as_message(&header[8..]).unwrap();
    let body_bytes = message.bodyLength();
    let buffers = message.header_as_record_batch().unwrap().buffers().unwrap();
    let values = buffers.get(buffers.len() - 1);
    let (values_at, values_bytes) = (values.offset() as usize, values.length());
    assert_eq!(told_at, of_schema + 8 + of_header + values_at);
    let length = 8 + frame.len();
    let padded = (values_at + length).next_multiple_of(64);
    replace(&mut header[8..], values_bytes, length as i64);
    replace(&mut header[8..], body_bytes, padded as i64);
    let mut made = stream[..of_schema].to_vec();
    made.extend(header);
    let body_at = made.len();
    made.extend(&stream[of_schema + 8 + of_header..told_at]);
    made.extend(8_i64.to_le_bytes());
    made.extend(frame);
    made.resize(body_at + padded, 0);
    made.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    made
}

/// A stream of so many columns that all name the same frame, of a million blocks without bytes, as their values.
fn overlapping(columns: usize) -> Vec<u8> {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![7; 100]));
    let batch = RecordBatch::try_from_iter((0..columns).map(|n| (format!("c{n}"), Arc::clone(&values)))).unwrap();
    let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    let stream = writer.into_inner().unwrap();
    let of_schema = 8 + u32::from_le_bytes(*stream[4..].first_chunk().unwrap()) as usize;
    let of_header = u32::from_le_bytes(*stream[of_schema + 4..].first_chunk().unwrap()) as usize;
    let mut body = 8_i64.to_le_bytes().to_vec();
    body.extend(0x184d_2204_u32.to_le_bytes());
    body.extend([0x60, 0x70, 0x73]);
    (0..1 << 20).for_each(|_| body.extend((1_u32 << 31).to_le_bytes()));
    body.extend(0_u32.to_le_bytes());
    let length = body.len() as i64;
    body.resize(body.len().next_multiple_of(64), 0);
    let mut header = stream[of_schema..of_schema + 8 + of_header].to_vec();
    let message = arrow::ipc::root_as_message(&header[8..]).unwrap();
    let body_bytes = message.bodyLength();
    let buffers = message.header_as_record_batch().unwrap().buffers().unwrap();
    let places = buffers.iter().map(|buffer| std::ptr::from_ref(buffer) as usize - header.as_ptr() as usize);
    for at in places.collect::<Vec<_>>() {
        header[at..at + 8].copy_from_slice(&0_i64.to_le_bytes());
        header[at + 8..at + 16].copy_from_slice(&length.to_le_bytes());
    }
    replace(&mut header[8..], body_bytes, body.len() as i64);
    [&stream[..of_schema], &header, &body, &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]].concat()
}

/// Cuts a stream into the messages of Flight, the first with a descriptor.
fn messages(stream: &[u8], table: &str) -> Vec<FlightData> {
    let mut found = Vec::new();
    let mut rest = stream;
    while rest.len() > 8 {
        let length = u32::from_le_bytes(*rest[4..].first_chunk().unwrap()) as usize;
        let header = &rest[8..8 + length];
        // What is nested too deeply is a schema, and has no body.
        let body = arrow::ipc::root_as_message(header).map_or(0, |message| message.bodyLength() as usize);
        let data_body = rest[8 + length..8 + length + body].to_vec();
        found.push(FlightData {
            data_header: header.to_vec().into(),
            data_body: data_body.into(),
            ..Default::default()
        });
        rest = &rest[8 + length + body..];
    }
    let options = TableDefinitionOptions {
        if_not_exist: TableNotExistOption::Create.into(),
        if_exists: TableExistsOption::Append.into(),
    };
    let command = packed(Command::CommandStatementIngest(CommandStatementIngest {
        table_definition_options: Some(options),
        table: table.to_owned(),
        ..CommandStatementIngest::default()
    }));
    found[0].flight_descriptor = Some(FlightDescriptor::new_cmd(command));
    found
}

async fn post(rest: &Rest, path: &str, stream: Vec<u8>) -> (u16, serde_json::Value) {
    rest.send(rest.request(Method::POST, path).body(stream)).await
}

#[tokio::test]
async fn r02_small_messages_that_say_that_they_are_gigabytes_are_refused_on_both_ways() {
    let rest = Rest::start().await;
    let flight = Flight::connect(&rest.gateway, &rest.key).await;
    // As they are, they are rows.
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let bomb = Bomb::new(codec);
        assert!(bomb.stream.len() < 64 << 10, "{} bytes", bomb.stream.len());
        let (status, answer) = post(&rest, "/v1/table/t/create?mode=overwrite", bomb.stream.clone()).await;
        assert_eq!(status, 200, "{answer}");
        flight.put(messages(&bomb.stream, "f")).await.unwrap();
        assert_eq!(rest.post("/v1/table/t/count_rows", json!({})).await.1, json!(NUMBERS));
    }
    let rows = rest.post("/v1/table/f/count_rows", json!({})).await.1;
    assert_eq!(rows, json!(2 * NUMBERS));
    let before = rest.gateway.resident_bytes();
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let bomb = Bomb::new(codec);
        for told in [i64::MAX, 1 << 62, 1 << 40, 1 << 33, (1 << 31) + 1, 1 << 31, (1 << 31) - 1, 1 << 30, 8, 1] {
            let stream = bomb.telling(told);
            let (status, answer) = post(&rest, "/v1/table/t/insert", stream.clone()).await;
            assert_eq!(status, 400, "{codec:?} {told}: {answer}");
            let error = flight.put(messages(&stream, "f")).await.unwrap_err();
            let expected = if told > 1 << 31 { Code::ResourceExhausted } else { Code::InvalidArgument };
            assert!(
                [expected, Code::OutOfRange, Code::InvalidArgument].contains(&error.code()),
                "{codec:?} {told}: {error}"
            );
            if told > 1 << 31 {
                for message in [answer["error"].as_str().unwrap(), error.message()] {
                    assert!(message.contains("a message of the rows is too long"), "{codec:?} {told}: {message}");
                }
            }
        }
    }
    let grown = rest.gateway.resident_bytes().saturating_sub(before);
    eprintln!("{grown} bytes more");
    assert!(grown < GROWTH_MAX, "{grown} bytes");
    // Nothing of it was taken, and both ways go on.
    assert_eq!(rest.post("/v1/table/t/count_rows", json!({})).await.1, json!(NUMBERS));
    assert_eq!(flight.get(statement_ticket("SELECT * FROM f")).await.unwrap(), 2 * NUMBERS);
    assert!(!rest.gateway.log().contains("internal error"), "{}", rest.gateway.log());
}

/// Sixteen gigabytes of one byte, packed into 70 MB, and said to be eight bytes.
#[tokio::test]
async fn r02_a_frame_that_holds_more_than_it_says_is_refused_on_both_ways() {
    let rest = Rest::start_with("[flight]\nmessage_bytes_max = '128MiB'\n").await;
    let flight = Flight::connect(&rest.gateway, &rest.key).await;
    let client = rest.gateway.connect().await;
    crate::rows::run(&client, "CREATE TABLE t (n BIGINT)").await;
    let peak = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", rest.gateway.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
    };
    // One block is found out by its length; it shows that the frame is one.
    let (status, answer) = post(&rest, "/v1/table/t/insert", understated(1)).await;
    assert!(status == 400 && answer["error"].as_str().unwrap().contains("Expected compressed length"), "{answer}");
    let bomb = understated(4_096);
    assert!(bomb.len() < 80 << 20, "{} bytes", bomb.len());
    let before = peak();
    let (status, answer) = post(&rest, "/v1/table/t/insert", bomb.clone()).await;
    assert_eq!(status, 400, "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("a message of the rows is too long"), "{answer}");
    let error = flight.put(messages(&bomb, "t")).await.unwrap_err();
    assert!(error.message().contains("a message of the rows is too long"), "{error}");
    let grown = peak().saturating_sub(before);
    eprintln!("{grown} bytes more at most");
    // The message itself is held, more than once on its way.
    assert!(grown < GROWTH_MAX, "{grown} bytes");
    assert_eq!(flight.get(statement_ticket("SELECT * FROM t")).await.unwrap(), 0);
}

/// Four megabytes that take hours to look at, once for each of the buffers that name them.
#[tokio::test]
async fn r02_buffers_that_name_the_same_bytes_are_refused_on_both_ways() {
    let rest = Rest::start().await;
    let flight = Flight::connect(&rest.gateway, &rest.key).await;
    let bomb = overlapping(1_000);
    let (status, answer) = post(&rest, "/v1/table/t/create", bomb.clone()).await;
    assert_eq!(status, 400, "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("a message of the rows is too long"), "{answer}");
    let error = flight.put(messages(&bomb, "t")).await.unwrap_err();
    assert!(error.message().contains("a message of the rows is too long"), "{error}");
    assert_eq!(rest.get("/v1/table").await.1["tables"], json!([]));
}

/// Types that are nested a thousand times, which readers recurse into.
#[tokio::test]
async fn q05_types_that_are_nested_too_deeply_are_refused_on_both_ways() {
    let rest = Rest::start().await;
    let flight = Flight::connect(&rest.gateway, &rest.key).await;
    for depth in [65, 1_000, 10_000] {
        let mut kind = DataType::Int64;
        for _ in 0..depth {
            kind = DataType::List(Arc::new(Field::new("item", kind, true)));
        }
        let schema = Schema::new(vec![Field::new("n", kind, true)]);
        // Made and dropped on a thread with room for it: what is tested is the gateway.
        let stream = std::thread::Builder::new()
            .stack_size(256 << 20)
            .spawn(move || StreamWriter::try_new(Vec::new(), &schema).and_then(StreamWriter::into_inner).unwrap())
            .unwrap()
            .join()
            .unwrap();
        for path in ["/v1/table/deep/create", "/v1/table/deep/insert"] {
            let (status, answer) = post(&rest, path, stream.clone()).await;
            assert_eq!(status, 400, "{depth} {path}: {answer}");
        }
        let error = flight.put(messages(&stream, "deep")).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{depth}: {error}");
    }
    assert_eq!(rest.get("/v1/table").await.1["tables"], json!([]));
    // The same in JSON.
    let path = "/v1/table/t/count_rows/";
    for depth in [10_000, 1_000_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let text = format!("{{\"context\": {}1{}}}", open.repeat(depth), close.repeat(depth));
            let (status, answer) = rest.send(rest.request(Method::POST, path).body(text)).await;
            assert_eq!((status, &answer["code"]), (400, &json!(13)), "{depth} {open}: {answer}");
        }
    }
    assert!(flight.get(statement_ticket("SELECT 1")).await.is_ok());
    assert!(!rest.gateway.log().contains("panicked"), "{}", rest.gateway.log());
}
