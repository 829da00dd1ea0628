//! Readers that drive an agent whose thread does not run, or that returns when they are away.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use cast::receive::ReaderIdentity;
use cast::send::Pacing;
use ledger::LedgerConfig;
use ring::Read;
use sample::StreamPattern;
use support::ports::free_address;
use support::{WATCHDOG, Watchdog};
use sys::ReceiveTechniques;
use units::{ReaderId, SampleRate, WallTime};

use super::*;
use crate::receive::directory::Selected;
use crate::receive::subscription::Registry;
use crate::receive::{Command, PortStatus, ReceiveConfig, ReceiveFrom, ReceivesFor};
use crate::record::Record;
use crate::send::tests::{publication_config, send_config};
use crate::thread::ThreadTuning;
use crate::{Publication, PublicationConfig, SendAgent};

/// An agent that receives at an address of this host, and a publisher that sends there.
struct Scene {
    shared: Arc<SharedAgent>,
    registry: Arc<Registry>,
    commands: mpsc::Sender<Command>,
    waker: AgentWaker,
    address: SocketAddr,
    publication: Publication,
    _sender: SendAgent,
}

impl Scene {
    fn new() -> Self {
        Self::with_buffer(1 << 20)
    }

    fn with_buffer(buffer_bytes: usize) -> Self {
        let (registry, waker) = (Arc::new(Registry::default()), AgentWaker::new().unwrap());
        let (commands, taken) = mpsc::channel();
        let config = ReceiveConfig {
            interface: None,
            announcements: "127.0.0.1:0".parse().unwrap(),
            range: "239.84.255.255".parse().unwrap(),
            buffer_bytes,
            techniques: ReceiveTechniques::default(),
            busy_poll: None,
            thread: ThreadTuning::default(),
            reader: ReaderIdentity { id: ReaderId(1), name: "reader".into(), receive_buffer_bytes: 0 },
            ledger: LedgerConfig::default(),
            drop_board: std::path::PathBuf::new(),
            host: None,
            receives_for: ReceivesFor::Process,
            from: ReceiveFrom::default(),
            keyring: None,
        };
        let mut agent = Agent::open(config, taken, waker.clone(), Arc::clone(&registry)).unwrap();
        let address = free_address();
        let (told, joined) = mpsc::channel();
        let since = crate::receive::agent::waits_since(ReceiveFrom::default());
        let selected = Selected { pattern: StreamPattern::all(), since, deadline: None };
        commands.send(Command::Select(selected)).unwrap();
        commands.send(Command::Listen(address, told)).unwrap();
        agent.duty_cycle();
        joined.recv().unwrap().unwrap();
        let sender = SendAgent::start(send_config(), false).unwrap();
        let pacing = Pacing::Unlimited { train: 16 };
        let publication =
            sender.open(PublicationConfig { pacing, ..publication_config(vec![address]) }).unwrap();
        let shared = Arc::new(SharedAgent::new(agent, waker.clone(), true));
        shared.reader_came();
        Self { shared, registry, commands, waker, address, publication, _sender: sender }
    }

    /// Starts the agent's thread.
    fn start_thread(&self) -> JoinHandle<()> {
        let shared = Arc::clone(&self.shared);
        std::thread::spawn(move || shared.run())
    }

    fn publish(&mut self) {
        self.publish_bytes(&[0; 8]);
    }

    fn publish_bytes(&mut self, bytes: &[u8]) {
        let rate = SampleRate::hz(1_000_000).unwrap();
        self.publication.write(WallTime::from_nanos(0), bytes, rate).unwrap();
    }

    /// Returns a `look` that finds a received stream.
    fn look(&self) -> impl FnMut() -> Option<usize> + use<'_> {
        || Some(self.registry.subscriptions().len()).filter(|count| *count > 0)
    }

    /// Sends a request as any thread may, and waits for the answer.
    fn ask(&self) -> Result<Vec<PortStatus>, mpsc::RecvTimeoutError> {
        let (told, answer) = mpsc::channel();
        self.commands.send(Command::Ports(told)).unwrap();
        self.waker.wake();
        answer.recv_timeout(WATCHDOG)
    }

    fn stop(&self, thread: JoinHandle<()>) {
        self.commands.send(Command::Stop).unwrap();
        self.waker.wake();
        thread.join().unwrap();
    }
}

fn deadline() -> Option<Instant> {
    Some(clock::monotonic() + WATCHDOG)
}

#[test]
fn who_drives_the_agent_fits_into_a_word() {
    let now = clock::monotonic();
    for driven_by in [DrivenBy::OwnThread, DrivenBy::Reader(now), DrivenBy::ReaderAway(now)] {
        assert!(DrivenBy::decode(driven_by.encode()) == driven_by);
    }
}

