//! The sending agent over real sockets of this host: what it refuses, what wakes it, and which
//! calls wait.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use cast::send::{Beginning, Limits, Pacing, Sending};
use keys::{AuthorityFile, GroupSecret, KeyFile, Membership, StationKeys, Suite};
use sample::{Channel, Dtype, Schema};
use support::{WATCHDOG, wait_until};
use sys::SendTechniques;
use units::{SampleRate, WallTime};
use wire::{Clock, Description};

use super::*;
use ring::shared::Access;

use crate::{EpochOnPage, HostRings, read_ledger_page};

pub(crate) fn send_config() -> SendConfig {
    let (thread, drop_board) = (ThreadTuning::default(), PathBuf::new());
    SendConfig {
        interface: None,
        ttl: None,
        announce_to: None,
        drop_board,
        reports: Sharing { access: Access::Owner, ..Sharing::default() },
        thread,
        keyring: None,
    }
}

pub(crate) fn publication_config(destinations: Vec<SocketAddr>) -> PublicationConfig {
    let rate = SampleRate::hz(1_000_000).unwrap();
    PublicationConfig {
        description: Description {
            name: "lab/probe".parse().unwrap(),
            schema: Schema::new(Dtype::F4, rate, vec![Channel::new("a", "V")]).unwrap(),
            report_port: 0,
            station: "test".to_owned(),
            unknown: sample::UnknownEntries::new(),
        },
        epoch: Epoch { start_ns: 1, incarnation: 2 },
        clock: Clock::System,
        destinations,
        datagram_bytes: wire::DATAGRAM_BYTES_IPV4,
        linger: Duration::ZERO,
        pacing: Pacing::default(),
        sending: Sending::Always,
        beginning: Beginning::Now,
        ring_bytes: 1 << 20,
        host: None,
        send_buffer_bytes: 1 << 18,
        techniques: SendTechniques::default(),
        socket_full: SocketFull::Lose,
        proof: None,
        relayed: None,
        deadline: None,
    }
}

/// Returns a bound socket of this host and its address.
pub(crate) fn listener() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Returns the membership of a station in a laboratory of its own.
pub(crate) fn membership() -> Arc<Membership> {
    Arc::new(station_file().membership(clock::wall()).unwrap())
}

/// Returns the keyring of such a station, and the folder of its file.
pub(crate) fn keyring() -> (tempfile::TempDir, Arc<Keyring>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daq.keys");
    ::keyring::create_station(&path, &station_file()).unwrap();
    (folder, Arc::new(Keyring::open(path, clock::wall()).unwrap()))
}

/// Returns a datagram of a secured stream of a laboratory that no other test has.
pub(crate) fn secured_datagram() -> Vec<u8> {
    let (listener, address) = listener();
    let (_publication, mut send_path) = opened_with(&publication_config(vec![address]), Some(membership()));
    send_path.poll(clock::monotonic(), None);
    let mut buffer = [0; wire::MAX_DATAGRAM_BYTES];
    let size_bytes = listener.recv(&mut buffer).unwrap();
    // Nothing else would end the publisher.
    drop(send_path);
    buffer[..size_bytes].to_vec()
}

fn station_file() -> KeyFile {
    let wall = clock::wall();
    let authority = AuthorityFile::new("lab", ::keyring::random_secret()).unwrap();
    let secret =
        GroupSecret::new(::keyring::random_token(), Suite::default(), ::keyring::random_secret(), wall);
    let validity = wall.offset(-60_000_000_000)..wall.offset(3_600_000_000_000);
    let seeds = [::keyring::random_secret(), ::keyring::random_secret()];
    let station = StationKeys::new(&authority, "daq", seeds, validity).unwrap();
    KeyFile::new(&authority, station, secret).unwrap()
}

/// Opens a publisher without an agent's thread.
pub(super) fn opened(config: &PublicationConfig) -> (Publication, SendPath) {
    opened_with(config, None)
}

/// The same, secured if there is a membership.
pub(super) fn opened_with(
    config: &PublicationConfig,
    membership: Option<Arc<Membership>>,
) -> (Publication, SendPath) {
    let (writer, ring) = ring::ring(config.ring_bytes);
    let (reader, guard) = ring.guarded_reader();
    let shared = Arc::new(PublicationShared::new());
    let link =
        Link { guard, shared: Arc::clone(&shared), waker: AgentWaker::new().unwrap(), inline_sender: None };
    let publication = Publication::new(config, writer, Some(link)).unwrap();
    let surroundings = Surroundings { interface: None, ttl: None, predecessor: None, membership };
    let send_path = SendPath::open(config, reader, shared, &surroundings, clock::monotonic()).unwrap();
    (publication, send_path)
}

