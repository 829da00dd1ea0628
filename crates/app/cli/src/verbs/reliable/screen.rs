//! Output during a transfer: a line that is overwritten for users, objects for programs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use transfer::{Notice, Outcome, Tally};
use units::text::{decimal_size, rate};

use super::meter::{Meter, absurdity_json, absurdity_text, transport_json};
use crate::messages::{self, print_line};
use crate::status_line::StatusLine;

/// Interval between progress reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// Output of all threads.
#[derive(Debug)]
pub(crate) struct Screen {
    is_json: bool,
    line: Mutex<(StatusLine, Instant)>,
}

impl Screen {
    /// Makes the output: objects on standard output, or text on standard error.
    pub(crate) fn new(is_json: bool) -> Self {
        Self { is_json, line: Mutex::new((StatusLine::new(is_json), Instant::now() + INTERVAL)) }
    }

    /// Prints in one of two forms. A closed output must not stop the transfer.
    pub(crate) fn say(&self, text: impl FnOnce() -> String, json: impl FnOnce() -> Value) {
        let mut line = self.line();
        if self.is_json { drop(print_line(&json())) } else { line.0.say(&text()) }
    }

    /// Reports once that a transfer's congestion control requests invalid values.
    pub(crate) fn absurdity(&self, peer: &str, meter: &Meter) {
        if let Some(count) = meter.take_absurdity() {
            self.say(|| absurdity_text(count), || absurdity_json(peer, count));
        }
    }

    /// Reports the progress of transfers, if it is due.
    pub(crate) fn progress(&self, transfers: &[(String, Arc<Meter>)]) {
        transfers.iter().for_each(|(peer, meter)| self.absurdity(peer, meter));
        let mut line = self.line();
        if transfers.is_empty() || Instant::now() < line.1 {
            return;
        }
        line.1 = Instant::now() + INTERVAL;
        let readings = transfers.iter().map(|(peer, meter)| (peer, meter.read()));
        if self.is_json {
            return readings.for_each(|(peer, reading)| drop(print_line(&reading.to_json(peer))));
        }
        let Some(sum) = readings.map(|(_, reading)| reading).reduce(super::meter::Reading::with) else {
            return;
        };
        let count = transfers.len();
        let head = if count == 1 { String::new() } else { format!("{count} connections: ") };
        line.0.show(|| format!("{head}{}", sum.text()));
    }

    /// Reports the notices of a transfer that matter to users.
    pub(crate) fn notice(&self, peer: &str, notice: &Notice<'_>) {
        match notice {
            Notice::Ended { path, bytes, outcome } if self.is_json => {
                let (word, reason) = match outcome {
                    Outcome::Delivered => ("delivered", None),
                    Outcome::AlreadyThere => ("already_there", None),
                    Outcome::Refused(reason) => ("refused", Some(reason)),
                };
                let file = json!({"event": "file", "peer": peer, "path": path, "bytes": bytes, "outcome": word, "reason": reason});
                self.say(String::new, || file);
            }
            Notice::Ended { path, outcome: Outcome::Refused(reason), .. } => {
                self.say(|| format!("warning: {path} is not transferred: {reason}"), || Value::Null);
            }
            Notice::Listed { entries, bytes } => {
                let text = || format!("{peer}: {entries} files and directories, {}", decimal_size(*bytes));
                self.say(
                    text,
                    || json!({"event": "listed", "peer": peer, "entries": entries, "bytes": bytes}),
                );
            }
            _ => {}
        }
    }

    /// Prints the account of a transfer.
    pub(crate) fn account(&self, peer: &str, tally: &Tally, meter: &Meter, error: Option<&str>) {
        let (moved_bytes, took) = meter.sum();
        if error.is_some() {
            messages::note_told();
        }
        self.absurdity(peer, meter);
        let stats = meter.stats();
        let bits_per_s = bits_per_s(moved_bytes, took);
        let text = || {
            let parts = [
                (tally.already_there, tally.already_there_bytes, "were there already"),
                (tally.refused, tally.refused_bytes, "refused"),
                (tally.missing(), tally.missing_bytes(), "missing"),
            ];
            let parts = parts.iter().filter(|(count, _, _)| *count > 0);
            let others =
                parts.map(|(count, bytes, what)| format!(", {count} {what} ({})", decimal_size(*bytes)));
            format!(
                "{peer}: {} of {} delivered and verified ({}){}; {} moved in {:.1} s, {}",
                tally.delivered,
                tally.offered,
                decimal_size(tally.delivered_bytes),
                others.collect::<String>(),
                decimal_size(moved_bytes),
                took.as_secs_f64(),
                rate(bits_per_s),
            )
        };
        let json = || {
            json!({
                "event": "account",
                "peer": peer,
                "offered": tally.offered, "offered_bytes": tally.offered_bytes,
                "delivered": tally.delivered, "delivered_bytes": tally.delivered_bytes,
                "already_there": tally.already_there, "already_there_bytes": tally.already_there_bytes,
                "refused": tally.refused, "refused_bytes": tally.refused_bytes,
                "missing": tally.missing(), "missing_bytes": tally.missing_bytes(),
                "moved_bytes": moved_bytes,
                "seconds": took.as_secs_f64(),
                "goodput_bits_per_second": bits_per_s.round(),
                "error": error,
                "transport": stats.as_ref().map(transport_json),
            })
        };
        self.say(text, json);
    }

    fn line(&self) -> MutexGuard<'_, (StatusLine, Instant)> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the average rate of a whole transfer.
#[expect(clippy::cast_precision_loss, reason = "a rate for display")]
pub(crate) fn bits_per_s(bytes: u64, took: Duration) -> f64 {
    bytes as f64 * 8.0 / took.as_secs_f64().max(1e-6)
}
