//! What a client sends, before and after it is known: messages or an error, and every
//! message consumes something.
#![no_main]

use bytes::BytesMut;
use lancegate_wire::frame::STARTUP_BYTES_MAX;
use lancegate_wire::frontend::{SaslInitialResponse, decode_cleartext_password};
use lancegate_wire::{FrontendMessage, Phase, decode_frontend, decode_startup};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = decode_startup(&mut BytesMut::from(data), STARTUP_BYTES_MAX);
    for phase in [Phase::Authenticating, Phase::Ready { message_bytes_max: 1 << 20 }] {
        let mut buffer = BytesMut::from(data);
        loop {
            let before = buffer.len();
            match decode_frontend(&mut buffer, phase) {
                Ok(Some(FrontendMessage::Password(body))) => {
                    let _ = SaslInitialResponse::decode(&body);
                    let _ = decode_cleartext_password(&body);
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) if error.is_fatal() => break,
                Err(_) => {}
            }
            assert!(buffer.len() < before);
        }
    }
});
