//! A reader's accounts of one epoch, in order.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::process::Command;

/// Accounts of one reader of one epoch, each of which is balanced and begins where the previous one ended.
///
/// Usually there is one. A publisher or a reader without a processor for more than a second causes another one.
#[derive(Clone, Debug)]
pub struct Accounts(Vec<Value>);

impl Accounts {
    /// Waits until a reader's account is closed, ends the reader, and takes its accounts.
    ///
    /// # Panics
    /// If the account does not close before the watchdog, or the accounts do not add up.
    #[must_use]
    pub fn once_closed(reader: Command) -> Self {
        reader.wait_for("a closed account", |line| line["event"] == "ended" && line["state"] == "closed");
        let accounts = Self::of(&reader.interrupt().0);
        assert_eq!(accounts.last()["state"], "closed", "{accounts}");
        accounts
    }

    /// Takes the accounts of one epoch from a program's output.
    ///
    /// # Panics
    /// If there are none, or they do not add up.
    #[must_use]
    pub fn of(lines: &[Value]) -> Self {
        // Apps report their accounts without an event, and earlier versions without an identity.
        let is_account = |line: &&Value| line["event"] == "account" || line["account"].is_string();
        let found = Self(lines.iter().filter(is_account).cloned().collect());
        assert!(!found.0.is_empty(), "no account among {lines:?}");
        for account in &found.0 {
            assert_eq!((&account["balanced"], &account["closed"]), (&true.into(), &true.into()), "{found}");
            for (unit, kept) in [("datagrams", "received"), ("elements", "delivered")] {
                let rows = &account[unit];
                // Without a network between the two there are no datagrams.
                if rows.is_null() {
                    continue;
                }
                let ended = count(rows, kept) + lost(rows).values().sum::<u64>() + count(rows, "unexplained");
                let each = rows["per_sample"].as_u64().unwrap_or(1);
                assert_eq!((count(rows, "next") - count(rows, "first")) * each, ended, "{account}");
            }
        }
        for pair in found.0.windows(2) {
            assert_eq!(pair[0]["epoch"], pair[1]["epoch"], "{found}");
            assert_eq!(pair[0]["account"], pair[1]["follows"], "{found}");
            assert_ne!(pair[0]["account"], pair[1]["account"], "{found}");
            let (before, after) = (&pair[0]["elements"], &pair[1]["elements"]);
            assert_eq!(before["next"], after["first"], "{found}");
        }
        found
    }

    /// Returns the last account, which shows how the reading ended.
    ///
    /// # Panics
    /// Never: there is one.
    #[must_use]
    pub fn last(&self) -> &Value {
        self.0.last().expect("there is one")
    }

    /// Returns the number of accounts.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the first account's first sample (unit elements), or first number (unit datagrams).
    #[must_use]
    pub fn first(&self, unit: &str) -> u64 {
        self.0.first().map_or(0, |account| count(&account[unit], "first"))
    }

    /// Returns one more than the last account's last sample, or number.
    #[must_use]
    pub fn next(&self, unit: &str) -> u64 {
        count(&self.last()[unit], "next")
    }

    /// Returns the sum of a row in one unit, such as `delivered` of the elements.
    #[must_use]
    pub fn sum(&self, unit: &str, row: &str) -> u64 {
        self.0.iter().map(|account| count(&account[unit], row)).sum()
    }

    /// Returns the losses in one unit, by stage.
    #[must_use]
    pub fn lost(&self, unit: &str) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (stage, count) in self.0.iter().flat_map(|account| lost(&account[unit])) {
            *sums.entry(stage).or_insert(0) += count;
        }
        sums
    }

    /// Returns the number of lost datagrams, all of them and the elements too in this stage.
    ///
    /// # Panics
    /// If nothing was lost, or something was lost in another stage.
    #[must_use]
    pub fn lost_only_in(&self, stage: &str) -> u64 {
        assert!(self.is_explained(), "{self}");
        for unit in ["datagrams", "elements"] {
            assert!(self.lost(unit).keys().eq([stage]), "not in {stage} alone: {self}");
        }
        self.lost("datagrams")[stage]
    }

    /// Returns whether every loss has a stage.
    #[must_use]
    pub fn is_explained(&self) -> bool {
        self.0.iter().all(|account| account["explained"] == true)
    }

    /// Returns the gaps of all the accounts.
    pub fn gaps(&self) -> impl Iterator<Item = &Value> {
        self.0.iter().flat_map(|account| account["gaps"].as_array().into_iter().flatten())
    }

    /// Returns the evidence for all the gaps.
    pub fn evidence(&self) -> impl Iterator<Item = &str> {
        self.gaps().flat_map(|gap| gap["evidence"].as_array().into_iter().flatten()).filter_map(Value::as_str)
    }
}

/// Shows the accounts as the program reported them.
impl fmt::Display for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|account| writeln!(f, "{account}"))
    }
}

fn count(rows: &Value, row: &str) -> u64 {
    rows[row].as_u64().unwrap_or_else(|| panic!("no count {row} in {rows}"))
}

fn lost(rows: &Value) -> BTreeMap<String, u64> {
    let stages = rows["lost"].as_object().into_iter().flatten();
    stages.filter_map(|(stage, count)| Some((stage.clone(), count.as_u64()?))).collect()
}
