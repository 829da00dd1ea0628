//! The sending agent: one thread that takes every publisher of a process from its ring to the network.
//!
//! A publisher writes into an [`Outlet`]; the agent drives a [`cast::Sender`] for each over a socket of its
//! own, receives the readers' reports, and announces the streams. Start with [`SendAgent::start`].

mod lane;
mod outlet;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::mpsc;

use sys::{Interest, Interface, OpenError, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket, clock};
use units::Instant;
use wire::{Datagram, DescriptionError};

use crate::bell::AgentBell;
use crate::thread::AgentThread;
use lane::{Lane, Turn};
use outlet::OutletShared;
pub use outlet::{Outlet, OutletConfig, OutletStatus};

/// Reports are small and few: the default buffer holds hundreds.
const REPORT_BUFFER_BYTES: usize = 1 << 20;
const WAKEUP: u64 = 0;
const REPORTS: u64 = 1;

/// Where an agent sends and listens.
#[derive(Clone, Debug)]
pub struct SendConfig {
    /// Where multicast leaves this host.
    pub interface: Option<Interface>,
    /// How many routers multicast may pass, plus one.
    pub ttl: u8,
    /// Where streams are announced; `None` where there is no multicast.
    pub announce_to: Option<SocketAddr>,
}

/// Says why a publisher could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// A socket could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The kernel has no descriptors or threads left.
    #[error("the sending agent cannot be started")]
    Start(#[from] io::Error),
    /// The description does not fit into datagrams.
    #[error("the stream cannot be described")]
    Description(#[from] DescriptionError),
    /// No address to send to.
    #[error("a publisher needs a destination\ngive one with --to udp://ADDRESS:PORT, or use the bus")]
    NoDestination,
    /// The agent's thread is gone.
    #[error("the sending agent has ended")]
    Ended,
}

/// The handle of the sending agent; dropping it ends the agent once every outlet has ended.
pub struct SendAgent {
    thread: AgentThread<Command>,
    bell: AgentBell,
    report_port: u16,
}

enum Command {
    Open(Box<OutletConfig>, ring::Reader, std::sync::Arc<OutletShared>, mpsc::Sender<Result<(), SendError>>),
    Stop,
}

/// What lanes need to know of their agent.
struct Surroundings {
    interface: Option<Interface>,
    ttl: u8,
}

struct Agent {
    config: SendConfig,
    bell: AgentBell,
    poller: Poller,
    reports: ReceiveSocket,
    batch: ReceiveBatch,
    lanes: Vec<Lane>,
    stopping: bool,
}

impl SendAgent {
    /// Starts the agent's thread.
    ///
    /// # Errors
    /// If the kernel has no socket, descriptor or thread left.
    pub fn start(config: SendConfig, v6: bool) -> Result<Self, SendError> {
        let bell = AgentBell::new()?;
        let options = ReceiveOptions {
            address: report_address(&config, v6),
            interface: None,
            buffer_bytes: REPORT_BUFFER_BYTES,
        };
        let reports = ReceiveSocket::open(&options)?;
        let report_port = reports.local_address().port();
        let poller = Poller::new()?;
        poller.add(bell.wakeup(), WAKEUP, Interest::Read)?;
        poller.add(&reports, REPORTS, Interest::Read)?;
        let agent = Agent {
            config,
            bell: bell.clone(),
            poller,
            reports,
            batch: ReceiveBatch::with_slot_bytes(wire::MAX_DATAGRAM_BYTES.min(2_048)),
            lanes: Vec::new(),
            stopping: false,
        };
        let thread =
            AgentThread::start("tallycast-send", bell.clone(), || Command::Stop, |it| agent.run(&it))?;
        Ok(Self { thread, bell, report_port })
    }

    /// Opens a publisher's way out.
    ///
    /// # Errors
    /// [`SendError`] if its socket cannot be opened.
    pub fn open(&self, mut config: OutletConfig) -> Result<Outlet, SendError> {
        config.description.report_port = self.report_port;
        let (writer, ring) = ring::ring(config.ring_bytes);
        let (reader, guard) = ring.guarded_reader();
        let shared = std::sync::Arc::new(OutletShared::new());
        let outlet = Outlet::new(&config, (writer, guard), std::sync::Arc::clone(&shared), self.bell.clone());
        let its = std::sync::Arc::clone(&shared);
        let opened = self.thread.ask(|reply| Command::Open(Box::new(config), reader, its, reply));
        if let Err(error) = opened.unwrap_or(Err(SendError::Ended)) {
            // Nobody will ever finish this outlet: dropping it must not wait for that.
            shared.update(|status| status.finished = true);
            return Err(error);
        }
        Ok(outlet)
    }
}

impl Agent {
    fn run(mut self, commands: &mpsc::Receiver<Command>) {
        if let Err(error) = clock::lower_timer_slack() {
            tracing::debug!("timers stay as coarse as the system has them: {error}");
        }
        while !(self.stopping && self.lanes.is_empty()) {
            let deadline = self.duty_cycle(commands);
            self.sleep(deadline);
        }
    }

    /// Gives every publisher its turn; returns when the next one is due, `None` for at once.
    fn duty_cycle(&mut self, commands: &mpsc::Receiver<Command>) -> Option<Instant> {
        self.take_commands(commands);
        self.take_reports();
        let announce_to = self.config.announce_to;
        // A process that only waits for its publishers to end still looks at them now and then.
        let now = clock::monotonic();
        let mut next = Some(now + crate::MAX_SLEEP);
        self.lanes.retain_mut(|lane| {
            match lane.turn(clock::monotonic(), announce_to) {
                Turn::Finished => return false,
                Turn::Busy => next = None,
                Turn::Until(deadline) => {
                    next = next.map(|next| deadline.map_or(next, |deadline| deadline.min(next)));
                }
            }
            true
        });
        next
    }

    fn sleep(&mut self, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return };
        self.bell.falling_asleep();
        if !self.lanes.iter().any(Lane::has_input)
            && let Err(error) = self.poller.wait(Some(deadline))
        {
            tracing::error!("the sending agent cannot wait for events: {error}");
        }
        self.bell.awake();
    }

    fn take_commands(&mut self, commands: &mpsc::Receiver<Command>) {
        while let Ok(command) = commands.try_recv() {
            match command {
                Command::Stop => self.stopping = true,
                Command::Open(config, reader, shared, reply) => {
                    let surroundings =
                        Surroundings { interface: self.config.interface.clone(), ttl: self.config.ttl };
                    let opened = Lane::open(&config, reader, shared, &surroundings, clock::monotonic());
                    // Whoever asked may have given up.
                    let _ = reply.send(opened.map(|lane| self.lanes.push(lane)));
                }
            }
        }
    }

    fn take_reports(&mut self) {
        loop {
            match self.reports.receive_batch(&mut self.batch) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let now = clock::monotonic();
            for received in self.batch.iter() {
                let size_bytes = received.bytes.len();
                match Datagram::decode(received.bytes) {
                    Ok(Datagram::Report(report)) => {
                        let lanes = self.lanes.iter_mut().filter(|lane| lane.stream() == report.stream);
                        lanes.for_each(|lane| lane.on_report(now, &report, size_bytes));
                    }
                    Ok(Datagram::Request(request)) => {
                        let lanes = self.lanes.iter_mut().filter(|lane| lane.stream() == request.stream);
                        lanes.for_each(|lane| lane.on_request(now));
                    }
                    Ok(_) | Err(_) => tracing::debug!("a stray datagram from {}", received.from),
                }
            }
        }
    }
}

/// Returns where reports are received: at the pinned interface, or at all.
fn report_address(config: &SendConfig, v6: bool) -> SocketAddr {
    let pinned = config.interface.as_ref().filter(|interface| interface.loopback);
    let ip: IpAddr = match (v6, pinned) {
        (true, Some(_)) => Ipv6Addr::LOCALHOST.into(),
        (true, None) => Ipv6Addr::UNSPECIFIED.into(),
        (false, Some(_)) => Ipv4Addr::LOCALHOST.into(),
        (false, None) => Ipv4Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}