#[test]
fn an_agent_that_is_told_to_stop_sees_it_before_it_sleeps() {
    let scene = Scene::new();
    let mut guard = scene.shared.agent.lock().unwrap();
    let agent = guard.as_mut().unwrap();
    assert!(agent.duty_cycle_unless_stopped().is_continue());
    scene.commands.send(Command::Stop).unwrap();
    assert!(agent.duty_cycle_unless_stopped().is_break());
}

#[test]
fn a_reader_receives_without_the_agents_thread() {
    let mut scene = Scene::new();
    scene.publish();
    assert_eq!(scene.shared.drive_until(deadline(), scene.look()), Some(1));
}

#[test]
fn a_reader_goes_when_its_time_is_over() {
    let scene = Scene::new();
    let soon = clock::monotonic() + Duration::from_millis(2);
    assert_eq!(scene.shared.drive_until(Some(soon), || None::<()>), None);
    assert!(clock::monotonic() >= soon);
}

#[test]
fn a_command_reaches_the_agent_while_a_reader_drives_it() {
    let scene = Scene::new();
    let (shared, is_answered) = (Arc::clone(&scene.shared), Arc::new(AtomicBool::new(false)));
    let seen = Arc::clone(&is_answered);
    let look = move || seen.load(Ordering::Relaxed).then_some(());
    let reader = std::thread::spawn(move || shared.drive_until(deadline(), look));
    // No other thread could answer.
    assert_eq!(scene.ask().unwrap().len(), 1);
    is_answered.store(true, Ordering::Relaxed);
    scene.waker.wake();
    assert_eq!(reader.join().unwrap(), Some(()));
}

#[test]
fn the_agents_thread_goes_on_when_the_reader_does_not_come_back() {
    let mut scene = Scene::new();
    let thread = scene.start_thread();
    for shared in [Duration::ZERO, LONG_INLINE_DRIVE + MAX_HANDOVER_DELAY] {
        let until = clock::monotonic() + shared;
        assert_eq!(scene.shared.drive_until(Some(until), || None::<()>), None);
        assert_eq!(scene.ask().unwrap().len(), 1);
    }
    scene.publish();
    assert_eq!(scene.registry.doorbell.wait_until(WATCHDOG, scene.look()), Some(1), "nobody stands");
    scene.stop(thread);
}

#[test]
fn a_flood_that_the_buffer_is_too_small_for_is_left_to_the_agents_thread() {
    let scene = Scene::with_buffer(1 << 13);
    let flood = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let drive = || {
        // The reader looks once before anything is received, and once afterwards.
        let mut looks = 0..2;
        let look = || looks.next().filter(|look| *look == 1);
        assert_eq!(scene.shared.drive_until(deadline(), look), Some(1));
        scene.shared.driven_by()
    };
    // Fills a buffer within some dozens of microseconds, repeatedly: a slower host may take some
    // time.
    let watchdog = Watchdog::new("the hand-over and the way back");
    loop {
        watchdog.check();
        for _ in 0..16 {
            flood.send_to(&[0; 64], scene.address).unwrap();
        }
        if drive() == DrivenBy::OwnThread {
            break;
        }
    }
    assert_eq!(scene.shared.handover_delay(), Duration::ZERO);
    while drive() == DrivenBy::OwnThread {
        watchdog.check();
    }
}

#[test]
fn a_command_for_an_agent_whose_reader_is_away_is_followed_at_once() {
    let scene = Scene::new();
    assert_eq!(scene.shared.drive_until(Some(clock::monotonic()), || None::<()>), None);
    let (told, answer) = mpsc::channel();
    scene.commands.send(Command::Ports(told)).unwrap();
    // No thread could serve them.
    scene.shared.serve_commands();
    assert_eq!(answer.try_recv().unwrap().len(), 1);
}

#[test]
fn only_the_only_reader_may_drive_the_agent() {
    let scene = Scene::new();
    assert!(scene.shared.may_be_driven_inline());
    scene.shared.reader_came();
    assert!(!scene.shared.may_be_driven_inline());
    scene.shared.reader_went();
    assert!(scene.shared.may_be_driven_inline());
}

#[test]
fn an_agent_at_work_that_nobody_may_leave_is_left_alone() {
    let scene = Scene::new();
    scene.shared.handover_delay.store(0, Ordering::Relaxed);
    assert!(!scene.shared.may_be_driven_inline(), "it would be handed back at once");
    scene.waker.falling_asleep(clock::monotonic() + WATCHDOG);
    assert!(scene.shared.may_be_driven_inline(), "nothing comes at present");
}

