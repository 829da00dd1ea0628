//! Consecutive data datagrams of one train: counted and delivered together.
//!
//! The cost per datagram beyond its bytes is paid once for the whole run. A run ends at the first irregular datagram;
//! the following ones are handled one by one, or begin the next run.

use core::ops::Range;

use units::SampleRate;
use wire::Data;

use super::Train;

/// Data datagrams of one stream and epoch, with consecutive numbers, elements and times.
#[derive(Clone, Debug)]
pub(super) struct Run<'a> {
    /// The first datagram.
    pub(super) first: Data<'a>,
    /// All datagrams, headers and payloads.
    bytes: &'a [u8],
    /// Offset of the first datagram in its train.
    start: usize,
    segment_bytes: usize,
    /// Size of each header, extensions included.
    header_bytes: usize,
    datagrams: u64,
    elements: u64,
}

impl<'a> Run<'a> {
    /// Takes the run that begins with the datagram `first` at `start` of a train.
    ///
    /// `rate` gives the time of each sample if the first was taken on time; without it the run has one datagram.
    pub(super) fn take(first: Data<'a>, train: &Train<'a>, start: usize, rate: Option<SampleRate>) -> Self {
        let Train { segment_bytes, .. } = *train;
        let (bytes, elements) = (&train.bytes[start..], u64::from(first.element_count));
        let mut size = segment_bytes.min(bytes.len());
        let header_bytes = size - first.payload.len();
        let mut run = Self { first, bytes, start, segment_bytes, header_bytes, datagrams: 1, elements };
        if let Some(rate) = rate {
            for datagram in bytes.chunks(segment_bytes).skip(1) {
                let alike = |next: &Data<'_>| next.payload.len() + header_bytes == datagram.len();
                let next = train.data(datagram).filter(alike);
                let Some(next) = next.filter(|next| run.is_continued_by(next, rate)) else { break };
                run.datagrams += 1;
                run.elements += u64::from(next.element_count);
                size += datagram.len();
            }
        }
        run.bytes = &bytes[..size];
        run
    }

    fn is_continued_by(&self, next: &Data<'_>, rate: SampleRate) -> bool {
        let (first, head) = (&self.first, &next.head);
        let is_next = head.number == first.head.number + self.datagrams
            && head.position() == self.positions().end
            && head.stream == first.head.stream
            && head.epoch == first.head.epoch;
        let is_alike = head.elements_per_sample == first.head.elements_per_sample
            && (next.dtype, next.clock, next.origin) == (first.dtype, first.clock, first.origin);
        // Within a sample that is sent in pieces the run ends with the sample: readers wait for whole samples.
        let is_same_sample = !first.is_piece() || head.first_index == first.head.first_index;
        // Both times may have been rounded down to a nanosecond.
        let expected = rate.time_of(head.first_index, first.head.first_index, first.t0);
        is_next && is_alike && is_same_sample && next.t0.nanos_since(expected).unsigned_abs() <= 1
    }

    /// Returns the number of datagrams.
    pub(super) const fn datagrams(&self) -> u64 {
        self.datagrams
    }

    /// Returns the size of the datagrams with their headers.
    pub(super) const fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) const fn numbers(&self) -> Range<u64> {
        let start = self.first.head.number;
        start..start.saturating_add(self.datagrams)
    }

    pub(super) const fn positions(&self) -> Range<u64> {
        let start = self.first.head.position();
        start..start.saturating_add(self.elements)
    }

    /// Returns its range in the train.
    pub(super) const fn place(&self) -> Range<usize> {
        self.start..self.start + self.bytes.len()
    }

    pub(super) const fn segment_bytes(&self) -> usize {
        self.segment_bytes
    }

    pub(super) const fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    /// Returns the datagrams one by one.
    pub(super) fn each(&self) -> impl Iterator<Item = (Data<'a>, &'a [u8])> + use<'a> {
        let decoded = |bytes| Data::decode(bytes).map(|data| (data, bytes));
        self.bytes.chunks(self.segment_bytes).filter_map(decoded)
    }
}
