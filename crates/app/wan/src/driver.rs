//! The loop by which the machine of either end works on its connection.

use std::collections::VecDeque;

use engine::{ReliablePort, Way};
use relay::{
    FarEnd, FarEvent, FarInput, FarOutput, NearEnd, NearEvent, NearInput, NearOutput, Path, Publish,
};
use sys::clock;
use udt::{Sent, SocketId, Terms};
use units::Instant;

/// Machine of one end of a link.
pub(crate) trait Machine {
    /// Context of the machine's owner.
    type Act;

    /// Tells it of the time, and of the path if there is a connection.
    fn look(&mut self, now: Instant, path: Option<Path>);

    /// Tells it that a message was not taken, since it cannot arrive in time.
    fn refuse(&mut self, now: Instant, tag: u64);

    /// Returns the next step.
    fn next(&mut self, now: Instant) -> Step<Self::Act>;
}

/// Next step of a machine.
pub(crate) enum Step<A> {
    Send(Letter),
    Act(A),
    Idle(Option<Instant>),
}

/// A message to the other end.
pub(crate) struct Letter {
    pub(crate) bytes: Vec<u8>,
    /// Their tag identifies it in the port's list of expired messages; 0 if its end is of no interest.
    pub(crate) terms: Terms,
}

/// Next step of an owner.
pub(crate) enum Turn<A> {
    /// Take this, then drive the machine again.
    Act(A),
    /// Nothing before the instant.
    Idle(Option<Instant>),
}

/// Hands the messages of a machine to the port.
#[derive(Default)]
pub(crate) struct Driver {
    /// Messages that found no room.
    stalled: VecDeque<Letter>,
    /// True if the machine knows the present state of the path.
    has_looked: bool,
    has_sent: bool,
}

impl Driver {
    /// Forgets messages of an earlier connection: the machine sends them again, or gives them up.
    pub(crate) fn restart(&mut self) {
        *self = Self::default();
    }

    /// Goes on until the owner has to act, or has to wait.
    pub(crate) fn turn<M: Machine>(
        &mut self,
        machine: &mut M,
        connection: Option<(&ReliablePort, SocketId)>,
    ) -> Turn<M::Act> {
        loop {
            if !std::mem::replace(&mut self.has_looked, true) {
                look(machine, connection);
                self.send(machine, connection);
                self.has_sent = false;
            }
            match machine.next(clock::monotonic()) {
                Step::Send(letter) => {
                    self.stalled.push_back(letter);
                    self.send(machine, connection);
                    self.has_sent = true;
                }
                Step::Act(act) => return Turn::Act(act),
                Step::Idle(until) => {
                    self.has_looked = false;
                    // After a message the port may have made room meanwhile, of which it does not tell.
                    if !self.has_sent {
                        return Turn::Idle(until);
                    }
                }
            }
        }
    }

    /// Sends what the machine has handed out: at once, but for a message of more packets than there is room for.
    fn send(&mut self, machine: &mut impl Machine, connection: Option<(&ReliablePort, SocketId)>) {
        let Some((port, socket)) = connection else { return self.stalled.clear() };
        while let Some(Letter { bytes, terms }) = self.stalled.front() {
            match port.try_send_message(socket, bytes, *terms) {
                Ok(Sent::NoRoom) => return,
                Ok(Sent::TooLate) => machine.refuse(clock::monotonic(), terms.tag),
                Ok(Sent::Queued) | Err(_) => {}
            }
            self.stalled.pop_front();
        }
    }
}

/// Tells a machine the present state of the path, also before messages that came over it.
pub(crate) fn look(machine: &mut impl Machine, connection: Option<(&ReliablePort, SocketId)>) {
    let way = connection.and_then(|(port, socket)| port.way(socket));
    machine.look(way.map_or_else(clock::monotonic, |way| way.at), way.as_ref().map(path_of));
}

impl Machine for NearEnd {
    type Act = NearEvent;

    fn look(&mut self, now: Instant, path: Option<Path>) {
        self.handle(now, path.map_or(NearInput::Advance, NearInput::Path));
    }

    fn refuse(&mut self, now: Instant, tag: u64) {
        self.handle(now, NearInput::Expired { tag: near_tag(tag), was_sent: false });
    }

    fn next(&mut self, now: Instant) -> Step<NearEvent> {
        match self.poll(now) {
            NearOutput::Send { tag, bytes, deadline, priority } => {
                let terms = Terms { is_ordered: false, deadline, priority, tag: tag + 1 };
                Step::Send(Letter { bytes, terms })
            }
            NearOutput::Event(event) => Step::Act(event),
            NearOutput::Idle { deadline } => Step::Idle(deadline),
        }
    }
}

/// Returns the near end's tag of a message by the port's, of which 0 means none.
pub(crate) const fn near_tag(tag: u64) -> u64 {
    tag - 1
}

/// What the far end's owner does for it.
pub(crate) enum FarAct {
    Publish(u16, Publish),
    Tell(FarEvent),
}

impl Machine for FarEnd {
    type Act = FarAct;

    fn look(&mut self, now: Instant, path: Option<Path>) {
        self.handle(now, path.map_or(FarInput::Advance, FarInput::Path));
    }

    /// Controls have no deadline, and totals that are late are followed by others.
    fn refuse(&mut self, _: Instant, _: u64) {}

    fn next(&mut self, now: Instant) -> Step<FarAct> {
        match self.poll(now) {
            FarOutput::Send { bytes, deadline } => {
                Step::Send(Letter { bytes, terms: Terms { deadline, ..Terms::default() } })
            }
            FarOutput::Publish { slot, publish } => Step::Act(FarAct::Publish(slot, publish)),
            FarOutput::Event(event) => Step::Act(FarAct::Tell(event)),
            FarOutput::Idle { deadline } => Step::Idle(deadline),
        }
    }
}

/// Returns the state of a path as machines take it. Until the round trip is measured it counts as zero.
fn path_of(way: &Way) -> Path {
    let Way { round_trip, clock_us, room, message_bytes, is_up, .. } = *way;
    Path { round_trip: round_trip.unwrap_or_default(), clock_us, room, message_bytes, is_up }
}
