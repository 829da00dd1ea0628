//! Regular grid of a table's rows: sample rate and missing samples.
//!
//! Files often have a time for every row and no rate. The rate is derived from the first rows and rounded to the
//! number a person would have written; then every step between rows is either one sample or a hole. Times that do not
//! advance by about a sample have no rate: then every row keeps its own time. If rows also have their sample index, the
//! holes follow from it exactly, and the times give only the rate.

use sample::{OWN_TIMES, Schema, TIMES_LABEL};
use units::{SampleRate, WallTime};

use crate::piece::at_regular_times;

pub(crate) const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// Number of rows from which the rate is derived: enough that times in milliseconds give 360 Hz and not 333.
pub(crate) const ROWS_FOR_RATE: usize = 4_096;

/// Shortest valid step, as a share of a sample.
const SHORTEST_STEP_SAMPLES: f64 = 0.5;

/// Number of rows up to which holes may outnumber usual steps: they are no evidence against a requested rate.
const ROWS_FOR_DOUBT: usize = 10;

/// Relative deviation of a device's clock from its nominal rate that is no contradiction: ten times that of a quartz
/// (100 ppm). The uncertainty of the times comes on top.
const CLOCK_DEVIATION: f64 = 1e-3;

/// Relative tolerance of a mean rate, which is only a hint.
const MEAN_TOLERANCE: f64 = 5e-3;

/// Latest time that a count of nanoseconds in 64 bits holds, in the year 2262. Units: seconds since 1970.
const LATEST_SECONDS: i128 = i64::MAX as i128 / NANOS_PER_SECOND;
/// Years 2000 and 2100. Units: seconds since 1970.
const THIS_CENTURY: core::ops::Range<i128> = 946_684_800..4_102_444_800;

/// Reason why times are no regular grid.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// There are too few rows for a step.
    #[error("the rate cannot be determined from one row\nset it with --rate")]
    OneRow,
    /// The time does not advance.
    #[error(
        "its time is {step_ns} ns after the row before, less than half a sample at {rate} samples per second\n\
         the column is not a regular clock: keep every row's time with --own-times, or ignore it with --time none \
         and set --rate"
    )]
    NoStep {
        /// Step from the row before to this one.
        step_ns: i128,
        /// Rate of the grid.
        rate: SampleRate,
    },
    /// The rate cannot be determined from the steps.
    #[error(
        "the rate cannot be determined: the times of the first rows do not advance\n\
         set it with --rate, and keep every row's time with --own-times or ignore it with --time none"
    )]
    NoRate,
    /// A time that a sample would keep is before that of the sample before.
    #[error(
        "its time is {back_ns} ns before that of the row before\n\
         sort the rows by time, or ignore the times with --time none and set --rate"
    )]
    Back {
        /// Distance to the row before. Units: nanoseconds.
        back_ns: u64,
    },
    /// A time has no count of nanoseconds.
    #[error("its time lies outside the years 1677 to 2262\nname its unit with --time-unit")]
    OutsideClock,
    /// There are no times to keep.
    #[error("the rows have no times to keep\nname the column with --time, or omit --own-times")]
    NoTimes,
    /// The requested rate is not that of the times.
    #[error(
        "its times advance at {found} samples per second, not at {asked}\n\
         omit --rate; to play the rows at {asked} regardless of their times: --time none --columns …"
    )]
    OtherRate {
        /// Requested rate.
        asked: SampleRate,
        /// Rate of the times.
        found: SampleRate,
    },
    /// The text is no time.
    #[error(
        "`{0}` is not a time\nname its form with --time-unit; to publish other columns without their times: \
         --time none --rate RATE --columns …"
    )]
    NotTime(String),
    /// The text is a date with two readings.
    #[error("`{0}` is two dates\nsay which number is the day: --time-unit dmy or --time-unit mdy")]
    TwoDates(String),
    /// The local time exists twice in its time zone, or not at all.
    #[error(
        "`{text}` exists twice or never in the time zone {zone}, because clocks were changed\n\
         name the zone of the recording with --time-zone, such as UTC or Etc/GMT-1"
    )]
    NotInZone {
        /// Text of the time.
        text: String,
        /// Name of the time zone.
        zone: String,
    },
    /// The number is too large for seconds, and no other unit is likely.
    #[error("a time of {seconds} s lies beyond the year 2262\nname its unit with --time-unit: ms, us or ns")]
    Beyond {
        /// The number, taken for seconds.
        seconds: i128,
    },
    /// The sample index does not rise.
    #[error(
        "its sample index is {index}, the row before has {previous}\n\
         to play the rows one after the other: --time none --rate RATE --columns …"
    )]
    IndexStep {
        /// Index of this row.
        index: i128,
        /// Index of the row before.
        previous: i128,
    },
    /// The text is no sample index.
    #[error(
        "`{0}` is not a sample index\n\
         to play the rows one after the other: --time none --rate RATE --columns …"
    )]
    NotIndex(String),
}

