//! HTTP/2 as an attacker speaks it, on both ports that do: floods of frames that cost the
//! sender little (CVE-2023-44487, CVE-2024-27316 and their kin).

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::Gateway;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// How many frames a flood has at most; a server that only counted bytes would take them all.
const FRAMES_MAX: u32 = 200_000;
/// How much more memory the gateway may hold after all floods.
const GROWTH_MAX: u64 = 96 << 20;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// `GET http://x/readyz` in the indexes of HPACK's static table.
fn request() -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x44, 7];
    block.extend(b"/readyz");
    block.extend([0x41, 1, b'x']);
    block
}

/// What the `n`th piece of a flood is.
type Flood = fn(u32) -> Vec<u8>;

fn rapid_reset(n: u32) -> Vec<u8> {
    let stream = 2 * n + 1;
    let mut bytes = frame(HEADERS, END_STREAM | END_HEADERS, stream, &request());
    bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    bytes
}

fn continuation(n: u32) -> Vec<u8> {
    match n {
        0 => frame(HEADERS, 0, 1, &request()),
        // A header that is not indexed: "a: aaaa…".
        _ => {
            let mut block = vec![0x00, 1, b'a', 0x7f, 0x81, 0x07];
            block.extend(vec![b'a'; 1_024]);
            frame(CONTINUATION, 0, 1, &block)
        }
    }
}

fn empty_data(n: u32) -> Vec<u8> {
    if n == 0 { frame(HEADERS, END_HEADERS, 1, &request()) } else { frame(DATA, 0, 1, &[]) }
}

fn pings(n: u32) -> Vec<u8> {
    frame(PING, 0, 0, &u64::from(n).to_be_bytes())
}

fn settings(_: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff])
}

/// Sends a flood without ever waiting for an answer; returns whether the server has ended it.
async fn flood(address: SocketAddr, of: Flood) -> bool {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut reads, mut writes) = stream.into_split();
    let ended = tokio::spawn(async move {
        let mut seen = Vec::new();
        let mut chunk = vec![0; 64 << 10];
        loop {
            match reads.read(&mut chunk).await {
                Ok(0) | Err(_) => return true,
                Ok(length) => seen.extend(&chunk[..length]),
            }
            while seen.len() >= 9 {
                let length = 9 + u32::from_be_bytes([0, seen[0], seen[1], seen[2]]) as usize;
                if seen.len() < length {
                    break;
                }
                if seen[3] == GOAWAY {
                    return true;
                }
                seen.drain(..length);
            }
        }
    });
    let sending = async {
        writes.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
        writes.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
        for at in (0..FRAMES_MAX).step_by(64) {
            if ended.is_finished() {
                break;
            }
            let bytes: Vec<u8> = (at..at + 64).flat_map(of).collect();
            writes.write_all(&bytes).await?;
        }
        std::io::Result::Ok(())
    };
    // A server that does not read on blocks the sender, which is as good.
    let sent = tokio::time::timeout(Duration::from_secs(20), sending).await;
    let refused = matches!(sent, Ok(Err(_)));
    refused || tokio::time::timeout(Duration::from_secs(2), ended).await.is_ok_and(|ended| ended.unwrap())
}

#[tokio::test]
async fn r03_floods_of_frames_end_their_connection_and_nothing_else() {
    let gateway = Gateway::start();
    let http: SocketAddr = gateway.http_url("").trim_start_matches("http://").parse().unwrap();
    let before = gateway.resident_bytes();
    for address in [http, gateway.flight_addr()] {
        for (name, of, ends) in [
            ("rapid reset", rapid_reset as Flood, true),
            ("CONTINUATION", continuation as Flood, true),
            ("empty DATA", empty_data as Flood, false),
            ("PING", pings as Flood, false),
            ("SETTINGS", settings as Flood, false),
        ] {
            let ended = flood(address, of).await;
            assert!(ended || !ends, "{name} on {address} goes on");
            let status = reqwest::get(gateway.http_url("/readyz")).await.unwrap().status();
            assert_eq!(status.as_u16(), 200, "after {name} on {address}");
        }
    }
    let growth = gateway.resident_bytes().saturating_sub(before);
    assert!(growth < GROWTH_MAX, "{growth} bytes more than before");
}

/// A client that speaks HTTP/2 from the start is answered.
#[tokio::test]
async fn requests_over_http2_are_answered() {
    let gateway = Gateway::start();
    let http: SocketAddr = gateway.http_url("").trim_start_matches("http://").parse().unwrap();
    let mut stream = TcpStream::connect(http).await.unwrap();
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(SETTINGS, 0, 0, &[]));
    for stream in [1, 3, 5] {
        sent.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &request()));
    }
    stream.write_all(&sent).await.unwrap();
    let mut answered = 0;
    while answered < 3 {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).await.unwrap();
        assert_ne!(head[3], GOAWAY, "{payload:?}");
        if head[3] == HEADERS {
            // ":status: 200" of the static table.
            assert_eq!(payload[0], 0x88, "{payload:?}");
            answered += 1;
        }
    }
}