#[test]
fn the_fuller_the_buffers_get_the_sooner_the_thread_takes_over() {
    let (millis, micros) = (Duration::from_millis, Duration::from_micros);
    assert_eq!(handover_delay_within(Duration::MAX), Some(MAX_HANDOVER_DELAY));
    assert_eq!(handover_delay_within(millis(6)), Some(millis(1)), "five times resting, and once away");
    assert_eq!(handover_delay_within(micros(1_200)), Some(micros(200)));
    assert_eq!(handover_delay_within(micros(600)), Some(MIN_HANDOVER_DELAY));
    assert_eq!(handover_delay_within(micros(599)), None);
}

#[test]
fn a_thread_that_rests_for_too_long_is_called_when_buffers_begin_to_fill() {
    let scene = Scene::new();
    // The thread rests as if nothing arrived; the reader leaves a socket with a high rate.
    for (handover_delay, is_called) in
        [(Some(MAX_HANDOVER_DELAY), false), (Some(MIN_HANDOVER_DELAY), true), (None, true)]
    {
        let mut inline_drive = InlineDrive::begin(&scene.shared);
        inline_drive.handover_delay = handover_delay;
        let rest = RESTS * MAX_HANDOVER_DELAY;
        let resting = scene.shared.rest.lock().unwrap();
        scene.shared.rests_for.store(nanos(rest), Ordering::Relaxed);
        let called = std::thread::scope(|scope| {
            scope.spawn(|| drop(inline_drive));
            // Long enough for a call that comes, and short where none may come.
            let patience = if is_called { WATCHDOG } else { rest };
            let (_resting, outcome) = scene.shared.called.wait_timeout(resting, patience).unwrap();
            !outcome.timed_out()
        });
        assert_eq!(called, is_called, "{handover_delay:?}");
    }
}

/// Reads 16 blocks of 256 KiB; returns the farthest offset in the ring's memory, and the last
/// position.
fn farthest_and_position(scene: &mut Scene) -> (u64, u64) {
    scene.publish();
    assert_eq!(scene.shared.drive_until(deadline(), scene.look()), Some(1));
    let ring = scene.registry.subscriptions()[0].ring.clone();
    let (mut reader, mut record) = (ring.reader_at_oldest(), Vec::new());
    let (mut bytes, mut farthest, block) = (0, 0, vec![0; 1 << 18]);
    for blocks in 0..=16 {
        while bytes < 8 + blocks * block.len() {
            assert_eq!(scene.shared.drive_until(deadline(), || reader.has_more().then_some(())), Some(()));
            while let Read::Record { kind, .. } = reader.read(&mut record) {
                let content = Record::decode(kind, &record).unwrap();
                bytes += if let Record::Block(block) = content { block.payload.len() } else { 0 };
                farthest = farthest.max(reader.position() % ring.capacity_bytes());
            }
        }
        if blocks < 16 {
            scene.publish_bytes(&block);
        }
    }
    (farthest, reader.position())
}

#[test]
fn a_ring_that_is_read_to_its_end_is_rewound_before_more_comes() {
    let mut scene = Scene::new();
    let (farthest, position) = farthest_and_position(&mut scene);
    assert!(farthest < 1 << 20, "{farthest} bytes of it were used");
    assert!(position > 4 * scene.registry.subscriptions()[0].ring.capacity_bytes(), "again and again");
}

#[test]
fn a_ring_that_somebody_else_reads_too_is_not_rewound() {
    let mut scene = Scene::new();
    scene.shared.reader_came();
    let (farthest, position) = farthest_and_position(&mut scene);
    assert!(farthest > 4 << 20);
    assert_eq!(position, farthest);
}

#[test]
fn nobody_waits_for_an_agent_whose_own_thread_panicked() {
    let scene = Scene::new();
    let shared = Arc::clone(&scene.shared);
    let thread = std::thread::spawn(move || {
        let _end = EndOfThread(&shared);
        let _agent = shared.agent.lock().unwrap();
        panic!("as planned");
    });
    assert!(thread.join().is_err());
    assert!(scene.commands.send(Command::Stop).is_err(), "who asks learns that the agent has ended");
    assert_eq!(scene.shared.drive_until(deadline(), || Some(())), None);
    assert!(!scene.shared.may_be_driven_inline(), "nor does a reader try again");
}

#[test]
fn nobody_waits_for_an_agent_that_a_reader_left_by_a_panic() {
    let scene = Scene::new();
    let thread = scene.start_thread();
    let shared = Arc::clone(&scene.shared);
    let reader =
        std::thread::spawn(move || shared.drive_until(deadline(), || -> Option<()> { panic!("as planned") }));
    assert!(reader.join().is_err());
    thread.join().unwrap();
    assert!(scene.commands.send(Command::Stop).is_err(), "who asks learns that the agent has ended");
    assert_eq!(scene.shared.drive_until(deadline(), || Some(())), None);
}
