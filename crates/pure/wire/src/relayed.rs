//! Extensions of relayed streams: what identifies their samples, the hops before this one, and the deadline of all.
//!
//! A relay publishes under an epoch of its own, the *hop epoch* in every header. Samples and accounts are identified
//! by the epoch of the stream's publisher, its *origin epoch*, whose sample indices every relay keeps. Losses before
//! the hop are cumulative, so that one tally repairs all before it.
//!
//! Source: `docs/protocol/stream.md`, "Relayed streams".

use core::num::NonZeroU8;
use core::time::Duration;

use ledger::{Cause, Outcome, Stage, StageCounts};
use units::Epoch;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::extension::{self, ExtensionType, Extensions};
use crate::header::Numbered;
use crate::layout::{self, StageRecord};
use crate::malformed::Reason;
use crate::text::{self, MAX_STATION_BYTES};
use crate::{Skipped, Tally, report, tally};

/// Maximum number of hops before the one on which a datagram is sent: two for each of four relays. It bounds the list of
/// stations in tallies.
pub const MAX_HOPS: usize = ledger::MAX_HOPS;
/// Maximum number of skipped ranges, the newest, whose outcome on an earlier hop is told in one tally.
pub const MAX_INHERITED: usize = 16;
/// Bytes by which a data datagram of a relayed stream is longer than that of its publisher: extension `origin`.
pub const ORIGIN_BYTES: usize = extension::padded_bytes(layout::Origin::SIZE_BYTES);
/// Maximum size of the hops in a tally: they share the header with its origin, all nonces, the outcomes of inherited
/// ranges and the extension that secures the tally. Units: bytes.
pub const MAX_UPSTREAM_BYTES: usize = Tally::room_for_upstream(crate::MAX_HEADER_BYTES);

// With the longest names of all its stations, the list still has room for stages.
const _: () = assert!(MAX_HOPS * (layout::UpstreamHop::SIZE_BYTES + MAX_STATION_BYTES) < MAX_UPSTREAM_BYTES);

/// Origin of relayed samples: their identity, whoever published this datagram.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Origin {
    /// The epoch of the stream's publisher; never that of the datagram's header.
    pub epoch: Epoch,
    /// Hop on which the datagram was sent, at most [`MAX_HOPS`]; hop 0 begins at the stream's publisher, whose datagrams
    /// carry no origin.
    pub hop: NonZeroU8,
}

/// Origin and age of relayed samples, as the header of their data has them.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(transparent)]
pub struct DataOrigin(layout::Origin);

/// A hop before the one on which a tally was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamHop {
    /// Station that sent on the hop, at most [`MAX_STATION_BYTES`] long.
    pub station: String,
    /// Elements lost on the hop since the origin epoch began, by stage.
    pub lost: StageCounts,
    /// Elements lost on it of which no stage is told.
    pub unexplained: u64,
}

/// Outcome on an earlier hop of elements that were never offered on this one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Inherited {
    /// The hop, below that of the origin.
    pub hop: u8,
    /// Their outcome on it.
    pub outcome: Outcome,
    /// Why a link gave them up, at stage `deadline`; `None` if that is not told.
    pub cause: Option<Cause>,
}

/// Time for which a stream's samples are of use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// Age from which a sample is useless, counted from its origin over all hops; not zero.
    pub end_to_end: Duration,
    /// Precedence where not all streams fit: the higher goes first. 0: none.
    pub priority: u8,
}

/// Returns the size of the extensions by which a tally with this origin, upstream and these ranges is longer than that
/// of the stream's publisher. Units: bytes.
#[must_use]
pub fn relayed_bytes(origin: Option<Origin>, upstream: &[UpstreamHop], skipped: &[Skipped]) -> usize {
    let upstream_bytes = match upstream {
        [] => 0,
        hops => extension::padded_bytes(UpstreamHop::list_bytes(hops)),
    };
    origin_bytes(origin.is_some()) + upstream_bytes + Inherited::room_bytes(skipped)
}

