//! Content of the terminal view, and the effects of keys: independent of any terminal.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A table of the view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Panel {
    /// Streams as received here.
    Streams,
    /// Losses by stage, from accounts and from the host's counters.
    Stages,
    /// UDP sockets of this host.
    Sockets,
    /// Processors.
    Processors,
    /// Readers of this host's streams, wherever they are.
    Readers,
    /// Relays of this host.
    Relays,
}

impl Panel {
    pub(super) const ALL: [Self; 6] =
        [Self::Streams, Self::Stages, Self::Sockets, Self::Processors, Self::Readers, Self::Relays];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Stages => "stages",
            Self::Sockets => "sockets",
            Self::Processors => "processors",
            Self::Readers => "readers",
            Self::Relays => "relays",
        }
    }
}

/// A field of a table: its text, and its sort key if it is a number.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Field {
    pub(super) text: String,
    pub(super) number: Option<f64>,
}

impl Field {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), number: None }
    }

    pub(super) fn number(text: impl Into<String>, number: f64) -> Self {
        Self { text: text.into(), number: Some(number) }
    }
}

/// A table with all its rows.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Table {
    pub(super) heads: &'static [&'static str],
    pub(super) rows: Vec<Vec<Field>>,
}

/// One snapshot as displayed.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The line above all.
    pub(super) head: String,
    /// In the order of [`Panel::ALL`].
    pub(super) tables: [Table; 6],
}

/// Displayed part of the snapshot.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) seen: Seen,
    pub(super) panel: Panel,
    /// By which column each panel is sorted, and whether backwards.
    sorting: [(usize, bool); 6],
    pub(super) filter: String,
    pub(super) is_filtering: bool,
    pub(super) is_paused: bool,
    pub(super) shows_help: bool,
    offset: usize,
}

/// Effect of the keys on the view: it continues or ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    GoOn,
    End,
}

/// Number of rows that a page key moves.
const PAGE: usize = 10;

impl State {
    pub(super) fn new() -> Self {
        Self {
            seen: Seen::default(),
            panel: Panel::Streams,
            sorting: [(0, false); 6],
            filter: String::new(),
            is_filtering: false,
            is_paused: false,
            shows_help: false,
            offset: 0,
        }
    }

    /// Shows a new snapshot, unless the view is paused.
    pub(super) fn see(&mut self, seen: Seen) {
        if !self.is_paused {
            self.seen = seen;
        }
    }

