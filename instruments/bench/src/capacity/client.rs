//! The client's end of a capacity measurement: it sends, and builds the report.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use probe::flow::{FlowReceiver, Numbering, SocketDrops};
use sys::OpenError;

use super::message::{Plan, Received, SocketCount, Word};
use super::options::{Options, Places, ThreadingModel};
use super::report::{Builder, Report, Run};
use super::send::{Senders, Sent, Task};
use super::server::Capacity;
use crate::control::{Begun, Connection, ControlError, Patience, ServerAt, Stranger, begin};
use crate::host_state::HostState;
use crate::options::OptionsError;
use crate::report::{Meter, Watch};
use crate::throughput::{Account, Rate};

/// Maximum time the client waits for a message before it checks its senders.
const LISTEN: Duration = Duration::from_millis(10);

/// Time a server may take to count the tail of a run, beyond the silence allowed to any peer.
const TAIL: Duration = Duration::from_secs(10);

/// Sending sockets for each receiver where the kernel distributes datagrams by source address: with fewer, some
/// receivers would get none.
const SOCKETS_PER_RECEIVER: u32 = 8;

/// Reasons why a measurement could not begin or continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CapacityError {
    /// An option is invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The server is unreachable, or failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A socket cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A thread cannot be started, or failed while it sent.
    #[error("a sending thread failed: {0}\nlower --senders, or raise the limit with: ulimit -u")]
    Thread(#[from] std::io::Error),
    /// The server asks for data to be sent to a third host.
    #[error(transparent)]
    Stranger(#[from] Stranger),
    /// An account does not balance.
    #[error(transparent)]
    Law(#[from] probe::flow::FlowLawError),
}

/// Measures with the server at an address and returns the report.
///
/// # Errors
/// [`CapacityError`] if nothing could be measured. Failures after the first run has begun are in the report.
pub fn measure(
    options: &Options,
    server: ServerAt<'_>,
    from: Option<IpAddr>,
    patience: Patience,
    watch: &mut dyn Watch,
) -> Result<Report, CapacityError> {
    options.check()?;
    let Begun { connection, client, server } = begin::<Capacity>(options, server, from, patience)?;
    let senders = options.senders.unwrap_or_else(|| usual_senders(&client, &server));
    let builder = Builder::new(options, senders, connection.peer_address(), client, server);
    let mut client = Client { options, senders, connection, builder, has_begun: false };
    client.measure_all(watch)?;
    client.connection.part();
    Ok(client.builder.finish(watch.cancellation().is_cancelled()))
}

/// Returns the default number of sending threads: where both ends are on one host, half of the processors are
/// left to the receivers.
fn usual_senders(client: &HostState, server: &HostState) -> u32 {
    let cpus = client.host.cpus;
    if client.is_same_host(server) { (cpus / 2).max(1) } else { cpus.max(1) }
}

struct Client<'a> {
    options: &'a Options,
    senders: u32,
    connection: Connection,
    builder: Builder,
    /// True once anything was sent.
    has_begun: bool,
}

impl Client<'_> {
    /// Measures every point; a failure after the first run has begun breaks off the measurement.
    fn measure_all(&mut self, watch: &mut dyn Watch) -> Result<(), CapacityError> {
        for plan in plans(self.options) {
            self.builder.begin_point(&plan);
            for _ in 0..self.options.repeats {
                if watch.cancellation().is_cancelled() {
                    return Ok(());
                }
                match self.run(plan, watch) {
                    Ok(run) => self.builder.add(run),
                    Err(error) if !self.has_begun => return Err(error),
                    Err(error) => {
                        self.builder.break_off(&error.to_string());
                        return Ok(());
                    }
                }
                let builder = &self.builder;
                watch.progress(&|| builder.progress());
            }
        }
        Ok(())
    }

    fn run(&mut self, plan: Plan, watch: &dyn Watch) -> Result<Run, CapacityError> {
        self.connection.say(&Word::Prepare(plan))?;
        let endpoints = self.hear_ready()?;
        let task = self.task(&plan, endpoints);
        let senders = Senders::open(&task)?;
        self.connection.say(&Word::Start)?;
        self.has_begun = true;
        let meter = Meter::begin();
        let (sent, cut) = self.send(senders, watch)?;
        self.connection.say(&Word::Sent)?;
        let used = meter.used();
        let received = self.hear_done()?;
        for why in &sent.refusals {
            self.builder.note(&format!(
                "datagrams were refused: {why}\nlower the rate with -b, or see `ip route get` and the firewall"
            ));
        }
        sent.without_trains.iter().for_each(|note| self.builder.note(note));
        let accounts = accounts(&task, &sent, &received.sockets)?;
        let run = Run::of(&plan, &accounts, &sent, used, &received, self.builder.is_same_host());
        Ok(Run { trouble: cut.map(str::to_owned), ..run })
    }

    fn task(&self, plan: &Plan, endpoints: Vec<SocketAddr>) -> Task {
        let deals = plan.threading_model.places() == Places::OnePort;
        let sockets_each =
            if deals { (SOCKETS_PER_RECEIVER * plan.workers).div_ceil(self.senders) } else { 1 };
        let payload_bytes = plan.payload_bytes;
        Task {
            local: self.connection.local_address_any_port(),
            endpoints,
            payload_bytes,
            senders: self.senders,
            sockets_each,
            rate: self.options.rate.unwrap_or(Rate::Units(0)).of_units(payload_bytes),
            calls: self.options.calls,
        }
    }

    fn hear_ready(&mut self) -> Result<Vec<SocketAddr>, CapacityError> {
        match self.connection.hear_word_surely()? {
            Word::Ready { endpoints, notes } => {
                notes.iter().for_each(|note| self.builder.note(note));
                if endpoints.is_empty() {
                    return Err(self.connection.unexpected_word(&Word::Ready { endpoints, notes }).into());
                }
                Stranger::check(&endpoints, self.connection.peer_address().ip())?;
                Ok(endpoints)
            }
            other => Err(self.connection.unexpected_word(&other).into()),
        }
    }

    /// Waits until the time of sending is over; either end may end it early, with a reason.
    fn send(
        &mut self,
        senders: Vec<super::send::Sender>,
        watch: &dyn Watch,
    ) -> Result<(Sent, Option<&'static str>), CapacityError> {
        let senders = Senders::begin(senders, self.options.duration)?;
        let mut cut = None;
        while !senders.are_done() {
            if watch.cancellation().is_cancelled() {
                cut = Some("it was ended early");
            }
            match self.connection.hear_word(Instant::now() + LISTEN)? {
                None => {}
                Some(Word::Stop) => cut = Some("the server was ended"),
                Some(other) => return Err(self.connection.unexpected_word(&other).into()),
            }
            if cut.is_some() {
                senders.ask_to_end();
            }
        }
        Ok((senders.join()?, cut))
    }

    fn hear_done(&mut self) -> Result<Received, CapacityError> {
        loop {
            match self.connection.hear_word_within(self.connection.patience().silence + TAIL)? {
                Word::Done(received) => return Ok(*received),
                // It crossed the message that all was sent.
                Word::Stop => {}
                other => return Err(self.connection.unexpected_word(&other).into()),
            }
        }
    }
}

