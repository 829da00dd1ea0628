//! A publisher and an agent that never wakes: which datagrams the publisher's thread sends, and
//! when it wakes the agent.

use std::net::UdpSocket;
use std::sync::MutexGuard;
use std::time::Duration;

use cast::send::Pacing;
use keys::Membership;
use sys::{Interest, Poller};
use units::{ReaderId, SampleRate, WallTime};
use wire::{Datagram, Request, Wanted};

use super::*;
use crate::send::guarded_send_path::Message;
use crate::send::publication::{Link, Publication};
use crate::send::publication_config::PublicationConfig;
use crate::send::send_path::SendPath;
use crate::send::tests::{listener, membership, opened_with, publication_config};

/// A publisher, its send path, and the waker of an agent without a thread.
struct Scene {
    publication: Publication,
    send_path: Option<Arc<GuardedSendPath>>,
    waker: AgentWaker,
    poller: Poller,
    listener: UdpSocket,
}

impl Scene {
    /// Sets up a publisher whose send path was polled once.
    fn new(change: impl FnOnce(&mut PublicationConfig)) -> Self {
        Self::of_process(change, None, |_| ())
    }

    /// The same for a secured stream, in the process that opened it or in one that `changed`.
    fn secured(changed: impl FnOnce(&mut GuardedSendPath)) -> Self {
        Self::of_process(|_| (), Some(membership()), changed)
    }

    fn of_process(
        change: impl FnOnce(&mut PublicationConfig),
        membership: Option<Arc<Membership>>,
        changed: impl FnOnce(&mut GuardedSendPath),
    ) -> Self {
        let (listener, address) = listener();
        listener.set_nonblocking(true).unwrap();
        let mut config = publication_config(vec![address]);
        change(&mut config);
        let waker = AgentWaker::new().unwrap();
        let (mut publication, mut send_path) = opened_with(&config, membership);
        send_path.poll(clock::monotonic(), None);
        let mut send_path = GuardedSendPath::new(send_path);
        changed(&mut send_path);
        let send_path = Arc::new(send_path);
        let Link { waker: its, inline_sender, .. } = publication.link_mut();
        (*its, *inline_sender) =
            (waker.clone(), Some(InlineSender::new(&send_path, None, config.socket_full)));
        let poller = Poller::new().unwrap();
        poller.add(waker.wakeup(), 0, Interest::Read).unwrap();
        let scene = Self { publication, send_path: Some(send_path), waker, poller, listener };
        scene.sent();
        scene
    }

    /// Lets the agent sleep for `time`.
    fn sleeps(&self, time: Duration) {
        self.waker.falling_asleep(clock::monotonic() + time);
    }

    fn write(&mut self, bytes: usize) {
        let rate = SampleRate::hz(1_000_000).unwrap();
        self.publication.write(WallTime::from_nanos(0), &vec![0; bytes], rate).unwrap();
    }

    /// Counts the datagrams with samples that have arrived: on this host, all that were sent.
    fn arrived(&self) -> usize {
        self.arrived_indices().len()
    }

    /// Counts the datagrams of any kind that have arrived.
    fn sent(&self) -> usize {
        let mut datagram = [0; wire::MAX_DATAGRAM_BYTES];
        std::iter::from_fn(|| self.listener.recv(&mut datagram).ok()).count()
    }

    /// Returns the first indices of these datagrams.
    fn arrived_indices(&self) -> Vec<u64> {
        let mut datagram = [0; wire::MAX_DATAGRAM_BYTES];
        let mut indices = Vec::new();
        while let Ok(size_bytes) = self.listener.recv(&mut datagram) {
            if let Ok(Datagram::Data(data)) = Datagram::decode(&datagram[..size_bytes]) {
                indices.push(data.head.first_index);
            }
        }
        indices
    }

    fn was_woken(&mut self) -> bool {
        !self.poller.wait(Some(clock::monotonic())).unwrap().is_empty()
    }

    /// Returns whether nothing was sent and the agent was woken.
    fn is_left_to_the_agent(&mut self) -> bool {
        self.arrived() == 0 && self.was_woken()
    }

    fn send_path(&self) -> MutexGuard<'_, SendPath> {
        self.send_path.as_ref().unwrap().hold()
    }
}

impl Drop for Scene {
    /// Ends the send path first: nothing else would end the publisher.
    fn drop(&mut self) {
        self.send_path = None;
    }
}

/// Longer than any deadline of a publisher.
const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn few_samples_leave_without_waking_an_agent_that_sleeps() {
    let mut scene = Scene::new(|_| ());
    scene.sleeps(Duration::ZERO);
    scene.write(8);
    assert_eq!(scene.arrived(), 1);
    assert!(!scene.was_woken());
}