    /// Follows a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        let is_control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control_c {
            return Next::End;
        }
        if self.is_filtering {
            self.write_filter(key.code);
            return Next::GoOn;
        }
        match key.code {
            KeyCode::Char('q') => return Next::End,
            KeyCode::Char('?') => self.shows_help = !self.shows_help,
            KeyCode::Esc if self.shows_help => self.shows_help = false,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('/') => self.is_filtering = true,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => {
                let columns = self.table().heads.len().max(1);
                let sorting = &mut self.sorting[self.panel as usize];
                sorting.0 = (sorting.0 + 1) % columns;
            }
            KeyCode::Char('r') => {
                let sorting = &mut self.sorting[self.panel as usize];
                sorting.1 = !sorting.1;
            }
            KeyCode::Char(digit @ '1'..='6') => self.choose(digit as usize - '1' as usize),
            KeyCode::Tab => self.choose((self.panel as usize + 1) % Panel::ALL.len()),
            KeyCode::Down => self.offset = self.offset.saturating_add(1),
            KeyCode::Up => self.offset = self.offset.saturating_sub(1),
            KeyCode::PageDown => self.offset = self.offset.saturating_add(PAGE),
            KeyCode::PageUp => self.offset = self.offset.saturating_sub(PAGE),
            KeyCode::Home => self.offset = 0,
            _ => {}
        }
        Next::GoOn
    }

    fn write_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => {
                self.is_filtering = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.offset = 0;
    }

    fn choose(&mut self, panel: usize) {
        self.panel = Panel::ALL[panel];
        self.offset = 0;
    }

    pub(super) fn table(&self) -> &Table {
        &self.seen.tables[self.panel as usize]
    }

    /// Returns the column by which the panel is sorted, and whether backwards.
    pub(super) const fn sorted_by(&self) -> (usize, bool) {
        self.sorting[self.panel as usize]
    }

    /// Returns the rows that fit into this number of lines, and the total number of rows.
    pub(super) fn rows(&self, lines: usize) -> (Vec<&Vec<Field>>, usize) {
        let matches = |row: &&Vec<Field>| row.iter().any(|field| field.text.contains(&self.filter));
        let mut rows: Vec<&Vec<Field>> = self.table().rows.iter().filter(matches).collect();
        let (column, backwards) = self.sorted_by();
        // Largest first: the usual interest.
        rows.sort_by(|one, other| match (one.get(column), other.get(column)) {
            (Some(one), Some(other)) => match (one.number, other.number) {
                (Some(one), Some(other)) => other.total_cmp(&one),
                _ => one.text.cmp(&other.text),
            },
            _ => std::cmp::Ordering::Equal,
        });
        if backwards {
            rows.reverse();
        }
        let all = rows.len();
        let first = self.offset.min(all.saturating_sub(lines));
        (rows.into_iter().skip(first).take(lines).collect(), all)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn seen() -> Seen {
        let row = |name: &str, rate: f64| {
            vec![Field::text(name), Field::number(format!("{rate:.0}"), rate), Field::text("nothing")]
        };
        let streams = Table {
            heads: &["STREAM", "SAMPLES/S", "LOST"],
            rows: vec![row("lab/b", 30.0), row("lab/a", 100.0), row("w7x/c", 9.0)],
        };
        let [stages, sockets, processors, readers, relays] = Default::default();
        Seen { head: "3 streams".to_owned(), tables: [streams, stages, sockets, processors, readers, relays] }
    }

    fn press(state: &mut State, keys: &str) -> Next {
        let mut next = Next::GoOn;
        for letter in keys.chars() {
            let code = match letter {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                '\t' => KeyCode::Tab,
                other => KeyCode::Char(other),
            };
            next = state.press(KeyEvent::from(code));
        }
        next
    }

    fn names(state: &State, lines: usize) -> Vec<&str> {
        state.rows(lines).0.into_iter().map(|row| row[0].text.as_str()).collect()
    }

    fn state() -> State {
        let mut state = State::new();
        state.see(seen());
        state
    }

    #[test]
    fn rows_are_sorted_by_any_column_numbers_from_the_largest() {
        let mut state = state();
        assert_eq!(names(&state, 9), ["lab/a", "lab/b", "w7x/c"]);
        press(&mut state, "s");
        assert_eq!(names(&state, 9), ["lab/a", "lab/b", "w7x/c"]);
        press(&mut state, "r");
        assert_eq!(names(&state, 9), ["w7x/c", "lab/b", "lab/a"]);
        press(&mut state, "ss");
        assert_eq!(state.sorted_by(), (0, true), "round to the first column");
    }

    #[test]
    fn a_filter_is_written_kept_and_taken_away() {
        let mut state = state();
        press(&mut state, "/w7q");
        assert!(names(&state, 9).is_empty(), "q is a letter while a filter is written");
        state.press(KeyEvent::from(KeyCode::Backspace));
        assert_eq!(names(&state, 9), ["w7x/c"]);
        press(&mut state, "\n");
        assert_eq!((names(&state, 9), state.is_filtering), (vec!["w7x/c"], false));
        press(&mut state, "\u{1b}");
        assert_eq!(names(&state, 9).len(), 3);
    }

    #[test]
    fn it_scrolls_within_the_rows_and_stands_still_when_paused() {
        let mut state = state();
        for _ in 0..9 {
            state.press(KeyEvent::from(KeyCode::Down));
        }
        assert_eq!(names(&state, 2), ["lab/b", "w7x/c"], "the last rows stay");
        press(&mut state, " ");
        state.see(Seen::default());
        assert_eq!(names(&state, 9).len(), 3);
        press(&mut state, " ");
        state.see(Seen::default());
        assert!(names(&state, 9).is_empty());
    }

    #[test]
    fn panels_are_chosen_by_number_and_in_turn_and_q_ends() {
        let mut state = state();
        assert_eq!(press(&mut state, "3"), Next::GoOn);
        assert_eq!(state.panel, Panel::Sockets);
        press(&mut state, "\t\t");
        assert_eq!(state.panel, Panel::Readers);
        press(&mut state, "\t\t");
        assert_eq!(state.panel, Panel::Streams);
        assert_eq!((press(&mut state, "6"), state.panel), (Next::GoOn, Panel::Relays));
        assert_eq!(press(&mut state, "q"), Next::End);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        press(&mut state, "/");
        assert_eq!(state.press(control_c), Next::End, "also while a filter is written");
    }
}
