//! Settings of a network card: rings, coalescing, channels and flow control, as `ethtool -g`, `-c`,
//! `-l` and `-a` show them.
//!
//! A driver refuses settings that it does not have (`EOPNOTSUPP`): loopback and most virtual
//! interfaces have none. Reading takes no privilege. `diagnose::audit` gives the words their meaning.

use std::io;

use crate::host::interface::Interface;
use crate::raw::{self, CardSettings};

impl Interface {
    /// Reads one structure of the card's settings as words of 32 bits; the first is the command.
    ///
    /// # Errors
    /// The kernel's error, in particular if the driver does not report these settings.
    pub fn card_settings(&self, settings: CardSettings) -> io::Result<Vec<u32>> {
        raw::card_settings(&self.name, settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_no_card() {
        use CardSettings::{Channels, Coalescing, Pause, Rings};
        let lo = Interface::find("lo").unwrap();
        for settings in [Rings, Coalescing, Channels, Pause] {
            assert!(lo.card_settings(settings).is_err(), "{settings:?}");
        }
    }
}