/// Grid with the position of the current row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    by: By,
    previous: Option<i128>,
}

/// Quantity that determines a row's place on the grid.
#[derive(Clone, Copy, Debug)]
enum By {
    Time(SampleRate),
    Index,
}

impl Grid {
    /// Starts a grid on which rows are placed by their times.
    pub(crate) const fn by_time(rate: SampleRate) -> Self {
        Self { by: By::Time(rate), previous: None }
    }

    /// Starts a grid on which rows are placed by their sample indices.
    pub(crate) const fn by_index() -> Self {
        Self { by: By::Index, previous: None }
    }

    /// Takes the next row's time, or its index; returns the number of samples missing before it.
    ///
    /// Steps of time are measured from row to row, not from the beginning: a device whose clock deviates slightly
    /// from its nominal rate must not appear to lose a sample every hour.
    ///
    /// Units: nanoseconds, or samples.
    pub(crate) fn hole_before(&mut self, place: i128) -> Result<u64, GridError> {
        let Some(previous) = self.previous.replace(place) else { return Ok(0) };
        let step = place - previous;
        let samples = match self.by {
            By::Time(rate) => samples_between(rate, step),
            By::Index => step,
        };
        if samples < 1 {
            return Err(match self.by {
                By::Time(rate) => GridError::NoStep { step_ns: step, rate },
                By::Index => GridError::IndexStep { index: place, previous },
            });
        }
        Ok(u64::try_from(samples - 1).unwrap_or(u64::MAX))
    }
}

/// Sentence on rows that keep their times.
pub(crate) const OWN_TIMES_SAID: &str = "every row keeps its own time, the rate is only a hint";

/// Times that samples keep: each is that of a row, and none before that of the row before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnTimes {
    newest: Option<WallTime>,
}

impl OwnTimes {
    /// Takes the next row's time. Units: nanoseconds.
    pub(crate) fn next(&mut self, time_ns: i128) -> Result<WallTime, GridError> {
        let time = i64::try_from(time_ns).map(WallTime::from_nanos).map_err(|_| GridError::OutsideClock)?;
        let back_ns = self.newest.map_or(0, |newest| i128::from(newest.as_nanos()) - time_ns);
        if back_ns > 0 {
            return Err(GridError::Back { back_ns: u64::try_from(back_ns).unwrap_or(u64::MAX) });
        }
        self.newest = Some(time);
        Ok(time)
    }
}

/// Rate of a table's rows, and whether they keep their own times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pace {
    pub(crate) rate: SampleRate,
    pub(crate) is_own: bool,
}

/// Rows that keep their own times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keep {
    /// All, as asked.
    Always,
    /// All if they are irregular.
    Irregular,
    /// None: their places are known from their indices.
    Never,
}

impl Keep {
    /// Returns the rows that keep their times, as asked or as their places are known.
    pub(crate) const fn of(own_times: bool, has_index: bool) -> Self {
        match (own_times, has_index) {
            (true, _) => Self::Always,
            (false, true) => Self::Never,
            (false, false) => Self::Irregular,
        }
    }
}

impl Pace {
    /// Returns the pace of samples with a schema.
    pub(crate) fn of(schema: &Schema) -> Self {
        Self { rate: schema.rate, is_own: schema.has_own_times() }
    }

    /// Returns the schema with the label of own times, if samples keep theirs, and without it otherwise.
    pub(crate) fn labelled(self, schema: Schema) -> Schema {
        let mut schema = at_regular_times(schema);
        if self.is_own {
            schema.labels.insert(TIMES_LABEL.to_owned(), OWN_TIMES.to_owned());
        }
        schema
    }

