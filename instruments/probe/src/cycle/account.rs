//! Account of a run: the counters of writer and reader, and the law that holds between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schedule::Callback;

/// Outcome of everything that was sent in a run.
///
/// [`check`](Self::check) compares both sides of the law; neither is computed from the other:
///
/// ```text
/// cycles sent   = complete + incomplete + missing
/// pieces handed = received + wrong + absent          (absent ≥ refused)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(description = "Account of everything that was sent.")]
pub struct Account {
    /// Cycles.
    pub cycles: Cycles,
    /// Pieces.
    pub pieces: Pieces,
    /// Callbacks.
    pub callbacks: Callbacks,
}

/// Cycles: sent = complete + incomplete + missing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cycles {
    /// Planned for the run.
    pub planned: u64,
    /// Sent.
    pub sent: u64,
    /// All pieces arrived as they were sent.
    pub complete: u64,
    /// Some pieces arrived.
    pub incomplete: u64,
    /// No piece arrived.
    pub missing: u64,
}

/// Pieces: handed = received + wrong + absent; refused ones are among the absent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pieces {
    /// Handed to the transport.
    pub handed: u64,
    /// Not taken by the transport.
    pub refused: u64,
    /// Arrived as they were sent.
    pub received: u64,
    /// Arrived with other contents only.
    pub wrong: u64,
    /// Did not arrive.
    pub absent: u64,
    /// Arrived again; not in the sum.
    pub duplicates: u64,
    /// Of no piece of this run; not in the sum.
    pub foreign: u64,
}

/// Callbacks of both ends.
///
/// The writer's come after sending a cycle, the reader's once a cycle is complete.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[schemars(description = "Callbacks of both ends.")]
pub struct Callbacks {
    /// The writer's.
    pub writer: Callback,
    /// The reader's.
    pub reader: Callback,
}

/// Part of an account that does not add up: a defect of this program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the account of a run does not add up: {what} are {left}, and their parts {right}\nplease report it with the output of --json"
)]
pub struct Imbalance {
    what: &'static str,
    left: u64,
    right: u64,
}

impl Account {
    /// Checks the law.
    ///
    /// # Errors
    /// [`Imbalance`] names the first part that does not hold.
    pub fn check(&self) -> Result<(), Imbalance> {
        let (cycles, pieces, callbacks) = (&self.cycles, &self.pieces, &self.callbacks);
        let laws = [
            ("cycles sent", cycles.sent, cycles.complete + cycles.incomplete + cycles.missing),
            ("pieces handed", pieces.handed, pieces.received + pieces.wrong + pieces.absent),
            ("callbacks of the writer", callbacks.writer.count, cycles.sent),
            ("callbacks of the reader", callbacks.reader.count, cycles.complete),
            ("cycles sent beyond those planned", cycles.sent.saturating_sub(cycles.planned), 0),
            ("pieces refused beyond those absent", pieces.refused.saturating_sub(pieces.absent), 0),
        ];
        match laws.into_iter().find(|(_, left, right)| left != right) {
            Some((what, left, right)) => Err(Imbalance { what, left, right }),
            None => Ok(()),
        }
    }
}

impl Callbacks {
    /// Returns the number of late callbacks on both sides.
    #[must_use]
    pub const fn late(&self) -> u64 {
        self.writer.late + self.reader.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Account {
        let callback = |count| Callback { count, late: 0, least_slack_ns: Some(1) };
        Account {
            cycles: Cycles { planned: 10, sent: 9, complete: 6, incomplete: 2, missing: 1 },
            pieces: Pieces { handed: 27, refused: 1, received: 21, wrong: 2, absent: 4, ..Pieces::default() },
            callbacks: Callbacks { writer: callback(9), reader: callback(6) },
        }
    }

    #[test]
    fn an_account_that_adds_up_is_accepted() {
        assert_eq!(whole().check(), Ok(()));
    }

    #[test]
    fn every_increment_that_is_left_out_is_noticed() {
        let drops: [fn(&mut Account); 9] = [
            |it| it.cycles.sent -= 1,
            |it| it.cycles.complete -= 1,
            |it| it.cycles.incomplete -= 1,
            |it| it.cycles.missing -= 1,
            |it| it.pieces.handed -= 1,
            |it| it.pieces.received -= 1,
            |it| it.pieces.wrong -= 1,
            |it| it.pieces.absent -= 1,
            |it| it.callbacks.reader.count -= 1,
        ];
        for (index, drop_one) in drops.into_iter().enumerate() {
            let mut account = whole();
            drop_one(&mut account);
            assert!(account.check().is_err(), "increment {index}");
        }
    }

    #[test]
    fn more_cycles_than_planned_and_more_refusals_than_absences_are_noticed() {
        let mut account = whole();
        account.cycles.planned = 9;
        account.pieces.refused = 4;
        assert_eq!(account.check(), Ok(()));
        account.cycles.planned = 8;
        assert!(account.check().is_err());
        account.cycles.planned = 9;
        account.pieces.refused = 5;
        assert!(account.check().is_err());
    }
}
