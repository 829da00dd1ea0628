//! Controls of a stream in their order.

use std::collections::BTreeMap;

use units::Instant;

use super::FarFault;
use crate::frame::{Control, Numbered};

/// Maximum number of controls that wait for earlier ones: as many as a near end keeps.
const MAX_WAITING: usize = 8_192;

/// A control as it arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Arrived {
    pub(super) control: Control,
    pub(super) missing_before: u64,
    pub(super) born_us: u32,
    pub(super) born: Instant,
}

/// Controls that wait for earlier ones.
#[derive(Clone, Default, Debug)]
pub(super) struct Inbox {
    /// Number of controls taken or forgotten by the near end.
    taken: u64,
    waiting: BTreeMap<u64, Arrived>,
}

impl Inbox {
    pub(super) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Adds a control.
    pub(super) fn add(
        &mut self,
        Numbered { number, control }: Numbered,
        missing_before: u64,
        (born_us, born): (u32, Instant),
    ) -> Result<(), FarFault> {
        if number < self.taken {
            return Ok(());
        }
        if self.waiting.len() >= MAX_WAITING && number != self.taken {
            return Err(FarFault::Ahead(number));
        }
        self.waiting.insert(number, Arrived { control, missing_before, born_us, born });
        Ok(())
    }

    /// Stops waiting for controls that the near end has forgotten.
    pub(super) fn skip_to(&mut self, first: u64) {
        // Earlier controls that have arrived are taken all the same.
        while self.taken < first {
            match self.waiting.first_key_value() {
                Some((&number, _)) if number < first => {
                    self.taken = number;
                    return;
                }
                _ => self.taken = first,
            }
        }
    }

    /// Takes the next control.
    pub(super) fn take(&mut self) -> Option<Arrived> {
        let arrived = self.waiting.remove(&self.taken)?;
        self.taken += 1;
        Some(arrived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(inbox: &mut Inbox, number: u64) -> Result<(), FarFault> {
        let control = Control::Start { position: number };
        inbox.add(Numbered { number, control }, 0, (0, Instant::ORIGIN))
    }

    fn taken(inbox: &mut Inbox) -> Vec<u64> {
        let position = |arrived: Arrived| match arrived.control {
            Control::Start { position } => position,
            other => panic!("{other:?}"),
        };
        core::iter::from_fn(|| inbox.take().map(position)).collect()
    }

    #[test]
    fn controls_are_taken_in_their_order_and_once() {
        let mut inbox = Inbox::default();
        add(&mut inbox, 1).unwrap();
        assert_eq!(taken(&mut inbox), []);
        add(&mut inbox, 0).unwrap();
        add(&mut inbox, 1).unwrap();
        assert_eq!(taken(&mut inbox), [0, 1]);
        add(&mut inbox, 1).unwrap();
        assert_eq!(taken(&mut inbox), []);
        assert_eq!(inbox.taken(), 2);
    }

    #[test]
    fn what_the_near_end_has_forgotten_is_not_waited_for() {
        let mut inbox = Inbox::default();
        add(&mut inbox, 3).unwrap();
        add(&mut inbox, 6).unwrap();
        inbox.skip_to(5);
        assert_eq!(taken(&mut inbox), [3]);
        inbox.skip_to(5);
        assert_eq!(inbox.taken(), 5);
        add(&mut inbox, 5).unwrap();
        assert_eq!(taken(&mut inbox), [5, 6]);
    }

    #[test]
    fn not_more_wait_than_a_near_end_keeps() {
        let mut inbox = Inbox::default();
        for number in 1..=MAX_WAITING as u64 {
            add(&mut inbox, number).unwrap();
        }
        assert_eq!(add(&mut inbox, 9_000), Err(FarFault::Ahead(9_000)));
        add(&mut inbox, 0).unwrap();
        assert_eq!(taken(&mut inbox).len(), MAX_WAITING + 1);
    }
}
