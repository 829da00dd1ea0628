//! The gate in front of a receiver: it opens datagrams of streams, and lets an epoch begin only by a signed descriptor.
//!
//! A datagram passes if its epoch is believed, its tag is right and its number is new. Until its descriptor has
//! arrived, an epoch cannot be opened: its salt is unknown. Parts of a descriptor carry the salt, so they are opened
//! and put together here first; with a valid signature the epoch is believed, and they and the
//! [held](super::held) datagrams pass in the order of their arrival. Of a stream that the reader [joins](super::joining),
//! they wait for an answer of the publisher. An epoch that began before the believed one is a [rival](super::rivalry) of
//! it if its publisher answers, and otherwise a recording.
//!
//! The receiver behind the gate gets plain datagrams from one address per epoch, which moves as the publisher does:
//! source addresses prove nothing here, and a replay from elsewhere must not make the receiver doubt its publisher.
//!
//! Source: `docs/protocol/security.md`, "Receiving".

use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use keys::{GroupKey, GroupSecret, Membership, Purpose, Salt, Stretch, Token};
use units::{Epoch, Instant, StreamId, WallTime};
use wire::{
    Datagram, Description, DescriptorAssembler, Distrust, Kind, SecuredDataHeader, SecuredHead, Security,
};

use super::epoch_keys::BelievedEpoch;
use super::held::HeldDatagrams;
use super::joining::{Joining, Joinings, Nonces, Step};
use super::rivalry::{Answer, Rival, Rivalry};
use super::{Unauthentic, UnauthenticCounts, Utc};
use crate::receive::{EpochNews, ReceiverStats};

/// Maximum number of streams; a stream takes a place only by a signed descriptor.
const MAX_STREAMS: usize = 1_024;
/// Epochs of a stream that are remembered, so that none of them is replayed.
const MAX_EPOCHS: usize = 8;
/// Silence after which a stream gives its place to another.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// Maximum number of epochs of all streams whose descriptors are incomplete. Only members make them, but anybody repeats
/// recorded parts.
const MAX_CANDIDATES: usize = 1_024;
/// Maximum size of the parts of all incomplete descriptors.
const MAX_CANDIDATE_BYTES: usize = 8 << 20;
/// Stream in events of datagrams whose stream is not known: anybody can make up streams.
const ANY_STREAM: StreamId = StreamId(0);
/// Silence after which an epoch that began earlier by its clock may follow: a publisher's clock was set back.
const SILENCE: Duration = Duration::from_secs(10);
/// Maximum number of streams of which events are told.
const MAX_TOLD: usize = 1_024;

/// Opens the datagrams of one socket's streams.
#[derive(Debug)]
pub struct Gate {
    membership: Arc<Membership>,
    utc: Utc,
    streams: BTreeMap<StreamId, GatedStream>,
    candidates: VecDeque<Candidate>,
    held: HeldDatagrams,
    joinings: Joinings,
    nonces: Nonces,
    stats: GateStats,
    events: VecDeque<GateEvent>,
    told: BTreeSet<(StreamId, Unauthentic)>,
    /// The latest distrust that was told of each stream.
    distrusted: BTreeMap<StreamId, core::mem::Discriminant<Distrust>>,
}

/// Counts of the datagrams that a gate did not pass. Units: datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GateStats {
    /// Not authentic, by reason.
    pub unauthentic: UnauthenticCounts,
    /// Of an epoch whose descriptor had not arrived.
    pub undescribed: u64,
    /// Further copies of final tallies.
    pub repeated: u64,
    /// Foreign to this protocol.
    pub malformed: u64,
    /// Parts of descriptors of streams beyond the maximum.
    pub too_many_streams: u64,
    /// Epochs that began although their publishers did not answer. Units: epochs.
    pub unconfirmed_epochs: u64,
}

/// An observation that a user should know. Each is told once per stream and reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GateEvent {
    /// Datagrams were not taken.
    Refused {
        /// The stream that they claim to be of.
        stream: StreamId,
        /// The reason.
        reason: Unauthentic,
        /// Public name of their secret, if they are secured.
        token: Option<Token>,
        /// Source address of the first.
        from: SocketAddr,
    },
    /// A descriptor was not believed.
    Distrusted {
        /// The stream.
        stream: StreamId,
        /// The reason.
        why: Distrust,
        /// Source address of its last part.
        from: SocketAddr,
    },
    /// An epoch began although its publisher did not answer: only clocks tell it from a recording.
    Unconfirmed {
        /// The stream.
        stream: StreamId,
        /// Source address.
        from: SocketAddr,
    },
}

