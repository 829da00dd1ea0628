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
    newest: String,
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
            writeln!(output, "{name}: {rate:.0} samples/s  {}  {lost}", seen.newest)?;
        }
        Ok(())
    }

    fn on_block(&mut self, block: &Block, with_values: bool) -> std::io::Result<()> {
        let seen = self.streams.entry(Arc::clone(&block.stream)).or_default();
        seen.samples += block.samples;
        let last = usize::try_from(block.samples).expect("in memory") - 1;
        seen.newest = sample_text(block, last);
        if with_values {
            let mut output = std::io::stdout().lock();
            for sample in 0..=last {
                writeln!(
                    output,
                    "{} {} {}",
                    block.stream,
                    block.first_index + sample as u64,
                    sample_text(block, sample)
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

fn sample_text(block: &Block, sample: usize) -> String {
    let schema = &block.schema;
    let mut values = Vec::new();
    for (index, channel) in schema.channels.iter().enumerate() {
        for element in schema.channel_elements(index).take(SHOWN_VALUES - values.len().min(SHOWN_VALUES)) {
            let value = block.value(sample, element, index);
            values.push(format!("{value:.6} {}", channel.unit).trim_end().to_owned());
        }
    }
    let more = schema.elements_per_sample() as usize > values.len();
    format!("{}{}", values.join("  "), if more { "  …" } else { "" })
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
