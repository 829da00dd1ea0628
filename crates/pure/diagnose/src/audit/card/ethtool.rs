//! Card settings from the kernel's structures (`linux/ethtool.h`), as words of 32 bits of which the first is the
//! command. A structure that is cut, empty, or of another size has no settings.

use super::{Channels, Coalescing, Pause, Ring};

impl Ring {
    /// Reads `struct ethtool_ringparam`.
    #[must_use]
    pub const fn from_words(words: &[u32]) -> Option<Self> {
        let [_, most, _, _, _, entries, ..] = *words else { return None };
        if most > 0 { Some(Self { entries, most }) } else { None }
    }
}

impl Coalescing {
    /// Reads `struct ethtool_coalesce`.
    #[must_use]
    pub fn from_words(words: &[u32]) -> Option<Self> {
        let (microseconds, packets) = (*words.get(1)?, *words.get(2)?);
        Some(Self { microseconds, packets, is_adaptive: *words.get(10)? != 0 })
    }
}

impl Channels {
    /// Reads `struct ethtool_channels`.
    #[must_use]
    pub fn from_words(words: &[u32]) -> Option<Self> {
        let [_, most_receive, _, _, most_combined, receive, _, _, combined] = *words else { return None };
        let count = receive.checked_add(combined)?;
        let is_combined = most_combined > 0;
        let most = if is_combined { most_combined } else { most_receive };
        (count > 0).then_some(Self { count, most, is_combined })
    }
}

impl Pause {
    /// Reads `struct ethtool_pauseparam`.
    #[must_use]
    pub const fn from_words(words: &[u32]) -> Option<Self> {
        let [_, negotiated, obeys, asks] = *words else { return None };
        Some(Self { is_negotiated: negotiated != 0, obeys: obeys != 0, asks: asks != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses answers of the driver of an Intel X550.
    #[test]
    fn a_cards_settings_are_read_from_their_places() {
        let rings = [0x10, 4_096, 0, 0, 4_096, 512, 0, 0, 512];
        assert_eq!(Ring::from_words(&rings), Some(Ring { entries: 512, most: 4_096 }));
        let mut words = [0; 23];
        (words[1], words[2], words[10]) = (50, 64, 1);
        let coalescing = Coalescing { microseconds: 50, packets: 64, is_adaptive: true };
        assert_eq!(Coalescing::from_words(&words), Some(coalescing));
        let combined = Channels { count: 8, most: 63, is_combined: true };
        assert_eq!(Channels::from_words(&[0x3c, 0, 0, 1, 63, 0, 0, 1, 8]), Some(combined));
        let only_receiving = Channels { count: 2, most: 4, is_combined: false };
        assert_eq!(Channels::from_words(&[0x3c, 4, 4, 0, 0, 2, 2, 0, 0]), Some(only_receiving));
        let pause = Pause { is_negotiated: true, obeys: true, asks: false };
        assert_eq!(Pause::from_words(&[0x12, 1, 1, 0]), Some(pause));
    }

    #[test]
    fn a_structure_that_is_cut_or_empty_has_no_settings() {
        let words = [u32::MAX; 23];
        for end in 0..words.len() {
            let cut = &words[..end];
            assert_eq!(Ring::from_words(cut).is_some(), end >= 6);
            assert_eq!(Coalescing::from_words(cut).is_some(), end >= 11);
            assert_eq!(Channels::from_words(cut), None, "the sum is too large, or it is of another size");
            assert_eq!(Pause::from_words(cut).is_some(), end == 4);
        }
        assert_eq!((Ring::from_words(&[0; 9]), Channels::from_words(&[0; 9])), (None, None));
    }
}
