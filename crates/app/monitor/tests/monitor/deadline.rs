//! A monitor states a deadline, which relays keep for it as for any other reader.

use std::num::NonZeroU8;
use std::time::Duration;

use monitor::MonitorConfig;
use support::wait_until;
use tallycast::relayed::{ElementTimes, RelayPublisher, RelayedStream};
use tallycast::{Channel, Clock, Dtype, Epoch, Node, Origin, SampleRate, Schema, WallTime};
use wire::Description;

use crate::scene::{bus, node, post, start};

const DEADLINE: Duration = Duration::from_millis(300);

/// What a relay publishes under this name.
fn relayed(node: &Node, name: &str) -> RelayPublisher {
    let schema =
        Schema::new(Dtype::F8, SampleRate::hz(1_000).unwrap(), vec![Channel::new("x", "V")]).unwrap();
    let (name, station) = (name.parse().unwrap(), "rig".to_owned());
    let stream = RelayedStream {
        description: Description { name, schema, report_port: 0, station, unknown: Default::default() },
        origin: Origin {
            epoch: Epoch { start_ns: 1_763_756_051_000_000_000, incarnation: 7 },
            hop: NonZeroU8::MIN,
        },
        first_position: 0,
        deadline: None,
    };
    node.relay_publisher(stream).unwrap()
}

#[test]
fn a_monitor_states_its_deadline_for_the_streams_it_joins_at_the_start_and_later() {
    let bus = bus();
    let relay = node(&bus);
    let mut streams = ["lab/x", "far/y"].map(|name| relayed(&relay, name));
    let mut config = MonitorConfig::new(node(&bus));
    config.patterns = vec!["lab/**".parse().unwrap()];
    config.deadline = Some(DEADLINE);
    let monitor = start(config);
    let answer = post(monitor.address(), "/api/join", r#"{"pattern": "far/**"}"#);
    assert_eq!(answer.status, 200, "{}", answer.head);
    wait_until("the deadline at both streams", || {
        for stream in &mut streams {
            let t0 = WallTime::from_nanos(1_763_756_051_000_000_000);
            let times = ElementTimes { t0, clock: Clock::System, born: Some(sys::clock::monotonic()) };
            stream.elements(stream.next_position(), times, &[0; 8]).unwrap();
        }
        let is_stated = |stream: &RelayPublisher| {
            let reported = stream.reader_deadlines();
            let mut reported = reported.stated.iter().map(|it| (it.name.clone(), Some(it.deadline)));
            let mut on_host = stream.ring_readers().into_iter().map(|it| (it.name, it.deadline));
            let is_monitor = |(name, deadline): (String, Option<Duration>)| {
                name == "monitor" && deadline == Some(DEADLINE)
            };
            reported.any(is_monitor) || on_host.any(is_monitor)
        };
        streams.iter().all(is_stated).then_some(())
    });
}
