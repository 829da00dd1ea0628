//! The terminal view, drawn.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};

use super::state::{Field, Panel, State};
use crate::layout;

const KEYS: &str = "1-6 panel  s sort  r reverse  / filter  space pause  ? help  q end";

const HELP: [&str; 12] = [
    "1 streams  2 stages  3 sockets  4 processors  5 readers  6 relays; Tab: next",
    "s          sort by the next column, numbers from the largest",
    "r          reverse the order",
    "/          show only rows with these letters; Enter keeps, Esc leaves",
    "arrows     scroll; PageUp and PageDown by ten",
    "space      pause, and resume",
    "?          this help, and back",
    "q, Ctrl-C  end",
    "The streams show this reader's own account.",
    "Stages, sockets and processors are of the whole host.",
    "Readers, also of other hosts, report to publishers of this host.",
    "Relays are those of this host, with the streams of each link.",
];

/// Draws everything; only weight and reverse video carry meaning, so that it reads the same without colours.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let [head, panels, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Line::from(state.seen.head.as_str()), head);
    let titles = Panel::ALL.iter().enumerate().flat_map(|(index, panel)| {
        let style =
            if *panel == state.panel { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        [ratatui::text::Span::styled(format!(" {} {} ", index + 1, panel.title()), style), " ".into()]
    });
    frame.render_widget(Line::from_iter(titles), panels);
    if state.shows_help {
        frame.render_widget(
            Paragraph::new(HELP.map(Line::from).to_vec()).block(Block::bordered().title("help")),
            body,
        );
    } else {
        table(frame, state, body);
    }
    let status = match (state.is_filtering, state.filter.is_empty(), state.is_paused) {
        (true, _, _) => format!("/{}_", state.filter),
        (_, false, false) => format!("only rows with `{}` (Esc: all)", state.filter),
        (_, false, true) => format!("paused; only rows with `{}`", state.filter),
        (_, true, true) => "paused (space: resume)".to_owned(),
        (_, true, false) => KEYS.to_owned(),
    };
    frame.render_widget(Line::from(status), foot);
}

fn table(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let table = state.table();
    let (sorted_by, backwards) = state.sorted_by();
    let lines = usize::from(area.height).saturating_sub(1);
    let (rows, all) = state.rows(lines);
    if rows.is_empty() {
        let why = if state.filter.is_empty() { "nothing here yet" } else { "no matching row" };
        return frame.render_widget(Line::from(why), area);
    }
    let marked = |(column, head): (usize, &&'static str)| {
        let mark = match (column == sorted_by, backwards) {
            (true, false) => "▾",
            (true, true) => "▴",
            (false, _) => "",
        };
        format!("{head}{mark}")
    };
    let heads: Vec<String> = table.heads.iter().enumerate().map(marked).collect();
    let width = |column: usize| {
        let of_row = |row: &&Vec<Field>| row.get(column).map_or(0, |field| layout::columns(&field.text));
        rows.iter().map(of_row).chain([heads[column].chars().count()]).max().unwrap_or(0)
    };
    let length = |column: usize| Constraint::Length(u16::try_from(width(column)).unwrap_or(u16::MAX));
    // The text of the last column is cut first, at its end.
    let mut widths: Vec<Constraint> = (0..heads.len()).map(length).collect();
    widths.pop();
    widths.push(Constraint::Fill(1));
    let last = heads.len().saturating_sub(1);
    let line = |(column, field): (usize, &Field)| {
        let is_right = field.number.is_some() && column < last;
        let alignment = if is_right { Alignment::Right } else { Alignment::Left };
        Cell::from(Line::from(field.text.clone()).alignment(alignment))
    };
    let head = Row::new(heads).style(Style::new().add_modifier(Modifier::BOLD));
    let shown = rows.len();
    let rows = rows.into_iter().map(|row| Row::new(row.iter().enumerate().map(line)));
    frame.render_widget(Table::new(rows, widths).header(head).column_spacing(2), area);
    if shown < all && area.height > 1 {
        let more = format!(" {shown} of {all} ");
        let size = u16::try_from(more.len()).unwrap_or(0).min(area.width);
        let corner = Rect { x: area.right() - size, y: area.y, width: size, height: 1 };
        frame.render_widget(Line::from(more).style(Style::new().add_modifier(Modifier::REVERSED)), corner);
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::seen;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};

    fn drawn(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let lines = buffer.content().chunks(usize::from(width).max(1));
        lines.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
    }

    #[test]
    fn eighty_by_twenty_four_shows_head_panels_rows_and_keys() {
        let mut state = State::new();
        state.see(seen());
        let text = drawn(&state, 80, 24);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(lines[0], "3 streams");
        assert_eq!(lines[1], " 1 streams   2 stages   3 sockets   4 processors   5 readers   6 relays");
        assert_eq!(lines[2], "STREAM▾  SAMPLES/S  LOST");
        assert_eq!(lines[3], "lab/a          100  nothing");
        assert_eq!(lines[23], KEYS);
        assert!(lines.iter().all(|line| line.chars().count() <= 80));
        state.press(KeyEvent::from(KeyCode::Char('?')));
        assert!(drawn(&state, 80, 24).contains("sort by the next column"));
        let inside = 80 - 2;
        assert!(HELP.iter().all(|line| line.chars().count() <= inside), "nothing of the help is cut");
    }

    #[test]
    fn of_a_long_last_field_the_beginning_is_seen() {
        let mut state = State::new();
        let mut seen = seen();
        seen.tables[0].rows[0][2] = Field::number("1234 receiver_socket_buffer, 5678 unsettled", 6_912.0);
        state.see(seen);
        assert!(drawn(&state, 40, 24).contains("1234 receiver"), "{}", drawn(&state, 40, 24));
    }

    #[test]
    fn it_is_drawn_at_any_size() {
        let mut state = State::new();
        state.see(seen());
        for (width, height) in [(1, 1), (20, 5), (200, 60), (80, 4)] {
            drawn(&state, width, height);
        }
        assert!(drawn(&state, 80, 5).contains("1 of 3"), "the number of hidden rows is shown");
    }
}
