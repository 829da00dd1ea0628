//! The send path of one publisher: from its ring through the machine to the socket.
//!
//! Each part has a subject of its own: the [intake](intake::Intake) takes what the publisher hands
//! over, the [machine](cast::Sender) decides what leaves when, [outgoing](outgoing::Outgoing)
//! datagrams pass the [egress](egress::Egress), [losses](losses::Losses) return to the machine as
//! evidence, the [announcer](announcer::Announcer) tells the bus, and [progress](progress::Progress)
//! the publisher. The agent drives it by [`SendPath::poll`], a publisher's thread [inline](inline).

mod announcer;
mod egress;
mod inline;
mod intake;
mod losses;
mod machine;
mod outgoing;
mod progress;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use cast::Sender;
use cast::send::{Input, Output, ReaderReport, SenderEvent};
use keys::Membership;
use ledger::DropNotice;
use ring::Reader;
use sys::{Buffer, Interface, Poller, clock};
use units::{Epoch, Instant, StreamId};
use wire::{Announcement, Predecessor, Report, Request};

use super::error::SendError;
use super::publication_config::{PublicationConfig, Surroundings};
use super::publication_shared::PublicationShared;
use announcer::{ANNOUNCE_INTERVAL, Announcer};
use egress::Egress;
use intake::Intake;
use losses::Losses;
use outgoing::{Outgoing, Part};
use progress::Progress;

/// Maximum number of trains that one publisher sends in a duty cycle, so that the others send too.
const MAX_TRAINS_PER_DUTY_CYCLE: usize = 8;

/// One publisher's path from its ring to the network.
pub(super) struct SendPath {
    intake: Intake,
    machine: Sender,
    outgoing: Outgoing,
    egress: Egress,
    is_secured: bool,
    losses: Losses,
    announcer: Announcer,
    progress: Progress,
    /// True if the publisher's thread polled it since the agent last did: the next deadline has
    /// changed.
    was_polled_inline: bool,
}

impl Drop for SendPath {
    /// Ends the publication, whether the epoch is over or the agent has failed, while the intake
    /// still guards the ring: a publisher that waits for room would find some after that, and write
    /// samples that are lost.
    fn drop(&mut self) {
        self.progress.end();
    }
}

/// Remaining work after a poll.
pub(super) enum Polled {
    /// There is more to do immediately.
    Busy,
    /// Nothing is due before this time.
    Until(Option<Instant>),
    /// The epoch is over.
    Finished,
}

impl SendPath {
    pub(super) fn open(
        config: &PublicationConfig,
        reader: Reader,
        publisher: Arc<PublicationShared>,
        with: &Surroundings,
        now: Instant,
    ) -> Result<Self, SendError> {
        let egress = Egress::open(config, with)?;
        let machine = machine::create(config, with, now)?;
        let (description, epoch) = (&config.description, config.epoch);
        let (name, schema) = (&description.name, &description.schema);
        let announcement = Announcement {
            stream: machine.next_head().stream,
            epoch,
            name: name.clone(),
            group: egress.group(),
            report_port: description.report_port,
            dtype: schema.dtype,
            rate: schema.rate,
            channels: u32::try_from(schema.channels.len()).expect("a checked schema"),
            elements_per_sample: schema.elements_per_sample(),
            station: description.station.clone(),
            period: ANNOUNCE_INTERVAL,
        };
        Ok(Self {
            intake: Intake::new(reader, Arc::clone(&publisher), schema, config.relayed),
            outgoing: Outgoing::new(machine.train_bytes(), Arc::clone(&publisher), now),
            egress,
            is_secured: with.membership.is_some(),
            losses: Losses::new(name.clone(), announcement.stream, epoch),
            announcer: Announcer::new(announcement, with.membership.as_deref(), now),
            progress: Progress::new(name.clone(), publisher, config.relayed.is_some(), now),
            machine,
            was_polled_inline: false,
        })
    }

    pub(super) const fn stream(&self) -> StreamId {
        self.announcer.stream()
    }

    pub(super) const fn epoch(&self) -> Epoch {
        self.announcer.epoch()
    }

    /// Returns whether its datagrams are encrypted.
    pub(super) const fn is_secured(&self) -> bool {
        self.is_secured
    }

    /// Returns the send buffer that the kernel granted.
    pub(super) const fn granted_buffer(&self) -> Buffer {
        self.egress.granted_buffer()
    }

    /// Returns the readers that report, with their last reports.
    pub(super) fn readers(&self) -> Vec<ReaderReport> {
        self.machine.readers().cloned().collect()
    }

    /// Returns whether the epoch is over but for repeats of its final tally.
    pub(super) const fn has_told_end(&self) -> bool {
        self.machine.has_told_end()
    }

    /// Returns the stream, and this epoch as the next one's predecessor.
    pub(super) fn as_predecessor(&self) -> (StreamId, Predecessor) {
        (self.stream(), self.machine.as_predecessor())
    }

    /// Returns whether the agent must poll it before it sleeps.
    pub(super) fn needs_poll(&self) -> bool {
        self.was_polled_inline || self.has_input()
    }

    /// Returns whether the publisher has written samples or changed its state since the last poll,
    /// and this can be handled now.
    pub(super) fn has_input(&self) -> bool {
        if self.outgoing.waits() {
            return false;
        }
        (self.machine.wants_samples() && self.intake.has_samples_or_end()) || self.intake.has_new_injection()
    }

    /// Lets a poller report under `token` when the socket has room, while datagrams wait for it.
    pub(super) fn watch_for_room(&mut self, poller: &Poller, token: u64) {
        self.egress.watch_for_room(self.outgoing.waits(), poller, token);
    }

