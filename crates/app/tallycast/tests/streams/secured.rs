//! Secured streams over real sockets on this host's loopback, with an attacker in the group.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use keys::{AuthorityFile, GroupSecret, KeyFile, Secret, StationKeys, Suite};
use tallycast::{
    Access, AccountState, Bus, Dtype, Event, Node, Publisher, SharedMemory, Stage, StreamAccount, Subscriber,
};
use tempfile::TempDir;
use units::WallTime;
use wire::{Datagram, Kind, SecuredHead};

use crate::scene::{node, sum, wait_until_joined, watch, watch_end};

/// A pattern that no encryption makes by chance.
const PLAINTEXT: i32 = 0x7a7a_7a7a;

/// A laboratory with a file of keys for each of two stations.
pub(crate) struct Laboratory {
    folder: TempDir,
    authority: AuthorityFile,
    first: GroupSecret,
}

impl Laboratory {
    pub(crate) fn new() -> Self {
        let authority = AuthorityFile::new("lab", keyring::random_secret()).unwrap();
        Self { folder: tempfile::tempdir().unwrap(), authority, first: secret(sys::clock::wall()) }
    }

    pub(crate) fn station(&self, name: &str) -> KeyFile {
        let now = sys::clock::wall();
        let validity: Range<WallTime> = now.offset(-60_000_000_000)..now.offset(3_600_000_000_000);
        let seeds: [Secret; 2] = [keyring::random_secret(), keyring::random_secret()];
        let keys = StationKeys::new(&self.authority, name, seeds, validity).unwrap();
        KeyFile::new(&self.authority, keys, self.first.clone()).unwrap()
    }

    pub(crate) fn authority(&self) -> keys::PublicKey {
        self.authority.authority().public()
    }

    /// Writes a new station's file, and returns the bus with it.
    pub(crate) fn bus(&self, base: &Bus, station: &str) -> Bus {
        let path = self.folder.path().join(format!("{station}.keys"));
        keyring::create_station(&path, &self.station(station)).unwrap();
        let mut bus = base.clone();
        bus.keys = Some(path);
        bus
    }
}

fn secret(from: WallTime) -> GroupSecret {
    GroupSecret::new(keyring::random_token(), Suite::default(), keyring::random_secret(), from)
}

pub(crate) fn publisher(node: &Node) -> Publisher {
    node.publisher("lab/probe").dtype(Dtype::I32).rate("100k").channels([("a", "V")]).open().unwrap()
}

/// Sends samples in blocks that the reader has taken before the next; returns how many samples arrived.
pub(crate) fn send(
    publisher: &mut Publisher,
    subscriber: &mut Subscriber,
    blocks: u64,
    mut after: impl FnMut(),
) -> u64 {
    let mut delivered = 0;
    for _ in 0..blocks {
        publisher.send(&[PLAINTEXT; 1_000]).unwrap();
        after();
        let sent = publisher.next_index();
        watch(subscriber, |event| match event {
            Event::Block(block) => {
                assert!(block.elements::<i32>().unwrap().iter().all(|value| *value == PLAINTEXT));
                delivered += block.samples;
                (block.first_index + block.samples == sent).then_some(())
            }
            Event::Gap(gap) => (gap.first_index() + gap.samples() == sent).then_some(()),
            _ => None,
        });
    }
    delivered
}

/// Reads until the stream has ended; returns its accounts.
pub(crate) fn ended(subscriber: &mut Subscriber) -> Vec<StreamAccount> {
    let mut accounts = Vec::new();
    watch_end(subscriber, |event| {
        if let Event::Ended(account) = event {
            accounts.push(account.clone());
        }
    });
    accounts
}

/// A socket in the stream's group that receives all, and sends from an address of its own.
pub(crate) fn attacker(group: SocketAddr) -> UdpSocket {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.set_recv_buffer_size(1 << 22).unwrap();
    socket.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).unwrap();
    socket.bind(&group.into()).unwrap();
    let socket = UdpSocket::from(socket);
    let SocketAddr::V4(group) = group else { panic!("{group}") };
    socket.join_multicast_v4(group.ip(), &Ipv4Addr::LOCALHOST).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Takes the datagrams that have arrived.
