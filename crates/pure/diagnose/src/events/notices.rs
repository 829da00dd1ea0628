//! Notices of drop events in numbered streams, for the accounts of these streams.

use ledger::{DropNotice, KernelName};
use units::StreamId;

use crate::events::DropEvent;
use crate::events::fragments::Fragments;
use crate::events::matching::is_bound;
use crate::watch::snapshot::Socket;

/// Converter from drop events to notices.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    fragments: Fragments,
}

impl Notices {
    /// Takes events in order; returns notices for streams whose datagrams carry an incarnation, as ours do.
    ///
    /// A notice of a socket's drop names the socket: if the kernel does not report it and several of `sockets` are
    /// possible, there is no notice.
    pub fn take(&mut self, events: &[DropEvent], sockets: &[Socket]) -> Vec<DropNotice> {
        if let Some(last) = events.last() {
            self.fragments.expire(last.at);
        }
        let losses = events.iter().filter(|event| event.is_loss()).cloned();
        losses.filter_map(|event| notice(&self.fragments.take(event)?, sockets)).collect()
    }
}

fn notice(event: &DropEvent, sockets: &[Socket]) -> Option<DropNotice> {
    let (numbers, stage) = (event.numbers.filter(|numbers| numbers.incarnation != 0)?, event.stage()?);
    let socket = match event.socket {
        None if stage.is_counted_by_socket() => Some(only_socket(event, sockets)?),
        known => known,
    };
    Some(DropNotice {
        stream: StreamId(numbers.stream),
        incarnation: numbers.incarnation,
        numbers: numbers.first..numbers.last.checked_add(1)?,
        stage,
        reason: KernelName::new(&event.name()),
        destination: event.destination,
        socket,
    })
}

/// Returns the cookie of the socket that datagrams to that address were for, if only one is possible.
fn only_socket(event: &DropEvent, sockets: &[Socket]) -> Option<u64> {
    let mut bound = sockets.iter().filter(|socket| is_bound(socket.local, event.destination));
    let only = bound.next().filter(|_| bound.next().is_none())?;
    Some(only.cookie)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::tests::event;
    use crate::events::{Fragment, Numbers};
    use ledger::Stage;

    fn numbered(reason: &str, incarnation: u64) -> DropEvent {
        DropEvent {
            numbers: Some(Numbers { stream: 5, incarnation, first: 7, last: 9 }),
            location: Some("udp_queue_rcv_one_skb".into()),
            ..event(reason)
        }
    }

    fn socket(cookie: u64) -> Socket {
        let local = event("").destination;
        Socket { cookie, local, buffer_bytes: 8_192, drops: 0, owner: None }
    }

    #[test]
    fn a_numbered_loss_is_reported_with_the_kernels_own_words() {
        let mut notices = Notices::default();
        let reported = notices.take(&[numbered("UDP_CSUM", 6)], &[]);
        let expected = DropNotice {
            stream: StreamId(5),
            incarnation: 6,
            numbers: 7..10,
            stage: Stage::ReceiverChecksum,
            reason: KernelName::new("UDP_CSUM @ udp_queue_rcv_one_skb"),
            destination: event("").destination,
            socket: None,
        };
        assert_eq!(reported, [expected]);
        for unusable in [numbered("UDP_CSUM", 0), event("UDP_CSUM"), numbered("NO_REASON_OF_OURS", 6)] {
            assert!(notices.take(&[unusable], &[]).is_empty(), "no incarnation, no number, no stage");
        }
    }

    #[test]
    fn drops_of_a_socket_are_reported_only_where_it_is_known_which() {
        let reported = |event: &DropEvent, sockets: &[Socket]| {
            let reported = Notices::default().take(core::slice::from_ref(event), sockets);
            reported.iter().map(|notice| notice.socket).collect::<Vec<_>>()
        };
        let full = numbered("SOCKET_RCVBUFF", 6);
        assert_eq!(reported(&full, &[]), []);
        assert_eq!(reported(&full, &[socket(3)]), [Some(3)]);
        assert_eq!(reported(&full, &[socket(3), socket(4)]), []);
        let named = DropEvent { socket: Some(4), ..full };
        assert_eq!(reported(&named, &[socket(3), socket(4)]), [Some(4)]);
    }

    #[test]
    fn a_datagram_in_fragments_is_reported_once() {
        let mut notices = Notices::default();
        let part = |is_first| {
            let numbers = Some(Numbers { stream: 5, incarnation: 6, first: 7, last: 7 }).filter(|_| is_first);
            DropEvent { fragment: Some(Fragment { id: 1, is_first }), numbers, ..event("FRAG_REASM_TIMEOUT") }
        };
        let reported = notices.take(&[part(true), part(false), part(false)], &[]);
        assert_eq!(reported.iter().map(|notice| notice.numbers.clone()).collect::<Vec<_>>(), [7..8]);
    }
}
