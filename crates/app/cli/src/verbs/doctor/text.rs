//! Findings as text.

use std::io::Write;

use doctor::Remedy;

use crate::layout;

/// Columns before the name of a continuation line, and of the name.
const INDENT: usize = 12;
const NAME: usize = 10;

/// Writes a continuation line, broken between words.
pub(super) fn line(output: &mut impl Write, head: &str, text: &str) -> std::io::Result<()> {
    writeln!(output, "{}", continued(head, text, layout::width()))
}

fn continued(head: &str, text: &str, width: usize) -> String {
    layout::hanging(&format!("{:INDENT$}{head:<NAME$}", ""), text, width)
}

/// Writes the remedies, each with its command and its undo.
pub(super) fn remedies(output: &mut impl Write, remedies: &[Remedy]) -> std::io::Result<()> {
    for remedy in remedies {
        line(output, "remedy", &remedy.what)?;
        remedy.command().map_or(Ok(()), |it| command(output, "", &it))?;
        remedy.undo().map_or(Ok(()), |it| command(output, "undo", &it))?;
    }
    Ok(())
}

/// Writes a command to be copied.
pub(super) fn command(output: &mut impl Write, head: &str, command: &str) -> std::io::Result<()> {
    writeln!(output, "{}", copied(head, command, layout::width()))
}

/// Returns a command; one too long for the rest of the line begins on the next.
fn copied(head: &str, command: &str, width: usize) -> String {
    if INDENT + NAME + command.chars().count() <= width || command.contains('\n') {
        return format!("{:INDENT$}{head:<NAME$}{command}", "");
    }
    let head = if head.is_empty() { String::new() } else { format!("{:INDENT$}{head}\n", "") };
    head + &layout::command_lines(command, width, INDENT + 2, INDENT + 4).join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continued_text_stays_in_its_column() {
        let text = continued("why", "the buffer was full, and it was read too late", 50);
        insta::assert_snapshot!(text, @r"
                    why       the buffer was full, and it
                              was read too late
        ");
    }

    #[test]
    fn a_command_can_be_copied_however_narrow_the_terminal_is() {
        assert_eq!(copied("undo", "ip link set x up", 80).trim_start(), "undo      ip link set x up");
        let long = "sysctl -w net.core.rmem_max=8388608 net.core.netdev_max_backlog=10000";
        let broken = copied("undo", long, 60);
        assert!(broken.lines().all(|line| line.chars().count() <= 60), "{broken}");
        let (head, command) = broken.split_once('\n').unwrap();
        assert_eq!(head.trim(), "undo");
        let words = |text: &str| text.replace("\\\n", "").split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(command), long);
    }
}