    /// Returns the grid of rows with indices or times; `None` if their places are one after the other.
    pub(crate) fn grid(self, has_index: bool, has_time: bool) -> Option<Grid> {
        let by_time = || (has_time && !self.is_own).then(|| Grid::by_time(self.rate));
        has_index.then(Grid::by_index).or_else(by_time)
    }
}

/// Returns the pace of rows by the times of the first of them, and by the requested rate.
///
/// Irregular times advance, but not all by about a sample: those rows keep them, and the rate is their mean.
pub(crate) fn pace_over(rows: &[Timed], asked: Option<SampleRate>, keep: Keep) -> Result<Pace, GridError> {
    match keep {
        Keep::Always if rows.is_empty() => Err(GridError::NoTimes),
        Keep::Always => {
            let rate = asked.or_else(|| mean_rate(rows)).ok_or(GridError::NoRate)?;
            Ok(Pace { rate, is_own: true })
        }
        Keep::Irregular if asked.is_none() && is_irregular(rows) => {
            let rate = mean_rate(rows).ok_or(GridError::NoRate)?;
            Ok(Pace { rate, is_own: true })
        }
        _ => Ok(Pace { rate: rate_over(rows, asked)?, is_own: false }),
    }
}

/// Returns whether no time goes back, most advance, and one advances by less than half the usual step.
fn is_irregular(rows: &[Timed]) -> bool {
    let mut steps: Vec<f64> = rows.windows(2).map(|pair| to_f64(pair[1].time_ns - pair[0].time_ns)).collect();
    steps.sort_unstable_by(f64::total_cmp);
    let median = steps.get(steps.len() / 2).copied().unwrap_or(0.0);
    median > 0.0 && steps[0] >= 0.0 && steps[0] < median * SHORTEST_STEP_SAMPLES
}

/// Returns the mean rate of rows, rounded to a few digits.
fn mean_rate(rows: &[Timed]) -> Option<SampleRate> {
    let (first, last) = (rows.first()?, rows.last()?);
    let span = to_f64(last.time_ns - first.time_ns);
    let samples = to_f64(i128::from(last.index) - i128::from(first.index));
    if span > 0.0 && samples > 0.0 { roundest(samples * 1e9 / span, MEAN_TOLERANCE) } else { None }
}

/// Time of a row and its sample index; without an index column, the number of the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub(crate) index: u64,
    pub(crate) time_ns: i128,
}

/// Returns the number of sample periods nearest to a time span.
pub(crate) fn samples_between(rate: SampleRate, nanos: i128) -> i128 {
    let per_nanos = i128::from(rate.denominator()) * NANOS_PER_SECOND;
    let samples = nanos.saturating_mul(i128::from(rate.numerator()));
    samples.saturating_add(per_nanos / 2).div_euclid(per_nanos)
}

/// Returns the requested rate, unless the times of the first rows contradict it; without a request, their rate.
///
/// If the rate of the times cannot be determined, the requested one is accepted; without a time column there are no
/// times.
pub(crate) fn rate_over(rows: &[Timed], asked: Option<SampleRate>) -> Result<SampleRate, GridError> {
    let Some(asked) = asked else { return rate_of(rows) };
    let found = if rows.len() < ROWS_FOR_DOUBT { None } else { measured(rows).ok() };
    let other = |found: &Measured| found.deviation(asked) > found.tolerance + CLOCK_DEVIATION;
    match found.filter(other).and_then(|found| found.rate()) {
        Some(found) => Err(GridError::OtherRate { asked, found }),
        None => Ok(asked),
    }
}

/// Returns the requested rate, unless it is not that which the file itself states.
pub(crate) fn rate_beside(stated: SampleRate, asked: Option<SampleRate>) -> Result<SampleRate, GridError> {
    let asked = asked.unwrap_or(stated);
    let differs = (stated.as_hz() / asked.as_hz() - 1.0).abs() > CLOCK_DEVIATION;
    if differs { Err(GridError::OtherRate { asked, found: stated }) } else { Ok(asked) }
}

/// Rate of the usual steps.
struct Measured {
    hertz: f64,
    /// Relative uncertainty.
    tolerance: f64,
}

impl Measured {
    /// Returns the roundest rate within the uncertainty.
    fn rate(&self) -> Option<SampleRate> {
        roundest(self.hertz, self.tolerance)
    }