fn captured(socket: &UdpSocket) -> Vec<Vec<u8>> {
    let mut buffer = [0; 2_048];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok().map(|size| buffer[..size].to_vec())).collect()
}

pub(crate) fn group_of(bus: &Bus, publisher: &Publisher) -> SocketAddr {
    bus.group(wire::stream_id(publisher.name(), publisher.schema()))
}

#[test]
fn a_secured_stream_arrives_whole_and_shows_nothing_to_others() {
    let (laboratory, base) = (Laboratory::new(), crate::scene::bus());
    let mut subscriber =
        node(&laboratory.bus(&base, "desk")).subscriber("**").reader("reader").open().unwrap();
    let bus = laboratory.bus(&base, "daq");
    let mut publisher = publisher(&node(&bus));
    let outsider = attacker(group_of(&bus, &publisher));
    wait_until_joined(&mut subscriber);
    let mut seen = Vec::new();
    let delivered = send(&mut publisher, &mut subscriber, 20, || seen.extend(captured(&outsider)));
    let totals = publisher.close();
    let accounts = ended(&mut subscriber);
    seen.extend(captured(&outsider));
    let account = sum(&accounts);
    assert_eq!((account.state, account.balanced(), account.explained()), (AccountState::Closed, true, true));
    assert_eq!((delivered, account.elements.delivered), (20_000, totals.samples.numbered));
    assert!(accounts.iter().all(|account| account.unauthentic.is_empty()), "{accounts:?}");
    let kinds: BTreeSet<Kind> = seen.iter().map(|bytes| SecuredHead::read(bytes).unwrap().kind).collect();
    assert_eq!(kinds, BTreeSet::from([Kind::Data, Kind::Tally, Kind::Descriptor]));
    let plaintext = PLAINTEXT.to_le_bytes();
    assert!(seen.iter().all(|bytes| !bytes.windows(4).any(|bytes| bytes == plaintext)));
}

#[test]
fn a_reader_without_keys_and_one_with_others_get_nothing() {
    let (laboratory, base) = (Laboratory::new(), crate::scene::bus());
    let other = Laboratory::new();
    let mut subscriber = node(&laboratory.bus(&base, "desk")).subscriber("**").open().unwrap();
    let mut outsiders =
        [base.clone(), other.bus(&base, "spy")].map(|bus| node(&bus).subscriber("**").open().unwrap());
    let mut publisher = publisher(&node(&laboratory.bus(&base, "daq")));
    wait_until_joined(&mut subscriber);
    send(&mut publisher, &mut subscriber, 5, || {});
    assert_eq!(publisher.close().samples.numbered, 5_000);
    ended(&mut subscriber);
    for outsider in &mut outsiders {
        assert!(outsider.next(Duration::from_millis(1)).is_none());
    }
}

/// A clear datagram in the stream's name, ahead of it.
pub(crate) fn clear(head: &SecuredHead) -> Vec<u8> {
    let data = wire::Data {
        head: wire::Numbered {
            stream: head.stream,
            epoch: head.epoch,
            number: head.nonce + 1_000,
            first_index: 1_000_000,
            element_offset: 0,
            elements_per_sample: 1,
        },
        t0: WallTime::from_nanos(0),
        clock: wire::Clock::System,
        dtype: Dtype::I32,
        element_count: 1,
        origin: None,
        payload: &[0; 4],
    };
    let mut bytes = [0; 200];
    let size = Datagram::Data(data).encode(&mut bytes).unwrap();
    bytes[..size].to_vec()
}

