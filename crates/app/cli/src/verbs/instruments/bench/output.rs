//! Running the cyclic exchange under the eyes of a terminal.

use std::time::Duration;

use anyhow::bail;
use bench::cycle::{self, Options, Report, State};

use super::handout::Handout;
use super::server::this_program;
use crate::Outcome;

/// Measures and prints the report; `finish` completes the report before.
pub(super) fn measure(
    options: &Options,
    handout: &Handout,
    finish: impl FnOnce(&mut Report),
) -> anyhow::Result<Outcome> {
    options.check()?;
    let program = this_program("cycle-worker")?;
    let report = handout.of(|watch| {
        watch.say(&format!("this takes at most {}", in_words(options.longest())));
        let mut report = cycle::run(options, &program, watch)?;
        finish(&mut report);
        Ok(report)
    })?;
    outcome(&report)
}

/// Formats a duration in the unit that gives a readable number.
fn in_words(duration: Duration) -> String {
    match duration.as_secs() {
        0..120 => format!("{} s", duration.as_secs() + 1),
        120..7_200 => format!("{} min", duration.as_secs().div_ceil(60)),
        _ => format!("{} h", duration.as_secs().div_ceil(3_600)),
    }
}

fn outcome(report: &Report) -> anyhow::Result<Outcome> {
    let measured = report.points.iter().filter(|point| point.elements().is_some()).count();
    if measured == 0 && report.end.state == State::Complete {
        bail!("no point could be measured\nsee the report for the reasons");
    }
    let whole = report.points.iter().all(|point| point.elements().is_some() && point.broken_off().is_none());
    let is_whole = whole && report.end.state == State::Complete;
    Ok(if is_whole { Outcome::Fine } else { Outcome::Found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_rounded_up() {
        for (seconds, words) in [(0, "1 s"), (119, "120 s"), (120, "2 min"), (121, "3 min"), (7_200, "2 h")] {
            assert_eq!(in_words(Duration::from_secs(seconds)), words);
        }
    }
}
