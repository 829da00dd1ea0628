//! Accounts of one epoch printed by a reader, in order.

use std::collections::BTreeMap;

use serde_json::Value;

/// The accounts of one reader of one epoch, each of which is balanced and begins where the previous one ended.
///
/// Mostly it is one. A publisher or a reader that is kept from its processor for more than a second leaves another one.
pub(crate) struct Accounts<'a>(Vec<&'a Value>);

impl<'a> Accounts<'a> {
    /// Takes the accounts of one epoch that are among the lines, and checks that they add up.
    pub(crate) fn of(lines: impl IntoIterator<Item = &'a Value>) -> Self {
        let found: Vec<_> = lines.into_iter().filter(|line| line["event"] == "account").collect();
        assert!(!found.is_empty(), "no account");
        for account in &found {
            assert_eq!((&account["balanced"], &account["closed"]), (&true.into(), &true.into()), "{account}");
        }
        for pair in found.windows(2) {
            assert_eq!((&pair[0]["epoch"], &pair[0]["account"]), (&pair[1]["epoch"], &pair[1]["follows"]));
            assert_eq!(pair[0]["state"], "unconfirmed", "another follows");
            assert_eq!(pair[0]["elements"]["next"], pair[1]["elements"]["first"], "{pair:?}");
        }
        Self(found)
    }

    /// Returns the accounts of a reader that received the stream to its end, and knows the stage of every loss.
    pub(crate) fn whole(lines: impl IntoIterator<Item = &'a Value>) -> Self {
        let accounts = Self::of(lines);
        assert_eq!(accounts.last()["state"], "closed");
        assert!(accounts.0.iter().all(|account| account["explained"] == true), "{:?}", accounts.0);
        accounts
    }

    /// Returns the last account, which has the final state.
    pub(crate) fn last(&self) -> &'a Value {
        self.0[self.0.len() - 1]
    }

    /// Returns with which sample the first account begins.
    pub(crate) fn first(&self) -> u64 {
        count(&self.0[0]["elements"]["first"])
    }

    /// Returns one more than the last sample of the last account.
    pub(crate) fn next(&self) -> u64 {
        count(&self.last()["elements"]["next"])
    }

    /// Returns how many elements were delivered.
    pub(crate) fn delivered(&self) -> u64 {
        self.0.iter().map(|account| count(&account["elements"]["delivered"])).sum()
    }

    /// Returns how many elements were lost, by stage.
    pub(crate) fn lost(&self) -> BTreeMap<&'a str, u64> {
        let mut sums = BTreeMap::new();
        for (stage, lost) in
            self.0.iter().flat_map(|account| account["elements"]["lost"].as_object().unwrap())
        {
            *sums.entry(stage.as_str()).or_insert(0) += count(lost);
        }
        sums
    }
}

/// Returns a field as a count.
pub(crate) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a count: {value}"))
}
