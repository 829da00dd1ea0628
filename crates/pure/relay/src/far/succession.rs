//! The order of a stream's epochs: on the bus the next one begins once those before it are out.
//!
//! Readers follow the newest epoch. What of the one before was published behind its beginning, above all its end, they
//! would not take any more.

use units::Instant;

use super::stream::{FAREWELL, Stream};
use super::{FarEnd, FarEvent, FarOutput};
use crate::frame::{Content, Message, Refusal};

impl FarEnd {
    /// Holds a stream back that begins while an earlier epoch of its publisher is not out.
    pub(super) fn hold_back(&mut self, now: Instant, slot: u16) {
        let stream = &self.streams[&slot];
        let before: Vec<&Stream> = self.streams.values().filter(|it| it.precedes(stream)).collect();
        let Some(latest) = before.iter().max_by_key(|it| it.origin()) else { return };
        // All samples before it are older than this, and the end follows them.
        let until = now + before.iter().map(|it| it.kept()).max().unwrap_or_default() + FAREWELL;
        let deadlines = latest.reader_deadlines().inherited();
        self.streams.get_mut(&slot).expect("it is there").hold(until, deadlines);
    }

    /// Publishes the epochs before which nothing is left.
    pub(super) fn let_go(&mut self, now: Instant, is_up: bool) {
        // One that goes may end at once, and another has waited for it.
        while let Some(slot) = self.next_to_go() {
            let stream = self.streams.get_mut(&slot).expect("it is there");
            if let Err(fault) = stream.let_go() {
                self.ignored += 1;
                self.outputs.push_back(FarOutput::Event(FarEvent::Ignored(fault)));
            }
            stream.release(now, is_up);
            while let Some(output) = stream.poll(slot) {
                self.outputs.push_back(output);
            }
        }
    }

    fn next_to_go(&self) -> Option<u16> {
        let is_free = |held: &Stream| !self.streams.values().any(|before| before.precedes(held));
        let mut all = self.streams.iter();
        all.find(|(_, stream)| stream.is_held() && is_free(stream)).map(|(&slot, _)| slot)
    }

    /// Ends the epochs of which the near end tells nothing any more, and has not told the end, although the next one has
    /// waited for it for long.
    pub(super) fn end_silent(&mut self, now: Instant) {
        let waiting = self.streams.iter().filter(|(_, it)| it.has_waited(now));
        let waiting: Vec<_> = waiting.map(|(&slot, it)| (slot, it.id(), it.origin())).collect();
        for (slot, id, origin) in waiting {
            let is_before = |it: &Stream| it.id() == id && it.origin() < origin && !it.has_ended();
            let heard = self.streams.values().filter(|it| is_before(it)).filter_map(Stream::heard).max();
            match heard.map(|heard| heard + FAREWELL).filter(|until| now < *until) {
                // Over a narrow path it may take long to tell what of it was given up.
                Some(until) => self.streams.get_mut(&slot).expect("it is there").wait_until(until),
                None => self.streams.values_mut().filter(|it| is_before(it)).for_each(Stream::forget),
            }
        }
    }

    /// Ends the streams that wait for their near end while a later epoch of their publisher is there: it will not come
    /// back to them, and on the bus two epochs of one stream would seem to be two publishers.
    pub(super) fn end_before(&mut self, slot: u16) {
        let (id, origin) = (self.streams[&slot].id(), self.streams[&slot].origin());
        let is_before = |known: &&mut Stream| {
            known.id() == id && known.origin() < origin && known.suspended_since().is_some()
        };
        self.streams.values_mut().filter(is_before).for_each(Stream::forget);
    }

    /// Refuses streams of which nothing was published yet while a later epoch of their publisher is: readers take the
    /// epoch that began last for the newest, and would leave the other one.
    pub(super) fn refuse_superseded(&mut self) {
        let is_superseded = |slot: &u16| {
            let stream = &self.streams[slot];
            stream.is_waiting() && self.streams.values().any(|it| it.has_opened() && stream.precedes(it))
        };
        let superseded: Vec<(u16, u16)> = self
            .on_link
            .iter()
            .filter(|(_, slot)| is_superseded(slot))
            .map(|(&to, &slot)| (to, slot))
            .collect();
        for (number, slot) in superseded {
            let refusal = Refusal::Superseded;
            let Some(stream) = self.streams.get_mut(&slot).filter(|stream| !stream.is_forgotten()) else {
                continue;
            };
            stream.forget();
            let origin = stream.origin();
            self.ignored += 1;
            self.send(&Message::plain(number, Content::Refuse(refusal)), None);
            self.outputs.push_back(FarOutput::Event(FarEvent::Refused { origin, refusal }));
        }
    }
}