#[test]
fn a_forked_child_sends_nothing_on_a_secured_stream() {
    for (mut scene, sends) in [
        (Scene::secured(|_| ()), true),
        (Scene::secured(GuardedSendPath::fork), false),
        (Scene::of_process(|_| (), None, GuardedSendPath::fork), true),
    ] {
        scene.sleeps(LONG);
        scene.write(8);
        assert_eq!(scene.sent() > 0, sends);
    }
}

#[test]
fn an_agent_that_would_sleep_too_long_is_woken_for_what_is_due_later() {
    let mut scene = Scene::new(|config| config.linger = Duration::from_millis(5));
    scene.sleeps(LONG);
    scene.write(8);
    assert_eq!(scene.arrived(), 0, "it waits for company");
    assert!(scene.was_woken());
}

#[test]
fn an_agent_that_is_awake_does_its_work_itself() {
    let mut scene = Scene::new(|_| ());
    scene.write(8);
    assert_eq!(scene.arrived(), 0);
    assert!(!scene.was_woken());
    assert!(scene.send_path().needs_poll());
}

#[test]
fn many_samples_are_work_for_the_agent() {
    let mut scene = Scene::new(|_| ());
    scene.sleeps(Duration::ZERO);
    scene.write(MAX_BYTES + 4);
    assert!(scene.is_left_to_the_agent());
}

#[test]
fn many_destinations_are_work_for_the_agent() {
    let mut scene = Scene::new(|config| config.destinations = vec![config.destinations[0]; 5]);
    scene.sleeps(Duration::ZERO);
    scene.write(8);
    assert!(scene.is_left_to_the_agent());
}

#[test]
fn a_backlog_is_work_for_the_agent() {
    let mut scene = Scene::new(|_| ());
    // Written while the agent is awake and has not polled this publisher yet.
    scene.write(3 * MAX_BYTES);
    scene.sleeps(Duration::ZERO);
    scene.write(8);
    assert!(scene.is_left_to_the_agent());
}

#[test]
fn a_publisher_whose_send_path_has_somebody_else_wakes_the_agent() {
    let mut scene = Scene::new(|_| ());
    scene.sleeps(LONG);
    let send_path = scene.send_path.clone().unwrap();
    let held = send_path.hold();
    scene.write(8);
    drop(held);
    assert!(scene.is_left_to_the_agent());
}

#[test]
fn an_agent_that_was_awake_meanwhile_does_not_sleep_over_what_the_publisher_left() {
    let mut scene = Scene::new(|_| ());
    scene.sleeps(Duration::ZERO);
    scene.write(8);
    assert!(scene.send_path().needs_poll(), "the times have changed");
    scene.send_path().poll(clock::monotonic(), None);
    assert!(!scene.send_path().needs_poll());
}

#[test]
fn a_publisher_that_writes_again_at_once_leaves_it_to_the_agent() {
    let mut scene = Scene::new(|_| ());
    scene.sleeps(Duration::ZERO);
    let in_the_future = clock::monotonic() + LONG;
    scene.publication.link_mut().inline_sender.as_mut().unwrap().last_sent = in_the_future;
    scene.write(8);
    assert!(scene.is_left_to_the_agent());
}

#[test]
fn few_samples_behind_a_hole_that_waits_in_the_ring_leave_with_it() {
    let mut scene = Scene::new(|_| ());
    // Wakes the agent while it is awake and has not polled this publisher yet.
    scene.publication.skip(3).unwrap();
    scene.sleeps(Duration::ZERO);
    scene.write(8);
    assert_eq!(scene.arrived_indices(), [3]);
    assert!(!scene.was_woken());
}

/// Configures a publisher that waits for room, and sends as fast as the socket accepts datagrams.
fn waits(config: &mut PublicationConfig) {
    config.socket_full = SocketFull::Wait;
    config.pacing = Pacing::Unlimited { train: 16 };
}

/// Number of samples of four bytes in a full datagram.
const FULL: usize = (wire::DATAGRAM_BYTES_IPV4 - wire::DATA_HEADER_BYTES) / 4;

#[test]
fn a_publisher_that_waits_anyway_sends_many_samples_itself_however_soon() {
    let mut scene = Scene::new(waits);
    scene.sleeps(Duration::ZERO);
    scene.publication.link_mut().inline_sender.as_mut().unwrap().last_sent = clock::monotonic() + LONG;
    let read = scene.send_path().read_bytes();
    for _ in 0..2 {
        scene.write(FULL * 4 * 40);
        assert_eq!(scene.arrived(), 40);
    }
    assert!(!scene.was_woken());
    assert_eq!(scene.send_path().read_bytes(), read, "the ring was not used");
    assert_eq!(scene.send_path().waiting_bytes(), 0);
}