/// Runs `work` on a thread of its own and waits for its end.
fn within_the_watchdog<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    ended.recv_timeout(WATCHDOG).expect("it ends")
}

#[test]
fn an_agent_that_is_told_to_stop_sees_it_before_it_sleeps() {
    let (commands, taken) = mpsc::channel();
    let mut agent = Agent::open(send_config(), false, AgentWaker::new().unwrap()).unwrap();
    assert!(agent.duty_cycle_unless_ended(&taken).is_continue());
    commands.send(Command::Stop).unwrap();
    assert!(agent.duty_cycle_unless_ended(&taken).is_break());
}

#[test]
fn what_the_network_answers_is_told_as_lost_in_the_ip_layer() {
    let (listener, closed) = listener();
    drop(listener);
    let agent = SendAgent::start(send_config(), false).unwrap();
    let mut publication = agent.open(publication_config(vec![closed])).unwrap();
    let rate = SampleRate::hz(1_000_000).unwrap();
    // A hundred datagrams full of samples to a port without a listener: this host reports each.
    publication.write(WallTime::from_nanos(0), &[0; 100 * 1_392], rate).unwrap();
    let totals = publication.finish().totals;
    assert!(totals.samples.is_balanced());
    assert!(totals.datagrams.sender_ip >= 100, "{totals:?}");
    assert_eq!(totals.datagrams.sender_socket + totals.datagrams.sender_qdisc, 0);
}

#[test]
fn a_reader_that_listens_is_answered_for_by_nobody() {
    let (_listener, open) = listener();
    let agent = SendAgent::start(send_config(), false).unwrap();
    let mut publication = agent.open(publication_config(vec![open])).unwrap();
    publication.write(WallTime::from_nanos(0), &[0; 1_392], SampleRate::hz(1_000_000).unwrap()).unwrap();
    assert_eq!(publication.finish().totals.datagrams.sender_ip, 0);
}

#[test]
fn settings_that_make_no_sense_are_refused_before_they_reach_the_agent() {
    let (_listener, open) = listener();
    let agent = SendAgent::start(send_config(), false).unwrap();
    let refused = |config| agent.open(config).err().expect("it is refused");
    for datagram_bytes in [0, 99, 65_508, usize::MAX] {
        let config = PublicationConfig { datagram_bytes, ..publication_config(vec![open]) };
        assert!(
            matches!(refused(config), SendError::DatagramBytes { actual, .. } if actual == datagram_bytes)
        );
    }
    for train in [0, 65, usize::MAX] {
        for pacing in [Pacing::Unlimited { train }, Pacing::Stream(Limits { train, ..Limits::default() })] {
            let config = PublicationConfig { pacing, ..publication_config(vec![open]) };
            assert!(matches!(refused(config), SendError::Train(given) if given == train));
        }
    }
    let mixed = publication_config(vec![open, "[::1]:7400".parse().unwrap()]);
    assert!(matches!(refused(mixed), SendError::MixedDestinations));
    assert!(matches!(refused(publication_config(Vec::new())), SendError::NoDestination));
    // Each destination of a secured stream has a key; a clear one needs none.
    let check_with = |count, is_secured| check(&publication_config(vec![open; count]), is_secured);
    let most = MAX_SECURED_DESTINATIONS;
    assert!(check_with(most, true).is_ok() && check_with(most + 1, false).is_ok());
    let refused = check_with(most + 1, true).unwrap_err().to_string();
    assert!(refused.contains("at most 4096 destinations, not 4097\nsend it to a group"), "{refused}");
    // The agent keeps running.
    let publication = agent.open(publication_config(vec![open])).unwrap();
    assert!(publication.finish().finished);
}

#[test]
fn a_queue_holds_at_least_one_sample() {
    let (_listener, open) = listener();
    let agent = SendAgent::start(send_config(), false).unwrap();
    let mut config = publication_config(vec![open]);
    let channel = Channel::new("image", "").with_shape([300, 400]);
    let rate = SampleRate::hz(10).unwrap();
    config.description.schema = Schema::new(Dtype::U8, rate, vec![channel]).unwrap();
    config.ring_bytes = 128 << 10;
    let Some(SendError::QueueTooSmall { needed_bytes, .. }) = agent.open(config.clone()).err() else {
        panic!("a queue of 128 KiB held an image of 120,000 bytes")
    };
    config.ring_bytes = needed_bytes;
    let mut publication = agent.open(config).unwrap();
    assert!(!publication.would_overwrite(120_000, 1));
    assert_eq!(publication.max_block_bytes(), 240_000, "rounded up to a power of two it holds two");
    publication.write(WallTime::from_nanos(0), &[0; 120_000], rate).unwrap();
    assert_eq!(publication.finish().totals.samples.numbered, 1);
}

