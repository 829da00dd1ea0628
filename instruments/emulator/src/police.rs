//! Lateness of the emulator itself, and whether it makes a run invalid.

use core::time::Duration;

use serde::{Serialize, Serializer};
use units::{Histogram, Instant};

use crate::account::Account;
use crate::report::Report;

/// Lateness of copies: time from due to forwarded.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Lateness {
    /// Number of copies.
    pub count: u64,
    /// Half were no later.
    #[serde(rename = "p50_ns", serialize_with = "nanos")]
    pub p50: Duration,
    /// 99 of 100 were no later.
    #[serde(rename = "p99_ns", serialize_with = "nanos")]
    pub p99: Duration,
    /// 999 of 1,000 were no later.
    #[serde(rename = "p999_ns", serialize_with = "nanos")]
    pub p999: Duration,
    /// Maximum lateness.
    #[serde(rename = "max_ns", serialize_with = "nanos")]
    pub max: Duration,
}

fn nanos<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Reason why a run is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidReason {
    /// Copies were forwarded too late.
    #[error("one datagram in a thousand was more than {p999:.1?} late; the limit is {limit:?}")]
    Late {
        /// 999 of 1,000 were no later.
        p999: Duration,
        /// Maximum permitted lateness.
        limit: Duration,
    },
    /// Datagrams were dropped before the emulator read them.
    #[error("{0} datagrams were dropped before the emulator read them")]
    Unseen(u64),
    /// The far device dropped datagrams after they were forwarded.
    #[error("{0} datagrams were dropped by the far device after they were forwarded")]
    Undelivered(u64),
    /// This host refused datagrams that the model let through.
    #[error("this host refused {0} datagrams that the model let through")]
    Refused(u64),
    /// The emulator had no memory for datagrams that the model let through.
    #[error("the emulator had no memory for {0} datagrams that the model let through")]
    Overrun(u64),
    /// A copy is unaccounted for: a defect of the emulator.
    #[error("the account does not close: this is a defect of the emulator")]
    Unbalanced,
}

/// Records lateness.
#[derive(Default)]
pub(crate) struct Police {
    late: Histogram,
}

impl Police {
    pub(crate) fn saw(&mut self, due: Instant, at: Instant) {
        self.late.record(at.since(due));
    }

    pub(crate) fn lateness(&self) -> Lateness {
        let late = |share| self.late.quantile(share);
        Lateness {
            count: self.late.count(),
            p50: late(0.5),
            p99: late(0.99),
            p999: late(0.999),
            max: self.late.max(),
        }
    }
}

impl Report {
    /// Returns the reasons why the run is invalid; none if it is valid.
    ///
    /// `late_limit` is the permitted lateness of 999 of 1,000 copies.
    #[must_use]
    pub fn invalid_reasons(&self, late_limit: Duration) -> Vec<InvalidReason> {
        let ways = [&self.forward, &self.reverse];
        let sum = |count: fn(&Account) -> u64| ways.iter().map(|way| count(&way.account)).sum::<u64>();
        let p999 = ways.iter().map(|way| way.lateness.p999).max().unwrap_or_default();
        let mut invalid = Vec::new();
        if ways.iter().any(|way| !way.account.is_closed()) {
            invalid.push(InvalidReason::Unbalanced);
        }
        if p999 > late_limit {
            invalid.push(InvalidReason::Late { p999, limit: late_limit });
        }
        let mut note = |count: u64, reason: fn(u64) -> InvalidReason| {
            if count > 0 {
                invalid.push(reason(count));
            }
        };
        note(self.forward.unseen + self.reverse.unseen, InvalidReason::Unseen);
        note(self.forward.undelivered + self.reverse.undelivered, InvalidReason::Undelivered);
        note(sum(|account| account.refused), InvalidReason::Refused);
        note(sum(|account| account.overrun), InvalidReason::Overrun);
        invalid
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Way;

    const LIMIT: Duration = Duration::from_micros(200);

    fn report(forward: Way) -> Report {
        Report { forward, ..Report::default() }
    }

    fn way(account: Account) -> Way {
        Way { account, ..Way::default() }
    }

    #[test]
    fn a_run_that_kept_its_limits_is_valid() {
        let mut police = Police::default();
        let due = Instant::from_nanos(1_000);
        (0..1_000).for_each(|_| police.saw(due, due + LIMIT));
        // One of 1,001 copies is late.
        police.saw(due, due + Duration::from_secs(1));
        let lateness = police.lateness();
        assert_eq!((lateness.count, lateness.max), (1_001, Duration::from_secs(1)));
        assert!(report(Way { lateness, ..Way::default() }).invalid_reasons(lateness.p999).is_empty());
        assert!(lateness.p999 < LIMIT + LIMIT / 30);
    }

    #[test]
    fn everything_that_happens_behind_the_model_invalidates_a_run() {
        let late = Lateness { p999: LIMIT + Duration::from_nanos(1), ..Lateness::default() };
        let p999 = late.p999;
        assert_eq!(
            report(Way { lateness: late, ..Way::default() }).invalid_reasons(LIMIT),
            [InvalidReason::Late { p999, limit: LIMIT }]
        );
        assert_eq!(
            report(Way { unseen: 3, ..Way::default() }).invalid_reasons(LIMIT),
            [InvalidReason::Unseen(3)]
        );
        assert_eq!(
            report(Way { undelivered: 3, ..Way::default() }).invalid_reasons(LIMIT),
            [InvalidReason::Undelivered(3)]
        );
        let refused = Account { taken: 2, refused: 2, ..Account::default() };
        assert_eq!(report(way(refused)).invalid_reasons(LIMIT), [InvalidReason::Refused(2)]);
        let overrun = Account { taken: 2, overrun: 2, ..Account::default() };
        assert_eq!(report(way(overrun)).invalid_reasons(LIMIT), [InvalidReason::Overrun(2)]);
        let unbalanced = Account { taken: 2, passed: 1, ..Account::default() };
        assert_eq!(report(way(unbalanced)).invalid_reasons(LIMIT), [InvalidReason::Unbalanced]);
        // A missing listener at the far end is no fault of the emulator.
        let nobody = Account { taken: 2, no_listener: 2, ..Account::default() };
        assert!(report(way(nobody)).invalid_reasons(LIMIT).is_empty());
    }
}