/// An input for the receiver behind the gate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Passed<'a> {
    /// Plain datagrams of one sender, in the order of sending.
    Train {
        /// The payloads, concatenated.
        bytes: &'a [u8],
        /// Size of each payload; the last may be shorter.
        segment_bytes: usize,
        /// Address of the epoch.
        from: SocketAddr,
    },
    /// News of an epoch.
    Epoch {
        /// The stream.
        stream: StreamId,
        /// The epoch.
        epoch: Epoch,
        /// The news.
        news: EpochNews<'a>,
    },
}

#[derive(Debug)]
struct GatedStream {
    /// Believed epochs, the latest last.
    epochs: VecDeque<BelievedEpoch>,
    /// Time of the latest datagram that passed.
    heard: Instant,
    /// The latest epoch that is not remembered any more.
    forgotten: Option<Epoch>,
    unauthentic: UnauthenticCounts,
    rivalry: Rivalry,
    /// Epochs that began although their publishers did not answer.
    unconfirmed_epochs: u64,
}

/// An epoch whose descriptor is incomplete.
#[derive(Debug)]
struct Candidate {
    stretch: Stretch,
    salt: Salt,
    assembler: DescriptorAssembler,
    /// Checksum and size of the description whose parts are kept.
    content: Option<(u32, u32)>,
    /// The parts as plain datagrams, by their numbers, and their size together.
    parts: BTreeMap<u64, Vec<u8>>,
    size_bytes: usize,
}

/// An epoch whose descriptor is complete and valid.
struct Described {
    candidate: Candidate,
    description: Box<Description>,
}

/// Consequence of a part for its description.
enum Progress {
    /// Parts are missing.
    Incomplete,
    /// It was taken before, or belongs to an earlier signature.
    Repeated,
    /// The description is complete; `None` if it cannot be read.
    Complete(Option<Box<Description>>),
}

/// Datagrams that passed and lie side by side in the buffer.
struct PassedTrain {
    place: Range<usize>,
    segment_bytes: usize,
    from: SocketAddr,
    /// True once a shorter datagram has ended it.
    is_complete: bool,
}

/// Consequence of a datagram.
enum Taken {
    /// It passed; its plain form has this size. With `moved`, it shows that its epoch is sent from another address.
    Passed { size_bytes: usize, from: SocketAddr, moved: Option<Stretch> },
    /// It completed the descriptor of an epoch that is believed from now on.
    Began(Described),
    /// It is time to ask the publisher of an epoch at this address.
    Ask(Stretch, SocketAddr),
    /// It shows that an epoch is sent now; the account may begin with the numbers that lead up to this one.
    Confirmed(Stretch, u64),
    /// It shows that an epoch is sent beside a later one.
    Answered(Box<Answer>),
    /// It was counted or held.
    Nothing,
    /// It waits for the description of its stream.
    Undescribed(Stretch),
}

impl Gate {
    /// Creates a gate at `now`, when UTC is `wall`. `seed` is random, and known to nobody else: nonces follow from it.
    #[must_use]
    pub fn new(membership: Arc<Membership>, now: Instant, wall: WallTime, seed: u64) -> Self {
        Self {
            membership,
            utc: Utc { at: now, wall },
            streams: BTreeMap::new(),
            candidates: VecDeque::new(),
            held: HeldDatagrams::default(),
            joinings: Joinings::default(),
            nonces: Nonces::new(seed),
            stats: GateStats::default(),
            events: VecDeque::new(),
            told: BTreeSet::new(),
            distrusted: BTreeMap::new(),
        }
    }

    /// Adopts other secrets, and corrects UTC.
    pub fn adopt(&mut self, now: Instant, membership: &Arc<Membership>, wall: WallTime) {
        self.utc = Utc { at: now, wall };
        if Arc::ptr_eq(&self.membership, membership) {
            return;
        }
        self.membership = Arc::clone(membership);
        for epoch in self.streams.values_mut().flat_map(|stream| &mut stream.epochs) {
            epoch.keep_only(&membership.keys);
        }
        self.streams.values_mut().for_each(|stream| stream.rivalry.keep_only(&membership.keys));
        self.joinings.keep_only(&membership.keys);
        // A user hears again of a secret that is still missing.
        self.told.retain(|(_, reason)| *reason != Unauthentic::NoKey);
    }