#[test]
fn a_small_queue_takes_large_blocks_in_small_records() {
    let (_listener, open) = listener();
    let (mut publication, send_path) =
        opened(&PublicationConfig { ring_bytes: 1 << 14, ..publication_config(vec![open]) });
    let fits = publication.max_block_bytes();
    assert!(fits > 1 << 13, "{fits} bytes of 16 KiB");
    assert!(!publication.would_overwrite(fits, 1));
    let rate = SampleRate::hz(1_000_000).unwrap();
    publication.write(WallTime::from_nanos(0), &vec![0; 1 << 17], rate).unwrap();
    assert!(publication.would_overwrite(4, 1));
    drop(send_path);
}

#[test]
fn a_publisher_does_not_wait_for_a_send_path_that_has_failed() {
    let (_listener, open) = listener();
    let (publication, send_path) = opened(&publication_config(vec![open]));
    assert!(!publication.has_ended());
    drop(send_path);
    assert!(publication.has_ended());
    assert!(within_the_watchdog(move || publication.finish().finished));
}

#[test]
fn a_publisher_that_closes_waits_for_the_final_tally_and_not_for_its_repeats() {
    let (_listener, open) = listener();
    let (publication, mut send_path) = opened(&publication_config(vec![open]));
    let ending = std::thread::spawn(move || publication.finish());
    wait_until("the closed ring as input", || send_path.has_input().then_some(()));
    // Time stands still, so that no repeat falls due.
    let now = clock::monotonic();
    wait_until("the final tally", || {
        let polled = send_path.poll(now, None);
        assert!(!matches!(polled, Polled::Finished));
        send_path.has_told_end().then_some(())
    });
    assert!(ending.join().unwrap().finished);
    assert!(send_path.as_predecessor().1.is_final);
}

#[test]
fn a_send_path_takes_samples_injection_and_the_end_as_input() {
    let (_listener, open) = listener();
    let (mut publication, mut send_path) = opened(&publication_config(vec![open]));
    let rate = SampleRate::hz(1_000_000).unwrap();
    send_path.poll(clock::monotonic(), None);
    assert!(!send_path.has_input());
    publication.write(WallTime::from_nanos(0), &[0; 8], rate).unwrap();
    assert!(send_path.has_input());
    send_path.poll(clock::monotonic(), None);
    assert!(!send_path.has_input());
    publication.inject(0.5);
    assert!(send_path.has_input());
    send_path.poll(clock::monotonic(), None);
    assert!(!send_path.has_input());
    let ending = std::thread::spawn(move || publication.finish());
    wait_until("the closed ring as input", || send_path.has_input().then_some(()));
    drop(send_path);
    assert!(ending.join().unwrap().finished);
}

#[test]
fn a_command_that_comes_while_falling_asleep_is_not_slept_over() {
    let mut agent = Agent::open(send_config(), false, AgentWaker::new().unwrap()).unwrap();
    let (tell, commands) = mpsc::channel();
    // As if it had been queued after the last check of the commands, and the waker had been called
    // while all were awake.
    tell.send(Command::Stop).unwrap();
    agent.sleep(Some(clock::monotonic() + WATCHDOG), &commands);
    assert!(agent.stopping);
}

#[test]
fn a_flood_of_reports_does_not_stop_the_publishers() {
    let mut agent = Agent::open(send_config(), false, AgentWaker::new().unwrap()).unwrap();
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, agent.reports.local_address().port()));
    let (flood, _) = listener();
    for _ in 0..MAX_REPORT_BATCHES_PER_DUTY_CYCLE * sys::BATCH_DATAGRAMS {
        flood.send_to(&[0; 64], to).unwrap();
    }
    assert!(agent.take_reports(), "there may be more");
    assert!(!agent.take_reports());
}

