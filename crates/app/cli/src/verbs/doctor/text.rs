//! How findings are written for people.

use std::io::Write;

use doctor::{Cure, Place};

/// Writes a line that belongs to the one before it.
pub(super) fn line(output: &mut impl Write, head: &str, text: &str) -> std::io::Result<()> {
    writeln!(output, "{:12}{head:<10}{text}", "")
}

/// Writes what helps, each with its command and the way back.
pub(super) fn cures(output: &mut impl Write, cures: &[Cure]) -> std::io::Result<()> {
    for cure in cures {
        line(output, "cure", &cure.what)?;
        if let Some(command) = cure.command() {
            line(output, "", &command)?;
        }
        if let Some(undo) = cure.undo() {
            line(output, "undo", &undo)?;
        }
    }
    Ok(())
}

pub(crate) fn place_text(place: &Place) -> String {
    match place {
        Place::Socket { local, owner: Some((pid, name)), .. } => format!("socket {local} of {name}[{pid}]"),
        Place::Socket { local, owner: None, .. } => format!("socket {local}"),
        Place::Device(name) => format!("device {name}"),
        Place::Namespace => "this network namespace".to_owned(),
        Place::Host => "this host".to_owned(),
    }
}
