//! Help that fits its terminal: the texts behind the options, which clap only breaks.
//!
//! A text has headings, examples (`  COMMAND  comment`, indented) and prose. Lines of prose are joined unless they end
//! a sentence. An example whose comment does not fit beside it has it below.

use clap::Command;

use crate::layout::{command_lines, wrapped};

/// Width beyond which lines are hard to read.
const MOST_WIDTH: usize = 120;
/// Indentation of commands, of the rest of one that is broken, and of a comment below.
const INDENT: usize = 2;
const BELOW: usize = 6;

/// Returns a command whose help, and that of its subcommands, has at most `width` columns.
pub(crate) fn fitted(command: Command, width: usize) -> Command {
    let width = width.min(MOST_WIDTH);
    let mut command = command.term_width(width);
    if let Some(text) = command.get_after_help().map(ToString::to_string) {
        command = command.after_help(laid_out(&text, width));
    }
    for below in command.get_subcommands_mut() {
        *below = fitted(std::mem::take(below), width);
    }
    command
}

/// One part of a text.
#[derive(PartialEq, Eq, Debug)]
enum Part {
    Example { command: String, comment: String },
    Prose(String),
}

fn laid_out(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    let parts = parts(text);
    for block in parts.chunk_by(|a, b| matches!((a, b), (Part::Example { .. }, Part::Example { .. }))) {
        let column = comment_column(block, width);
        for part in block {
            match part {
                Part::Prose(text) if text.is_empty() => lines.push(String::new()),
                Part::Prose(text) => lines.extend(wrapped(text, width)),
                Part::Example { command, comment } => lines.extend(example(command, comment, column, width)),
            }
        }
    }
    lines.join("\n")
}

fn parts(text: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for line in text.lines() {
        let words = line.trim();
        match parts.last_mut() {
            Some(Part::Example { comment, .. }) if line.starts_with(&" ".repeat(BELOW)) => {
                *comment = format!("{comment} {words}").trim().to_owned();
            }
            _ if line.starts_with(' ') => parts.push(Part::of_example(words)),
            Some(Part::Prose(prose))
                if !words.is_empty() && !prose.is_empty() && !prose.ends_with(['.', ':']) =>
            {
                *prose = format!("{prose} {words}");
            }
            _ => parts.push(Part::Prose(words.to_owned())),
        }
    }
    parts
}

impl Part {
    /// Reads a command and the comment behind at least two spaces.
    fn of_example(line: &str) -> Self {
        let (command, comment) = line.rsplit_once("  ").unwrap_or((line, ""));
        Self::Example { command: command.trim_end().to_owned(), comment: comment.trim().to_owned() }
    }

    /// Returns the lengths of command and comment of an example that has both.
    fn lengths(&self) -> Option<(usize, usize)> {
        match self {
            Self::Example { command, comment } if !comment.is_empty() => {
                Some((command.chars().count(), comment.chars().count()))
            }
            _ => None,
        }
    }
}

/// Returns the widest column of commands beside which most of the block's comments fit.
fn comment_column(block: &[Part], width: usize) -> usize {
    let lengths: Vec<(usize, usize)> = block.iter().filter_map(Part::lengths).collect();
    let beside = |column: usize| lengths.iter().filter(|it| fits(**it, column, width)).count();
    let columns = lengths.iter().map(|(command, _)| *command);
    columns.max_by_key(|column| (beside(*column), usize::MAX - column)).unwrap_or(0)
}

const fn fits((command, comment): (usize, usize), column: usize, width: usize) -> bool {
    command <= column && INDENT + column + INDENT + comment <= width
}

fn example(command: &str, comment: &str, column: usize, width: usize) -> Vec<String> {
    let lengths = (command.chars().count(), comment.chars().count());
    if !comment.is_empty() && fits(lengths, column, width) {
        return vec![format!("{:INDENT$}{command:column$}{:INDENT$}{comment}", "", "")];
    }
    let mut lines = command_lines(command, width, INDENT, BELOW);
    lines.extend(wrapped(comment, width - BELOW).iter().map(|line| format!("{:BELOW$}{line}", "")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
Examples:
  tallycast ls                 all streams
  tallycast ls --duration 3s   listen longer than usual, for slow announcements
  tallycast ls --bus 'udp://239.84.0.0:7400?iface=eth1' --json

A sentence that is broken
in the source.
Exit code 1: none.";

    #[test]
    fn comments_are_beside_commands_or_below_them() {
        insta::assert_snapshot!(laid_out(TEXT, 50), @r"
        Examples:
          tallycast ls  all streams
          tallycast ls --duration 3s
              listen longer than usual, for slow
              announcements
          tallycast ls \
              --bus 'udp://239.84.0.0:7400?iface=eth1' \
              --json

        A sentence that is broken in the source.
        Exit code 1: none.
        ");
    }

    #[test]
    fn a_wide_terminal_is_used() {
        let wide = laid_out(TEXT, 100);
        assert!(wide.contains(&format!("ls{:16}all streams\n", "")), "{wide}");
        assert!(wide.contains("3s  listen longer than usual, for slow announcements\n"), "{wide}");
    }
}
