//! Settings of a network card: rings, coalescing, channels and flow control, as `ethtool -g`, `-c`,
//! `-l` and `-a` show them.
//!
//! A driver refuses settings that it does not have (`EOPNOTSUPP`): loopback and most virtual
//! interfaces have none. Reading takes no privilege.

use diagnose::audit::{Card, Channels, Coalescing, Pause, Ring};

use crate::interface::Interface;
use crate::raw::{CardSettings, card_settings};

impl Interface {
    /// Reads the settings of the card; those that its driver does not report are absent, and so are its losses, which
    /// its link counts ([`crate::Link`]).
    #[must_use]
    pub fn card(&self) -> Card {
        Card {
            ring: self.read(CardSettings::Rings, ring_in),
            coalescing: self.read(CardSettings::Coalescing, coalescing_in),
            channels: self.read(CardSettings::Channels, channels_in),
            pause: self.read(CardSettings::Pause, pause_in),
            had_no_room: None,
        }
    }

    fn read<T>(&self, settings: CardSettings, parse: fn(&[u32]) -> Option<T>) -> Option<T> {
        parse(&card_settings(&self.name, settings).ok()?)
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
        assert_eq!(Interface::find("lo").unwrap().card(), Card::default());
    }
}
