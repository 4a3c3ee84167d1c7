//! Who speaks to the gateway in the demo: real `psql` where there is one,
//! because that is what a user would see, and a small client otherwise.

use std::error::Error;
use std::net::SocketAddr;
use std::process::Stdio;

use lancegate_auth::Secret;
use tokio::process::Command;
use tokio_postgres::SimpleQueryMessage;

/// A connected client.
pub(super) enum Client {
    /// Starts `psql` for each statement.
    Psql { address: SocketAddr, user: String, password: Secret<String> },
    /// Holds one connection.
    BuiltIn(tokio_postgres::Client),
}

impl Client {
    pub(super) async fn connect(
        address: SocketAddr,
        user: &str,
        password: &Secret<String>,
    ) -> Result<Self, Box<dyn Error>> {
        if psql_exists().await {
            return Ok(Self::Psql { address, user: user.to_owned(), password: password.clone() });
        }
        let (client, connection) = tokio_postgres::Config::new()
            .host(address.ip().to_string())
            .port(address.port())
            .user(user)
            .dbname(user)
            .password(password.expose())
            .connect(tokio_postgres::NoTls)
            .await?;
        // Ends when the client is dropped; an error shows in the next statement.
        tokio::spawn(connection);
        Ok(Self::BuiltIn(client))
    }

    /// Returns what the demo says about the client.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Psql { .. } => "psql",
            Self::BuiltIn(_) => "a built-in client, because psql is not installed",
        }
    }

    /// Runs one statement and returns what the client prints for it.
    pub(super) async fn run(&self, statement: &str) -> Result<String, Box<dyn Error>> {
        match self {
            Self::Psql { address, user, password } => psql(*address, user, password, statement).await,
            Self::BuiltIn(client) => Ok(render(&client.simple_query(statement).await?)),
        }
    }
}

async fn psql_exists() -> bool {
    let mut command = Command::new("psql");
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().await.is_ok_and(|status| status.success())
}

async fn psql(
    address: SocketAddr,
    user: &str,
    password: &Secret<String>,
    statement: &str,
) -> Result<String, Box<dyn Error>> {
    let mut command = Command::new("psql");
    // -X: the user's psqlrc must not change what is shown.
    command.args(["-X", "-v", "ON_ERROR_STOP=1", "-P", "pager=off", "-d", user, "-U", user]);
    command.arg("-h").arg(address.ip().to_string()).arg("-p").arg(address.port().to_string());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
        command.env_remove(name);
    }
    command.env("PGPASSWORD", password.expose()).env("PGSSLMODE", "disable");
    let output = command.arg("-c").arg(statement).stdin(Stdio::null()).kill_on_drop(true).output().await?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        return Ok(format!("{err}{out}"));
    }
    Err(format!("psql ended with {}:\n{}{}", output.status, out, err.trim_end()).into())
}

/// Prints rows as psql does: headings, a rule, cells and the number of rows.
fn render(messages: &[SimpleQueryMessage]) -> String {
    let mut headings: Vec<String> = Vec::new();
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut done = String::new();
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                headings = columns.iter().map(|column| column.name().to_owned()).collect();
            }
            SimpleQueryMessage::Row(row) => {
                rows.push((0..row.len()).map(|index| row.get(index).unwrap_or_default().to_owned()).collect());
            }
            SimpleQueryMessage::CommandComplete(count) => done = format!("({count} rows)\n"),
            _ => {}
        }
    }
    if headings.is_empty() {
        return done;
    }
    let widths: Vec<usize> = (0..headings.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.chain([&headings[column]]).map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let print = |cells: &[String]| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} ")).collect();
        padded.join("|").trim_end().to_owned()
    };
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    let mut lines = vec![print(&headings), rule.join("+")];
    lines.extend(rows.iter().map(|row| print(row)));
    format!("{}\n{done}", lines.join("\n"))
}
