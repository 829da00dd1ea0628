//! `tallycast access user`: local users, whose passwords are asked for without echo.

use std::io::{BufRead, Read, Write};

use access::{PrincipalName, Role};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use identity::{Cost, Folder, MAX_PASSWORD_BYTES, PasswordHash, Secret, User};
use serde_json::json;

use crate::Outcome;
use crate::layout::{self, Align};
use crate::messages::print_line;

#[derive(Subcommand, Debug)]
pub(crate) enum What {
    /// Add a user
    Add {
        /// Name: letters, digits, and any of _ - . +
        name: PrincipalName,
        /// Role: viewer, operator or administrator
        #[arg(long, default_value_t = Role::Viewer)]
        role: Role,
        #[command(flatten)]
        password: Password,
    },
    /// Remove a user; its sessions end
    Remove {
        /// Name of the user
        name: PrincipalName,
    },
    /// Set a new password; the user's sessions end
    Password {
        /// Name of the user
        name: PrincipalName,
        #[command(flatten)]
        password: Password,
    },
    /// End the user's sessions at every monitor that uses this folder, within a second
    SignOut {
        /// Name of the user
        name: PrincipalName,
    },
    /// Change a user's role
    Role {
        /// Name of the user
        name: PrincipalName,
        /// Role: viewer, operator or administrator
        role: Role,
    },
    /// List the users with their roles
    List {
        /// Print JSON, one object per line
        #[arg(long, short = 'J')]
        json: bool,
    },
}

/// Origin of a password.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Password {
    /// Read the password from standard input; otherwise the terminal asks for it
    #[arg(long)]
    password_stdin: bool,
}

pub(crate) fn run(what: What, folder: &Folder) -> anyhow::Result<Outcome> {
    match what {
        What::Add { name, role, password } => {
            let user = User::new(role, password.hash()?);
            folder.change_users(|users| users.add(name, user))?;
        }
        What::Remove { name } => folder.change_users(|users| users.remove(&name))?,
        What::Password { name, password } => {
            let hash = password.hash()?;
            folder.change_users(|users| users.change(&name).map(|user| user.password = hash))?;
        }
        What::SignOut { name } => folder.change_users(|users| users.change(&name).map(User::sign_out))?,
        What::Role { name, role } => {
            folder.change_users(|users| users.change(&name).map(|user| user.role = role))?;
        }
        What::List { json } => list(folder, json)?,
    }
    Ok(Outcome::Fine)
}

fn list(folder: &Folder, as_json: bool) -> anyhow::Result<()> {
    let users = folder.read()?.users;
    if as_json {
        return Ok(users
            .iter()
            .try_for_each(|(name, user)| print_line(&json!({"name": name, "role": user.role})))?);
    }
    let mut table = layout::Table::new(["user", "role"].map(|head| (head, Align::Left)));
    users.iter().for_each(|(name, user)| table.row([name.to_string(), user.role.to_string()]));
    let mut output = std::io::stdout().lock();
    Ok(table.lines(layout::width()).iter().try_for_each(|line| writeln!(output, "{line}"))?)
}

impl Password {
    fn hash(self) -> anyhow::Result<PasswordHash> {
        let password = if self.password_stdin { from_stdin()? } else { from_terminal()? };
        Ok(PasswordHash::new(&password, Cost::Usual)?)
    }
}

fn from_terminal() -> anyhow::Result<Secret> {
    let ask = |prompt: &str| {
        let said = "no terminal asks for the password\ngive it on standard input: --password-stdin";
        rpassword::prompt_password(prompt).map(Secret::new).context(said)
    };
    let (password, again) = (ask("Password: ")?, ask("Again: ")?);
    if password != again {
        bail!("the two passwords differ\nstart again");
    }
    Ok(password)
}

/// Reads a password up to the end of a line or of the input.
fn from_stdin() -> anyhow::Result<Secret> {
    // Of its final size at once: a buffer that grows leaves copies behind.
    let mut text = String::with_capacity(MAX_PASSWORD_BYTES + 2);
    let read = std::io::stdin().lock().take(MAX_PASSWORD_BYTES as u64 + 2).read_line(&mut text);
    let ending = text.len() - text.trim_end_matches(['\r', '\n']).len();
    text.truncate(text.len() - ending);
    let password = Secret::new(text);
    read.context("cannot read the password from standard input")?;
    Ok(password)
}
