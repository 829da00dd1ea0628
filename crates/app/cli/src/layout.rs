//! Text that fits its terminal: commands and drawings broken between words, and tables.
//!
//! Without a terminal text is as wide as the usual one.

use std::io::IsTerminal;

use ratatui::crossterm::terminal;
use ratatui::text::Span;
use units::text::broken;
pub(crate) use units::text::{hanging, wrapped};

/// Width without a terminal, and of terminals that do not say theirs.
const USUAL_WIDTH: usize = 80;
/// Width below which lines are no longer made shorter.
const LEAST_WIDTH: usize = 40;
/// Space between two columns of a table.
const BETWEEN: usize = 2;
/// Indentation of what stands below a line it belongs to.
const BELOW: usize = 2;

/// Returns the columns of the terminal that standard output is, or of the usual one.
pub(crate) fn width() -> usize {
    if std::io::stdout().is_terminal() { terminal_width().max(LEAST_WIDTH) } else { USUAL_WIDTH }
}

/// Returns the columns of this process's terminal.
pub(crate) fn terminal_width() -> usize {
    let columns = terminal::size().map_or(0, |(columns, _)| usize::from(columns));
    if columns > 0 { columns } else { USUAL_WIDTH }
}

/// Breaks the lines of a drawing; the rest of a line is indented by four more than its beginning.
pub(crate) fn redrawn(text: &str, width: usize) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let indent = " ".repeat(columns(line) - columns(line.trim_start()) + 4);
        let broken = broken(line, width, width.saturating_sub(indent.len()));
        let indented = |(index, part): (usize, &String)| {
            if index == 0 { part.clone() } else { format!("{indent}{part}") }
        };
        lines.extend(broken.iter().enumerate().map(indented));
    }
    lines.join("\n")
}

/// Breaks a shell command between its words, so that it still runs when it is copied.
///
/// Units: columns; `indent` before the command, `below` before its further lines.
pub(crate) fn command_lines(command: &str, width: usize, indent: usize, below: usize) -> Vec<String> {
    let mut lines = vec![" ".repeat(indent)];
    for (index, words) in together(&shell_words(command)).iter().enumerate() {
        let line = lines.last_mut().expect("it begins with one");
        // The last two columns are those of the backslash.
        let is_full = columns(line) + 1 + columns(words) + 2 > width;
        if index > 0 && is_full && columns(command) + indent > width {
            line.push_str(" \\");
            lines.push(format!("{}{words}", " ".repeat(below)));
        } else {
            line.push_str(if index > 0 { " " } else { "" });
            line.push_str(words);
        }
    }
    lines
}

/// Joins each option and the word behind it, which is its value as a rule.
fn together(words: &[&str]) -> Vec<String> {
    let pairs = words.chunk_by(|word, next| word.starts_with('-') && !next.starts_with('-'));
    pairs.map(|pair| pair.join(" ")).collect()
}