    fn deviation(&self, asked: SampleRate) -> f64 {
        (self.hertz / asked.as_hz() - 1.0).abs()
    }
}

/// Derives the rate from the times of the first rows.
///
/// The usual period of a sample is the median of the steps between rows, so holes do not disturb it. The span of all
/// usual steps gives a rate whose uncertainty is the spread of their periods over that span; within it the roundest
/// number is taken, of the rate in hertz or of the period in seconds.
pub(crate) fn rate_of(rows: &[Timed]) -> Result<SampleRate, GridError> {
    measured(rows)?.rate().ok_or(GridError::NoRate)
}

fn measured(rows: &[Timed]) -> Result<Measured, GridError> {
    let mut steps: Vec<Step> = rows.windows(2).filter_map(|pair| Step::between(pair[0], pair[1])).collect();
    if steps.is_empty() {
        return Err(GridError::OneRow);
    }
    steps.sort_unstable_by(|a, b| a.period_ns().total_cmp(&b.period_ns()));
    let median = steps[steps.len() / 2].period_ns();
    if median <= 0.0 {
        return Err(GridError::NoRate);
    }
    steps.retain(|step| {
        (SHORTEST_STEP_SAMPLES..2.0 - SHORTEST_STEP_SAMPLES).contains(&(step.period_ns() / median))
    });
    let span = to_f64(steps.iter().map(|step| step.nanos).sum());
    let samples = to_f64(steps.iter().map(|step| step.samples).sum());
    let spread = steps[steps.len() - 1].period_ns() - steps[0].period_ns();
    // Equal steps have a rounding error of a nanosecond.
    Ok(Measured { hertz: samples * 1e9 / span, tolerance: (spread + 1.0) / span })
}

/// Returns the rate with one sample in a period that a text states, such as `2.000000e-06`; `None` if it is no period.
///
/// Units: seconds.
pub(crate) fn rate_of_period(text: &str) -> Option<SampleRate> {
    let is_one = |period: &f64| period.is_normal() && *period > 0.0;
    let period: f64 = text.trim().parse().ok().filter(is_one)?;
    // The uncertainty of the last digit that a float keeps.
    roundest(1.0 / period, 1e-12)
}

/// Step from one row to the next.
struct Step {
    nanos: i128,
    samples: i128,
}

impl Step {
    /// Returns the step; `None` if the index does not rise: that error is reported when the row is played.
    fn between(before: Timed, behind: Timed) -> Option<Self> {
        let samples = i128::from(behind.index) - i128::from(before.index);
        (samples > 0).then_some(Self { nanos: behind.time_ns - before.time_ns, samples })
    }

    fn period_ns(&self) -> f64 {
        to_f64(self.nanos) / to_f64(self.samples)
    }
}

/// Returns the rate with the fewest digits, in hertz or as a period, that is within a relative tolerance.
fn roundest(rate: f64, tolerance: f64) -> Option<SampleRate> {
    (1..=9).find_map(|digits| {
        let as_rate = rounded(rate, digits).filter(|(value, ..)| (value / rate - 1.0).abs() <= tolerance);
        let as_period =
            rounded(1.0 / rate, digits).filter(|(value, ..)| (value * rate - 1.0).abs() <= tolerance);
        let rate = as_rate.and_then(|(_, numerator, denominator)| fraction(numerator, denominator));
        rate.or_else(|| as_period.and_then(|(_, numerator, denominator)| fraction(denominator, numerator)))
    })
}

/// Rounds to significant digits; returns the value and its exact fraction.
fn rounded(value: f64, digits: i32) -> Option<(f64, u64, u64)> {
    #[expect(clippy::cast_possible_truncation, reason = "the exponent of a finite float is small")]
    let decimals = digits - 1 - value.log10().floor() as i32;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nine digits, positive")]
    let mantissa = (value * 10_f64.powi(decimals)).round() as u64;
    let power = 10_u64.checked_pow(decimals.unsigned_abs())?;
    let (numerator, denominator) =
        if decimals >= 0 { (mantissa, power) } else { (mantissa.checked_mul(power)?, 1) };
    #[expect(clippy::cast_precision_loss, reason = "compared with a tolerance far above the rounding")]
    Some((numerator as f64 / denominator as f64, numerator, denominator))
}