/// Returns the size of extension `origin` in a header. Units: bytes.
pub(crate) const fn origin_bytes(is_relayed: bool) -> usize {
    if is_relayed { ORIGIN_BYTES } else { 0 }
}

/// Returns the size of this many outcomes of inherited ranges in a header. Units: bytes.
pub(crate) const fn inherited_bytes(ranges: usize) -> usize {
    extension::padded_bytes(ranges * layout::Inherited::SIZE_BYTES)
}

impl Origin {
    pub(crate) fn value(self) -> layout::Origin {
        layout::Origin {
            epoch_start_ns: self.epoch.start_ns.into(),
            epoch_life: self.epoch.incarnation.into(),
            hop: self.hop.get(),
            reserved: 0,
            age_ms: 0.into(),
        }
    }

    /// Reads the origin among the extensions of a tally or descriptor.
    pub(crate) fn among(extensions: &Extensions<'_>) -> Result<Option<Self>, Reason> {
        let Some(origin) = DataOrigin::among(extensions)? else { return Ok(None) };
        if origin.0.age_ms.get() == 0 { Ok(Some(origin.origin())) } else { Err(Reason::Field("origin")) }
    }

    /// Checks that the hop has an epoch of its own, and a place within the list of stations.
    pub(crate) fn check(&self, head: &Numbered) -> Result<(), Reason> {
        let is_hop = usize::from(self.hop.get()) <= MAX_HOPS;
        if is_hop && self.epoch != head.epoch { Ok(()) } else { Err(Reason::Field("origin")) }
    }
}

impl DataOrigin {
    /// Makes the value for samples of this origin, the first of which has this age, or an unknown one.
    ///
    /// The age is rounded up to whole milliseconds, and one beyond [`DataOrigin::MAX_AGE`] becomes that.
    #[must_use]
    pub fn new(origin: Origin, age: Option<Duration>) -> Self {
        let age_ms = age.map_or(0, |age| {
            let rounded_up = age.as_nanos().div_ceil(1_000_000).max(1);
            u16::try_from(rounded_up).unwrap_or(u16::MAX)
        });
        Self(layout::Origin { age_ms: age_ms.into(), ..origin.value() })
    }

    /// The age that stands for itself and all above.
    pub const MAX_AGE: Duration = Duration::from_millis(u16::MAX as u64);

    /// Returns the origin.
    #[must_use]
    pub fn origin(&self) -> Origin {
        let value = &self.0;
        Origin {
            epoch: Epoch { start_ns: value.epoch_start_ns.get(), incarnation: value.epoch_life.get() },
            hop: NonZeroU8::new(value.hop).unwrap_or(NonZeroU8::MIN),
        }
    }

    /// Returns the age of the first sample at its departure, `None` if it is unknown.
    #[must_use]
    pub const fn age(&self) -> Option<Duration> {
        match self.0.age_ms.get() {
            0 => None,
            age_ms => Some(Duration::from_millis(age_ms as u64)),
        }
    }

    /// Reads the origin among the extensions of a datagram.
    pub(crate) fn among<'a>(extensions: &Extensions<'a>) -> Result<Option<&'a Self>, Reason> {
        extensions.value(ExtensionType::Origin).map(Self::read).transpose()
    }

    fn read(value: &[u8]) -> Result<&Self, Reason> {
        let refused = Reason::Field("origin");
        let read = Self::ref_from_bytes(value).map_err(|_| refused)?;
        if read.0.reserved == 0 && read.0.hop != 0 { Ok(read) } else { Err(refused) }
    }
}

impl PartialEq for DataOrigin {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for DataOrigin {}

impl core::fmt::Debug for DataOrigin {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("DataOrigin")
            .field("origin", &self.origin())
            .field("age", &self.age())
            .finish()
    }
}