/// Returns the words of a command; quotation marks keep theirs together.
fn shell_words(command: &str) -> Vec<&str> {
    let (mut words, mut start, mut quote) = (Vec::new(), 0, None);
    for (place, letter) in command.char_indices() {
        match (quote, letter) {
            (None, ' ') => {
                words.push(&command[start..place]);
                start = place + 1;
            }
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
    }
    words.push(&command[start..]);
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the columns that a text takes: letters of some scripts take two, accents none (Unicode Annex 11).
pub(crate) fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// Alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table whose last column holds sentences: beside the others if all of them fit there, else below each row.
#[derive(Clone, Debug)]
pub(crate) struct Table<const N: usize> {
    columns: [(&'static str, Align); N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) const fn new(columns: [(&'static str, Align); N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row; cells may have several lines.
    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    /// Returns the lines of the table, the heads first.
    pub(crate) fn lines(&self, width: usize) -> Vec<String> {
        let natural: Vec<usize> = (0..N).map(|column| self.width_of(column)).collect();
        let (last, others) = natural.split_last().expect("a table has columns");
        let beside = others.iter().map(|it| it + BETWEEN).sum::<usize>() + last <= width;
        let mut widths = if beside { natural.clone() } else { others.to_vec() };
        // A long name stands alone in its line, and the rest of its row below.
        let all = widths.iter().map(|it| it + BETWEEN).sum::<usize>() - BETWEEN;
        let least = columns(self.columns[0].0);
        widths[0] = widths[0].saturating_sub(all.saturating_sub(width)).max(least);
        let heads = self.columns.map(|(head, _)| head.to_owned());
        std::iter::once(&heads)
            .chain(&self.rows)
            .flat_map(|cells| self.row_lines(cells, &widths, width))
            .collect()
    }

    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| &row[column]);
        let lines = cells.flat_map(|cell| cell.lines()).map(columns);
        lines.chain([columns(self.columns[column].0)]).max().unwrap_or(0)
    }

    fn row_lines(&self, cells: &[String; N], widths: &[usize], width: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let stands_alone = columns(&cells[0]) > widths[0];
        if stands_alone {
            lines.push(cells[0].clone());
        }
        let skipped = usize::from(stands_alone);
        let height = cells[..widths.len()].iter().skip(skipped).map(|cell| cell.lines().count()).max();
        for line in 0..height.unwrap_or(0).max(1) {
            let mut text = String::new();
            for (column, width) in widths.iter().enumerate() {
                let is_empty = stands_alone && column == 0;
                let cell = if is_empty { "" } else { cells[column].lines().nth(line).unwrap_or("") };
                let space = " ".repeat(width.saturating_sub(columns(cell)));
                match self.columns[column].1 {
                    Align::Left => text.extend([cell, &space]),
                    Align::Right => text.extend([&space, cell]),
                }
                text.push_str(&" ".repeat(BETWEEN));
            }
            lines.push(text.trim_end().to_owned());
        }
        let below = cells[widths.len()..].iter().flat_map(|cell| wrapped(cell, width - BELOW));
        lines.extend(below.map(|line| format!("{}{line}", " ".repeat(BELOW)).trim_end().to_owned()));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_drawn_line_is_indented() {
        assert_eq!(redrawn("● app  runs\n  ▶ out  to nobody", 12), "● app  runs\n  ▶ out  to\n      nobody");
    }

    #[test]
    fn a_command_is_broken_between_its_words_and_not_within_quotation_marks() {
        let command = "sh -c 'a b c' --long 1";
        assert_eq!(command_lines(command, 40, 2, 4), ["  sh -c 'a b c' --long 1"]);
        assert_eq!(command_lines(command, 16, 2, 4), ["  sh \\", "    -c 'a b c' \\", "    --long 1"]);
        assert_eq!(command_lines("averylongword", 5, 0, 2), ["averylongword"]);
    }

    fn table() -> Table<3> {
        let mut table = Table::new([("STREAM", Align::Left), ("RATE", Align::Right), ("REACH", Align::Left)]);
        table.row(["lab/a".into(), "1000".into(), "shm (published on this host)".into()]);
        table.row(["lab/a-long-one".into(), "5".into(), "udp".into()]);
        table
    }

    #[test]
    fn a_table_uses_the_width_and_puts_sentences_below_if_they_do_not_fit() {
        insta::assert_snapshot!(table().lines(60).join("\n"), @r"
        STREAM          RATE  REACH
        lab/a           1000  shm (published on this host)
        lab/a-long-one     5  udp
        ");
        insta::assert_snapshot!(table().lines(40).join("\n"), @r"
        STREAM          RATE
          REACH
        lab/a           1000
          shm (published on this host)
        lab/a-long-one     5
          udp
        ");
        insta::assert_snapshot!(table().lines(16).join("\n"), @r"
        STREAM      RATE
          REACH
        lab/a       1000
          shm (published
          on this host)
        lab/a-long-one
                       5
          udp
        ");
    }

    #[test]
    fn letters_of_two_columns_and_accents_keep_the_table_straight() {
        let mut table = Table::new([("STREAM", Align::Left), ("RATE", Align::Right), ("REACH", Align::Left)]);
        table.row(["lab/温度".into(), "1".into(), "udp".into()]);
        table.row(["lab/Ku\u{308}hl".into(), "2".into(), "udp".into()]);
        let lines = ["lab/温度     1  udp", "lab/Ku\u{308}hl     2  udp"];
        assert_eq!(table.lines(80)[1..], lines);
        assert_eq!([columns("温度"), columns("u\u{308}"), columns("ü")], [4, 1, 1]);
    }

    #[test]
    fn every_line_of_a_cell_is_in_its_column() {
        let mut table = Table::new([("STREAM", Align::Left), ("LOST", Align::Left), ("REACH", Align::Left)]);
        table.row(["a".into(), "3 sender_ip,\n4 unsettled".into(), "udp".into()]);
        assert_eq!(table.lines(80)[1..], ["a       3 sender_ip,  udp", "        4 unsettled"]);
    }
}
