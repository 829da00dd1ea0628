//! Evidence of datagrams that did not leave this host or came back: refusals of the socket, errors
//! that the network returned, and drops that the kernel reported. The machine counts each as lost.

use std::fmt::Display;

use cast::Sender;
use cast::send::Input;
use ledger::{DropNotice, Stage};
use sample::StreamName;
use sys::{Origin, PathError, Refusal};
use units::{Epoch, Instant, StreamId};
use wire::{Datagram, Numbered};

use super::egress::Egress;
use super::outgoing::Refused;

/// Maximum length of a run of dropped datagrams: more than a publisher sends between two checks.
const MAX_NUMBERS_PER_NOTICE: usize = 1 << 20;

/// The observed losses of one epoch.
pub(super) struct Losses {
    name: StreamName,
    stream: StreamId,
    epoch: Epoch,
    /// Stages of which a warning was logged.
    warned: Vec<Stage>,
    /// Buffer for what the network returned.
    path_errors: Vec<PathError>,
}

impl Losses {
    pub(super) const fn new(name: StreamName, stream: StreamId, epoch: Epoch) -> Self {
        Self { name, stream, epoch, warned: Vec::new(), path_errors: Vec::new() }
    }

    /// Counts datagrams as lost that the socket refused.
    pub(super) fn count_refused(
        &mut self,
        now: Instant,
        machine: &mut Sender,
        egress: &mut Egress,
        refused: &mut Vec<Refused>,
    ) {
        for Refused { destination, number, size_bytes, why } in refused.drain(..) {
            let stage = stage_of(why);
            if why == Refusal::QueueDiscipline && !self.warned.contains(&stage) {
                egress.keep_trains_whole();
            }
            self.warn_once(stage, WithRemedy(why));
            machine.handle(now, Input::Refused { destination, number, stage, size_bytes });
        }
        if egress.met_path_errors() {
            self.count_returned(now, machine, egress);
        }
    }

    /// Counts datagrams as lost that the socket accepted and the network reported as undeliverable.
    pub(super) fn count_returned(&mut self, now: Instant, machine: &mut Sender, egress: &Egress) {
        let mut errors = std::mem::take(&mut self.path_errors);
        egress.drain_path_errors(&mut errors);
        for error in errors.drain(..) {
            let destination = error.destination.and_then(|to| egress.destination(to));
            let Some((destination, head)) = destination.zip(own_head(&error)) else { continue };
            if head.stream != self.stream || head.epoch != self.epoch {
                continue;
            }
            self.warn_once(Stage::SenderIp, &error);
            // Its bytes were sent, though in vain.
            let (number, stage, size_bytes) = (head.number, Stage::SenderIp, 0);
            machine.handle(now, Input::Refused { destination, number, stage, size_bytes });
        }
        self.path_errors = errors;
    }

    /// Counts datagrams as lost that the socket accepted and the kernel freed before they left the
    /// host.
    pub(super) fn count_dropped(
        &mut self,
        now: Instant,
        machine: &mut Sender,
        egress: &Egress,
        notice: &DropNotice,
    ) {
        let destination = egress.destination(notice.destination);
        let Some(destination) = destination.filter(|_| notice.incarnation == self.epoch.incarnation) else {
            return;
        };
        let stage = notice.stage;
        self.warn_once(stage, format_args!("kfree_skb {}", notice.reason));
        for number in notice.numbers.clone().take(MAX_NUMBERS_PER_NOTICE) {
            // Its bytes were sent, though in vain.
            machine.handle(now, Input::Refused { destination, number, stage, size_bytes: 0 });
        }
    }

    /// Logs that the rest of the stream is lost.
    pub(super) fn log_broken_ring(&self) {
        tracing::error!("stream `{}` ends: the ring between publisher and network is damaged", self.name);
    }

    /// Warns of the first loss in a stage.
    pub(super) fn warn_once(&mut self, stage: Stage, why: impl Display) {
        if !self.warned.contains(&stage) {
            self.warned.push(stage);
            tracing::warn!("stream `{}` loses datagrams in stage {stage}: {why}", self.name);
        }
    }
}

/// A refusal, and on a second line what to do about it.
struct WithRemedy(Refusal);

impl Display for WithRemedy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.0)?;
        self.0.remedy().map_or(Ok(()), |remedy| write!(formatter, "\n{remedy}"))
    }
}

const fn stage_of(refusal: Refusal) -> Stage {
    match refusal {
        Refusal::QueueDiscipline => Stage::SenderQdisc,
        Refusal::SocketFull => Stage::SenderSocket,
        // Includes datagrams that are too large: the route determines that.
        _ => Stage::SenderIp,
    }
}

/// Returns number and stream of a datagram that was returned, if enough of it is intact to be one
/// of this program.
fn own_head(error: &PathError) -> Option<Numbered> {
    // Errors of this host were already reported when the datagram was sent.
    if error.origin == Origin::Local {
        return None;
    }
    match Datagram::decode(error.returned()) {
        Ok(datagram) => datagram.head().copied(),
        // Returned datagrams are truncated; the header has a checksum of its own.
        Err(malformed) => malformed.head,
    }
}

#[cfg(test)]
mod tests {
    use ledger::KernelName;
    use sys::clock;
    use units::{SampleRate, WallTime};

    use super::*;
    use crate::send::send_path::SendPath;
    use crate::send::tests::{listener, opened, publication_config};

    #[test]
    fn a_drop_notice_counts_only_for_its_epoch_and_destination() {
        let ((_listener, open), (_other, elsewhere)) = (listener(), listener());
        let (mut publication, mut send_path) = opened(&publication_config(vec![open]));
        let rate = SampleRate::hz(1_000_000).unwrap();
        publication.write(WallTime::from_nanos(0), &[0; 8], rate).unwrap();
        let now = clock::monotonic();
        send_path.poll(now, None);
        let SendPath { losses, machine, egress, .. } = &mut send_path;
        let notice = DropNotice {
            stream: losses.stream,
            incarnation: losses.epoch.incarnation,
            numbers: 0..1,
            stage: Stage::SenderQdisc,
            reason: KernelName::new("QDISC_DROP"),
            destination: open,
            socket: None,
        };
        for (notice, dropped) in [
            (DropNotice { incarnation: losses.epoch.incarnation + 1, ..notice.clone() }, 0),
            (DropNotice { destination: elsewhere, ..notice.clone() }, 0),
            (notice, 1),
        ] {
            losses.count_dropped(now, machine, egress, &notice);
            assert_eq!(machine.totals().datagrams.sender_qdisc, dropped, "{notice:?}");
        }
        assert_eq!(losses.warned, [Stage::SenderQdisc]);
        // Nothing else would end the publisher.
        drop(send_path);
    }
}