impl UpstreamHop {
    /// Counts losses as `unexplained` on their hop, the least first, until the hops fit into this room; returns
    /// whether they do. No loss is left out.
    ///
    /// Units: `room_bytes` is that of [`Tally::room_for_upstream`].
    pub fn fold(hops: &mut [Self], room_bytes: usize) -> bool {
        while Self::list_bytes(hops) > room_bytes {
            let losses = hops
                .iter()
                .enumerate()
                .flat_map(|(hop, it)| it.lost.nonzero().map(move |(stage, count)| (count, hop, stage)));
            let Some((count, hop, stage)) = losses.min() else { return false };
            hops[hop].lost[stage] = 0;
            hops[hop].unexplained = hops[hop].unexplained.saturating_add(count);
        }
        true
    }

    /// Returns the size of a list in its wire encoding.
    fn list_bytes(hops: &[Self]) -> usize {
        let size_bytes = |hop: &Self| {
            let records_bytes = hop.lost.nonzero().count() * StageRecord::SIZE_BYTES;
            layout::UpstreamHop::SIZE_BYTES + hop.cut_station().len() + records_bytes
        };
        hops.iter().map(size_bytes).sum()
    }

    /// Returns the wire encoding of a list; empty without hops.
    pub(crate) fn list_value(hops: &[Self]) -> Vec<u8> {
        let mut value = Vec::with_capacity(Self::list_bytes(hops));
        for hop in hops {
            let station = hop.cut_station();
            let head = layout::UpstreamHop {
                unexplained: hop.unexplained.into(),
                station_bytes: small(station.len()),
                stages: small(hop.lost.nonzero().count()),
            };
            value.extend_from_slice(head.as_bytes());
            value.extend_from_slice(station.as_bytes());
            for (stage, count) in hop.lost.nonzero() {
                let record = StageRecord { count: count.into(), stage: stage.code() };
                value.extend_from_slice(record.as_bytes());
            }
        }
        value
    }

    fn cut_station(&self) -> &str {
        text::cut(&self.station, MAX_STATION_BYTES)
    }

    /// Reads a list of hops, of which there is at least one.
    pub(crate) fn read_list(value: &[u8]) -> Result<Vec<Self>, Reason> {
        let refused = Reason::Field("upstream");
        let (mut hops, mut rest) = (Vec::new(), value);
        while hops.is_empty() || !rest.is_empty() {
            let (hop, after) = Self::read(rest).ok_or(refused)?;
            hops.push(hop);
            rest = after;
            if hops.len() > MAX_HOPS {
                return Err(refused);
            }
        }
        Ok(hops)
    }

    /// Splits off the first hop of a list.
    fn read(list: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = layout::UpstreamHop::ref_from_prefix(list).ok()?;
        let (station, rest) = rest.split_at_checked(usize::from(head.station_bytes))?;
        let (records, rest) =
            <[StageRecord]>::ref_from_prefix_with_elems(rest, usize::from(head.stages)).ok()?;
        let hop = Self {
            station: text::read(station, MAX_STATION_BYTES, "upstream").ok()?,
            lost: report::stages(records).ok()?,
            unexplained: head.unexplained.get(),
        };
        Some((hop, rest))
    }

    /// Checks that there is a hop for each one before that of the tally, and that the losses of all can be added up.
    pub(crate) fn check_list(hops: &[Self], origin: Option<Origin>) -> Result<(), Reason> {
        let before = origin.map_or(0, |origin| usize::from(origin.hop.get()));
        let counts = hops.iter().flat_map(|hop| {
            let lost = hop.lost.nonzero().map(|(_, count)| count);
            lost.chain([hop.unexplained])
        });
        let is_whole = hops.is_empty() || hops.len() == before;
        let is_sum = counts.into_iter().try_fold(0_u64, u64::checked_add).is_some();
        let is_short = Self::list_bytes(hops) <= MAX_UPSTREAM_BYTES;
        if is_whole && is_sum && is_short { Ok(()) } else { Err(Reason::Field("upstream")) }
    }
}

