//! Settings of an interface's card, as far as its driver reports them.

use diagnose::audit::{Card, Channels, Coalescing, Pause, Ring};
use sys::Link;

/// Reads the settings of a card; those that its driver does not report are absent.
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
