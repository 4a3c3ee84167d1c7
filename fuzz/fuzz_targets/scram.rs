//! Both messages of a SCRAM exchange; no input is a proof of a mock verifier.
#![no_main]

use lancegate_auth::{ChannelBinding, MockSecret, ScramVerifier, ServerExchange};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|messages: (bool, &str, &[u8], &[u8])| {
    let (bound, mechanism, first, last) = messages;
    let verifier = ScramVerifier::mock("ann", &MockSecret::new([7; 32]));
    let binding = if bound { ChannelBinding::TlsServerEndPoint(vec![7; 32]) } else { ChannelBinding::Unavailable };
    let exchange = ServerExchange::start(verifier, false, binding, [7; 18]);
    if let Ok((_, awaiting)) = exchange.client_first(mechanism, first) {
        assert!(awaiting.client_final(last).is_err());
    }
    let _ = ScramVerifier::parse(mechanism);
});
