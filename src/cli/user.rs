//! `lancegate user …` and `lancegate grant`: bootstrap and rescue on the
//! metadata store itself, so they need it for themselves: no gateway may run.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::{Command, Stdio};

use clap::{Args, Subcommand};
use lancegate_auth::{Object, Privilege, Secret, Subject};
use lancegate_catalog::Catalog;

use super::{CommandResult, ConfigArgs, io_runtime, output};
use crate::admin;
use crate::gateway::open_catalog;

/// Subcommands of `user`.
#[derive(Debug, Subcommand)]
pub(super) enum UserCommand {
    /// Add a user; the new user has no privilege until it is granted one.
    Add(PasswordArgs),
    /// Set a user's password.
    Passwd(PasswordArgs),
    /// List users.
    List(ListArgs),
    /// Remove a user.
    Drop(NameArgs),
}

/// Arguments of `user add` and `user passwd`.
#[derive(Debug, Args)]
pub(super) struct PasswordArgs {
    /// The user.
    name: String,
    /// Make a random password and print it, instead of asking for one.
    #[arg(long)]
    generate: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Arguments of `user list`.
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

/// Arguments of `user drop`.
#[derive(Debug, Args)]
pub(super) struct NameArgs {
    /// The user.
    name: String,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Arguments of `grant`.
#[derive(Debug, Args)]
pub(super) struct GrantArgs {
    /// Privileges, separated by commas: USAGE, OPERATE, SELECT, "CREATE TABLE", ...
    #[arg(required = true, value_delimiter = ',', value_parser = privilege)]
    privileges: Vec<Privilege>,
    /// The object: system, database:DB, namespace:DB:public, namespace:DB:a$b, table:DB:public$T, view:..., function:...
    #[arg(long, value_name = "OBJECT", value_parser = object)]
    on: Object,
    /// The user; with --role, the role.
    #[arg(long, value_name = "NAME")]
    to: String,
    /// Grant to a role instead of a user.
    #[arg(long)]
    role: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

pub(super) fn run(command: UserCommand) -> CommandResult {
    match command {
        UserCommand::Add(args) => {
            let (name, password, generated) = (args.name, ask_password(args.generate)?, args.generate);
            with_catalog(args.config, async |catalog| admin::add_user(catalog, &name, &password).await)?;
            confirm(&format!("added user \"{name}\""), generated.then_some(&password));
        }
        UserCommand::Passwd(args) => {
            let (name, password, generated) = (args.name, ask_password(args.generate)?, args.generate);
            with_catalog(args.config, async |catalog| admin::set_password(catalog, &name, &password).await)?;
            confirm(&format!("set the password of user \"{name}\""), generated.then_some(&password));
        }
        UserCommand::List(args) => {
            let users = with_catalog(args.config, async |catalog| admin::list_users(catalog).await)?;
            let rows: Vec<[String; 3]> = users
                .iter()
                .map(|user| {
                    let password = if user.verifier.is_some() { "yes" } else { "no" };
                    [user.name.to_string(), password.to_owned(), user.created_at.format("%F %T UTC").to_string()]
                })
                .collect();
            output::table(["name", "password", "created"], &rows);
        }
        UserCommand::Drop(args) => {
            with_catalog(args.config, async |catalog| admin::drop_user(catalog, &args.name).await)?;
            output::line(format!("dropped user \"{}\"", args.name));
        }
    }
    Ok(())
}

pub(super) fn grant(args: GrantArgs) -> CommandResult {
    let prefix = if args.role { "r" } else { "P" };
    let subject: Subject = format!("{prefix}:{}", args.to).parse()?;
    with_catalog(args.config, async |catalog| admin::grant(catalog, &args.privileges, &args.on, &subject).await)?;
    let granted: Vec<&str> = args.privileges.iter().map(|privilege| privilege.as_sql()).collect();
    output::line(format!("granted {} on {} to {}", granted.join(", "), args.on, args.to));
    Ok(())
}

/// Opens the store, does the work and closes it. The store must have been made
/// by a first start: a user added before it would keep it from creating the
/// owner of everything.
fn with_catalog<T>(
    config: ConfigArgs,
    work: impl AsyncFnOnce(&Catalog) -> Result<T, admin::AdminError>,
) -> Result<T, Box<dyn std::error::Error>> {
    let path = config.load()?.metadata_path();
    if !path.exists() {
        let what = "does not exist; `lancegate serve` creates it and user \"lancegate\" at its first start";
        return Err(format!("metadata: {} {what}", path.display()).into());
    }
    io_runtime()?.block_on(async {
        let catalog = open_catalog(&path).await?;
        let result = work(&catalog).await;
        catalog.close().await;
        Ok(result?)
    })
}

fn confirm(what: &str, generated: Option<&Secret<String>>) {
    output::line(what);
    if let Some(password) = generated {
        output::line(format!("password: {}", password.expose()));
    }
}

/// Returns a random password, or asks at the terminal, or reads a line of standard input.
fn ask_password(generate: bool) -> Result<Secret<String>, Box<dyn std::error::Error>> {
    if generate {
        return Ok(admin::random_password()?);
    }
    if !io::stdin().is_terminal() {
        return Ok(Secret::new(read_line()?));
    }
    let first = ask_hidden("Password: ")?;
    let second = ask_hidden("Again: ")?;
    if first != second {
        return Err("the two passwords differ".into());
    }
    Ok(first)
}

/// Asks without showing what is typed.
fn ask_hidden(prompt: &str) -> io::Result<Secret<String>> {
    output::prompt(prompt);
    echo(false);
    let line = read_line();
    echo(true);
    output::note("");
    line.map(Secret::new)
}

/// Switches the terminal's echo; without `stty` the password is seen, which is
/// better than not to be able to set one.
fn echo(on: bool) {
    let argument = if on { "echo" } else { "-echo" };
    let _ = Command::new("stty").arg(argument).stdin(Stdio::inherit()).stderr(Stdio::null()).status();
}

fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn privilege(text: &str) -> Result<Privilege, String> {
    let name = text.trim().to_uppercase().replace('_', " ").replace("CREATE NAMESPACE", "CREATE SCHEMA");
    Privilege::from_sql(&name).map_err(|_| {
        let all: Vec<&str> = Privilege::ALL.iter().map(|privilege| privilege.as_sql()).collect();
        format!("use one of {}", all.join(", "))
    })
}

fn object(text: &str) -> Result<Object, String> {
    text.parse::<Object>().map_err(|error| format!("{error}; write it as in table:lancegate:public$docs"))
}
