//! A publisher beside an agent that sleeps for ever: what leaves by the publisher's thread, and what wakes the agent.

use std::net::UdpSocket;
use std::sync::MutexGuard;
use std::time::Duration;

use sys::{Interest, Poller};
use units::{SampleRate, WallTime};
use wire::Datagram;

use super::*;
use crate::send::outlet::{Link, Outlet, OutletConfig};
use crate::send::tests::{listener, opened, outlet_config};

/// A publisher, its lane, and the bell of an agent without a thread.
struct Scene {
    outlet: Outlet,
    lane: Option<SharedLane>,
    bell: AgentBell,
    poller: Poller,
    listener: UdpSocket,
}

impl Scene {
    /// Sets up a publisher whose lane had its first turn.
    fn new(change: impl FnOnce(&mut OutletConfig)) -> Self {
        let (listener, address) = listener();
        listener.set_nonblocking(true).unwrap();
        let mut config = outlet_config(vec![address]);
        change(&mut config);
        let bell = AgentBell::new().unwrap();
        let (mut outlet, mut lane) = opened(&config);
        lane.turn(clock::monotonic(), None);
        let lane = Arc::new(Mutex::new(lane));
        let Link { bell: its, short_way, .. } = outlet.link_mut();
        (*its, *short_way) = (bell.clone(), Some(ShortWay::new(&lane)));
        let poller = Poller::new().unwrap();
        poller.add(bell.wakeup(), 0, Interest::Read).unwrap();
        Self { outlet, lane: Some(lane), bell, poller, listener }
    }

    /// Lets the agent sleep for so long.
    fn sleeps(&self, time: Duration) {
        self.bell.falling_asleep(clock::monotonic() + time);
    }

    fn write(&mut self, bytes: usize) {
        let rate = SampleRate::hz(1_000_000).unwrap();
        self.outlet.write(WallTime::from_nanos(0), &vec![0; bytes], rate).unwrap();
    }

    /// Counts the datagrams with samples that have arrived: on this host, all that were sent.
    fn arrived(&self) -> usize {
        let mut datagram = [0; wire::MAX_DATAGRAM_BYTES];
        let mut count = 0;
        while let Ok(size_bytes) = self.listener.recv(&mut datagram) {
            count += usize::from(matches!(Datagram::decode(&datagram[..size_bytes]), Ok(Datagram::Data(_))));
        }
        count
    }

    fn was_woken(&mut self) -> bool {
        !self.poller.wait(Some(clock::monotonic())).unwrap().is_empty()
    }

    /// Tells whether nothing has left and the agent was woken.
    fn is_left_to_the_agent(&mut self) -> bool {
        self.arrived() == 0 && self.was_woken()
    }

    fn lane(&self) -> MutexGuard<'_, Lane> {
        self.lane.as_ref().unwrap().lock().unwrap()
    }
}

impl Drop for Scene {
    /// Ends the lane first: nobody else would end the publisher.
    fn drop(&mut self) {
        self.lane = None;
    }
}

/// Longer than anything that a publisher has to do in time.
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
    assert!(scene.lane().needs_turn());
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
    // Written while the agent is awake, which has not come to it yet.
    scene.write(3 * MAX_BYTES);
    scene.sleeps(Duration::ZERO);
    scene.write(8);
    assert!(scene.is_left_to_the_agent());
}

#[test]
fn a_publisher_whose_lane_has_somebody_else_wakes_the_agent() {
    let mut scene = Scene::new(|_| ());
    scene.sleeps(LONG);
    let lane = scene.lane.clone().unwrap();
    let held = lane.lock().unwrap();
    scene.write(8);
    drop(held);
    assert!(scene.is_left_to_the_agent());
}

#[test]
fn an_agent_that_was_awake_meanwhile_does_not_sleep_over_what_the_publisher_left() {
    let mut scene = Scene::new(|_| ());
    scene.sleeps(Duration::ZERO);
    scene.write(8);
    assert!(scene.lane().needs_turn(), "the times have changed");
    scene.lane().turn(clock::monotonic(), None);
    assert!(!scene.lane().needs_turn());
}

#[test]
fn a_publisher_that_writes_again_at_once_leaves_it_to_the_agent() {
    let mut scene = Scene::new(|_| ());
    scene.sleeps(Duration::ZERO);
    let in_the_future = clock::monotonic() + LONG;
    scene.outlet.link_mut().short_way.as_mut().unwrap().taken = in_the_future;
    scene.write(8);
    assert!(scene.is_left_to_the_agent());
}
