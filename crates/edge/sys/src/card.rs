//! How a network card is set: rings, coalescing, channels and flow control, as `ethtool -g`, `-c`, `-l` and `-a` tell.
//!
//! What a driver does not have it refuses (`EOPNOTSUPP`): loopback and most virtual interfaces have none of it. To read it takes no
//! privilege.

use std::io;

use crate::interface::Interface;
use crate::raw::{CardSettings, card_settings};

/// The ring in which a card puts what comes until the host takes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    /// How many pieces it has: a packet takes one or more.
    pub entries: u32,
    /// How many it may have.
    pub most: u32,
}

/// How long a card waits before it tells the host of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coalescing {
    /// At most so many microseconds after the first; 0 does not count.
    pub microseconds: u32,
    /// At most so many packets; 0 does not count.
    pub packets: u32,
    /// The driver chooses both by what comes.
    pub is_adaptive: bool,
}

/// The queues that a card spreads what comes over, each with an interrupt of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channels {
    /// How many are in use, those for receiving only and those for both ways together.
    pub count: u32,
    /// How many there may be of the kind that is in use.
    pub most: u32,
    /// Whether they are for both ways (`combined`), or for receiving only (`rx`).
    pub is_combined: bool,
}

/// Flow control of a link (IEEE 802.3x): who has no room makes the other end pause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pause {
    /// Both ends agree about it.
    pub is_negotiated: bool,
    /// This card pauses when it is asked to.
    pub obeys: bool,
    /// This card asks the other end to pause.
    pub asks: bool,
}

impl Interface {
    /// Returns the ring for what comes.
    ///
    /// # Errors
    /// What the kernel says; `Unsupported` if the driver has none.
    pub fn receive_ring(&self) -> io::Result<Ring> {
        self.card(CardSettings::Rings, ring_in)
    }

    /// Returns how long the card waits before it tells of packets.
    ///
    /// # Errors
    /// What the kernel says; `Unsupported` if the driver does not tell.
    pub fn coalescing(&self) -> io::Result<Coalescing> {
        self.card(CardSettings::Coalescing, coalescing_in)
    }

    /// Returns the card's queues.
    ///
    /// # Errors
    /// What the kernel says; `Unsupported` if the driver does not tell.
    pub fn channels(&self) -> io::Result<Channels> {
        self.card(CardSettings::Channels, channels_in)
    }

    /// Returns the link's flow control.
    ///
    /// # Errors
    /// What the kernel says; `Unsupported` if the driver does not tell.
    pub fn pause(&self) -> io::Result<Pause> {
        self.card(CardSettings::Pause, pause_in)
    }

    fn card<T>(&self, settings: CardSettings, read: fn(&[u32]) -> Option<T>) -> io::Result<T> {
        read(&card_settings(&self.name, settings)?).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}

fn ring_in(words: &[u32]) -> Option<Ring> {
    let [_, most, _, _, _, entries, ..] = *words else { return None };
    (most > 0).then_some(Ring { entries, most })
}

fn coalescing_in(words: &[u32]) -> Option<Coalescing> {
    let (microseconds, packets) = (*words.get(1)?, *words.get(2)?);
    Some(Coalescing { microseconds, packets, is_adaptive: *words.get(10)? != 0 })
}

fn channels_in(words: &[u32]) -> Option<Channels> {
    let [_, most_receive, _, _, most_combined, receive, _, _, combined] = *words else { return None };
    let count = receive.checked_add(combined)?;
    let is_combined = most_combined > 0;
    let most = if is_combined { most_combined } else { most_receive };
    (count > 0).then_some(Channels { count, most, is_combined })
}

fn pause_in(words: &[u32]) -> Option<Pause> {
    let [_, negotiated, obeys, asks] = *words else { return None };
    Some(Pause { is_negotiated: negotiated != 0, obeys: obeys != 0, asks: asks != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the driver of an Intel X550 answers.
    #[test]
    fn a_cards_settings_are_read_from_their_places() {
        let rings = [0x10, 4_096, 0, 0, 4_096, 512, 0, 0, 512];
        assert_eq!(ring_in(&rings), Some(Ring { entries: 512, most: 4_096 }));
        let mut words = [0; 23];
        (words[1], words[2], words[10]) = (50, 64, 1);
        let coalescing = Coalescing { microseconds: 50, packets: 64, is_adaptive: true };
        assert_eq!(coalescing_in(&words), Some(coalescing));
        let channels = [0x3c, 0, 0, 1, 63, 0, 0, 1, 8];
        assert_eq!(channels_in(&channels), Some(Channels { count: 8, most: 63, is_combined: true }));
        let only_receiving = [0x3c, 4, 4, 0, 0, 2, 2, 0, 0];
        assert_eq!(channels_in(&only_receiving), Some(Channels { count: 2, most: 4, is_combined: false }));
        let pause = Pause { is_negotiated: true, obeys: true, asks: false };
        assert_eq!(pause_in(&[0x12, 1, 1, 0]), Some(pause));
    }

    #[test]
    fn what_is_cut_or_empty_is_none() {
        let words = [u32::MAX; 23];
        for end in 0..words.len() {
            let cut = &words[..end];
            assert_eq!(ring_in(cut).is_some(), end >= 6);
            assert_eq!(coalescing_in(cut).is_some(), end >= 11);
            assert_eq!(channels_in(cut), None, "the sum is too large, or it is of another size");
            assert_eq!(pause_in(cut).is_some(), end == 4);
        }
        assert_eq!((ring_in(&[0; 9]), channels_in(&[0; 9])), (None, None));
    }

    #[test]
    fn the_loopback_interface_has_no_card() {
        let lo = Interface::find("lo").unwrap();
        assert!(lo.receive_ring().is_err() && lo.coalescing().is_err() && lo.pause().is_err());
        assert!(lo.channels().is_err());
    }
}
