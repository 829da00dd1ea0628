//! Datagrams of an epoch whose descriptor has not arrived: they cannot be opened before it.
//!
//! They are held only for streams that a believed publisher sends already, so that its next epoch loses nothing when
//! its first descriptor is lost. Their number, size and age are bounded, for anybody can forge them.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use units::{Epoch, Instant, StreamId};

/// Maximum number of held datagrams of all streams.
const MAX_HELD: usize = 4_096;
/// Maximum number of held datagrams of one epoch: an epoch that does not exist leaves room for others.
const MAX_HELD_OF_EPOCH: usize = MAX_HELD / 4;
/// Maximum size of all held datagrams.
const MAX_HELD_BYTES: usize = 4 << 20;
/// Maximum age: a publisher sends its descriptor every second.
const MAX_AGE: Duration = Duration::from_secs(3);

/// A datagram that cannot be opened yet.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) stream: StreamId,
    pub(super) epoch: Epoch,
    pub(super) from: SocketAddr,
    pub(super) bytes: Vec<u8>,
    since: Instant,
}

/// The held datagrams, in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct HeldDatagrams {
    datagrams: VecDeque<Held>,
    size_bytes: usize,
    /// Number of datagrams by epoch.
    of_epoch: BTreeMap<(StreamId, Epoch), usize>,
}

impl HeldDatagrams {
    /// Holds a datagram; returns whether there was room, and how many others have become too old.
    pub(super) fn hold(
        &mut self,
        (now, from): (Instant, SocketAddr),
        (stream, epoch): (StreamId, Epoch),
        bytes: &[u8],
    ) -> (bool, u64) {
        let expired = self.expire(now);
        let of_epoch = self.of_epoch.get(&(stream, epoch)).copied().unwrap_or(0);
        let is_room = of_epoch < MAX_HELD_OF_EPOCH
            && self.datagrams.len() < MAX_HELD
            && self.size_bytes + bytes.len() <= MAX_HELD_BYTES;
        if is_room {
            self.of_epoch.insert((stream, epoch), of_epoch + 1);
            self.size_bytes += bytes.len();
            self.datagrams.push_back(Held { stream, epoch, from, bytes: bytes.to_vec(), since: now });
        }
        (is_room, expired)
    }

    /// Takes the datagrams of an epoch.
    pub(super) fn take(&mut self, stream: StreamId, epoch: Epoch) -> Vec<Held> {
        if !self.of_epoch.contains_key(&(stream, epoch)) {
            return Vec::new();
        }
        let is_its = |held: &Held| (held.stream, held.epoch) == (stream, epoch);
        let (taken, kept): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.datagrams).into_iter().partition(is_its);
        self.datagrams = kept.into();
        self.of_epoch.remove(&(stream, epoch));
        self.size_bytes = self.datagrams.iter().map(|held| held.bytes.len()).sum();
        taken
    }

    fn expire(&mut self, now: Instant) -> u64 {
        let mut expired = 0;
        while let Some(oldest) = self.datagrams.front()
            && now.since(oldest.since) > MAX_AGE
        {
            let epoch = (oldest.stream, oldest.epoch);
            self.size_bytes -= oldest.bytes.len();
            self.datagrams.pop_front();
            expired += 1;
            if let Some(count) = self.of_epoch.get_mut(&epoch) {
                *count -= 1;
                if *count == 0 {
                    self.of_epoch.remove(&epoch);
                }
            }
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: StreamId = StreamId(1);

    fn epoch(start_ns: u64) -> Epoch {
        Epoch { start_ns, incarnation: 0 }
    }

    fn at(seconds: u64) -> (Instant, SocketAddr) {
        (Instant::ORIGIN + Duration::from_secs(seconds), SocketAddr::from(([10, 0, 0, 1], 1)))
    }

    #[test]
    fn an_epoch_gets_its_own_datagrams_in_order() {
        let mut held = HeldDatagrams::default();
        for number in 0..6_u8 {
            assert!(held.hold(at(0), (STREAM, epoch(u64::from(number % 2))), &[number]).0);
        }
        let taken: Vec<_> = held.take(STREAM, epoch(1)).into_iter().map(|held| held.bytes[0]).collect();
        assert_eq!((taken, held.size_bytes), (vec![1, 3, 5], 3));
        assert!(held.take(StreamId(2), epoch(0)).is_empty());
    }

    #[test]
    fn forgeries_take_neither_more_memory_nor_the_room_of_later_datagrams() {
        let mut held = HeldDatagrams::default();
        let mut forged =
            |of| (0..10_000).filter(|_| held.hold(at(0), (STREAM, epoch(of)), &[0; 10]).0).count();
        assert_eq!(forged(1), MAX_HELD_OF_EPOCH);
        assert_eq!((2..10).map(forged).sum::<usize>(), MAX_HELD - MAX_HELD_OF_EPOCH);
        assert_eq!(held.hold(at(3), (STREAM, epoch(20)), &[0]), (false, 0));
        let all = MAX_HELD as u64;
        assert_eq!(held.hold(at(4), (STREAM, epoch(20)), &[0; MAX_HELD_BYTES]), (true, all));
        assert_eq!(held.hold(at(4), (STREAM, epoch(20)), &[0]), (false, 0));
    }
}
