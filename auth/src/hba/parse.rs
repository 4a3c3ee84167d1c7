//! Lines to rules.

use std::net::IpAddr;

use super::{
    ClientCertificate, ConnectionType, DatabaseName, FILE_BYTES_MAX, LineError, Method, Network, Networks, Rule,
    RulesError, UserPattern,
};
use crate::lines::{Token, lines};

pub(super) fn rules(text: &str) -> Result<Vec<Rule>, RulesError> {
    let whole = |what: String| RulesError(vec![LineError { line: 1, what }]);
    if text.len() > FILE_BYTES_MAX {
        return Err(whole(format!("the file is longer than {FILE_BYTES_MAX} bytes")));
    }
    let (mut rules, mut errors) = (Vec::new(), Vec::new());
    for (line, fields) in lines(text) {
        match fields.map_err(str::to_owned).and_then(|fields| rule(line, &fields)) {
            Ok(rule) => rules.push(rule),
            Err(what) => errors.push(LineError { line, what }),
        }
    }
    if !errors.is_empty() {
        return Err(RulesError(errors));
    }
    if rules.is_empty() {
        return Err(whole("there is no rule, so nobody could connect".to_owned()));
    }
    Ok(rules)
}

fn rule(line: usize, fields: &[Vec<Token>]) -> Result<Rule, String> {
    let mut fields = fields.iter();
    let mut next = |what: &str| fields.next().ok_or_else(|| format!("end of line before the {what}"));
    let connection = connection(single(next("connection type")?)?)?;
    let databases = next("database")?.iter().map(database).collect::<Result<_, _>>()?;
    let users = next("user")?.iter().map(user).collect::<Result<_, _>>()?;
    let networks = match connection {
        ConnectionType::Local => Networks::None,
        _ => {
            let address = single(next("address")?)?;
            match bare_address(address) {
                Some(address) => Networks::One(masked(address, single(next("mask")?)?)?),
                None => networks(address)?,
            }
        }
    };
    let method = method(single(next("authentication method")?)?)?;
    let mut rule = Rule {
        line,
        connection,
        databases,
        users,
        networks,
        method,
        client_certificate: ClientCertificate::Unasked,
        map: None,
        issuer: None,
    };
    for field in fields {
        option(&mut rule, single(field)?)?;
    }
    ensure_possible(&rule)?;
    Ok(rule)
}

fn single(field: &[Token]) -> Result<&Token, String> {
    match field {
        [token] => Ok(token),
        _ => Err("a list stands where one word is expected".to_owned()),
    }
}

fn connection(token: &Token) -> Result<ConnectionType, String> {
    match token.text.as_str() {
        "local" => Ok(ConnectionType::Local),
        "host" => Ok(ConnectionType::Host),
        "hostssl" => Ok(ConnectionType::HostSsl),
        "hostnossl" => Ok(ConnectionType::HostNoSsl),
        "hostgssenc" | "hostnogssenc" => Err(format!("\"{}\": GSSAPI is not supported", token.text)),
        "include" | "include_if_exists" | "include_dir" => Err("including other files is not supported".to_owned()),
        other => Err(format!("invalid connection type \"{other}\"; use local, host, hostssl or hostnossl")),
    }
}

fn database(token: &Token) -> Result<DatabaseName, String> {
    ensure_literal(token)?;
    Ok(match token.text.as_str() {
        _ if token.quoted => DatabaseName::Named(token.text.clone()),
        "all" => DatabaseName::All,
        "sameuser" => DatabaseName::SameUser,
        "samerole" | "samegroup" => DatabaseName::SameRole,
        "replication" => DatabaseName::Replication,
        name => DatabaseName::Named(name.to_owned()),
    })
}

fn user(token: &Token) -> Result<UserPattern, String> {
    ensure_literal(token)?;
    if token.is("all") {
        return Ok(UserPattern::All);
    }
    match token.text.strip_prefix('+').filter(|_| !token.quoted) {
        Some("") => Err("\"+\" names no role".to_owned()),
        Some(role) => Ok(UserPattern::MemberOf(role.to_owned())),
        None => Ok(UserPattern::Named(token.text.clone())),
    }
}

/// Refuses what PostgreSQL would read as something else than a name.
fn ensure_literal(token: &Token) -> Result<(), String> {
    match token.text.chars().next() {
        Some('/') if !token.quoted => Err(format!("\"{}\": regular expressions are not supported", token.text)),
        Some('@') if !token.quoted => Err(format!("\"{}\": lists in other files are not supported", token.text)),
        _ => Ok(()),
    }
}

/// Returns an address that has no prefix length, so that a mask has to follow.
fn bare_address(token: &Token) -> Option<IpAddr> {
    token.text.parse().ok()
}

