//! Another process of this host that writes invalid records into a ring.

use engine::record::kind;
use engine::{HostRings, RingWriter};
use ring::shared::Access;
use tallycast::{Dtype, Event, Reach, SharedMemory};
use wire::Description;

use crate::scene::{bus, node, watch};

#[test]
fn a_ring_that_holds_nonsense_is_left_and_its_stream_comes_by_the_network() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let network = bus();
    let shm = SharedMemory { directory: directory.path().to_owned(), access: Access::Owner, group: None };
    let mut here = network.clone();
    here.shm = Some(shm);
    let publisher = node(&network).publisher("lab/probe").dtype(Dtype::U8).rate(100).open().unwrap();
    let description = Description {
        name: publisher.name().clone(),
        schema: publisher.schema().clone(),
        report_port: 0,
        station: "elsewhere".to_owned(),
        unknown: sample::UnknownEntries::new(),
    };
    let stream = wire::stream_id(&description.name, &description.schema);
    let group = network.group(stream);
    let name = format!("239.84.0.0:{}", group.port());
    let rings = HostRings::new(directory.path(), &name, Access::Owner);
    let mut hostile = rings.create(stream, RingWriter::Publisher, &description, 4_096).unwrap();

    let mut subscriber = node(&here).subscriber("lab/**").open().unwrap();
    assert_eq!(subscriber.reaches(), [(stream, Reach::Shm)], "what is on this host comes from there");
    // A record of a kind that this version does not know would be passed over, as one of a later version.
    hostile.write(kind::BLOCK, [0, 0], &[b"nonsense"]).unwrap();
    hostile.ring_doorbell();
    watch(&mut subscriber, |event| matches!(event, Event::Began(_)).then_some(()));
    assert_eq!(subscriber.reaches(), [(stream, Reach::Udp)]);
    drop(publisher);
}
