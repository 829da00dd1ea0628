//! Runs one point after the other, each as a measurement of throughput of its own.

use std::net::{IpAddr, SocketAddr};

use super::options::{Options, OptionsError, Place};
use super::report::{Builder, Report};
use crate::control::Patience;
use crate::host;
use crate::report::{State, Watch};
use crate::throughput::{self, Interval, RunReport, Start, ThroughputError};

/// Says why nothing could be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// An option cannot be.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The first point could not be measured.
    #[error(transparent)]
    Throughput(#[from] ThroughputError),
}

/// Measures every point with the server at an address, and reports.
///
/// # Errors
/// [`SweepError`] if nothing could be measured. What fails after the first point is in the report.
pub fn measure(
    options: &Options,
    server: SocketAddr,
    from: Option<IpAddr>,
    patience: Patience,
    watch: &mut dyn Watch,
) -> Result<Report, SweepError> {
    options.check()?;
    let places = options.places();
    let mut builder = Builder::new(options);
    for (index, place) in places.iter().enumerate() {
        if watch.is_wanted_to_end() {
            break;
        }
        let words = format!("point {} of {}: {}", index + 1, places.len(), place.in_words());
        let mut passing_on = PassingOn { watch, words };
        passing_on.tell("");
        match measure_point(options, place, (server, from), patience, &mut passing_on) {
            Ok(report) => {
                let state = report.end.state;
                builder.add(place, report);
                if state == State::Interrupted {
                    break;
                }
            }
            Err(error) if builder.is_empty() => return Err(error.into()),
            Err(error) => {
                builder.break_off(&format!("{}: {error}", place.in_words()));
                break;
            }
        }
    }
    Ok(builder.finish(watch.is_wanted_to_end()))
}

fn measure_point(
    options: &Options,
    place: &Place,
    (server, from): (SocketAddr, Option<IpAddr>),
    patience: Patience,
    watch: &mut PassingOn<'_>,
) -> Result<throughput::Report, ThroughputError> {
    // One that was not asked for is the system's, whatever is asked for at the other end.
    let send_buffer_bytes = place.send_buffer.or_else(host::send_buffer_default);
    let flow = throughput::Options { from, send_buffer_bytes, ..options.flow(place) };
    throughput::measure(&flow, options.search(place)?.as_ref(), server, patience, watch)
}

/// Tells whoever watches the sweep how its present point goes on.
struct PassingOn<'a> {
    watch: &'a mut dyn Watch,
    words: String,
}

impl PassingOn<'_> {
    fn tell(&mut self, more: &str) {
        let words = &self.words;
        self.watch.progress(&|| format!("{words}{more}"));
    }
}

impl throughput::Watch for PassingOn<'_> {
    fn began(&mut self, _: &Start) {}

    fn interval(&mut self, _: &Interval) {}

    fn run_ended(&mut self, run: &RunReport) {
        self.tell(&format!(", run {} is there", run.run + 1));
    }

    fn is_wanted_to_end(&self) -> bool {
        self.watch.is_wanted_to_end()
    }
}