#[test]
fn readers_are_listed_per_epoch() {
    let (_listener, open) = listener();
    let agent = SendAgent::start(send_config(), false).unwrap();
    let publication = agent.open(publication_config(vec![open])).unwrap();
    assert!(agent.readers(Epoch { start_ns: 1, incarnation: 2 }).is_empty());
    let stream =
        wire::stream_id(&"lab/probe".parse().unwrap(), &publication_config(Vec::new()).description.schema);
    let report = wire::Report {
        stream,
        epoch: Epoch { start_ns: 1, incarnation: 2 },
        reader: units::ReaderId(7),
        name: "reader".to_owned(),
        state: ledger::AccountState::Open,
        age: Duration::ZERO,
        receive_buffer_bytes: 0,
        datagrams: ledger::NetworkRows::default(),
        elements: ledger::ReaderRows { per_sample: 1, ..ledger::ReaderRows::default() },
        waiting: None,
    };
    let mut datagram = [0; wire::DATAGRAM_BYTES_IPV4];
    let size = report.encode(&mut datagram).unwrap();
    let (reader, _) = listener();
    reader.send_to(&datagram[..size], (Ipv4Addr::LOCALHOST, agent.report_port)).unwrap();
    let told = wait_until("the report", || {
        let told = agent.readers(Epoch { start_ns: 1, incarnation: 2 });
        (!told.is_empty()).then_some(told)
    });
    assert_eq!(told[0].report, report);
    assert!(agent.readers(Epoch { start_ns: 1, incarnation: 3 }).is_empty(), "of another epoch");
    drop(publication);
}

#[test]
fn the_ring_of_a_publisher_that_has_sent_nothing_names_its_epoch() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let host = HostRings::new(directory.path(), "test", Access::Owner);
    let config = PublicationConfig { host: Some(host.clone()), ..publication_config(Vec::new()) };
    let _publication = open_on_host(&config).unwrap();
    let stream = host.open(&host.names()[0]).unwrap();
    let mut page = Vec::new();
    assert!(stream.subscription.ring.page(&mut page));
    let epochs = read_ledger_page(&page).unwrap();
    assert_eq!(epochs, [EpochOnPage { epoch: config.epoch, ended: false, origin: None, gaps: Vec::new() }]);
}

#[test]
fn notices_of_drops_are_no_evidence_on_a_secured_bus() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut board = crate::DropBoard::open(memory.path()).unwrap();
    let (_keys, keys) = keyring();
    for (keyring, is_evidence) in [(None, true), (Some(keys), false)] {
        let (_listener, address) = listener();
        let config = SendConfig { drop_board: memory.path().to_owned(), keyring, ..send_config() };
        let mut agent = Agent::open(config, false, AgentWaker::new().unwrap()).unwrap();
        let config = publication_config(vec![address]);
        let (writer, ring) = ring::ring(config.ring_bytes);
        let (reader, guard) = ring.guarded_reader();
        let shared = Arc::new(PublicationShared::new());
        let waker = AgentWaker::new().unwrap();
        let link = Link { guard, shared: Arc::clone(&shared), waker, inline_sender: None };
        let mut publication = Publication::new(&config, writer, Some(link)).unwrap();
        agent.open_send_path(&config, reader, shared).unwrap();
        publication.write(WallTime::from_nanos(0), &[0; 8], SampleRate::hz(1_000_000).unwrap()).unwrap();
        let (_commands, taken) = mpsc::channel();
        agent.duty_cycle(&taken);
        board.post_scope(true);
        board.post(&ledger::DropNotice {
            stream: agent.send_paths[0].stream(),
            incarnation: config.epoch.incarnation,
            numbers: 0..1,
            stage: ledger::Stage::SenderQdisc,
            reason: ledger::KernelName::new("QDISC_DROP"),
            destination: address,
            socket: None,
        });
        agent.hear_drops(agent.next_drop_look + Duration::from_secs(2));
        let lost = agent.send_paths[0].with(|send_path| send_path.totals().datagrams.sender_qdisc).unwrap();
        let is_watched = agent.is_watched;
        // Nothing else would end the publisher.
        drop(agent);
        assert_eq!((is_watched, lost), (is_evidence, u64::from(is_evidence)));
    }
}

#[test]
fn an_agent_of_a_secured_bus_sleeps_no_longer_than_until_its_keys_are_looked_at() {
    let (_folder, keyring) = keyring();
    let config = SendConfig { keyring: Some(keyring), ..send_config() };
    let mut agent = Agent::open(config, false, AgentWaker::new().unwrap()).unwrap();
    let (_commands, taken) = mpsc::channel();
    assert_eq!(agent.duty_cycle(&taken), agent.keys.next_look());
}
