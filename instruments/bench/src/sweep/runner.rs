//! Measures one point after the other, each as its own measurement of throughput.

use std::net::IpAddr;

use super::options::{Options, Place};
use super::report::{Builder, Report};
use crate::control::{ControlError, Patience, ServerAt};
use crate::host;
use crate::options::OptionsError;
use crate::report::{PartOf, State, Watch};
use crate::throughput::{self, SideError, ThroughputError};

/// Reasons why nothing could be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// An option is invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The first point could not be measured.
    #[error(transparent)]
    Throughput(#[from] ThroughputError),
}

/// Measures every point with the server at an address and returns the report.
///
/// # Errors
/// [`SweepError`] if nothing could be measured. Failures after the first point are in the report; points whose
/// load the server refuses are left out, with a note.
pub fn measure(
    options: &Options,
    server: ServerAt<'_>,
    from: Option<IpAddr>,
    patience: Patience,
    watch: &mut dyn Watch,
) -> Result<Report, SweepError> {
    options.check()?;
    let places = options.places();
    let mut builder = Builder::new(options);
    let mut refused = None;
    for (index, place) in places.iter().enumerate() {
        if watch.cancellation().is_cancelled() {
            break;
        }
        let part = format!("point {} of {}: {}", index + 1, places.len(), place.in_words());
        match measure_point(options, place, (server, from), patience, &mut PartOf { watch, part }) {
            Ok(report) => {
                let state = report.end.state;
                builder.add(place, report);
                if state == State::Interrupted {
                    break;
                }
            }
            Err(error) if place.cpu_load_ppm > 0 && is_refusal(&error) => {
                builder.leave_out(place, &error.to_string());
                refused = Some(error);
            }
            Err(error) if builder.is_empty() => return Err(error.into()),
            Err(error) => {
                builder.break_off(&format!("{}: {error}", place.in_words()));
                break;
            }
        }
    }
    match refused {
        Some(error) if builder.is_empty() => Err(error.into()),
        _ => Ok(builder.finish(watch.cancellation().is_cancelled())),
    }
}

/// Returns whether the server refused to begin: it may accept another point.
const fn is_refusal(error: &ThroughputError) -> bool {
    matches!(
        error,
        ThroughputError::Control(ControlError::Failed { .. })
            | ThroughputError::Side(SideError::Control(ControlError::Failed { .. }))
    )
}

fn measure_point(
    options: &Options,
    place: &Place,
    (server, from): (ServerAt<'_>, Option<IpAddr>),
    patience: Patience,
    watch: &mut PartOf<'_>,
) -> Result<throughput::Report, ThroughputError> {
    // A buffer that was not requested is the system's, whatever is requested at the other end.
    let send_buffer_bytes = place.send_buffer.or_else(host::send_buffer_default);
    let flow = throughput::Options { from, send_buffer_bytes, ..options.flow(place) };
    throughput::measure(&flow, options.search(place)?.as_ref(), server, patience, watch)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::control::scene::{PATIENT, Scene, Unwatched};

    fn measure_with(
        tests: &'static [&'static dyn crate::control::Serve],
        cpu_loads_ppm: &[u32],
    ) -> Result<Report, SweepError> {
        let scene = Scene::new(tests, PATIENT);
        let options = Options {
            payloads: vec![64, 128],
            rates: vec![throughput::Rate::Units(100)],
            cpu_loads_ppm: cpu_loads_ppm.to_vec(),
            duration: Duration::from_millis(20),
            repeats: 1,
            ..Options::default()
        };
        measure(&options, scene.address.into(), None, PATIENT, &mut Unwatched::default())
    }

    #[test]
    fn points_whose_load_the_server_refuses_are_missing_with_the_reason_and_the_rest_is_there() {
        let report = measure_with(&[throughput::TEST], &[0, 500_000]).unwrap();
        let measured: Vec<_> =
            report.points.iter().map(|it| (it.payload_bytes, it.cpu_load_percent)).collect();
        assert_eq!(measured, [(64, 0.0), (128, 0.0)]);
        assert_eq!(report.end.state, State::BrokenOff);
        let notes = report.end.notes.join("|");
        assert!(notes.contains("2 points of the grid could not be measured"), "{notes}");
        assert!(notes.contains("--allow-load"), "{notes}");
        assert!(notes.contains("64 B 100 a second") && notes.contains("128 B 100 a second"), "{notes}");
        let all = measure_with(&[throughput::TEST_WITH_LOAD], &[0, 500_000]).unwrap();
        assert_eq!((all.points.len(), all.end.state), (4, State::Complete), "{:?}", all.end.notes);
    }

    #[test]
    fn a_grid_of_which_every_point_is_refused_is_an_error_with_the_way_out() {
        let error = measure_with(&[throughput::TEST], &[500_000]).unwrap_err();
        assert!(error.to_string().contains("--allow-load"), "{error}");
    }
}
