//! Outcome of every exchange.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counters of the client, each counted where it happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExchangeCounts {
    /// Messages sent.
    pub sent: u64,
    /// Messages answered in time.
    pub completed: u64,
    /// Messages given up: the answer did not come in time.
    pub given_up: u64,
}

/// Account of every exchange: `sent = completed + lost forward + lost in reverse + unexplained`.
///
/// The client counts `sent`, `completed` and what was given up, the server what it answered; so closing the account
/// is a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(
    rename = "Account",
    description = "Account of every exchange: `sent = completed + lost forward + lost in reverse + unexplained`."
)]
pub struct ExchangeAccount {
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were answered in time.
    pub completed: u64,
    /// Messages that did not arrive complete.
    #[serde(rename = "lost_there")]
    pub lost_forward: u64,
    /// Messages whose answer did not arrive complete, or not in time.
    #[serde(rename = "lost_back")]
    pub lost_reverse: u64,
    /// Messages whose loss has no known place.
    pub unexplained: u64,
}

/// Error for an account that does not add up: a defect of the bench.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the account of exchanges does not add up: of {} messages sent {} were completed and {} given up, and the other end answered \
     {answered:?}\nplease report it with the output of --json", counts.sent, counts.completed, counts.given_up
)]
pub struct ExchangeLawError {
    counts: ExchangeCounts,
    answered: Option<u64>,
}

impl ExchangeCounts {
    /// Closes the account with the number of messages the server answered; `None` if it cannot report.
    ///
    /// # Errors
    /// [`ExchangeLawError`] if it does not add up.
    pub const fn close(self, answered: Option<u64>) -> Result<ExchangeAccount, ExchangeLawError> {
        let Self { sent, completed, given_up } = self;
        let error = ExchangeLawError { counts: self, answered };
        if sent != completed + given_up {
            return Err(error);
        }
        let Some(answered) = answered else {
            let unexplained = given_up;
            return Ok(ExchangeAccount { sent, completed, lost_forward: 0, lost_reverse: 0, unexplained });
        };
        if answered < completed || answered > sent {
            return Err(error);
        }
        let (lost_forward, lost_reverse) = (sent - answered, answered - completed);
        Ok(ExchangeAccount { sent, completed, lost_forward, lost_reverse, unexplained: 0 })
    }
}

impl ExchangeAccount {
    /// Returns the number of lost exchanges.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost_forward + self.lost_reverse + self.unexplained
    }

    /// Returns whether the account adds up.
    #[must_use]
    pub const fn adds_up(&self) -> bool {
        self.sent == self.completed + self.lost()
    }

    /// Returns the lost exchanges in percent.
    #[must_use]
    pub fn lost_percent(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost() as f64 * 100.0 / self.sent as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COUNTS: ExchangeCounts = ExchangeCounts { sent: 10, completed: 6, given_up: 4 };

    #[test]
    fn what_the_far_end_answered_tells_on_which_way_the_rest_was_lost() {
        let account = COUNTS.close(Some(7)).unwrap();
        assert_eq!((account.lost_forward, account.lost_reverse, account.unexplained), (3, 1, 0));
        let alone = COUNTS.close(None).unwrap();
        assert_eq!((alone.lost_forward, alone.lost_reverse, alone.unexplained), (0, 0, 4));
        assert!(account.adds_up() && alone.adds_up());
    }

    #[test]
    fn one_increment_that_is_left_out_is_noticed() {
        for counts in [
            ExchangeCounts { sent: 9, ..COUNTS },
            ExchangeCounts { completed: 5, ..COUNTS },
            ExchangeCounts { given_up: 3, ..COUNTS },
        ] {
            assert!(counts.close(Some(7)).is_err(), "{counts:?}");
        }
        assert!(COUNTS.close(Some(5)).is_err(), "fewer answered than completed");
        assert!(COUNTS.close(Some(11)).is_err(), "more answered than sent");
        let said = COUNTS.close(Some(11)).unwrap_err().to_string();
        assert!(said.contains("of 10 messages sent 6 were completed and 4 given up"), "{said}");
    }

    proptest! {
        #[test]
        fn every_exchange_is_in_one_place(outcomes in prop::collection::vec(0..3_u8, 0..200)) {
            let of = |outcome: u8| outcomes.iter().filter(|it| **it == outcome).count() as u64;
            let (completed, forward, reverse) = (of(0), of(1), of(2));
            let counts = ExchangeCounts { sent: outcomes.len() as u64, completed, given_up: forward + reverse };
            let account = counts.close(Some(completed + reverse)).unwrap();
            prop_assert_eq!((account.lost_forward, account.lost_reverse), (forward, reverse));
            prop_assert!(account.adds_up());
        }
    }
}
