//! Counts of a run as a readable table.

use core::fmt;

use crate::log::{LostBy, OutcomeCounts};

/// Datagrams each node sent, and outcomes of those sent to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table(pub(crate) Vec<Row>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) role: String,
    pub(crate) sent: u64,
    pub(crate) counts: OutcomeCounts,
}

impl fmt::Display for Table {
    /// Writes one line per node, and only the columns with a count.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ways = LostBy::ALL.into_iter().filter(|by| self.0.iter().any(|row| row.counts.lost(*by) > 0));
        let ways: Vec<LostBy> = ways.collect();
        type Column = (&'static str, fn(&OutcomeCounts) -> u64);
        const OTHERS: [Column; 3] = [
            ("corrupted", |counts| counts.corrupted),
            ("unread", |counts| counts.unread),
            ("in flight", |counts| counts.in_flight),
        ];
        let others: Vec<_> =
            OTHERS.into_iter().filter(|(_, of)| self.0.iter().any(|row| of(&row.counts) > 0)).collect();
        let width = self.0.iter().map(|row| row.role.chars().count()).max().unwrap_or(0).max(4);
        write!(formatter, "{:width$}  {:>10}  {:>10}", "node", "sent", "delivered")?;
        others.iter().try_for_each(|(name, _)| write!(formatter, "  {name:>10}"))?;
        ways.iter().try_for_each(|by| write!(formatter, "  {:>10}", by.name()))?;
        for Row { role, sent, counts } in &self.0 {
            write!(formatter, "\n{role:width$}  {sent:>10}  {:>10}", counts.delivered)?;
            others.iter().try_for_each(|(_, of)| write!(formatter, "  {:>10}", of(counts)))?;
            ways.iter().try_for_each(|by| write!(formatter, "  {:>10}", counts.lost(*by)))?;
        }
        Ok(())
    }
}