fn fraction(numerator: u64, denominator: u64) -> Option<SampleRate> {
    let (mut a, mut b) = (numerator, denominator);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let fit = |value: u64| u32::try_from(value / a.max(1)).ok();
    SampleRate::new(fit(numerator)?, fit(denominator)?).ok()
}

#[expect(clippy::cast_precision_loss, reason = "steps and spans, compared with tolerances")]
const fn to_f64(count: i128) -> f64 {
    count as f64
}

/// Parses a decimal number in a unit of time as nanoseconds, exactly, and cuts fractions of one.
///
/// Units: `nanos_per_unit` is a multiple of a power of ten. Absolute times in nanoseconds have more digits than a float.
pub(crate) fn parse_time(text: &str, nanos_per_unit: i128) -> Result<i128, GridError> {
    let not_time = || GridError::NotTime(text.to_owned());
    let bare = text.trim();
    let (negative, digits) = bare.strip_prefix('-').map_or((false, bare), |digits| (true, digits));
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if digits.len() < 2 && whole.is_empty() || whole.len() > 20 || !plain(whole) || !plain(decimals) {
        // Exponents are rare and never absolute times: a float is precise enough.
        let value: f64 = bare.parse().map_err(|_| not_time())?;
        let nanos = value * to_f64(nanos_per_unit);
        #[expect(clippy::cast_possible_truncation, reason = "checked to be far inside the range")]
        return if nanos.abs() < 1e30 { Ok(nanos.round() as i128) } else { Err(not_time()) };
    }
    let mut nanos =
        whole.bytes().fold(0_i128, |sum, digit| sum * 10 + i128::from(digit - b'0')) * nanos_per_unit;
    let mut place = nanos_per_unit;
    for digit in decimals.bytes().take(9) {
        place /= 10;
        nanos += i128::from(digit - b'0') * place;
    }
    Ok(if negative { -nanos } else { nanos })
}

/// Parses a sample index.
pub(crate) fn parse_index(text: &str) -> Result<u64, GridError> {
    text.trim().parse().map_err(|_| GridError::NotIndex(text.to_owned()))
}

/// Returns the unit of a heading such as `time [ms]` in nanoseconds; seconds if it has none.
pub(crate) fn nanos_per_unit(unit: &str) -> Option<i128> {
    match unit.to_lowercase().as_str() {
        "" | "s" | "sec" | "second" | "seconds" => Some(NANOS_PER_SECOND),
        "ms" | "msec" | "millisecond" | "milliseconds" => Some(1_000_000),
        "us" | "µs" | "μs" | "usec" | "microsecond" | "microseconds" => Some(1_000),
        "ns" | "nsec" | "nanosecond" | "nanoseconds" => Some(1),
        "min" | "minute" | "minutes" => Some(60 * NANOS_PER_SECOND),
        "h" | "hour" | "hours" => Some(3_600 * NANOS_PER_SECOND),
        _ => None,
    }
}

