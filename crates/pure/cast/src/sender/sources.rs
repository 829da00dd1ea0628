//! Limits of readers per address: they bound the cost of forged readers at one address for the publisher and all
//! readers.
//!
//! A reader is *proven* once it has continued: it has reported twice, at least the shortest interval apart, and
//! received datagrams of the stream meanwhile. A forger that keeps that up costs as much as real readers; one that
//! only invents names takes a few slots of its address, which the next proven reader takes back.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use units::{Instant, ReaderId};

/// Maximum number of readers at one address: processes of one host that receive separately. Some hundred kilobytes of
/// reports.
pub(super) const MAX_READERS_PER_SOURCE: usize = 256;
/// Maximum number of unproven readers of one address that count in the report interval: as many as call for an early
/// tally, so that a crowd shows before it is proven. On the slowest streams the interval of 16 readers is 9 s.
pub(super) const MAX_UNPROVEN_COUNTED: usize = 16;

/// The source addresses of reports.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    by_address: BTreeMap<IpAddr, Source>,
    /// The unproven readers of all addresses, the longest silent first.
    unproven: BTreeSet<(Instant, ReaderId)>,
    /// The readers that count in the report interval.
    counted: usize,
}

#[derive(Clone, Debug, Default)]
struct Source {
    proven: usize,
    /// Unproven readers, the longest silent first.
    unproven: BTreeSet<(Instant, ReaderId)>,
}

/// The slot for one more reader at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    Free,
    /// Taken from this unproven reader.
    Of(ReaderId),
    /// None: all are taken by proven readers.
    None,
}

impl Source {
    fn counted(&self) -> usize {
        self.proven + self.unproven.len().min(MAX_UNPROVEN_COUNTED)
    }
}

impl Sources {
    /// Returns the slot that one more reader at `from` would take.
    pub(super) fn slot(&self, from: IpAddr) -> Slot {
        let Some(source) = self.by_address.get(&from) else { return Slot::Free };
        if source.proven + source.unproven.len() < MAX_READERS_PER_SOURCE {
            return Slot::Free;
        }
        source.unproven.first().map_or(Slot::None, |(_, reader)| Slot::Of(*reader))
    }

    /// Returns the unproven reader that has been silent for longest.
    pub(super) fn longest_silent(&self) -> Option<ReaderId> {
        self.unproven.first().map(|(_, reader)| *reader)
    }

    /// Adds a reader whose latest report came at this time.
    pub(super) fn add(&mut self, from: IpAddr, heard: Instant, reader: ReaderId, is_proven: bool) {
        self.change(from, |source| {
            if is_proven {
                source.proven += 1;
            } else {
                source.unproven.insert((heard, reader));
            }
        });
        if !is_proven {
            self.unproven.insert((heard, reader));
        }
    }

    /// Removes a reader whose latest report came at this time.
    pub(super) fn remove(&mut self, from: IpAddr, heard: Instant, reader: ReaderId, is_proven: bool) {
        self.unproven.remove(&(heard, reader));
        self.change(from, |source| {
            if is_proven {
                source.proven -= 1;
            } else {
                source.unproven.remove(&(heard, reader));
            }
        });
    }

    /// Returns the number of readers that count in the report interval.
    pub(super) const fn counted(&self) -> usize {
        self.counted
    }

    fn change(&mut self, from: IpAddr, change: impl FnOnce(&mut Source)) {
        let source = self.by_address.entry(from).or_default();
        let before = source.counted();
        change(source);
        self.counted = self.counted + source.counted() - before;
        if source.proven == 0 && source.unproven.is_empty() {
            self.by_address.remove(&from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn heard(at: u64) -> Instant {
        Instant::from_nanos(at)
    }

    #[test]
    fn the_last_place_of_an_address_is_free_and_the_next_takes_that_of_the_longest_silent() {
        let mut sources = Sources::default();
        let last = MAX_READERS_PER_SOURCE as u64 - 1;
        for reader in 0..last {
            sources.add(HERE, heard(reader), ReaderId(reader), false);
        }
        assert_eq!(sources.slot(HERE), Slot::Free);
        sources.add(HERE, heard(last), ReaderId(last), false);
        assert_eq!((sources.slot(HERE), sources.slot(THERE)), (Slot::Of(ReaderId(0)), Slot::Free));
        assert_eq!(sources.counted(), MAX_UNPROVEN_COUNTED);
        for reader in 0..=last {
            sources.remove(HERE, heard(reader), ReaderId(reader), false);
            sources.add(HERE, heard(1_000), ReaderId(reader), true);
        }
        assert_eq!((sources.slot(HERE), sources.longest_silent()), (Slot::None, None));
        assert_eq!(sources.counted(), MAX_READERS_PER_SOURCE);
        for reader in 0..=last {
            sources.remove(HERE, heard(1_000), ReaderId(reader), true);
        }
        assert_eq!((sources.counted(), sources.by_address.len()), (0, 0), "no memory is left behind");
    }

    #[test]
    fn a_crowd_at_many_addresses_counts_whole() {
        let mut sources = Sources::default();
        for reader in 0..1_000_u32 {
            let from = Ipv4Addr::from(reader).into();
            sources.add(from, heard(1), ReaderId(reader.into()), false);
        }
        assert_eq!((sources.counted(), sources.longest_silent()), (1_000, Some(ReaderId(0))));
    }
}
