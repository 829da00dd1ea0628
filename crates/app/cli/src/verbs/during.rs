//! Range of time in an archive: that of a run of the experiment, between two moments, or both.

use std::ops::Range;

use anyhow::bail;
use archive::{Archive, Moment, moment_text as utc};
use clap::Args;
use tallycast::WallTime;
use tallycast::runs::{End, RunChoice};

/// All of time.
pub(in crate::verbs) const ALWAYS: Range<WallTime> =
    WallTime::from_nanos(i64::MIN)..WallTime::from_nanos(i64::MAX);

/// Range of time, as a command takes it.
#[derive(Args, Debug)]
pub(in crate::verbs) struct Selection {
    /// The time of a run of the experiment, from tallycast run start to stop; +10s is then after its start, -30s before
    /// its end; ID@TIME if several have this id
    #[arg(long, value_name = "ID")]
    pub(in crate::verbs) during: Option<RunChoice>,
    /// Start of the range: 2026-11-21T20:15:00Z, nanoseconds since 1970, +10s after the start, -30s before the end
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<Moment>,
    /// End of the range, exclusive
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<Moment>,
}

impl Selection {
    /// Returns whether a range is selected.
    pub(in crate::verbs) const fn is_given(&self) -> bool {
        self.during.is_some() || self.from.is_some() || self.to.is_some()
    }

    /// Returns the selected range of what was recorded within `span`; where nothing limits it, it ends as `open` does.
    ///
    /// # Errors
    /// The run is not known, or the range is empty.
    pub(in crate::verbs) fn range(
        &self,
        archive: &Archive,
        span: &Range<WallTime>,
        open: Range<WallTime>,
    ) -> anyhow::Result<Range<WallTime>> {
        let Some(choice) = &self.during else { return self.between(span, open) };
        let run = during(archive, choice, span.end)?;
        self.between(&run, run.clone())
    }

    fn between(&self, reference: &Range<WallTime>, open: Range<WallTime>) -> anyhow::Result<Range<WallTime>> {
        let moment = |moment: Option<Moment>, default| {
            moment.map_or(default, |it| it.in_recording(reference.start, reference.end))
        };
        let range = moment(self.from, open.start)..moment(self.to, open.end);
        if self.is_given() && range.is_empty() {
            bail!(
                "the range is empty: it begins at {} and ends at {}\nthe {} lasts from {} to {}",
                utc(range.start),
                utc(range.end),
                if self.during.is_some() { "run" } else { "recording" },
                utc(reference.start),
                utc(reference.end)
            );
        }
        Ok(range)
    }
}

/// Returns the time of a run that the archive knows; of an open one up to `known_end`.
fn during(archive: &Archive, choice: &RunChoice, known_end: WallTime) -> anyhow::Result<Range<WallTime>> {
    let found = archive.experiment_runs()?;
    super::run::warn(found.malformed, found.missing);
    let run = archive::select_run(&found.runs, choice)?;
    if run.end == End::Open {
        eprintln!("run {choice} is open: no stop was recorded; it is read to the end of the recording");
    }
    Ok(archive::run_range(&run, known_end))
}

/// Returns whether two ranges have a moment in common, or a recording of nothing is in the range.
pub(in crate::verbs) fn is_in(span: &Range<WallTime>, range: &Range<WallTime>) -> bool {
    span.start < range.end && (range.start < span.end || range.contains(&span.start))
}
