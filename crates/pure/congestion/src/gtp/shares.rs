//! A capacity that several connections share, max-min fair.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The capacity, and the demand of each connection. Units: bits per second.
#[derive(Debug)]
pub(super) struct Shares {
    capacity: f64,
    wishes: BTreeMap<u64, f64>,
    next: u64,
}

/// A connection's place in the sharing, released when the connection ends.
#[derive(Debug)]
pub(super) struct Seat {
    shares: Arc<Mutex<Shares>>,
    number: u64,
}

impl Shares {
    pub(super) const fn new(capacity: f64) -> Self {
        Self { capacity, wishes: BTreeMap::new(), next: 0 }
    }

    /// Returns the share of a demand: all of it if others leave as much, otherwise an equal share of the rest.
    fn served(&self, number: u64) -> f64 {
        let mut wishes: Vec<f64> = self.wishes.values().copied().collect();
        wishes.sort_unstable_by(f64::total_cmp);
        let (mut left, mut level) = (self.capacity, f64::INFINITY);
        for (served, wish) in wishes.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "connections are few")]
            let fair = left / (wishes.len() - served) as f64;
            if *wish > fair {
                level = fair;
                break;
            }
            left -= wish;
        }
        self.wishes.get(&number).map_or(0.0, |wish| wish.min(level))
    }
}

impl Seat {
    pub(super) fn take(shares: &Arc<Mutex<Shares>>, wish: f64) -> Self {
        let mut locked = lock(shares);
        let number = locked.next;
        locked.next += 1;
        locked.wishes.insert(number, wish);
        Self { shares: Arc::clone(shares), number }
    }

    /// Sets this connection's demand; returns its share.
    pub(super) fn wish(&self, wish: f64) -> f64 {
        let mut shares = lock(&self.shares);
        shares.wishes.insert(self.number, wish);
        shares.served(self.number)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.shares).wishes.remove(&self.number);
    }
}

/// A panic elsewhere leaves complete demands, so a poisoned lock is usable.
fn lock(shares: &Mutex<Shares>) -> MutexGuard<'_, Shares> {
    shares.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_wishes_are_served_and_the_others_get_the_same() {
        let shares = Arc::new(Mutex::new(Shares::new(100.0)));
        let seats: Vec<Seat> = [10.0, 50.0, 80.0].map(|wish| Seat::take(&shares, wish)).into();
        assert!((seats[0].wish(10.0) - 10.0).abs() < 1e-9);
        assert!((seats[1].wish(50.0) - 45.0).abs() < 1e-9);
        assert!((seats[2].wish(80.0) - 45.0).abs() < 1e-9);
        assert!((seats[1].wish(20.0) - 20.0).abs() < 1e-9);
        assert!((seats[2].wish(80.0) - 70.0).abs() < 1e-9);
        drop(seats);
        assert!(lock(&shares).wishes.is_empty(), "who has ended shares no more");
    }
}
