//! Findings as text.

use std::io::Write;

use doctor::Remedy;

/// Writes a continuation line.
pub(super) fn line(output: &mut impl Write, head: &str, text: &str) -> std::io::Result<()> {
    writeln!(output, "{:12}{head:<10}{text}", "")
}

/// Writes the remedies, each with its command and its undo.
pub(super) fn remedies(output: &mut impl Write, remedies: &[Remedy]) -> std::io::Result<()> {
    for remedy in remedies {
        line(output, "remedy", &remedy.what)?;
        if let Some(command) = remedy.command() {
            line(output, "", &command)?;
        }
        if let Some(undo) = remedy.undo() {
            line(output, "undo", &undo)?;
        }
    }
    Ok(())
}