/// Returns the points of a grid, in the order of measuring.
fn plans(options: &Options) -> Vec<Plan> {
    let threading_models = ThreadingModel::ALL.into_iter().filter(|it| options.threading_models.contains(it));
    let of_model = |threading_model| {
        options.payloads.iter().flat_map(move |payload| {
            let payload_bytes = *payload;
            options.workers.iter().map(move |workers| Plan {
                threading_model,
                workers: *workers,
                payload_bytes,
            })
        })
    };
    threading_models.flat_map(of_model).collect()
}

/// Closes an account for each endpoint: sockets and receivers that share an endpoint share its account.
fn accounts(task: &Task, sent: &Sent, sockets: &[SocketCount]) -> Result<Vec<Account>, CapacityError> {
    let mut accounts = Vec::new();
    for (endpoint, sent) in task.endpoints.iter().zip(&sent.endpoints) {
        let at_endpoint = || sockets.iter().filter(|socket| socket.address == *endpoint);
        let mut flow = FlowReceiver::new(0, 0, Numbering::Counted);
        for counted in at_endpoint().flat_map(|socket| &socket.workers) {
            flow.add_counted(counted.datagrams, counted.bytes);
        }
        let drops = SocketDrops::of_datagrams(at_endpoint().map(|socket| socket.drops).sum());
        let account = flow.close(Some(sent), drops);
        account.check()?;
        accounts.push(Account::of_datagrams(&account));
    }
    Ok(accounts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::message::Counted;
    use crate::control::Message;
    use crate::control::scene::{PATIENT, Unwatched, by_hand};
    use crate::report::State;
    use probe::flow::{FlowRate, FlowSent};

    fn task(endpoints: &[&str]) -> Task {
        Task {
            local: SocketAddr::from(([127, 0, 0, 1], 0)),
            endpoints: endpoints.iter().map(|text| text.parse().unwrap()).collect(),
            payload_bytes: 1,
            senders: 1,
            sockets_each: 1,
            rate: FlowRate::Unlimited,
            calls: super::super::options::Calls::Batches,
        }
    }

    fn sent(numbers: &[u64]) -> Sent {
        let endpoints = numbers.iter().map(|it| FlowSent { numbered: *it, ..FlowSent::default() }).collect();
        Sent { endpoints, ..Sent::default() }
    }

    fn socket(address: &str, drops: u64, datagrams: &[u64]) -> SocketCount {
        let counted = |datagrams: &u64| Counted { datagrams: *datagrams, ..Counted::default() };
        let workers = datagrams.iter().map(counted).collect();
        SocketCount { address: address.parse().unwrap(), drops, workers }
    }

    #[test]
    fn a_port_of_its_own_has_an_account_of_its_own_and_one_port_has_one_for_all() {
        let (a, b) = ("127.0.0.1:1", "127.0.0.1:2");
        let own = accounts(&task(&[a, b]), &sent(&[10, 20]), &[socket(b, 5, &[15]), socket(a, 1, &[8])]);
        let own: Vec<_> = own.unwrap().iter().map(|it| (it.sent, it.received, it.unexplained)).collect();
        assert_eq!(own, [(10, 8, 1), (20, 15, 0)]);
        let sockets = [socket(a, 2, &[8]), socket(a, 3, &[4, 3])];
        let all = accounts(&task(&[a]), &sent(&[20]), &sockets).unwrap();
        assert_eq!((all.len(), all[0].received, all[0].lost["receiver_socket_buffer"]), (1, 15, 5));
        assert!(accounts(&task(&[a]), &sent(&[14]), &sockets).is_err(), "more came than was sent");
    }

    #[test]
    fn a_server_that_is_gone_in_the_first_run_leaves_a_report_that_says_so() {
        let (server, thread) = by_hand(|mut connection| {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            assert!(matches!(connection.hear_surely(), Ok(Message::Word(_))), "prepare");
            let (endpoints, notes) = (vec![socket.local_addr().unwrap()], Vec::new());
            connection.say(&Word::Ready { endpoints, notes }).unwrap();
            assert!(matches!(connection.hear_surely(), Ok(Message::Word(_))), "start");
        });
        let report =
            measure(&Options::default(), server.into(), None, PATIENT, &mut Unwatched::default()).unwrap();
        thread.join().unwrap();
        assert_eq!((report.end.state, report.points.len()), (State::BrokenOff, 0));
        let notes = report.end.notes.join("\n");
        assert!(notes.contains("a run broke off: the other end, ") && notes.contains("is gone"), "{notes}");
    }

    #[test]
    fn points_stand_in_the_order_of_reports() {
        use ThreadingModel::{OwnProcesses, ReuseportThreads};
        let threading_models = vec![ReuseportThreads, OwnProcesses];
        let options =
            Options { threading_models, payloads: vec![1, 100], workers: vec![2], ..Options::default() };
        let plans: Vec<_> = plans(&options).iter().map(|it| (it.threading_model, it.payload_bytes)).collect();
        assert_eq!(
            plans,
            [(OwnProcesses, 1), (OwnProcesses, 100), (ReuseportThreads, 1), (ReuseportThreads, 100)]
        );
    }
}
