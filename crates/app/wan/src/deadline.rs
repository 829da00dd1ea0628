//! Checks of an end-to-end deadline against the path: the least that it allows, and the time that repairs need.

use std::time::Duration;

/// Time for handing over at both ends, which no repair may use.
pub const HAND_OVER: Duration = Duration::from_millis(2);
/// Longest deadline: what is older is no live stream.
pub const LONGEST_DEADLINE: Duration = Duration::from_secs(60);

/// Reason why a deadline is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeadlineError {
    /// No sample has an age of zero.
    #[error(
        "a deadline of 0 leaves no time for the path\ngive the age up to which samples are of use, such as 1s"
    )]
    Zero,
    /// It is beyond the limit.
    #[error("a deadline of {} is too long: 60s at most\nuse an archive for what may come later", text(*.0))]
    TooLong(Duration),
    /// The path alone takes longer.
    #[error(
        "a deadline of {} cannot be met: it must be at least round trip / 2 + 2 ms = {} / 2 + 2 ms = {}\n\
         for k rounds of repair it must be at least round trip × (k + 1/2) + 2 ms, as {} for one",
        text(*.deadline), text(*.round_trip), text(least(*.round_trip)), text(for_rounds(*.round_trip, 1))
    )]
    TooShort {
        /// Deadline that was asked for.
        deadline: Duration,
        /// Smoothed round trip of the path.
        round_trip: Duration,
    },
}

/// Checks a deadline while the path is not known.
///
/// # Errors
/// [`DeadlineError::Zero`] or [`DeadlineError::TooLong`].
pub const fn check_deadline(deadline: Duration) -> Result<Duration, DeadlineError> {
    if deadline.is_zero() {
        return Err(DeadlineError::Zero);
    }
    if deadline.as_nanos() > LONGEST_DEADLINE.as_nanos() {
        return Err(DeadlineError::TooLong(deadline));
    }
    Ok(deadline)
}

/// Checks a deadline against the round trip of its path.
///
/// # Errors
/// [`DeadlineError::TooShort`] if even samples that are not lost come too late.
pub fn check_way(deadline: Duration, round_trip: Duration) -> Result<(), DeadlineError> {
    if deadline < least(round_trip) { Err(DeadlineError::TooShort { deadline, round_trip }) } else { Ok(()) }
}

/// Returns the least deadline that a path allows: half the round trip, and the hand-over.
fn least(round_trip: Duration) -> Duration {
    round_trip / 2 + HAND_OVER
}

/// Returns the least deadline with time for some rounds of repair.
fn for_rounds(round_trip: Duration, rounds: u32) -> Duration {
    least(round_trip) + round_trip * rounds
}

fn text(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    if millis < 10.0 { format!("{millis:.1} ms") } else { format!("{millis:.0} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_deadline_is_refused_below_one_way_and_the_hand_over_with_the_formula() {
        assert_eq!(check_way(52 * MS, 100 * MS), Ok(()));
        let error = check_way(52 * MS - Duration::from_micros(1), 100 * MS).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("round trip / 2 + 2 ms = 100 ms / 2 + 2 ms = 52 ms"), "{said}");
        assert!(said.contains("152 ms for one"), "{said}");
    }

    #[test]
    fn a_deadline_is_above_zero_and_at_most_a_minute() {
        assert_eq!(check_deadline(Duration::ZERO), Err(DeadlineError::Zero));
        assert_eq!(check_deadline(Duration::from_nanos(1)), Ok(Duration::from_nanos(1)));
        assert_eq!(check_deadline(60_000 * MS), Ok(60_000 * MS));
        let beyond = 60_000 * MS + Duration::from_nanos(1);
        assert_eq!(check_deadline(beyond), Err(DeadlineError::TooLong(beyond)));
    }
}
