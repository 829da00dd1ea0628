//! Shares, rates and means of a report; where nothing was counted, shares and rates are 0.

/// Returns a share in percent.
#[expect(clippy::cast_precision_loss, reason = "counts of a measurement are far below 2^53")]
pub(crate) fn percent(part: impl Into<i128>, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part.into() as f64 * 100.0 / whole as f64 }
}

/// Returns a rate.
#[expect(clippy::cast_precision_loss, reason = "counts of a measurement are far below 2^53")]
pub(crate) fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// Returns a time in seconds.
#[expect(clippy::cast_precision_loss, reason = "times of a measurement are far below 2^53 ns")]
pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// Returns the mean; `None` of no values.
#[expect(clippy::cast_precision_loss, reason = "there are few values")]
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