    /// Sends all that is due now, within bounds that leave the other publishers their share.
    pub(super) fn poll(&mut self, now: Instant, announce_to: Option<SocketAddr>) -> Polled {
        self.was_polled_inline = false;
        self.announcer.poll(now, announce_to, &mut self.egress);
        self.send_what_is_due(now, MAX_TRAINS_PER_DUTY_CYCLE)
    }

    pub(super) fn on_report(&mut self, now: Instant, report: &Report, from: IpAddr, size_bytes: usize) {
        self.machine.handle(now, Input::Report { report, from, size_bytes });
        self.progress.check_readers(&self.machine);
        self.drain(now);
    }

    pub(super) fn on_request(&mut self, now: Instant, request: &Request) {
        self.handle(now, Input::Request(request));
    }

    /// Sets whether a drop reporter sees all drops on this host: the tallies carry it.
    pub(super) fn on_watched(&mut self, now: Instant, watched: bool) {
        self.handle(now, Input::Watched(watched));
    }

    /// Passes to the machine, for its readers, the possible source addresses of datagrams.
    pub(super) fn on_addresses(&mut self, now: Instant, addresses: &[IpAddr]) {
        self.handle(now, Input::Addresses(addresses));
    }

    /// Secures with other keys from now on.
    pub(super) fn on_membership(&mut self, membership: &Arc<Membership>) {
        let (now, wall) = clock::pair();
        self.announcer.adopt(membership);
        self.handle(now, Input::Membership { membership, wall });
    }

    /// Counts datagrams as lost that the kernel freed before they left the host.
    pub(super) fn on_drop(&mut self, now: Instant, notice: &DropNotice) {
        self.losses.count_dropped(now, &mut self.machine, &self.egress, notice);
        self.drain(now);
    }

    /// Opens the socket again if an interface has changed so that the old one is of no use.
    pub(super) fn on_interface(&mut self, interface: Option<&Interface>) {
        self.egress.follow_interface(interface);
    }

    fn send_what_is_due(&mut self, now: Instant, max_trains: usize) -> Polled {
        self.follow_injection(now);
        let mut idle = None;
        for _ in 0..max_trains {
            // Before every train, so that as many datagrams as possible are ready for it.
            let fed = self.intake.feed(now, &mut self.machine, &mut self.losses);
            idle = self.step(now);
            // Also when nothing was read: a closed ring still has to be handled.
            if !fed && idle.is_some() {
                break;
            }
        }
        self.end_poll(now, idle)
    }

    /// Returns the remaining work after a poll that left the machine idle until a deadline, or
    /// busy.
    #[expect(clippy::option_option, reason = "there may be no deadline")]
    fn end_poll(&mut self, now: Instant, idle: Option<Option<Instant>>) -> Polled {
        let has_told_end = self.machine.has_told_end();
        if self.progress.is_due(now) || has_told_end {
            self.losses.count_returned(now, &mut self.machine, &self.egress);
            self.progress.report(now, &self.machine);
        }
        if has_told_end {
            // The repeats of the final tally are nothing to wait for: a process that closes many publishers would add them up.
            self.progress.end();
        }
        if self.machine.is_finished() {
            return Polled::Finished;
        }
        match idle {
            Some(deadline) if !self.has_input() && deadline.is_none_or(|deadline| deadline > now) => {
                Polled::Until(Instant::earlier(deadline, self.announcer.next()))
            }
            _ => Polled::Busy,
        }
    }

    fn follow_injection(&mut self, now: Instant) {
        if let Some(requested) = self.intake.take_injection() {
            self.handle(now, Input::Inject(requested));
        }
    }

    /// Passes an input to the machine, and executes its outputs until it is idle.
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.machine.handle(now, input);
        self.drain(now);
    }

    fn drain(&mut self, now: Instant) {
        while self.step(now).is_none() {}
    }

    /// Executes the machine's next output; returns its deadline if there is none.
    #[expect(clippy::option_option, reason = "there may be no deadline")]
    fn step(&mut self, now: Instant) -> Option<Option<Instant>> {
        if self.outgoing.waits() {
            self.outgoing.send_held(now, &mut self.egress);
            self.count_refused(now);
            if self.outgoing.waits() {
                return Some(Some(self.outgoing.gives_up_at()));
            }
        }
        match self.machine.poll(now, self.outgoing.buffer()) {
            Output::Transmit { destinations, numbers, segment_bytes, size_bytes } => {
                let (first, bytes) = (numbers.start, 0..size_bytes);
                let copies = destinations.map(|destination| Part {
                    destination,
                    first,
                    bytes: bytes.clone(),
                    segment_bytes,
                });
                self.outgoing.send(now, &mut self.egress, copies);
                self.progress.train_left(clock::monotonic(), numbers.end - numbers.start);
                self.count_refused(now);
            }
            Output::Event(SenderEvent::TwoPublishers { other }) => self.progress.two_publishers(other),
            Output::Event(SenderEvent::Finished) => {}
            Output::Idle { deadline } => return Some(deadline),
        }
        None
    }

    fn count_refused(&mut self, now: Instant) {
        let refused = self.outgoing.refused_mut();
        self.losses.count_refused(now, &mut self.machine, &mut self.egress, refused);
    }
}

#[cfg(test)]
impl SendPath {
    pub(super) fn totals(&self) -> wire::Totals {
        self.machine.totals()
    }

    /// Returns how much of the ring has been read, and how much is unread.
    pub(super) const fn read_bytes(&self) -> u64 {
        self.intake.read_bytes()
    }

    pub(super) fn waiting_bytes(&self) -> u64 {
        self.intake.waiting_bytes()
    }
}