#[test]
fn a_secret_rotates_while_samples_flow() {
    let (laboratory, base) = (Laboratory::new(), crate::scene::bus());
    let buses = ["desk", "daq"].map(|station| laboratory.bus(&base, station));
    let desk = node(&buses[0]);
    let mut subscriber = desk.subscriber("**").reader("reader").open().unwrap();
    let mut publisher = publisher(&node(&buses[1]));
    let observer = attacker(group_of(&buses[1], &publisher));
    wait_until_joined(&mut subscriber);
    send(&mut publisher, &mut subscriber, 5, || {});
    // The reader has the next secret before the publisher sends with it.
    let next = secret(sys::clock::wall());
    add(buses[0].keys.as_ref().unwrap(), &next);
    let has_next =
        || desk.key_state().and_then(|state| state.token).filter(|token| *token == next.token.to_string());
    support::wait_until("the reader has the next secret", has_next);
    add(buses[1].keys.as_ref().unwrap(), &next);
    let mut tokens = BTreeSet::new();
    let watchdog = support::Watchdog::new("a datagram with the next secret");
    let mut delivered = 5_000;
    while !tokens.contains(&next.token) {
        watchdog.check();
        delivered += send(&mut publisher, &mut subscriber, 1, || {});
        tokens.extend(captured(&observer).iter().filter_map(|bytes| Some(SecuredHead::read(bytes)?.token)));
    }
    delivered += send(&mut publisher, &mut subscriber, 5, || {});
    let totals = publisher.close();
    let accounts = ended(&mut subscriber);
    let account = sum(&accounts);
    assert_eq!((account.state, account.explained()), (AccountState::Closed, true));
    assert_eq!((account.elements.delivered, delivered), (totals.samples.numbered, totals.samples.numbered));
    assert!(accounts.iter().all(|account| account.unauthentic.is_empty()), "{accounts:?}");
    assert_eq!(tokens, BTreeSet::from([laboratory.first.token, next.token]));
}

fn add(path: &Path, secret: &GroupSecret) {
    let mut file = keyring::read_station(path).unwrap();
    file.add_secret(secret.clone()).unwrap();
    let mut change = keyring::Change::begin([path]).unwrap();
    change.stage(path, &file).unwrap();
    change.commit().unwrap();
}

/// The same bus, whose processes share memory in a directory of their own.
fn shared(bus: &Bus, directory: &Path) -> Bus {
    let mut bus = bus.clone();
    bus.shm = Some(SharedMemory { directory: directory.to_owned(), access: Access::Owner, group: None });
    bus
}

#[test]
fn clear_and_secured_processes_do_not_meet_in_shared_memory() {
    let (laboratory, base) = (Laboratory::new(), crate::scene::bus());
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let clear = shared(&base, memory.path());
    let secured = laboratory.bus(&clear, "daq");
    for (writers, others) in [(&clear, &secured), (&secured, &clear)] {
        let (reader, other) = (node(writers), node(others));
        let mut subscribers = [&reader, &other].map(|node| node.subscriber("**").open().unwrap());
        let mut publisher = publisher(&node(writers));
        wait_until_joined(&mut subscribers[0]);
        assert_eq!((reader.streams_on_host().len(), other.streams_on_host().len()), (1, 0));
        assert!(other.streams_withheld().is_empty());
        send(&mut publisher, &mut subscribers[0], 5, || {});
        assert_eq!(publisher.close().samples.numbered, 5_000);
        ended(&mut subscribers[0]);
        assert!(subscribers[1].next(Duration::from_millis(1)).is_none());
    }
}

#[test]
fn a_secured_bus_without_shared_memory_shows_its_reports_to_its_own_user_alone() {
    let (laboratory, base) = (Laboratory::new(), crate::scene::bus());
    let bus = laboratory.bus(&base, "daq");
    let mut subscriber =
        node(&laboratory.bus(&base, "desk")).subscriber("**").reader("reader").open().unwrap();
    let node = node(&bus);
    let mut publisher = publisher(&node);
    wait_until_joined(&mut subscriber);
    let label = keyring::read_station(bus.keys.as_ref().unwrap()).unwrap().authority().file_label();
    let board = || {
        let files = std::fs::read_dir(tallycast::DEFAULT_SHM_DIRECTORY).unwrap().filter_map(Result::ok);
        let mut boards = files.filter(|file| {
            let name = file.file_name().to_string_lossy().into_owned();
            name.starts_with("tallycast.reports.") && name.contains(&format!("@{label}."))
        });
        boards.next().map(|file| file.metadata().unwrap().mode() & 0o777)
    };
    let watchdog = support::Watchdog::new("a report");
    while board().is_none() {
        watchdog.check();
        send(&mut publisher, &mut subscriber, 1, || {});
    }
    assert_eq!(board(), Some(0o600));
    assert!(publisher.close().samples.numbered > 0);
    ended(&mut subscriber);
}

