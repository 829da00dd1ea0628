//! Text output of `sub`: a line per second for each stream, gaps when declared, accounts at the end.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use archive::moment_text as utc;
use tallycast::{
    Block, Event, GapKind, PortStatus, StageCounts, StreamAccount, StreamGap, StreamName, Waits,
};

use crate::layout;

/// Interval at which a stream's line is written.
const PERIOD: Duration = Duration::from_secs(1);
/// Values shown of the newest sample; wide samples are cut.
const SHOWN_VALUES: usize = 4;

/// State of the streams between two lines.
pub(super) struct Screen {
    streams: BTreeMap<Arc<StreamName>, Seen>,
    next_line: Instant,
    last_line: Instant,
}

#[derive(Default)]
struct Seen {
    samples: u64,
    newest: Values,
}

/// Values of a sample, with their units.
#[derive(Default)]
struct Values {
    shown: Vec<String>,
    /// True if the sample has more.
    has_more: bool,
}

impl Screen {
    pub(super) fn new(now: Instant) -> Self {
        Self { streams: BTreeMap::new(), next_line: now + PERIOD, last_line: now }
    }

    pub(super) fn take(&mut self, event: &Event, with_values: bool) -> std::io::Result<()> {
        match event {
            Event::Began(info) => {
                let schema = &info.schema;
                writeln!(
                    std::io::stdout(),
                    "{}: joined at sample {}, {} × {} at {} samples/s from {}",
                    info.name,
                    info.first_index,
                    schema.channels.len(),
                    schema.dtype,
                    schema.rate,
                    info.station
                )
            }
            Event::Block(block) => self.on_block(block, with_values),
            Event::Gap(gap) => writeln!(std::io::stdout(), "{}", gap_text(gap, "missing")),
            Event::Settled(gap) => writeln!(std::io::stdout(), "{}", gap_text(gap, "settled")),
            Event::Statement(_) => Ok(()),
            Event::Ended(account) => {
                self.streams.remove(&account.stream);
                writeln!(std::io::stdout(), "{}: ended, account {}", account.stream, account.account.state)
            }
        }
    }

    /// Writes the lines that are due.
    pub(super) fn look(
        &mut self,
        now: Instant,
        accounts: impl FnOnce() -> Vec<StreamAccount>,
    ) -> std::io::Result<()> {
        if now < self.next_line {
            return Ok(());
        }
        let seconds = now.duration_since(self.last_line).as_secs_f64();
        (self.last_line, self.next_line) = (now, now + PERIOD);
        let accounts: BTreeMap<_, _> =
            accounts().into_iter().map(|it| (Arc::clone(&it.stream), it)).collect();
        let mut output = std::io::stdout().lock();
        for (name, seen) in &mut self.streams {
            #[expect(clippy::cast_precision_loss, reason = "a rate for display")]
            let rate = std::mem::take(&mut seen.samples) as f64 / seconds;
            let lost = accounts.get(name).map_or_else(String::new, lost_text);
            let head = format!("{name}: {rate:.0} samples/s");
            writeln!(output, "{}", line(&head, &seen.newest, &lost, layout::width()))?;
        }
        Ok(())
    }

    fn on_block(&mut self, block: &Block, with_values: bool) -> std::io::Result<()> {
        let seen = self.streams.entry(Arc::clone(&block.stream)).or_default();
        seen.samples += block.samples;
        let last = usize::try_from(block.samples).expect("in memory") - 1;
        seen.newest = values(block, last);
        if with_values {
            let mut output = std::io::stdout().lock();
            for sample in 0..=last {
                writeln!(
                    output,
                    "{} {} {}",
                    block.stream,
                    block.first_index + sample as u64,
                    values(block, sample).text(usize::MAX)
                )?;
            }
        }
        Ok(())
    }
}

/// Writes the account of one epoch, as a balance.
pub(super) fn print_account(account: &StreamAccount) -> std::io::Result<()> {
    let rows = &account.account.elements;
    let sent = rows.next.saturating_sub(rows.first) * u64::from(rows.per_sample);
    let verdict = match (account.account.balanced(), account.account.explained()) {
        (true, true) => "balanced and explained",
        (true, false) => "balanced, not all explained",
        (false, _) => "NOT BALANCED: please report this",
    };
    let mut output = std::io::stdout().lock();
    let (stream, reader, state) = (&account.stream, &account.reader, account.account.state);
    let title = format!("account of {stream} at {reader}: {state}, {verdict}");
    writeln!(output, "\n{}", layout::wrapped(&title, layout::width()).join("\n"))?;
    writeln!(output, "  {sent:>14} elements sent since joining")?;
    writeln!(output, "  {:>14} delivered", rows.delivered)?;
    for (stage, count) in rows.lost.nonzero() {
        writeln!(output, "  {count:>14} lost in {stage}")?;
    }
    for (count, what) in
        [(rows.unexplained, "unexplained"), (rows.unsettled, "unsettled"), (rows.in_flight, "in flight")]
    {
        if count > 0 {
            writeln!(output, "  {count:>14} {what}")?;
        }
    }
    account.port.as_ref().map_or(Ok(()), |port| print_socket(&mut output, port))
}