impl Inherited {
    /// Hop of a range that this publisher skipped itself.
    const NO_HOP: u8 = u8::MAX;
    /// Code of the stage `deadline` with the first of all causes; the others follow.
    const GIVEN_UP: u8 = 250;
    const UNSETTLED: u8 = 254;
    const UNEXPLAINED: u8 = 255;
    const NONE: layout::Inherited = layout::Inherited { hop: Self::NO_HOP, outcome: 0 };

    /// Returns the newest ranges of a list, whose outcomes are told; none if there is none to be told.
    fn told(skipped: &[Skipped]) -> &[Skipped] {
        let newest = &skipped[skipped.len().saturating_sub(MAX_INHERITED)..];
        if newest.iter().any(|range| range.inherited.is_some()) { newest } else { &[] }
    }

    /// Returns the room for the outcomes of these ranges in a header. Units: bytes.
    pub(crate) fn room_bytes(skipped: &[Skipped]) -> usize {
        if skipped.iter().any(|range| range.inherited.is_some()) {
            inherited_bytes(skipped.len().min(MAX_INHERITED))
        } else {
            0
        }
    }

    /// Returns the wire encoding of the outcomes of these ranges, as far as they are told; empty without any.
    pub(crate) fn list_value(skipped: &[Skipped]) -> Vec<u8> {
        let told = Self::told(skipped);
        let mut value = Vec::with_capacity(told.len() * layout::Inherited::SIZE_BYTES);
        for range in told {
            value.extend_from_slice(range.inherited.map_or(Self::NONE, Self::record).as_bytes());
        }
        value
    }

    fn record(self) -> layout::Inherited {
        let outcome = match (self.outcome, self.cause) {
            (Outcome::Lost(Stage::Deadline), Some(cause)) => Self::GIVEN_UP + cause.code(),
            (Outcome::Lost(stage), _) => stage.code(),
            (Outcome::Unsettled, _) => Self::UNSETTLED,
            (Outcome::Unexplained, _) => Self::UNEXPLAINED,
        };
        layout::Inherited { hop: self.hop, outcome }
    }

    /// Reads the outcomes of the newest of these ranges.
    pub(crate) fn read_list(value: &[u8], skipped: &mut [Skipped]) -> Result<(), Reason> {
        let refused = Reason::Field("inherited");
        let records = <[layout::Inherited]>::ref_from_bytes(value).map_err(|_| refused)?;
        let earlier = skipped.len().checked_sub(records.len()).ok_or(refused)?;
        if records.is_empty() || records.len() > MAX_INHERITED {
            return Err(refused);
        }
        for (range, record) in skipped[earlier..].iter_mut().zip(records) {
            range.inherited = Self::read(record)?;
        }
        if Self::told(skipped).is_empty() { Err(refused) } else { Ok(()) }
    }

    fn read(record: &layout::Inherited) -> Result<Option<Self>, Reason> {
        let refused = Reason::Field("inherited");
        let mut cause = None;
        let outcome = match record.outcome {
            _ if record.hop == Self::NO_HOP => {
                return if record.outcome == 0 { Ok(None) } else { Err(refused) };
            }
            Self::UNSETTLED => Outcome::Unsettled,
            Self::UNEXPLAINED => Outcome::Unexplained,
            code @ Self::GIVEN_UP.. => {
                cause = Cause::from_code(code - Self::GIVEN_UP);
                Outcome::Lost(Stage::Deadline)
            }
            code => Outcome::Lost(Stage::from_code(code).ok_or(refused)?),
        };
        Ok(Some(Self { hop: record.hop, outcome, cause }))
    }

    /// Checks that only what was lost before the origin's hop is inherited.
    pub(crate) fn check_list(skipped: &[Skipped], origin: Option<Origin>) -> Result<(), Reason> {
        let before = origin.map_or(0, |origin| origin.hop.get());
        let is_sound = |range: &Skipped| {
            range.inherited.is_none_or(|it| it.hop < before && range.stage == Stage::Source)
        };
        if skipped.iter().all(is_sound) { Ok(()) } else { Err(Reason::Field("inherited")) }
    }
}

