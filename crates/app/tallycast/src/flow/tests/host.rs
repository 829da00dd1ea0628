//! Flows of another process's ring, in shared memory, which the test writes as a publisher does.

use super::*;
use engine::{HostRings, RingName, RingWriter};
use ring::shared::Access;
use tempfile::TempDir;

/// A scene whose ring is a file, and whose flow has only the ring's page to ask.
struct HostScene {
    scene: Scene,
    _directory: TempDir,
}

impl HostScene {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let rings = HostRings::new(directory.path(), "test", Access::Owner);
        let description = description();
        let stream = wire::stream_id(&description.name, &description.schema);
        let writer = rings.create(stream, RingWriter::Publisher, &description, RING_BYTES).unwrap();
        let name = RingName { stream, writer: RingWriter::Publisher };
        let found = rings.open(&name).unwrap();
        let inlet = found.inlet.clone();
        let (bridge, totals) = (Arc::new(KnownAccounts::default()), BTreeMap::new());
        let scene = Scene { writer, inlet, totals, bridge, flow: Flow::on_host(found), events: Vec::new() };
        Self { scene, _directory: directory }
    }
}

#[test]
fn a_lapped_reader_goes_on_where_the_page_was_never_written() {
    let mut host = HostScene::new();
    let scene = &mut host.scene;
    scene.began(A, 0);
    scene.blocks(A, 0..10);
    scene.read();
    // The gap that is to be explained makes the flow ask.
    scene.gap(A, unsettled(10..30));
    scene.blocks(A, 30..TOO_MANY);
    let events = scene.read();
    assert!(accounts(&events).is_empty(), "{:?}", words(&events));
    assert_eq!(scene.flow.accounts("desk", GapList::Full)[0].account.elements.next, TOO_MANY / E);
    scene.ended(A, AccountState::Closed);
    let events = scene.read();
    let states: Vec<_> = accounts(&events).iter().map(|account| account.state).collect();
    assert_eq!(states, [AccountState::Closed]);
}
