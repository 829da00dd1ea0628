//! Measures one transport after the other with the same server, and collects the results.

use super::options::Options;
use super::report::{Builder, Report};
use crate::control::{Patience, ServerAt};
use crate::report::{PartOf, Watch};
use crate::throughput::{self, Protocol, ThroughputError};

/// Measures with the server at an address and returns the report.
///
/// # Errors
/// [`ThroughputError`] if nothing could be measured. Later failures are in the report.
pub fn measure(
    options: &Options,
    server: ServerAt<'_>,
    watch: &mut dyn Watch,
) -> Result<Report, ThroughputError> {
    options.check()?;
    let mut builder: Option<Builder> = None;
    for transport in &options.transports {
        if builder.is_some() && watch.cancellation().is_cancelled() {
            break;
        }
        match (runs_of(*transport, options, server, watch), &mut builder) {
            (Ok(report), Some(builder)) => builder.add(*transport, report),
            (Ok(report), none) => none.insert(Builder::new(options, &report.start)).add(*transport, report),
            (Err(error), Some(builder)) => builder.skip(*transport, &error.to_string()),
            (Err(error), None) => return Err(error),
        }
    }
    let builder = builder.expect("there is a transport, and the first was measured or is an error");
    Ok(builder.finish(watch.cancellation().is_cancelled()))
}

/// Measures one transport.
fn runs_of(
    transport: Protocol,
    options: &Options,
    server: ServerAt<'_>,
    watch: &mut dyn Watch,
) -> Result<throughput::Report, ThroughputError> {
    let mut watch = PartOf { watch, part: transport.name().to_owned() };
    throughput::measure(&options.of(transport), None, server, Patience::default(), &mut watch)
}
