//! Gaps with the times at which their samples were taken, as subscribers receive them.

use std::sync::Arc;

use ledger::{Gap, GapKind};
use units::Epoch;

use super::Flow;
use crate::event::{Event, StreamGap};
use crate::reader_epoch::ReaderEpoch;
use crate::tap::TapRecord;

/// Id of the time without a publisher, once per epoch; above all positions that occur, and still an exact
/// integer for every reader of JSON.
const ABSENCE_ID: u64 = (1 << 53) - 1;

impl Flow {
    /// Reports a gap; a subscriber is told later of one before the first block, which gives the times.
    pub(super) fn tell_gap(&mut self, epoch: Epoch, gap: Gap, events: &mut Vec<Event>) {
        self.tap_gap(epoch, &gap);
        events.extend(self.stream_gap(epoch, gap).map(Event::Gap));
    }

    /// Reports that this reader was absent, now or when a block has given a time.
    pub(super) fn tell_absence(&mut self, epoch: Epoch, absence: Gap, events: &mut Vec<Event>) {
        self.tap_gap(epoch, &absence);
        match self.stream_gap(epoch, absence.clone()) {
            Some(gap) => events.push(Event::Gap(gap)),
            None => {
                if let Some(reader_epoch) = self.epochs.get_mut(&epoch) {
                    reader_epoch.absence = Some(absence);
                }
            }
        }
    }

    pub(super) fn tell_settled(&mut self, epoch: Epoch, news: Vec<Gap>, events: &mut Vec<Event>) {
        for gap in &news {
            self.tap(epoch, || TapRecord::Settled(gap.clone()));
        }
        self.tell_news(epoch, news, events);
    }

    fn tell_news(&self, epoch: Epoch, news: Vec<Gap>, events: &mut Vec<Event>) {
        let told = news.into_iter().filter_map(|gap| self.stream_gap(epoch, gap));
        events.extend(told.map(Event::Settled));
    }

    /// Corrects the end of the gap before a block: it was extrapolated at the rate, and the block has another
    /// time.
    pub(super) fn correct_end(&self, epoch: Epoch, position: u64, events: &mut Vec<Event>) {
        let last = self.epochs.get(&epoch).and_then(|reader_epoch| reader_epoch.hop.gaps().next_back());
        let before = last.filter(|gap| gap.positions.end == position && !gap.is_empty());
        self.tell_news(epoch, before.cloned().into_iter().collect(), events);
    }

    /// Reports the time without a publisher and the gaps that waited for the epoch's first block.
    pub(super) fn tell_untimed(&mut self, epoch: Epoch, events: &mut Vec<Event>) {
        events.extend(self.absence_before(epoch).map(Event::Gap));
        if let Some(absence) =
            self.epochs.get_mut(&epoch).and_then(|reader_epoch| reader_epoch.absence.take())
        {
            events.extend(self.stream_gap(epoch, absence).map(Event::Gap));
        }
        let Some(reader_epoch) = self.epochs.get(&epoch) else { return };
        let gaps = reader_epoch.hop.gaps().cloned();
        events.extend(gaps.filter_map(|gap| self.stream_gap(epoch, gap)).map(Event::Gap));
    }

    /// Returns the time between the end of the epoch before and the first sample of this one.
    ///
    /// Source: `docs/protocol/account.md`, rule 14.
    fn absence_before(&self, epoch: Epoch) -> Option<StreamGap> {
        let reader_epoch = self.epochs.get(&epoch)?;
        let (_, before) = self.epochs.range(..epoch).next_back()?;
        if before.lapped && !before.ended {
            return None; // Its end was overwritten in the ring.
        }
        let rate = self.schema.rate;
        let t0 = before.time_of(before.hop.rows().next, rate)?;
        let t1 = reader_epoch.time_of(0, rate)?;
        let position = reader_epoch.hop.rows().first * u64::from(self.schema.elements_per_sample());
        let gap = Gap::outside_accounts(GapKind::PublisherAbsent, ABSENCE_ID, position..position);
        let absence = StreamGap { t0, t1, ..self.stream_gap(epoch, gap)? };
        (t0 < t1).then_some(absence)
    }

    /// Returns the data between the account of an epoch that has ended and the `next` one of the same epoch:
    /// the reach was another one meanwhile, or another publisher of the name was current.
    ///
    /// Source: `docs/protocol/account.md`, rules 14 and 16.
    pub(super) fn absence_of_reader(&mut self, epoch: Epoch, next: &ReaderEpoch) -> Option<Gap> {
        self.resumed = false;
        let before = self.epochs.get(&epoch).filter(|reader_epoch| reader_epoch.ended)?;
        let per_sample = u64::from(self.schema.elements_per_sample());
        let positions = before.hop.next_position()..next.hop.rows().first * per_sample;
        (positions.start < positions.end)
            .then(|| Gap::outside_accounts(GapKind::ReaderAbsent, positions.start, positions))
    }

    fn stream_gap(&self, epoch: Epoch, gap: Gap) -> Option<StreamGap> {
        let per_sample = u64::from(self.schema.elements_per_sample());
        let reader_epoch = self.epochs.get(&epoch)?;
        Some(StreamGap {
            stream: Arc::clone(&self.name),
            epoch,
            join: reader_epoch.join,
            elements_per_sample: self.schema.elements_per_sample(),
            t0: reader_epoch.time_of(gap.positions.start / per_sample, self.schema.rate)?,
            t1: reader_epoch.time_of(gap.positions.end.div_ceil(per_sample), self.schema.rate)?,
            gap,
        })
    }
}