    /// Opens in place the datagrams that one sender sent, and passes those that are authentic and new.
    ///
    /// Units: `segment_bytes` is the size of each datagram; the last may be shorter. Not zero.
    ///
    /// Cost: the decryption; the datagrams that pass are moved together without a copy of their own. Nothing is
    /// allocated for a believed epoch.
    pub fn pass(
        &mut self,
        now: Instant,
        bytes: &mut [u8],
        segment_bytes: usize,
        from: SocketAddr,
        pass: &mut impl FnMut(Passed<'_>),
    ) {
        let (mut train, mut start, source) = (None, 0, from);
        while start < bytes.len() {
            let end = bytes.len().min(start + segment_bytes);
            let to = train.as_ref().map_or(start, |train: &PassedTrain| train.place.end);
            let head = SecuredHead::read(&bytes[start..end]);
            let header = head.and_then(|head| SecuredDataHeader::of(head, &bytes[start..end]));
            let taken = self.take((now, from), head, bytes, (start..end, to));
            start = end;
            match taken {
                Taken::Passed { size_bytes, from, moved } => {
                    let is_next = train
                        .as_ref()
                        .is_some_and(|it| moved.is_none() && it.is_continued_by(size_bytes, from));
                    if !is_next {
                        flush(&mut train, bytes, pass);
                    }
                    if let Some(stretch) = moved {
                        pass(news_of(stretch, EpochNews::Moved { to: from }));
                    }
                    match &mut train {
                        Some(train) => train.continue_by(size_bytes),
                        None => train = Some(PassedTrain::new(to, size_bytes, from)),
                    }
                    if let (Some(header), Some(train)) = (header, &mut train) {
                        start = self.take_alike((now, source), &header, bytes, start, train);
                    }
                }
                Taken::Began(described) => {
                    flush(&mut train, bytes, pass);
                    self.begin(now, described, from, pass);
                }
                Taken::Confirmed(stretch, number) => {
                    flush(&mut train, bytes, pass);
                    self.join(now, stretch, number, pass);
                }
                Taken::Answered(answer) => {
                    flush(&mut train, bytes, pass);
                    self.admit_rival(now, *answer, pass);
                }
                Taken::Ask(stretch, to) => pass(self.question(now, stretch, to)),
                Taken::Undescribed(stretch) => {
                    let nonce = self.nonces.at(now, stretch);
                    pass(news_of(stretch, EpochNews::Undescribed { nonce }));
                }
                Taken::Nothing => {}
            }
        }
        flush(&mut train, bytes, pass);
    }

    /// Lets epochs begin whose publishers have not answered in time.
    pub fn advance(&mut self, now: Instant, pass: &mut impl FnMut(Passed<'_>)) {
        while let Some(stretch) = self.joinings.overdue(now) {
            self.join_unconfirmed(now, stretch, pass);
        }
    }

    /// Returns when [`advance`](Self::advance) is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.joinings.deadline()
    }

    /// Returns the next event, `None` if there is none.
    pub fn next_event(&mut self) -> Option<GateEvent> {
        self.events.pop_front()
    }

    /// Returns the counts of all streams.
    #[must_use]
    pub const fn stats(&self) -> GateStats {
        self.stats
    }

    /// Returns the counters of the receiver behind this gate, with the datagrams that did not get past it. Those that are
    /// not authentic are in [`stats`](Self::stats) by reason.
    #[must_use]
    pub fn with_refused(&self, receiver: ReceiverStats) -> ReceiverStats {
        let GateStats { unauthentic, undescribed, repeated, malformed, too_many_streams, .. } = self.stats;
        let refused = unauthentic.total() + undescribed + repeated + malformed + too_many_streams;
        ReceiverStats {
            datagrams: receiver.datagrams + refused,
            malformed: receiver.malformed + malformed,
            undescribed: receiver.undescribed + undescribed,
            too_many_streams: receiver.too_many_streams + too_many_streams,
            ..receiver
        }
    }

    /// Returns the counts of one stream: of the datagrams that claim to be of it.
    #[must_use]
    pub fn unauthentic(&self, stream: StreamId) -> UnauthenticCounts {
        self.streams.get(&stream).map_or_else(UnauthenticCounts::default, |stream| stream.unauthentic)
    }

    /// Returns how many epochs of one stream began although their publishers did not answer.
    #[must_use]
    pub fn unconfirmed_epochs(&self, stream: StreamId) -> u64 {
        self.streams.get(&stream).map_or(0, |stream| stream.unconfirmed_epochs)
    }

    /// Takes the data datagrams from `start` on whose headers are like that of one that has just passed, and continues its
    /// train; returns the start of the next datagram.
    ///
    /// The cost per datagram beyond its bytes is paid once for all of them.
    fn take_alike(
        &mut self,
        (now, from): (Instant, SocketAddr),
        header: &SecuredDataHeader,
        bytes: &mut [u8],
        mut start: usize,
        train: &mut PassedTrain,
    ) -> usize {
        let SecuredHead { stream, epoch, token, .. } = *header.head();
        let epochs = self.streams.get_mut(&stream).map(|it| it.epochs.iter_mut());
        let epoch = epochs.and_then(|mut epochs| epochs.find(|it| it.stretch.epoch == epoch));
        let Some(epoch) = epoch.filter(|epoch| epoch.from == from) else { return start };
        let Some(key) = epoch.index_of(token) else { return start };
        let refused = loop {
            if train.is_complete {
                return start;
            }
            let end = start + header.datagram_bytes();
            let Some(head) = bytes.get(start..end).and_then(|datagram| header.head_of(datagram)) else {
                return start;
            };
            match epoch.open_data(now, &head, key, bytes, (start..end, train.place.end)) {
                Ok(size_bytes) => train.continue_by(size_bytes),
                Err(reason) => break (head, reason, end),
            }
            start = end;
        };
        let (head, reason, end) = refused;
        self.refuse(&head, reason, from);
        end
    }

    /// Takes the datagram at `place` with this head, if it is secured, and writes its plain form to `to` if it passes.
    fn take(
        &mut self,
        (now, from): (Instant, SocketAddr),
        head: Option<SecuredHead>,
        bytes: &mut [u8],
        (place, to): (Range<usize>, usize),
    ) -> Taken {
        let Some(head) = head else {
            self.refuse_clear(&bytes[place], from);
            return Taken::Nothing;
        };
        if !head.kind.is_numbered() {
            self.stats.malformed += 1;
            return Taken::Nothing;
        }
        let Some(secret) = head.secret_in(&self.membership.keys) else {
            return self.refuse(&head, Unauthentic::NoKey, from);
        };
        if let Some(stream) = self.streams.get_mut(&head.stream)
            && let Some(epoch) = stream.epochs.iter_mut().find(|it| it.stretch.epoch == head.epoch)
        {
            return match epoch.open((now, from), &head, secret, bytes, (place, to)) {
                Ok(None) => {
                    self.stats.repeated += 1;
                    Taken::Nothing
                }
                Ok(Some(opened)) => {
                    stream.heard = now;
                    let moved = opened.has_moved.then_some(epoch.stretch);
                    Taken::Passed { size_bytes: opened.size_bytes, from: epoch.from, moved }
                }
                Err(reason) => self.refuse(&head, reason, from),
            };
        }
        let stretch = Stretch { stream: head.stream, epoch: head.epoch };
        if self.joinings.contains(stretch) {
            let datagram = &bytes[place];
            return match self.joinings.take((now, from), (&head, secret), datagram, &self.nonces) {
                Ok(Step::Kept) => Taken::Nothing,
                Ok(Step::Ask(to)) => Taken::Ask(stretch, to),
                Ok(Step::Confirmed(number)) => Taken::Confirmed(stretch, number),
                Ok(Step::Repeated) => {
                    self.stats.repeated += 1;
                    Taken::Nothing
                }
                Err(reason) => self.refuse(&head, reason, from),
            };
        }
        let may_follow =
            self.streams.get(&head.stream).is_none_or(|stream| stream.may_follow(now, head.epoch));
        if may_follow && head.kind != Kind::Descriptor {
            return self.hold((now, from), &head, &bytes[place]);
        }
        let secret = secret.clone();
        if may_follow {
            self.take_part((now, from), (&head, &secret), &bytes[place])
        } else {
            self.take_earlier((now, from), (&head, &secret), &bytes[place])
        }
    }

    /// Holds a datagram of an epoch that may follow a believed one.
    fn hold(&mut self, at: (Instant, SocketAddr), head: &SecuredHead, bytes: &[u8]) -> Taken {
        let is_known = self.streams.contains_key(&head.stream);
        let epoch = (head.stream, head.epoch);
        let is_begun = self.candidates.iter().any(|it| (it.stretch.stream, it.stretch.epoch) == epoch);
        if is_known || is_begun {
            let (is_held, expired) = self.held.hold(at, epoch, bytes);
            self.stats.undescribed += expired;
            if is_held {
                return Taken::Nothing;
            }
        }
        self.stats.undescribed += 1;
        // The publisher of a known stream sends its descriptor without a request, and anybody can forge an epoch.
        if is_known {
            Taken::Nothing
        } else {
            Taken::Undescribed(Stretch { stream: head.stream, epoch: head.epoch })
        }
    }

    /// Takes a part of the descriptor of an epoch that is not believed yet.
    fn take_part(
        &mut self,
        (now, from): (Instant, SocketAddr),
        (head, secret): (&SecuredHead, &GroupSecret),
        bytes: &[u8],
    ) -> Taken {
        let (candidate, described) = match self.put_together(head, secret, bytes) {
            Ok(Some(complete)) => complete,
            Ok(None) => return Taken::Nothing,
            Err(reason) => return self.refuse(head, reason, from),
        };
        match self.judge(now, &candidate, described) {
            Ok(description) if self.has_place(now, head.stream) => {
                Taken::Began(Described { candidate, description: Box::new(description) })
            }
            Ok(_) => {
                self.stats.too_many_streams += 1;
                Taken::Nothing
            }
            Err(why) => {
                self.count(head.stream, Unauthentic::WrongSender, 1);
                let is_news = self.distrusted.get(&head.stream) != Some(&core::mem::discriminant(&why));
                let is_room = self.distrusted.len() < MAX_TOLD || self.distrusted.contains_key(&head.stream);
                if is_news && is_room {
                    self.distrusted.insert(head.stream, core::mem::discriminant(&why));
                    self.events.push_back(GateEvent::Distrusted { stream: head.stream, why, from });
                }
                Taken::Nothing
            }
        }
    }

    /// Takes a datagram of an epoch that began before the latest believed one: it is refused until its publisher has
    /// answered.
    fn take_earlier(
        &mut self,
        (now, from): (Instant, SocketAddr),
        (head, secret): (&SecuredHead, &GroupSecret),
        bytes: &[u8],
    ) -> Taken {
        let Self { streams, nonces, .. } = self;
        let stream = streams.get_mut(&head.stream).expect("a later epoch of it is believed");
        match head.kind {
            Kind::Tally => match stream.rivalry.answered((now, from), (head, secret), bytes, nonces) {
                Ok(answer) => Taken::Answered(Box::new(answer)),
                Err(reason) => self.refuse(head, reason, from),
            },
            Kind::Descriptor if stream.rivalry.has_turn(now, head.epoch) => {
                self.challenge((now, from), (head, secret), bytes)
            }
            _ => self.refuse(head, Unauthentic::Replayed, from),
        }
    }

    /// Takes a part of the descriptor of an earlier epoch; once it is complete and valid, its publisher is challenged.
    fn challenge(
        &mut self,
        (now, from): (Instant, SocketAddr),
        (head, secret): (&SecuredHead, &GroupSecret),
        bytes: &[u8],
    ) -> Taken {
        let (candidate, described) = match self.put_together(head, secret, bytes) {
            Ok(Some(complete)) => complete,
            Ok(None) => return self.refuse(head, Unauthentic::Replayed, from),
            Err(reason) => return self.refuse(head, reason, from),
        };
        self.refuse(head, Unauthentic::Replayed, from);
        let Candidate { stretch, salt, .. } = candidate;
        let rival = self.judge(now, &candidate, described).ok().map(|description| Rival {
            epoch: BelievedEpoch::new((stretch.stream, stretch.epoch), salt, 0, (now, from)),
            description: Box::new(description),
        });
        let stream = self.streams.get_mut(&head.stream).expect("a later epoch of it is believed");
        stream
            .rivalry
            .challenge(now, stretch.epoch, rival)
            .map_or(Taken::Nothing, |to| Taken::Ask(stretch, to))
    }

    /// Opens a part of a descriptor; returns its candidate once it is complete, with the description if it can be read.
    fn put_together(
        &mut self,
        head: &SecuredHead,
        secret: &GroupSecret,
        bytes: &[u8],
    ) -> Result<Option<(Candidate, Option<Description>)>, Unauthentic> {
        let stretch = Stretch { stream: head.stream, epoch: head.epoch };
        let key = GroupKey::new(secret, head.salt).derive(Purpose::Stream(stretch));
        let mut part = bytes.to_vec();
        let size_bytes = head.open(&key, &mut part, 0..bytes.len(), 0).map_err(|_| Unauthentic::BadTag)?;
        part.truncate(size_bytes);
        let description = match self.candidate(head).take(head.nonce, part) {
            Progress::Incomplete => {
                self.bound_candidates();
                return Ok(None);
            }
            Progress::Repeated => return Err(Unauthentic::Replayed),
            Progress::Complete(description) => description.map(|description| *description),
        };
        let index = self.candidates.iter().position(|candidate| candidate.is_of(head));
        let complete = index.and_then(|index| self.candidates.remove(index));
        Ok(complete.map(|candidate| (candidate, description)))
    }

    /// Returns the candidate of a part, which may be new.
    fn candidate(&mut self, head: &SecuredHead) -> &mut Candidate {
        let index = self.candidates.iter().position(|candidate| candidate.is_of(head));
        let index = index.unwrap_or_else(|| {
            self.candidates.push_back(Candidate {
                stretch: Stretch { stream: head.stream, epoch: head.epoch },
                salt: head.salt,
                assembler: DescriptorAssembler::new(),
                content: None,
                parts: BTreeMap::new(),
                size_bytes: 0,
            });
            self.candidates.len() - 1
        });
        &mut self.candidates[index]
    }

    /// Forgets the oldest candidates beyond the maximum number and size.
    fn bound_candidates(&mut self) {
        let size_bytes =
            |candidates: &VecDeque<Candidate>| candidates.iter().map(|it| it.size_bytes).sum::<usize>();
        while self.candidates.len() > MAX_CANDIDATES || size_bytes(&self.candidates) > MAX_CANDIDATE_BYTES {
            self.candidates.pop_front();
        }
    }

    /// Returns whether a stream has a place; of a full table the longest silent one gives way.
    fn has_place(&mut self, now: Instant, stream: StreamId) -> bool {
        if self.streams.len() < MAX_STREAMS || self.streams.contains_key(&stream) {
            return true;
        }
        let silent = self.streams.iter().filter(|(_, known)| now.since(known.heard) > FORGOTTEN_AFTER);
        let silent = silent.min_by_key(|(_, known)| known.heard).map(|(stream, _)| *stream);
        silent.is_some_and(|silent| self.streams.remove(&silent).is_some())
    }

    /// Judges whether a complete description lets its epoch begin.
    fn judge(
        &self,
        now: Instant,
        candidate: &Candidate,
        described: Option<Description>,
    ) -> Result<Description, Distrust> {
        let description = described.ok_or(Distrust::Unsigned)?;
        let security = Security::of(&description).ok_or(Distrust::Unsigned)?;
        let begun = (candidate.stretch.epoch, candidate.salt);
        security.check(&description, begun, &self.membership.authority, self.utc.at(now))?;
        Ok(description)
    }

    /// Believes an epoch. If it follows another, the parts of its descriptor and the datagrams that waited for it pass; of
    /// a stream that the reader joins, they are kept until the publisher has answered.
    fn begin(
        &mut self,
        now: Instant,
        described: Described,
        from: SocketAddr,
        pass: &mut impl FnMut(Passed<'_>),
    ) {
        let Described { candidate: Candidate { stretch, salt, parts, .. }, description } = described;
        let epoch = BelievedEpoch::new((stretch.stream, stretch.epoch), salt, 0, (now, from));
        self.distrusted.remove(&stretch.stream);
        self.joinings.insert(Joining::new(epoch, description, now));
        for (number, plain) in parts {
            self.joinings.keep_part(stretch, number, plain);
        }
        let asked = self.joinings.ask(now, stretch);
        let mut confirmed = None;
        for mut held in self.held.take(stretch.stream, stretch.epoch) {
            let end = held.bytes.len();
            let head = SecuredHead::read(&held.bytes);
            let taken = self.take((now, held.from), head, &mut held.bytes, (0..end, 0));
            if let Taken::Confirmed(_, number) = taken {
                confirmed = Some(number);
            }
        }
        if self.streams.contains_key(&stretch.stream) {
            self.follow(now, stretch, pass);
        } else if let Some(number) = confirmed {
            self.join(now, stretch, number, pass);
        } else if let Some(to) = asked {
            if to.port() == 0 {
                // This publisher never answers.
                return self.join_unconfirmed(now, stretch, pass);
            }
            pass(self.question(now, stretch, to));
        }
    }

    /// Returns the request by which a publisher is asked to answer.
    fn question(&self, now: Instant, stretch: Stretch, to: SocketAddr) -> Passed<'static> {
        news_of(stretch, EpochNews::Unconfirmed { nonce: self.nonces.at(now, stretch), to })
    }

    /// Passes what was kept of an epoch that follows another: of it, nothing can have been recorded for long.
    fn follow(&mut self, now: Instant, stretch: Stretch, pass: &mut impl FnMut(Passed<'_>)) {
        let Some(joining) = self.joinings.remove(stretch) else { return };
        let (epoch, kept) = joining.follow();
        let from = epoch.from;
        self.believe(now, epoch);
        for bytes in &kept {
            pass(Passed::Train { bytes, segment_bytes: bytes.len(), from });
        }
    }

    /// Passes what was kept of an epoch that is sent now, from the numbers on that lead up to this one.
    fn join(&mut self, now: Instant, stretch: Stretch, number: u64, pass: &mut impl FnMut(Passed<'_>)) {
        let Some(joining) = self.joinings.remove(stretch) else { return };
        let (epoch, description, kept) = self.unpack(joining, number);
        self.admit(now, epoch, &description, kept, pass);
    }

    /// Begins an epoch whose publisher does not answer: only clocks tell it from a recording.
    fn join_unconfirmed(&mut self, now: Instant, stretch: Stretch, pass: &mut impl FnMut(Passed<'_>)) {
        let Some(joining) = self.joinings.remove(stretch) else { return };
        let number = joining.highest();
        let (epoch, description, kept) = self.unpack(joining, number);
        self.stats.unconfirmed_epochs += 1;
        self.events.push_back(GateEvent::Unconfirmed { stream: stretch.stream, from: epoch.from });
        self.admit(now, epoch, &description, kept, pass);
        if let Some(stream) = self.streams.get_mut(&stretch.stream) {
            stream.unconfirmed_epochs += 1;
        }
    }

    fn unpack(&mut self, joining: Joining, number: u64) -> (BelievedEpoch, Box<Description>, Vec<Vec<u8>>) {
        let description = joining.description.clone();
        let (epoch, kept, in_vain) = joining.begin_before(number);
        self.stats.undescribed += in_vain;
        (epoch, description, kept)
    }

    /// Begins an epoch of a stream that the reader joins, and those that follow it.
    fn admit(
        &mut self,
        now: Instant,
        epoch: BelievedEpoch,
        description: &Description,
        kept: Vec<Vec<u8>>,
        pass: &mut impl FnMut(Passed<'_>),
    ) {
        let (stretch, from) = (epoch.stretch, epoch.from);
        let Stretch { stream, epoch: begun } = stretch;
        self.believe(now, epoch);
        pass(news_of(stretch, EpochNews::Described { description, from }));
        for bytes in &kept {
            pass(Passed::Train { bytes, segment_bytes: bytes.len(), from });
        }
        for other in self.joinings.of_stream(stream) {
            if other.epoch > begun {
                self.follow(now, other, pass);
            } else if let Some((rival, kept)) = self.joinings.remove(other).map(Joining::rival) {
                // Its publisher has been asked.
                self.count(stream, Unauthentic::Replayed, kept);
                let known = self.streams.get_mut(&stream).expect("an epoch of it has just been believed");
                known.rivalry.challenge(now, other.epoch, Some(rival));
            }
        }
    }

    /// Lets an epoch pass from the tally on by which its publisher has answered, beside the later one.
    fn admit_rival(&mut self, now: Instant, answer: Answer, pass: &mut impl FnMut(Passed<'_>)) {
        let Answer { rival: Rival { epoch, description }, tally } = answer;
        let (stretch, from) = (epoch.stretch, epoch.from);
        self.believe(now, epoch);
        pass(news_of(stretch, EpochNews::Described { description: &description, from }));
        pass(Passed::Train { bytes: &tally, segment_bytes: tally.len(), from });
    }

    fn believe(&mut self, now: Instant, epoch: BelievedEpoch) {
        let known = self.streams.entry(epoch.stretch.stream).or_insert_with(|| GatedStream::new(now));
        known.heard = now;
        known.believe(epoch);
    }

    /// Counts a datagram that is not secured.
    fn refuse_clear(&mut self, bytes: &[u8], from: SocketAddr) {
        match Datagram::decode(bytes) {
            Ok(datagram) => {
                let stream = datagram.head().map_or(StreamId(0), |head| head.stream);
                self.count(stream, Unauthentic::Clear, 1);
                if self.is_to_be_told(stream, Unauthentic::Clear) {
                    let (reason, token) = (Unauthentic::Clear, None);
                    self.events.push_back(GateEvent::Refused { stream, reason, token, from });
                }
            }
            Err(_) => self.stats.malformed += 1,
        }
    }

    fn refuse(&mut self, head: &SecuredHead, reason: Unauthentic, from: SocketAddr) -> Taken {
        self.count(head.stream, reason, 1);
        // Copies in the network look like replays: they are counted, and told by rate rather than one by one.
        if reason != Unauthentic::Replayed && self.is_to_be_told(head.stream, reason) {
            let (stream, token) = (head.stream, Some(head.token));
            self.events.push_back(GateEvent::Refused { stream, reason, token, from });
        }
        Taken::Nothing
    }

    fn count(&mut self, stream: StreamId, reason: Unauthentic, datagrams: u64) {
        self.stats.unauthentic.count(reason, datagrams);
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.unauthentic.count(reason, datagrams);
        }
    }

    /// Returns whether an event is the first of its stream and reason.
    fn is_to_be_told(&mut self, stream: StreamId, reason: Unauthentic) -> bool {
        if self.streams.contains_key(&stream) {
            return self.told.insert((stream, reason));
        }
        // It is not told again once it is known.
        self.told.insert((ANY_STREAM, reason)) && self.told.insert((stream, reason))
    }
}

impl GatedStream {
    const fn new(now: Instant) -> Self {
        let unauthentic = UnauthenticCounts { no_key: 0, bad_tag: 0, replayed: 0, wrong_sender: 0, clear: 0 };
        let epochs = VecDeque::new();
        let rivalry = Rivalry::new();
        Self { epochs, heard: now, forgotten: None, unauthentic, rivalry, unconfirmed_epochs: 0 }
    }

    /// Returns whether an epoch that is not believed yet may follow those that are.
    fn may_follow(&self, now: Instant, epoch: Epoch) -> bool {
        let latest = self.epochs.iter().map(|believed| believed.stretch.epoch).max();
        let is_later = latest.is_none_or(|latest| latest < epoch);
        let is_over = now.since(self.heard) > SILENCE && self.forgotten.is_none_or(|last| last < epoch);
        is_later || is_over
    }

    fn believe(&mut self, epoch: BelievedEpoch) {
        if self.epochs.len() == MAX_EPOCHS {
            let earliest = self.epochs.pop_front().map(|believed| believed.stretch.epoch);
            self.forgotten = self.forgotten.max(earliest);
        }
        let index = self.epochs.partition_point(|other| other.stretch.epoch < epoch.stretch.epoch);
        self.epochs.insert(index, epoch);
    }
}

impl Candidate {
    fn is_of(&self, head: &SecuredHead) -> bool {
        (self.stretch.stream, self.stretch.epoch, self.salt) == (head.stream, head.epoch, head.salt)
    }

    /// Takes a part. A descriptor that is signed anew has higher numbers than the one before, of which parts may have
    /// been recorded.
    fn take(&mut self, number: u64, plain: Vec<u8>) -> Progress {
        let Ok(Datagram::Descriptor(part)) = Datagram::decode(&plain) else {
            return Progress::Complete(None);
        };
        let content = (part.content_crc, part.content_bytes);
        let highest = self.parts.last_key_value().map(|(number, _)| *number);
        if self.content != Some(content) {
            if highest.is_some_and(|highest| number < highest) {
                return Progress::Repeated;
            }
            self.content = Some(content);
            self.parts.clear();
            self.size_bytes = 0;
        }
        if self.parts.contains_key(&number) {
            return Progress::Repeated;
        }
        let complete = self.assembler.accept(&part);
        self.size_bytes += plain.len();
        self.parts.insert(number, plain);
        match complete {
            Ok(Some(description)) => Progress::Complete(Some(Box::new(description))),
            Ok(None) => Progress::Incomplete,
            Err(_) => Progress::Complete(None),
        }
    }
}

impl PassedTrain {
    const fn new(start: usize, size_bytes: usize, from: SocketAddr) -> Self {
        Self { place: start..start + size_bytes, segment_bytes: size_bytes, from, is_complete: false }
    }

    fn is_continued_by(&self, size_bytes: usize, from: SocketAddr) -> bool {
        !self.is_complete && size_bytes <= self.segment_bytes && from == self.from
    }

    const fn continue_by(&mut self, size_bytes: usize) {
        self.place.end += size_bytes;
        self.is_complete = size_bytes < self.segment_bytes;
    }
}

const fn news_of(stretch: Stretch, news: EpochNews<'_>) -> Passed<'_> {
    Passed::Epoch { stream: stretch.stream, epoch: stretch.epoch, news }
}

/// Passes the datagrams collected so far.
fn flush(train: &mut Option<PassedTrain>, bytes: &[u8], pass: &mut impl FnMut(Passed<'_>)) {
    if let Some(PassedTrain { place, segment_bytes, from, .. }) = train.take() {
        pass(Passed::Train { bytes: &bytes[place], segment_bytes, from });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the numbers that were taken of the epoch that is sent now would be taken again.
    #[test]
    fn of_many_epochs_the_earliest_is_forgotten_and_not_the_one_that_is_sent() {
        let (now, from) = (Instant::ORIGIN, SocketAddr::from(([10, 0, 0, 1], 7_400)));
        let begun = |start_ns| Epoch { start_ns, incarnation: 1 };
        let epoch =
            |start_ns| BelievedEpoch::new((StreamId(1), begun(start_ns)), Salt([0; 16]), 0, (now, from));
        let mut stream = GatedStream::new(now);
        stream.believe(epoch(100));
        // Earlier ones beside it, each of which answers.
        (1..=8).for_each(|start_ns| stream.believe(epoch(start_ns)));
        let known: Vec<_> = stream.epochs.iter().map(|it| it.stretch.epoch.start_ns).collect();
        assert_eq!(known, [2, 3, 4, 5, 6, 7, 8, 100]);
        assert_eq!(stream.forgotten, Some(begun(1)));
        assert!(!stream.may_follow(now, begun(99)) && stream.may_follow(now, begun(101)));
    }
}
