//! How verdicts are written for people.

use std::io::Write;

use doctor::Place;

/// Writes a line that belongs to the one before it.
pub(super) fn line(output: &mut impl Write, head: &str, text: &str) -> std::io::Result<()> {
    writeln!(output, "{:12}{head:<10}{text}", "")
}

pub(super) fn place_text(place: &Place) -> String {
    match place {
        Place::Socket { local, owner: Some((pid, name)), .. } => format!("socket {local} of {name}[{pid}]"),
        Place::Socket { local, owner: None, .. } => format!("socket {local}"),
        Place::Device(name) => format!("device {name}"),
        Place::Namespace => "this network namespace".to_owned(),
        Place::Host => "this host".to_owned(),
    }
}