/// Returns the unit of times by the first of them, where neither name nor heading has one: seconds, unless those would
/// lie beyond the year 2262, and as milliseconds, microseconds or nanoseconds it is a time of this century.
///
/// Units: `as_seconds_ns` is the number, taken for seconds, in nanoseconds; so is the result.
pub(crate) fn nanos_by_size(as_seconds_ns: i128) -> Result<i128, GridError> {
    let seconds = as_seconds_ns / NANOS_PER_SECOND;
    if seconds.abs() <= LATEST_SECONDS {
        return Ok(NANOS_PER_SECOND);
    }
    let units = [1_000_000, 1_000, 1].into_iter();
    let mut likely = units.filter(|unit| THIS_CENTURY.contains(&(seconds * unit / NANOS_PER_SECOND)));
    likely.next().ok_or(GridError::Beyond { seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> SampleRate {
        text.parse().unwrap()
    }

    /// Returns times at a rate, written with a resolution in nanoseconds.
    fn times(rate_hz: f64, count: u32, resolution_ns: f64) -> Vec<i128> {
        #[expect(clippy::cast_possible_truncation, reason = "small")]
        (0..count)
            .map(|i| ((f64::from(i) * 1e9 / rate_hz / resolution_ns).round() * resolution_ns) as i128)
            .collect()
    }

    /// Returns the rate derived from the times of consecutive rows.
    fn rate_told(times_ns: &[i128]) -> Result<SampleRate, GridError> {
        let rows = (0..).zip(times_ns).map(|(index, time_ns)| Timed { index, time_ns: *time_ns });
        rate_of(&rows.collect::<Vec<_>>())
    }

    #[test]
    fn coarse_times_still_give_the_rate_a_person_would_write() {
        assert_eq!(rate_told(&times(360.0, 4_096, 1e6)), Ok(rate("360")));
        assert_eq!(rate_told(&times(48_000.0, 4_096, 1e3)), Ok(rate("48k")));
        assert_eq!(rate_told(&times(1_000.0 / 3.0, 4_096, 1.0)), Ok(rate("1000/3")));
        assert_eq!(rate_told(&times(0.1, 10, 1e9)), Ok(rate("0.1")));
        assert_eq!(rate_told(&times(99.0, 3, 1.0)), Ok(rate("99")));
        assert_eq!(rate_told(&times(999.0, 3, 1.0)), Ok(rate("999")));
        assert_eq!(rate_told(&times(1e6, 100, 1.0)), Ok(rate("1M")));
    }

    #[test]
    fn irregular_times_are_kept_and_regular_ones_are_not() {
        let over = |times_ms: &[i128], keep: Keep| {
            let row = |(index, ms): (u64, &i128)| Timed { index, time_ns: ms * 1_000_000 };
            pace_over(&(0..).zip(times_ms).map(row).collect::<Vec<_>>(), None, keep)
        };
        let own = |text: &str| Ok(Pace { rate: rate(text), is_own: true });
        assert_eq!(over(&[0, 100, 149, 400], Keep::Irregular), own("7.5"));
        assert_eq!(over(&[0, 100, 100, 400], Keep::Irregular), own("7.5"), "two at one time");
        // Half a step is a sample late; a hole is no irregularity, and an index says more than times.
        let regular = |text: &str| Ok(Pace { rate: rate(text), is_own: false });
        assert_eq!(over(&[0, 100, 200, 500, 600], Keep::Irregular), regular("10"));
        assert!(!over(&[0, 100, 150, 250], Keep::Irregular).unwrap().is_own);
        assert!(!over(&[0, 100, 149, 400], Keep::Never).unwrap().is_own);
        assert_eq!(over(&[0, 100, 200], Keep::Always), own("10"));
        assert_eq!(over(&[], Keep::Always), Err(GridError::NoTimes));
        assert_eq!(over(&[7, 7], Keep::Always), Err(GridError::NoRate));
        // Times that go back are those of no stream.
        assert!(!over(&[0, 100, 49, 400], Keep::Irregular).is_ok_and(|pace| pace.is_own));
    }

    #[test]
    fn own_times_stay_or_advance_within_the_range_of_clocks() {
        let mut own = OwnTimes::default();
        for time in [i128::from(i64::MIN), 0, 0, 5] {
            assert_eq!(own.next(time).map(|time| i128::from(time.as_nanos())), Ok(time));
        }
        assert_eq!(own.next(4), Err(GridError::Back { back_ns: 1 }));
        assert_eq!(own.next(i128::from(i64::MAX)).map(WallTime::as_nanos), Ok(i64::MAX));
        assert_eq!(own.next(i128::from(i64::MAX) + 1), Err(GridError::OutsideClock));
    }

    #[test]
    fn holes_do_not_disturb_the_rate() {
        let mut with_holes = times(200.0, 100, 1.0);
        with_holes.iter_mut().skip(40).for_each(|time| *time += 3_000_000_000);
        assert_eq!(rate_told(&with_holes), Ok(rate("200")));
    }

    #[test]
    fn times_that_stand_still_give_no_rate() {
        assert_eq!(rate_told(&[0]), Err(GridError::OneRow));
        assert_eq!(rate_told(&[5, 5, 5]), Err(GridError::NoRate));
        assert_eq!(rate_told(&[5, 4, 3]), Err(GridError::NoRate));
    }

    #[test]
    fn a_step_is_one_sample_or_a_hole() {
        let mut grid = Grid::by_time(rate("200"));
        assert_eq!(grid.hole_before(70), Ok(0));
        assert_eq!(grid.hole_before(5_000_000), Ok(0));
        assert_eq!(grid.hole_before(20_100_000), Ok(2));
        assert!(matches!(grid.hole_before(20_100_000), Err(GridError::NoStep { step_ns: 0, .. })));
        assert!(matches!(grid.hole_before(10_000_000), Err(GridError::NoStep { .. })));
    }

    #[test]
    fn an_index_tells_holes_exactly_and_must_rise() {
        let mut grid = Grid::by_index();
        assert_eq!(grid.hole_before(7), Ok(0));
        assert_eq!(grid.hole_before(8), Ok(0));
        assert_eq!(grid.hole_before(i128::from(u64::MAX)), Ok(u64::MAX - 9));
        let standing = grid.hole_before(i128::from(u64::MAX));
        assert!(matches!(standing, Err(GridError::IndexStep { .. })), "{standing:?}");
        assert_eq!(parse_index(" 12 "), Ok(12));
        for text in ["", "-1", "1.0", "18446744073709551616"] {
            assert_eq!(parse_index(text), Err(GridError::NotIndex(text.to_owned())));
        }
    }

    #[test]
    fn rows_that_are_mostly_holes_give_the_rate_by_their_index() {
        let row = |index: u64| Timed { index, time_ns: i128::from(index) * 1_000_000_000 / 360 };
        let sparse: Vec<Timed> = [0, 5, 11, 14, 40].into_iter().map(row).collect();
        assert_eq!(rate_of(&sparse), Ok(rate("360")));
        assert_eq!(rate_of(&[row(3), row(3)]), Err(GridError::OneRow));
    }

    #[test]
    fn a_clock_slightly_off_its_rate_makes_no_holes() {
        let mut grid = Grid::by_time(rate("1000"));
        let holes: u64 =
            times(999.9, 1_000_000, 1.0).into_iter().map(|time| grid.hole_before(time).unwrap()).sum();
        assert_eq!(holes, 0);
    }

    #[test]
    fn a_rate_is_refused_that_the_uncertainty_of_the_times_excludes() {
        let over = |times_ns: &[i128], asked: &str| {
            let rows = (0..).zip(times_ns).map(|(index, time_ns)| Timed { index, time_ns: *time_ns });
            rate_over(&rows.collect::<Vec<_>>(), Some(rate(asked)))
        };
        for hertz in [91.0, 95.0, 99.8, 100.2, 109.0] {
            let refused = over(&times(hertz, 300, 1.0), "100");
            assert!(matches!(refused, Err(GridError::OtherRate { .. })), "{hertz}");
        }
        for hertz in [99.95, 100.05] {
            assert_eq!(over(&times(hertz, 300, 1.0), "100"), Ok(rate("100")), "{hertz}");
        }
        // Ten rows in whole milliseconds do not tell 360 Hz from 350.
        assert_eq!(over(&times(360.0, 10, 1e6), "350"), Ok(rate("350")));
        assert!(over(&times(360.0, 4_096, 1e6), "350").is_err());
        assert_eq!(rate_of_period(" 2.000000e-06"), Some(rate("500k")));
        assert_eq!(rate_of_period("4e-10"), Some(rate("2500M")));
        for text in ["0", "-1", "inf", "NaN", "1e-310", "1e-300", "1e300", "1.7e308", "soon"] {
            assert_eq!(rate_of_period(text), None, "{text}");
        }
        assert!(rate_beside(rate("500k"), Some(rate("400k"))).is_err());
    }

    #[test]
    fn times_are_read_to_the_nanosecond() {
        assert_eq!(parse_time("1604102400.123456789", NANOS_PER_SECOND), Ok(1_604_102_400_123_456_789));
        assert_eq!(parse_time("-0.5", 1_000_000), Ok(-500_000));
        assert_eq!(parse_time("1604102400123456789", 1), Ok(1_604_102_400_123_456_789));
        assert_eq!(parse_time("1.5e-3", NANOS_PER_SECOND), Ok(1_500_000));
        assert_eq!(parse_time("1.5", 3_600 * NANOS_PER_SECOND), Ok(5_400 * NANOS_PER_SECOND));
        for text in ["", ".", "-", "12:00", "nan", "1e99", "2020-01-01T00:00:00Z"] {
            assert!(parse_time(text, NANOS_PER_SECOND).is_err(), "{text}");
        }
    }
}
