//! Whole exchanges: the published vector, a client of our own, and attacks.

use proptest::prelude::*;

use super::*;
use crate::scram::MockSecret;

const NONCE: [u8; 18] = [9; 18];
const HASH: &[u8] = b"hash of the certificate in use..";

fn pencil() -> ScramVerifier {
    ScramVerifier::parse(
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
         WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
    )
    .unwrap()
}

fn tls() -> ChannelBinding {
    ChannelBinding::TlsServerEndPoint(HASH.to_vec())
}

/// A client that knows a password and can misbehave.
struct Client {
    password: &'static str,
    mechanism: &'static str,
    header: &'static str,
    /// Appended to the header in the `c` attribute.
    binding_data: &'static [u8],
    /// Changes the last message before it is sent.
    tamper: fn(String) -> String,
}

const PLAIN: Client = Client {
    password: "pencil",
    mechanism: SCRAM_SHA_256,
    header: "n,,",
    binding_data: b"",
    tamper: |message| message,
};

const PLUS: Client =
    Client { mechanism: SCRAM_SHA_256_PLUS, header: "p=tls-server-end-point,,", binding_data: HASH, ..PLAIN };

impl Client {
    /// Runs the exchange and says whether the server's signature is right.
    fn log_in(&self, verifier: ScramVerifier, known: bool, binding: ChannelBinding) -> Result<bool, ScramError> {
        let bare = "n=,r=client";
        let first = format!("{}{bare}", self.header);
        let exchange = ServerExchange::start(verifier, known, binding, NONCE);
        let (server_first, awaiting) = exchange.client_first(self.mechanism, first.as_bytes())?;
        let server_first = String::from_utf8(server_first).unwrap();
        let (nonce, rest) = server_first.strip_prefix("r=").unwrap().split_once(",s=").unwrap();
        let (salt, iterations) = rest.split_once(",i=").unwrap();
        let salt = STANDARD.decode(salt).unwrap();

        let mut salted = [0; 32];
        let rounds = iterations.parse().unwrap();
        pbkdf2::pbkdf2_hmac::<Sha256>(self.password.as_bytes(), &salt, rounds, &mut salted);
        let client_key = hmac_sha256(&salted, &[b"Client Key"]);
        let stored_key: [u8; 32] = Sha256::digest(client_key).into();
        let binding = STANDARD.encode([self.header.as_bytes(), self.binding_data].concat());
        let unproven = format!("c={binding},r={nonce}");
        let signed = format!("{bare},{server_first},{unproven}");
        let mask = hmac_sha256(&stored_key, &[signed.as_bytes()]);
        let proof: Vec<u8> = client_key.iter().zip(mask).map(|(k, m)| k ^ m).collect();
        let last = (self.tamper)(format!("{unproven},p={}", STANDARD.encode(proof)));

        let server_final = awaiting.client_final(last.as_bytes())?;
        let server_key = hmac_sha256(&salted, &[b"Server Key"]);
        let signature = hmac_sha256(&server_key, &[signed.as_bytes()]);
        Ok(server_final == format!("v={}", STANDARD.encode(signature)).into_bytes())
    }

    fn against_pencil(&self, binding: ChannelBinding) -> Result<bool, ScramError> {
        self.log_in(pencil(), true, binding)
    }
}

