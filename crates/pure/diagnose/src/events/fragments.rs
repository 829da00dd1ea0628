//! Datagrams sent in fragments: one loss for any number of freed fragments.
//!
//! Only the first fragment has ports and number. The first event of a datagram shows where it was lost; later events
//! of the same datagram are consequences. They are joined by the addresses and the identification that all fragments
//! share (RFC 791, section 3.2; RFC 8200, section 4.5).

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::IpAddr;

use units::Instant;

use crate::events::{DropEvent, Fragment};

/// Converter from events of fragments to events of datagrams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments {
    open: BTreeMap<Key, Open>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    id: u32,
}

/// Datagram of which fragments were freed.
#[derive(Clone, Debug)]
struct Open {
    /// First event; `None` once it was reported.
    first: Option<DropEvent>,
    at: Instant,
}

/// Lifetime of an identification: the kernel's time to wait for fragments (`ipfrag_time`), and a margin.
const LIFETIME: Duration = Duration::from_secs(35);
/// Maximum number of datagrams that are held; beyond that the oldest are reported unchanged.
const ROOM: usize = 16_384;

/// Reason in the kernel for fragments that waited too long for the others.
const GIVEN_UP: &str = "FRAG_REASM_TIMEOUT";

fn unnumbered(event: DropEvent) -> DropEvent {
    DropEvent { count: 1, numbers: None, ..event }
}

impl Fragments {
    /// Takes an event; returns an event of a datagram if it is known: whole datagrams at once, others once their
    /// first fragment was seen.
    pub(crate) fn take(&mut self, event: DropEvent) -> Option<DropEvent> {
        let Some(Fragment { id, is_first }) = event.fragment else { return Some(event) };
        let key = Key { source: event.source.ip(), destination: event.destination.ip(), id };
        let at = event.at;
        let open = self.open.entry(key).or_insert_with(|| Open { first: Some(event.clone()), at });
        if !is_first {
            return None;
        }
        let first = open.first.take()?;
        let (source, destination, numbers) = (event.source, event.destination, event.numbers);
        Some(DropEvent { source, destination, numbers, count: 1, ..first })
    }

    /// Returns the datagrams without a first fragment in time: they have no number. When the kernel itself has given
    /// one up, all its fragments were freed together and their events have been taken.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<DropEvent> {
        let mut reported = Vec::new();
        for open in self.open.values_mut() {
            let given_up = open.first.take_if(|event| &*event.reason == GIVEN_UP);
            reported.extend(given_up.map(unnumbered));
        }
        let surplus = self.open.len().saturating_sub(ROOM);
        if surplus > 0 {
            let mut times: Vec<Instant> = self.open.values().map(|open| open.at).collect();
            times.sort_unstable();
            let limit = times[surplus - 1];
            self.leave(|open| open.at <= limit, &mut reported);
        }
        self.leave(|open| now.since(open.at) > LIFETIME, &mut reported);
        reported
    }

    /// Returns all remaining datagrams.
    pub(crate) fn finish(&mut self) -> Vec<DropEvent> {
        let mut reported = Vec::new();
        self.leave(|_| true, &mut reported);
        reported
    }

    fn leave(&mut self, is_over: impl Fn(&Open) -> bool, reported: &mut Vec<DropEvent>) {
        self.open.retain(|_, open| {
            let is_over = is_over(open);
            if is_over {
                reported.extend(open.first.take().map(unnumbered));
            }
            !is_over
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Numbers;
    use crate::events::tests::event;

    fn fragment(reason: &str, id: u32, number: Option<u64>, seconds: u64) -> DropEvent {
        let fragment = Some(Fragment { id, is_first: number.is_some() });
        let numbers = number.map(|number| Numbers { stream: 1, incarnation: 0, first: number, last: number });
        let at = Instant::ORIGIN + Duration::from_secs(seconds);
        DropEvent { at, fragment, numbers, ..event(reason) }
    }

    fn reported(events: &[DropEvent]) -> Vec<(&str, Option<u64>)> {
        events.iter().map(|event| (&*event.reason, event.numbers.map(|numbers| numbers.first))).collect()
    }

    #[test]
    fn a_datagram_is_reported_once_with_its_number_and_the_reason_of_its_first_event() {
        let mut fragments = Fragments::default();
        let events: Vec<DropEvent> = [
            fragment("NETFILTER_DROP", 7, None, 0),
            fragment("NOT_SPECIFIED", 8, None, 0),
            fragment("NOT_SPECIFIED", 7, Some(40), 1),
            fragment("NOT_SPECIFIED", 7, None, 1),
            fragment("NOT_SPECIFIED", 7, Some(40), 1),
        ]
        .into_iter()
        .filter_map(|event| fragments.take(event))
        .collect();
        assert_eq!(reported(&events), [("NETFILTER_DROP", Some(40))]);
        assert_eq!(reported(&fragments.finish()), [("NOT_SPECIFIED", None)], "8 was never named");
    }

    #[test]
    fn an_identification_comes_again_after_its_time() {
        let mut fragments = Fragments::default();
        assert!(fragments.take(fragment("UDP_CSUM", 7, Some(1), 0)).is_some());
        assert_eq!(fragments.take(fragment("UDP_CSUM", 7, Some(2), 1)), None, "a consequence");
        assert_eq!(fragments.expire(Instant::ORIGIN + Duration::from_secs(36)), []);
        assert!(fragments.take(fragment("UDP_CSUM", 7, Some(3), 36)).is_some());
    }

    #[test]
    fn more_than_there_is_room_for_are_reported_without_number() {
        let mut fragments = Fragments::default();
        for id in 0..ROOM as u32 + 3 {
            fragments.take(fragment("UDP_CSUM", id, None, u64::from(id)));
        }
        assert_eq!(fragments.expire(Instant::ORIGIN).len(), 3);
    }

    #[test]
    fn whole_datagrams_pass() {
        let mut fragments = Fragments::default();
        assert_eq!(fragments.take(event("NO_SOCKET")), Some(event("NO_SOCKET")));
    }
}