impl Deadline {
    pub(crate) fn value(self) -> layout::Deadline {
        layout::Deadline {
            deadline_ns: tally::nanos(self.end_to_end).into(),
            priority: self.priority,
            reserved: [0; 3],
        }
    }

    pub(crate) fn read(value: &[u8]) -> Result<Self, Reason> {
        let refused = Reason::Field("deadline");
        let value = layout::Deadline::ref_from_bytes(value).map_err(|_| refused)?;
        if value.reserved != [0; 3] {
            return Err(refused);
        }
        let end_to_end = Duration::from_nanos(value.deadline_ns.get());
        Ok(Self { end_to_end, priority: value.priority })
    }

    /// Checks that a sample is of use at all.
    pub(crate) fn check(&self) -> Result<(), Reason> {
        if self.end_to_end.is_zero() { Err(Reason::Field("deadline")) } else { Ok(()) }
    }
}

fn small(count: usize) -> u8 {
    u8::try_from(count).expect("at most 63 bytes and 25 stages")
}

#[cfg(test)]
mod tests {
    use ledger::Stage;

    use super::*;
    use crate::layout::ExtensionHead;

    fn hop(station: &str, lost: &[(Stage, u64)]) -> UpstreamHop {
        let mut counts = StageCounts::default();
        for &(stage, count) in lost {
            counts[stage] = count;
        }
        UpstreamHop { station: station.to_owned(), lost: counts, unexplained: 0 }
    }

    #[test]
    fn losses_are_folded_from_the_least_until_the_hops_fit() {
        let all = [
            hop("near", &[(Stage::Network, 7), (Stage::ReaderLag, 900)]),
            hop("far", &[(Stage::Deadline, 40)]),
        ];
        let full = UpstreamHop::list_bytes(&all);
        assert_eq!(full, 2 * 10 + 4 + 3 + 3 * 9);
        assert_eq!(UpstreamHop::list_value(&all).len(), full);
        let folded = |room_bytes| {
            let mut hops = all.clone();
            let fits = UpstreamHop::fold(&mut hops, room_bytes);
            let total = |hop: &UpstreamHop| hop.lost.total() + hop.unexplained;
            assert_eq!(hops.each_ref().map(total), all.each_ref().map(total), "no loss is left out");
            (fits, hops.map(|hop| hop.unexplained))
        };
        assert_eq!(folded(full), (true, [0, 0]));
        assert_eq!(folded(full - 1), (true, [7, 0]));
        assert_eq!(folded(full - 9), (true, [7, 0]));
        assert_eq!(folded(full - 10), (true, [7, 40]));
        assert_eq!(folded(full - 27), (true, [907, 40]));
        assert_eq!(folded(full - 28), (false, [907, 40]), "names alone are too long");
    }

    #[test]
    fn the_longest_chain_fits_beside_what_a_tally_may_have() {
        let all = Stage::ALL.map(|stage| (stage, 1_u64 << 50));
        let station = "s".repeat(MAX_STATION_BYTES);
        let mut hops = vec![hop(&station, &all); MAX_HOPS];
        assert!(UpstreamHop::fold(&mut hops, MAX_UPSTREAM_BYTES));
        let origin = Origin { epoch: Epoch { start_ns: 1, incarnation: 2 }, hop: NonZeroU8::new(8).unwrap() };
        assert_eq!(UpstreamHop::check_list(&hops, Some(origin)), Ok(()));
        assert!(
            relayed_bytes(Some(origin), &hops, &[])
                <= ORIGIN_BYTES + MAX_UPSTREAM_BYTES + ExtensionHead::SIZE_BYTES
        );
        assert_eq!(relayed_bytes(None, &[], &[]), 0);
    }
}