/// Prints what the account cannot hold: evidence without a loss, and datagrams that were not used.
fn print_socket(output: &mut impl Write, port: &PortStatus) -> std::io::Result<()> {
    let unmatched = port.unmatched.nonzero().map(|(stage, count)| {
        format!("{count} datagrams counted in {stage} beyond the missing ones (unmatched)")
    });
    let unused = port.stats.unused().into_iter().filter(|(_, count)| *count > 0);
    let unused =
        unused.map(|(reason, count)| format!("{count} datagrams not used: {}", reason.replace('_', " ")));
    let Waits { reads, median, percentile_99, longest } = port.waits;
    let waits = (reads > 0).then(|| {
        format!("datagrams waited {median:.1?} to be read (median), {percentile_99:.1?} (99 %), {longest:.1?} at most")
    });
    for line in unmatched.chain(unused).chain(waits) {
        let head = format!("  socket {}: ", port.address);
        writeln!(output, "{}", layout::hanging(&head, &line, layout::width()))?;
    }
    Ok(())
}

/// Returns a stream's line: as many values as fit between its rate and its losses.
fn line(head: &str, newest: &Values, lost: &str, width: usize) -> String {
    const BETWEEN: usize = 2;
    let room = width.saturating_sub(layout::columns(head) + layout::columns(lost) + 2 * BETWEEN);
    let line = [head, &newest.text(room), lost].join("  ");
    // Losses in many stages need more than a line.
    layout::redrawn(&line, width)
}

impl Values {
    /// Returns as many values as fit into `room` columns, and an ellipsis for the others.
    fn text(&self, room: usize) -> String {
        let of_first = |count: usize| {
            let has_more = self.has_more || count < self.shown.len();
            let ellipsis = has_more.then_some("…");
            self.shown[..count].iter().map(String::as_str).chain(ellipsis).collect::<Vec<_>>().join("  ")
        };
        let fitting = (1..=self.shown.len()).rev().map(of_first).find(|text| layout::columns(text) <= room);
        fitting.unwrap_or_else(|| of_first(0))
    }
}

fn values(block: &Block, sample: usize) -> Values {
    let schema = &block.schema;
    let mut values = Vec::new();
    for (index, channel) in schema.channels.iter().enumerate() {
        for element in schema.channel_elements(index).take(SHOWN_VALUES - values.len().min(SHOWN_VALUES)) {
            let value = block.value(sample, element, index);
            values.push(format!("{value:.6} {}", channel.unit).trim_end().to_owned());
        }
    }
    let has_more = schema.elements_per_sample() as usize > values.len();
    Values { shown: values, has_more }
}

fn lost_text(account: &StreamAccount) -> String {
    let rows = &account.account.elements;
    let mut text = stages_text(&rows.lost, rows.unexplained, rows.unsettled);
    if text.is_empty() {
        text.push_str("nothing lost");
    }
    text
}

fn gap_text(gap: &StreamGap, news: &str) -> String {
    let it = &gap.gap;
    if it.kind == GapKind::PublisherAbsent {
        let (from, to) = (utc(gap.t0), utc(gap.t1));
        return format!("{}: no publisher from {from} to {to}", gap.stream);
    }
    let evidence: Vec<String> = it.evidence.iter().map(ToString::to_string).collect();
    let (first, samples) = (gap.first_index(), gap.samples());
    let stages = stages_text(&it.lost, it.unexplained, it.unsettled);
    let because = if evidence.is_empty() { String::new() } else { format!(" ({})", evidence.join("; ")) };
    format!("{}: {news} samples {first} to {}: {stages}{because}", gap.stream, first + samples - 1)
}

fn stages_text(lost: &StageCounts, unexplained: u64, unsettled: u64) -> String {
    let stages = lost.nonzero().map(|(stage, count)| (stage.name(), count));
    let rest = [("unexplained", unexplained), ("unsettled", unsettled)];
    let parts = stages.chain(rest.into_iter().filter(|(_, count)| *count > 0));
    parts.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(shown: &[&str], has_more: bool) -> Values {
        Values { shown: shown.iter().map(ToString::to_string).collect(), has_more }
    }

    #[test]
    fn a_streams_line_has_the_values_that_fit() {
        let head = "lab/probe: 1000 samples/s";
        let four = values(&["-0.516000 V", "12.250000 V", "0.000000 A", "1.000000 A"], true);
        let wide = line(head, &four, "nothing lost", 100);
        assert!(wide.ends_with("  0.000000 A  1.000000 A  …  nothing lost"), "{wide}");
        let usual = line(head, &four, "nothing lost", 80);
        assert_eq!(usual, "lab/probe: 1000 samples/s  -0.516000 V  12.250000 V  0.000000 A  …  nothing lost");
        assert_eq!(usual.chars().count(), 80);
        let narrower = line(head, &four, "nothing lost", 79);
        assert_eq!(narrower, "lab/probe: 1000 samples/s  -0.516000 V  12.250000 V  …  nothing lost");
        assert_eq!(line(head, &four, "nothing lost", 50), "lab/probe: 1000 samples/s  …  nothing lost");
        assert_eq!(
            line(head, &values(&["7"], false), "nothing lost", 42),
            format!("{head}  7  nothing lost")
        );
    }

    #[test]
    fn losses_in_many_stages_go_on_below() {
        let lost =
            "receiver_socket_buffer 123456, receiver_ring 234567, unexplained 345678, unsettled 456789";
        let lines = line("lab/probe: 1000 samples/s", &values(&["1.5 V"], false), lost, 80);
        assert!(lines.lines().count() > 1 && lines.lines().all(|line| line.chars().count() <= 80), "{lines}");
    }
}