#[test]
fn what_the_pacing_holds_back_goes_through_the_ring_in_its_order() {
    let mut scene = Scene::new(|config| config.socket_full = SocketFull::Wait);
    scene.sleeps(LONG);
    let full = FULL * 4 * 100;
    scene.write(full);
    assert!(scene.was_woken(), "the agent sends the rest in time");
    let waiting = scene.send_path().waiting_bytes();
    assert!(waiting > 0, "the machine takes 64 KiB of 136");
    scene.waker.awake(true);
    scene.sleeps(LONG);
    scene.write(8);
    assert!(scene.send_path().waiting_bytes() > waiting, "what comes next does not overtake what waits");
    let (mut now, mut indices) = (clock::monotonic(), scene.arrived_indices());
    while indices.len() < 101 {
        now += Duration::from_millis(1);
        scene.send_path().poll(now, None);
        indices.extend(scene.arrived_indices());
    }
    let expected: Vec<u64> = (0..101).map(|number| number * FULL as u64).collect();
    assert_eq!(indices, expected);
}

/// Configures a publisher whose ring other processes could read; here none does.
fn on_host(config: &mut PublicationConfig) {
    config.host = Some(crate::HostRings::new("/nowhere", "test", ring::shared::Access::Owner));
}

#[test]
fn samples_that_other_processes_read_too_are_in_the_ring_and_passed_over_there() {
    let mut scene = Scene::new(|config| {
        waits(config);
        on_host(config);
    });
    scene.sleeps(Duration::ZERO);
    let read = scene.send_path().read_bytes();
    // More than a record, and more than the machine takes in one call.
    scene.write(FULL * 4 * 60);
    assert_eq!(scene.arrived(), 60);
    assert!(scene.send_path().read_bytes() > read + (FULL * 4 * 60) as u64);
    assert_eq!(scene.send_path().waiting_bytes(), 0);
    assert!(!scene.was_woken());
}

#[test]
fn what_a_ring_has_taken_back_is_lost_also_where_its_publisher_still_has_it() {
    let mut scene = Scene::new(|config| {
        on_host(config);
        config.ring_bytes = 4_096;
        config.pacing = Pacing::Unlimited { train: 16 };
    });
    scene.sleeps(Duration::ZERO);
    scene.write(8_192);
    while scene.send_path().has_input() {
        scene.send_path().poll(clock::monotonic(), None);
    }
    scene.send_path().poll(clock::monotonic() + LONG, None);
    let samples = scene.publication.status().totals.samples;
    assert!(samples.is_balanced() && samples.publisher_queue > 0, "{samples:?}");
    assert_eq!((samples.offered, samples.numbered + samples.publisher_queue), (2_048, 2_048));
}

#[test]
fn what_is_said_to_a_send_path_that_its_publisher_has_is_heard_by_whoever_has_it_next() {
    let scene = Scene::new(waits);
    let send_path = scene.send_path.clone().unwrap();
    let (reply, readers) = std::sync::mpsc::channel();
    let held = send_path.hold();
    send_path.post(Message::Readers(reply));
    assert!(readers.try_recv().is_err() && send_path.has_messages());
    drop(held);
    assert!(send_path.needs_poll(), "an agent that is awake does not sleep over it");
    send_path.with(|_| ()).unwrap();
    assert!(readers.try_recv().is_ok() && !send_path.has_messages());
}

#[test]
fn an_agent_that_sleeps_is_woken_for_what_came_while_its_publisher_sent() {
    let mut scene = Scene::new(waits);
    let send_path = scene.send_path.clone().unwrap();
    let held = send_path.hold();
    let (stream, epoch, reader) = (send_path.stream(), send_path.epoch(), ReaderId(1));
    send_path.post(Message::Request(Request {
        stream,
        epoch,
        reader,
        what: Wanted::Descriptor,
        waiting: None,
        nonce: None,
    }));
    drop(held);
    scene.sleeps(Duration::ZERO);
    scene.publication.link_mut().inline_sender.as_ref().unwrap().leave(&Polled::Until(None), &scene.waker);
    assert!(scene.was_woken());
}

#[test]
fn messages_beyond_what_the_mailbox_holds_are_lost() {
    let scene = Scene::new(waits);
    let send_path = scene.send_path.clone().unwrap();
    let held = send_path.hold();
    let (reply, answers) = std::sync::mpsc::channel();
    (0..1_000).for_each(|_| send_path.post(Message::Readers(reply.clone())));
    drop((held, reply));
    send_path.with(|_| ()).unwrap();
    assert_eq!(answers.iter().count(), 256);
}

#[test]
fn a_publisher_that_sends_by_itself_announces_its_stream() {
    let (group, announce_to) = listener();
    group.set_nonblocking(true).unwrap();
    let mut scene = Scene::new(waits);
    scene.publication.link_mut().inline_sender =
        Some(InlineSender::new(scene.send_path.as_ref().unwrap(), Some(announce_to), SocketFull::Wait));
    scene.sleeps(Duration::ZERO);
    scene.write(8);
    let mut datagram = [0; wire::MIN_DATAGRAM_BYTES];
    let size_bytes = group.recv(&mut datagram).unwrap();
    assert!(matches!(Datagram::decode(&datagram[..size_bytes]), Ok(Datagram::Announcement(_))));
}