#[test]
fn the_ring_of_a_secured_stream_is_for_its_owner_or_the_group_that_access_names() {
    let (laboratory, base) = (Laboratory::new(), crate::scene::bus());
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    // Other users get as far as the ring itself.
    std::fs::set_permissions(memory.path(), Permissions::from_mode(0o755)).unwrap();
    let clear = shared(&base, memory.path());
    let [owner, group] = ["daq", "daq-2"].map(|station| laboratory.bus(&clear, station));
    for (mut bus, access, mode) in
        [(clear, Access::All, 0o644), (owner, Access::Owner, 0o600), (group, Access::Group, 0o640)]
    {
        let shm = bus.shm.as_mut().unwrap();
        (shm.access, shm.group) = (access, Some("0".parse().unwrap()));
        let publisher = publisher(&node(&bus));
        let files = std::fs::read_dir(memory.path()).unwrap().map(|it| it.unwrap().path());
        let rings: Vec<_> = files.filter(|path| path.extension().is_some_and(|it| it == "ring")).collect();
        assert_eq!(rings.len(), 1, "{rings:?}");
        assert_eq!(rings[0].metadata().unwrap().mode() & 0o777, mode);
        if sys::process::user() == 0 {
            assert_eq!(nobody_reads(&rings[0]), access == Access::All, "{access:?}");
        } else {
            println!("SKIPPED: only root can read a file as another user");
        }
        drop(publisher);
    }
}

/// Returns whether a process of another user and group can read a file.
fn nobody_reads(path: &Path) -> bool {
    let mut command = std::process::Command::new("cat");
    command.arg(path).uid(65_534).gid(65_534).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap().success()
}

#[test]
fn notices_of_drops_are_no_evidence_on_a_secured_bus() {
    let (laboratory, base) = (Laboratory::new(), crate::scene::bus());
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut board = engine::DropBoard::open(memory.path()).unwrap();
    // Only the reader looks at this board.
    let desk = laboratory.bus(&shared(&base, memory.path()), "desk");
    let reader = Node::builder().bus(desk.clone()).station("test").settle(Duration::from_secs(1));
    let mut subscriber = reader.build().unwrap().subscriber("**").reader("reader").open().unwrap();
    let bus = laboratory.bus(&base, "daq");
    let mut publisher = publisher(&node(&bus));
    let group = group_of(&bus, &publisher);
    let observer = attacker(group);
    wait_until_joined(&mut subscriber);
    send(&mut publisher, &mut subscriber, 5, || {});
    captured(&observer);
    // What is sent before the reader has the next secret is missing there, and nobody dropped it.
    let next = secret(sys::clock::wall());
    add(bus.keys.as_ref().unwrap(), &next);
    let is_missing = |head: &SecuredHead| head.token == next.token && head.kind == Kind::Data;
    let watchdog = support::Watchdog::new("a datagram with the next secret");
    let mut missing: Vec<SecuredHead> = Vec::new();
    while missing.is_empty() {
        watchdog.check();
        publisher.send(&[PLAINTEXT; 1_000]).unwrap();
        while subscriber.next(Duration::from_millis(20)).is_some() {}
        let seen = captured(&observer);
        missing.extend(seen.iter().filter_map(|bytes| SecuredHead::read(bytes)).filter(is_missing));
    }
    board.post_scope(true);
    for SecuredHead { stream, epoch, nonce, .. } in &missing {
        board.post(&ledger::DropNotice {
            stream: *stream,
            incarnation: epoch.incarnation,
            numbers: *nonce..nonce + 1,
            stage: Stage::ReceiverIp,
            reason: ledger::KernelName::new("NETFILTER_DROP"),
            destination: group,
            socket: None,
        });
    }
    add(desk.keys.as_ref().unwrap(), &next);
    send(&mut publisher, &mut subscriber, 5, || {});
    assert!(publisher.close().samples.numbered > 0);
    let account = sum(&ended(&mut subscriber));
    assert_eq!((account.state, account.balanced()), (AccountState::Closed, true));
    assert_eq!(account.elements.lost[Stage::ReceiverIp], 0, "{:?}", account.elements.lost);
    assert!(account.elements.unexplained > 0);
}