#[test]
fn the_exchange_of_rfc_7677_is_reproduced() {
    let exchange = ServerExchange {
        verifier: pencil(),
        known: true,
        binding: ChannelBinding::Unavailable,
        server_nonce: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".to_owned(),
    };
    let (server_first, awaiting) = exchange.client_first(SCRAM_SHA_256, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
    assert_eq!(
        String::from_utf8(server_first).unwrap(),
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    );
    let server_final = awaiting
        .client_final(
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
              p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        )
        .unwrap();
    assert_eq!(String::from_utf8(server_final).unwrap(), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

#[test]
fn the_right_password_logs_in_with_and_without_binding() {
    assert_eq!(PLAIN.against_pencil(ChannelBinding::Unavailable), Ok(true));
    assert_eq!(PLAIN.against_pencil(tls()), Ok(true));
    assert_eq!(PLUS.against_pencil(tls()), Ok(true));
    let no_offer = Client { header: "y,,", ..PLAIN };
    assert_eq!(no_offer.against_pencil(ChannelBinding::Unavailable), Ok(true));
}

#[test]
fn a_wrong_password_and_a_login_that_must_fail_end_alike() {
    let failed = Err(ScramError::AuthenticationFailed);
    let wrong = Client { password: "Pencil", ..PLAIN };
    assert_eq!(wrong.against_pencil(ChannelBinding::Unavailable), failed);
    assert_eq!(PLAIN.log_in(pencil(), false, ChannelBinding::Unavailable), failed);
    let mock = || ScramVerifier::mock("eve", &MockSecret::new([3; 32]));
    assert_eq!(PLAIN.log_in(mock(), false, ChannelBinding::Unavailable), failed);
    assert_eq!(PLUS.log_in(mock(), false, tls()), failed);
}

#[test]
fn the_first_answer_does_not_tell_an_unknown_user_from_a_known_one() {
    let secret = MockSecret::new([3; 32]);
    let answer = |verifier, known| {
        let exchange = ServerExchange::start(verifier, known, ChannelBinding::Unavailable, NONCE);
        let (answer, _) = exchange.client_first(SCRAM_SHA_256, b"n,,n=,r=abc").unwrap();
        String::from_utf8(answer).unwrap()
    };
    let stored = ScramVerifier::from_password("x", [5; 16], 4_096);
    let known = answer(stored, true);
    let unknown = answer(ScramVerifier::mock("eve", &secret), false);
    assert_eq!(known.len(), unknown.len());
    assert_eq!(known.split(",s=").next(), unknown.split(",s=").next());
    assert_eq!(unknown, answer(ScramVerifier::mock("eve", &secret), false));
}

#[test]
fn a_flag_that_contradicts_the_mechanism_or_the_offer_is_refused() {
    let check = |client: Client, binding, expected| {
        assert_eq!(client.against_pencil(binding), Err(expected), "{}", client.header);
    };
    let none = ChannelBinding::Unavailable;
    check(Client { header: "y,,", ..PLAIN }, tls(), ScramError::BindingDowngraded);
    let bound = Client { mechanism: SCRAM_SHA_256, ..PLUS };
    check(bound, tls(), ScramError::BindingFlagMismatch);
    let bound = Client { mechanism: SCRAM_SHA_256, ..PLUS };
    check(bound, none.clone(), ScramError::BindingFlagMismatch);
    check(Client { header: "n,,", ..PLUS }, tls(), ScramError::BindingFlagMismatch);
    check(Client { header: "y,,", ..PLUS }, tls(), ScramError::BindingFlagMismatch);
    check(Client { header: "p=tls-unique,,", ..PLUS }, tls(), ScramError::BindingTypeNotSupported);
    check(PLUS, none.clone(), ScramError::UnknownMechanism);
    check(Client { mechanism: "SCRAM-SHA-1", ..PLAIN }, none.clone(), ScramError::UnknownMechanism);
    check(Client { mechanism: "", ..PLAIN }, none, ScramError::UnknownMechanism);
}

#[test]
fn binding_data_of_another_connection_is_refused() {
    let check = |client: Client, binding| {
        assert_eq!(client.against_pencil(binding), Err(ScramError::BindingMismatch));
    };
    check(Client { binding_data: b"hash of another certificate.....", ..PLUS }, tls());
    check(Client { binding_data: b"", ..PLUS }, tls());
    check(Client { binding_data: HASH, ..PLAIN }, tls());
    let swapped = |message: String| message.replacen("c=biws", "c=eSws", 1);
    check(Client { tamper: swapped, ..PLAIN }, ChannelBinding::Unavailable);
    let padded = |message: String| message.replacen("c=biws", "c=biws=", 1);
    check(Client { tamper: padded, ..PLAIN }, ChannelBinding::Unavailable);
}

#[test]
fn a_last_message_that_was_changed_is_refused() {
    let check = |tamper: fn(String) -> String, expected| {
        let client = Client { tamper, ..PLAIN };
        assert_eq!(client.against_pencil(ChannelBinding::Unavailable), Err(expected));
    };
    check(|m| m.replacen("r=client", "r=Client", 1), ScramError::NonceMismatch);
    check(|m| m.replacen(",p=", "x,p=", 1), ScramError::NonceMismatch);
    check(|_| format!("c=biws,r=client,p={}", STANDARD.encode([0; 32])), ScramError::NonceMismatch);
    check(|m| format!("{m}A"), ScramError::Malformed);
    check(|m| format!("{m},x=1"), ScramError::Malformed);
    check(|m| m.replacen(",p=", ",m=x,p=", 1), ScramError::ExtensionNotSupported);
    // An extension the proof was not made over.
    check(|m| m.replacen(",p=", ",x=1,p=", 1), ScramError::AuthenticationFailed);
    let zero = |m: String| {
        let (unproven, _) = m.split_once(",p=").unwrap();
        format!("{unproven},p={}", STANDARD.encode([0; 32]))
    };
    check(zero, ScramError::AuthenticationFailed);
}

#[test]
fn debug_output_carries_nothing_secret() {
    let exchange = ServerExchange::start(pencil(), true, tls(), NONCE);
    assert_eq!(format!("{exchange:?}"), "ServerExchange { .. }");
    let (_, awaiting) = exchange.client_first(SCRAM_SHA_256, b"n,,n=,r=abc").unwrap();
    assert_eq!(format!("{awaiting:?}"), "AwaitingFinal { .. }");
}

proptest! {
    #[test]
    fn no_bytes_panic_and_none_log_in(
        first in proptest::collection::vec(any::<u8>(), 0..64),
        last in proptest::collection::vec(any::<u8>(), 0..128),
    ) {
        let start = || ServerExchange::start(pencil(), true, tls(), NONCE);
        let _ = start().client_first(SCRAM_SHA_256, &first);
        let (_, awaiting) = start().client_first(SCRAM_SHA_256, b"n,,n=,r=abc").unwrap();
        prop_assert!(awaiting.client_final(&last).is_err());
    }

    #[test]
    fn messages_made_of_attributes_never_log_in_without_the_password(
        first in "[nyp]=?[a-z-]{0,3},(a=x)?,[nm]=[a-z]{0,2},r=[a-z]{0,3}(,[a-z]=[a-z]{0,2}){0,2}",
        last in "c=(biws|eSws),r=[a-z]{0,3}[A-Za-z0-9+/=]{0,8}(,[a-z]=[a-z]{0,2}){0,2},p=[A-Za-z0-9+/]{43}=",
    ) {
        let start = ServerExchange::start(pencil(), true, ChannelBinding::Unavailable, NONCE);
        if let Ok((_, awaiting)) = start.client_first(SCRAM_SHA_256, first.as_bytes()) {
            prop_assert!(awaiting.client_final(last.as_bytes()).is_err());
        }
    }
}
