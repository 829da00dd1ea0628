//! How an interface's card is set, as far as its driver tells.

use diagnose::audit::{Card, Channels, Coalescing, Pause, Ring};
use sys::Link;

/// Asks a card; what it does not tell is not there.
pub(super) fn of(interface: &sys::Interface, link: Option<&Link>) -> Card {
    let ring = |it: sys::Ring| Ring { entries: it.entries, most: it.most };
    let coalescing = |it: sys::Coalescing| Coalescing {
        microseconds: it.microseconds,
        packets: it.packets,
        is_adaptive: it.is_adaptive,
    };
    let channels =
        |it: sys::Channels| Channels { count: it.count, most: it.most, is_combined: it.is_combined };
    let pause = |it: sys::Pause| Pause { is_negotiated: it.is_negotiated, obeys: it.obeys, asks: it.asks };
    Card {
        ring: interface.receive_ring().ok().map(ring),
        coalescing: interface.coalescing().ok().map(coalescing),
        channels: interface.channels().ok().map(channels),
        pause: interface.pause().ok().map(pause),
        had_no_room: link.map(|link| link.had_no_room),
    }
}
