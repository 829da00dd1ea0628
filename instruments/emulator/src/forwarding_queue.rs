//! Forwarding queue of one direction: the emulated path, the datagrams that it has let through, and their account.
//!
//! No clock is read here: a driver passes arrivals with their time, asks when the next is due, and takes it then.

use std::collections::{BTreeMap, VecDeque};

use sim::{Link, Path};
use units::Instant;

use crate::account::Account;

/// Forwards datagrams in one direction; `T` is the driver's representation of a datagram until it is due.
pub(crate) struct ForwardingQueue<T> {
    path: Path,
    /// Time of the last entry: the machine's time is monotonic.
    latest: Instant,
    entered: u64,
    /// Datagrams that leave in the order of entry, which is nearly all.
    in_order: VecDeque<(Turn, T)>,
    /// Datagrams that overtake earlier ones.
    overtaking: BTreeMap<Turn, T>,
    pub(crate) account: Account,
}

/// Due time of a datagram, and its number in the order of entry, which decides between two that are due at once.
type Turn = (Instant, u64);

impl<T> ForwardingQueue<T> {
    pub(crate) fn new(link: Link, seed: u64, name: &str) -> Self {
        Self {
            path: Path::new(link, seed, name),
            latest: Instant::ORIGIN,
            entered: 0,
            in_order: VecDeque::new(),
            overtaking: BTreeMap::new(),
            account: Account::default(),
        }
    }

    /// Enters a datagram: `judged` is the part the machine sees, `bytes` its size in the account, and `keep` stores
    /// each copy that comes through, if there is room.
    pub(crate) fn enter(
        &mut self,
        at: Instant,
        judged: &[u8],
        bytes: u64,
        mut keep: impl FnMut() -> Option<T>,
    ) {
        self.latest = at.max(self.latest);
        self.account.taken += 1;
        self.account.taken_bytes += bytes;
        let passage = self.path.pass(self.latest, judged);
        match passage.original {
            Ok(exit) => self.wait(exit.due, keep()),
            Err(by) => self.account.lost.count(by),
        }
        if let Some(due) = passage.duplicate {
            self.account.duplicated += 1;
            self.wait(due, keep());
        }
    }

    fn wait(&mut self, due: Instant, item: Option<T>) {
        let Some(item) = item else {
            self.account.overrun += 1;
            return;
        };
        self.entered += 1;
        let turn = (due, self.entered);
        if self.in_order.back().is_none_or(|(last, _)| *last <= turn) {
            self.in_order.push_back((turn, item));
        } else {
            self.overtaking.insert(turn, item);
        }
    }

    /// Returns when the next datagram is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.next().map(|((due, _), _)| *due)
    }

    /// Takes the next datagram if it is due and accepted by `wanted`.
    pub(crate) fn pop_if(&mut self, now: Instant, wanted: impl FnOnce(&T) -> bool) -> Option<(Instant, T)> {
        self.next().filter(|((due, _), item)| *due <= now && wanted(item))?;
        let next = if self.overtakes() { self.overtaking.pop_first() } else { self.in_order.pop_front() };
        next.map(|((due, _), item)| (due, item))
    }

    fn next(&self) -> Option<(&Turn, &T)> {
        if self.overtakes() {
            self.overtaking.first_key_value()
        } else {
            self.in_order.front().map(|(turn, item)| (turn, item))
        }
    }

    fn overtakes(&self) -> bool {
        let overtaking = self.overtaking.first_key_value();
        overtaking.is_some_and(|(next, _)| self.in_order.front().is_none_or(|(first, _)| next < first))
    }

    /// Returns the account, with the current number of copies in flight.
    pub(crate) fn account(&self) -> Account {
        Account { held: (self.in_order.len() + self.overtaking.len()) as u64, ..self.account }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use sim::{LostBy, Order};

    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::ORIGIN + Duration::from_micros(micros)
    }

    /// Returns a link with every impairment.
    fn link() -> Link {
        Link::ideal()
            .rate(100_000_000, 20_000)
            .delay(Duration::from_millis(5))
            .jitter(Duration::from_millis(2), Order::Free)
            .loss(0.05)
            .reorder(0.1, Duration::from_millis(3))
            .duplicate(0.1, Duration::from_micros(700))
            .lose([3, 4])
    }

    #[test]
    fn what_comes_out_and_when_is_what_the_machine_says() {
        for seed in 0..50 {
            let (mut queue, mut path) =
                (ForwardingQueue::new(link(), seed, "x"), Path::new(link(), seed, "x"));
            let (mut expected, mut lost) = (Vec::new(), Vec::<LostBy>::new());
            for number in 0..400_u64 {
                let now = at(number * 90);
                queue.enter(now, &[0; 1_000], 1_000, || Some(number));
                let passage = path.pass(now, &[0; 1_000]);
                match passage.original {
                    Ok(exit) => expected.push((exit.due, number)),
                    Err(by) => lost.push(by),
                }
                expected.extend(passage.duplicate.map(|due| (due, number)));
                assert!(queue.account().is_closed(), "seed {seed}: {:?}", queue.account());
            }
            // The sort is stable: of two due at once, the earlier one stays first.
            expected.sort_by_key(|(due, _)| *due);
            let account = queue.account();
            assert_eq!((account.taken, account.lost.sum()), (400, lost.len() as u64), "seed {seed}");
            assert_eq!(account.held, expected.len() as u64, "seed {seed}");
            let mut out = Vec::new();
            while let Some(due) = queue.next_due() {
                assert_eq!(queue.pop_if(due - Duration::from_nanos(1), |_| true), None);
                assert_eq!(queue.pop_if(due, |_| false), None);
                out.extend(queue.pop_if(due, |_| true));
                queue.account.passed += 1;
                assert!(queue.account().is_closed());
            }
            assert_eq!(out, expected, "seed {seed}");
        }
    }

    #[test]
    fn time_that_goes_back_is_taken_for_the_latest() {
        let mut queue = ForwardingQueue::new(Link::ideal(), 1, "x");
        queue.enter(at(9), &[], 0, || Some('a'));
        queue.enter(at(5), &[], 0, || Some('b'));
        assert_eq!(queue.pop_if(at(9), |_| true), Some((at(9), 'a')));
        assert_eq!(queue.pop_if(at(9), |_| true), Some((at(9), 'b')));
    }

    #[test]
    fn what_there_is_no_room_for_is_counted() {
        let mut queue = ForwardingQueue::new(link(), 7, "x");
        for number in 0..100_u64 {
            queue.enter(at(number * 100), &[0; 100], 100, || (number % 2 == 0).then_some(number));
        }
        let account = queue.account();
        assert!(account.overrun > 20 && account.is_closed(), "{account:?}");
        let held = std::iter::from_fn(|| queue.pop_if(at(1_000_000), |_| true));
        assert_eq!(held.count() as u64, account.held);
    }
}