fn masked(address: IpAddr, mask: &Token) -> Result<Network, String> {
    let read = mask.text.parse().ok().and_then(|mask| Network::with_mask(address, mask));
    read.ok_or_else(|| {
        format!("invalid IP mask \"{}\"; write the prefix length behind the address, as in {address}/32", mask.text)
    })
}

fn networks(token: &Token) -> Result<Networks, String> {
    if token.is("all") {
        return Ok(Networks::All);
    }
    if token.is("samehost") {
        return Ok(Networks::Loopback);
    }
    if token.is("samenet") {
        return Err("\"samenet\" is not supported; write the network as an address and a prefix length".to_owned());
    }
    let Some((address, bits)) = token.text.split_once('/') else {
        let text = &token.text;
        return Err(format!("\"{text}\" is no address; host names are not supported, write one such as 10.0.0.0/8"));
    };
    let network = address.parse().ok().zip(bits.parse().ok()).and_then(|(address, bits)| Network::new(address, bits));
    network.map(Networks::One).ok_or_else(|| format!("invalid CIDR mask in address \"{}\"", token.text))
}

fn method(token: &Token) -> Result<Method, String> {
    match token.text.as_str() {
        "scram-sha-256" => Ok(Method::ScramSha256),
        "jwt" => Ok(Method::Jwt),
        "oauth" => Ok(Method::OAuth),
        "api-key" => Ok(Method::ApiKey),
        "cert" => Ok(Method::Certificate),
        "peer" => Ok(Method::Peer),
        "reject" => Ok(Method::Reject),
        "trust" => Err("\"trust\" is not supported: it lets everybody in as anybody; use peer".to_owned()),
        "md5" | "password" => Err(format!("\"{}\" is not supported; use scram-sha-256", token.text)),
        "gss" | "sspi" | "ident" | "ldap" | "radius" | "pam" | "bsd" => {
            Err(format!("authentication method \"{}\" is not supported", token.text))
        }
        other => Err(format!(
            "invalid authentication method \"{other}\"; use scram-sha-256, jwt, oauth, api-key, cert, peer or reject"
        )),
    }
}

fn option(rule: &mut Rule, token: &Token) -> Result<(), String> {
    let Some((name, value)) = token.text.split_once('=') else {
        return Err(format!("authentication option not in name=value format: {}", token.text));
    };
    if value.is_empty() {
        return Err(format!("authentication option \"{name}\" has no value"));
    }
    let fits = match name {
        "map" => {
            matches!(rule.method, Method::Jwt | Method::OAuth | Method::Certificate | Method::Peer)
                || rule.client_certificate == ClientCertificate::VerifyFull
        }
        "issuer" => matches!(rule.method, Method::Jwt | Method::OAuth),
        "clientcert" => rule.connection == ConnectionType::HostSsl,
        _ => return Err(format!("unrecognized authentication option name: \"{name}\"")),
    };
    if !fits {
        let method = rule.method;
        return Err(format!("authentication option \"{name}\" is not valid here, for method \"{method}\""));
    }
    match (name, value) {
        ("map", value) if rule.map.is_none() => rule.map = Some(value.to_owned()),
        ("issuer", value) if rule.issuer.is_none() => rule.issuer = Some(value.to_owned()),
        ("clientcert", _) if rule.client_certificate != ClientCertificate::Unasked => {
            return Err("authentication option \"clientcert\" stands twice".to_owned());
        }
        ("clientcert", "verify-ca") if rule.method == Method::Certificate => {
            return Err("method \"cert\" always takes clientcert=verify-full".to_owned());
        }
        ("clientcert", "verify-ca") => rule.client_certificate = ClientCertificate::VerifyCa,
        ("clientcert", "verify-full") => rule.client_certificate = ClientCertificate::VerifyFull,
        ("clientcert", other) => return Err(format!("invalid value for clientcert: \"{other}\"")),
        _ => return Err(format!("authentication option \"{name}\" stands twice")),
    }
    Ok(())
}

/// Refuses methods on connections where they cannot work or would give a secret away.
fn ensure_possible(rule: &Rule) -> Result<(), String> {
    let method = rule.method;
    let encrypted = rule.connection == ConnectionType::HostSsl;
    match method {
        Method::Jwt | Method::OAuth | Method::Certificate if !encrypted => {
            Err(format!("method \"{method}\" is only supported on hostssl connections"))
        }
        Method::Peer if rule.connection != ConnectionType::Local => {
            Err("method \"peer\" is only supported on local connections".to_owned())
        }
        Method::ApiKey if !encrypted && rule.connection != ConnectionType::Local && !rule.networks.is_loopback() => {
            Err("method \"api-key\" sends the key itself: use hostssl, local or a loopback address".to_owned())
        }
        _ => Ok(()),
    }
}
