//! A thread that asks the key service for a station's secrets, and what it holds of the answers.
//!
//! The agents never wait for the network: they look at what is held. The protocol is that of [`keys::service::Client`],
//! in a session of the crate `noise`. Nothing is kept on disk.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use keys::service::{Client, Held, RefusedFor};
use keys::{Secret, ServiceAt, Suite};
use noise::Config;
use sys::{Cancellation, Interest, Poller, Wakeup, clock};
use units::{Instant, WallTime};

use crate::port::Port;
use crate::random_secret;

/// Silence after which a session is given up for another: a service that was started again does not know it any more.
const FIRST_RENEWAL: Duration = Duration::from_secs(1);
/// Longest time for an attempt, so that a service that is back is found soon.
const MAX_RENEWAL: Duration = Duration::from_secs(4);
/// Time between attempts to open a port or to find the address of the service.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);

const PORT: u64 = 0;
const WAKEUP: u64 = 1;
const END: u64 = 2;

/// What is known of the key service.
#[derive(Clone, Debug)]
pub struct ServiceState {
    /// Its address, as in the station's file.
    pub address: String,
    /// Time until the last secret that is held ends; `None` without secrets.
    pub left: Option<Duration>,
    /// Time since the first question without an answer.
    pub silent: Option<Duration>,
    /// Number of questions that were repeated because no answer came.
    pub unanswered: u64,
    /// Reason why it refuses this station.
    pub refused: Option<RefusedFor>,
}

/// The asking thread, which ends when this is dropped.
pub(crate) struct Asking {
    pub(crate) service: ServiceAt,
    shared: Arc<Shared>,
    stop: Cancellation,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread.
    home: sys::Home,
}

struct Shared {
    client: Mutex<Client>,
    answered: Condvar,
    wakeup: Wakeup,
}

impl Asking {
    /// Begins to ask with the station's private key.
    pub(crate) fn begin(service: ServiceAt, exchange: Secret) -> io::Result<Self> {
        let client = Mutex::new(Client::new(clock::monotonic()));
        let shared = Arc::new(Shared { client, answered: Condvar::new(), wakeup: Wakeup::new()? });
        let stop = Cancellation::new()?;
        let mut poller = Poller::new()?;
        poller.add(&shared.wakeup, WAKEUP, Interest::Read)?;
        poller.add(&stop, END, Interest::Read)?;
        let asker = Asker { service: service.clone(), exchange, shared: Arc::clone(&shared), attempt: None };
        let thread = std::thread::Builder::new().name("keys".to_owned()).spawn({
            let stop = stop.clone();
            move || asker.run(&mut poller, &stop)
        })?;
        Ok(Self { service, shared, stop, thread: Some(thread), home: sys::Home::here() })
    }

    /// Waits for the first answer, but no longer than this.
    pub(crate) fn wait_for_answer(&self, at_most: Duration) {
        let has_none = |client: &mut Client| client.answers() == 0;
        let waited = self.shared.answered.wait_timeout_while(self.client(), at_most, has_none);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Asks soon: a secret was used that is not held.
    pub(crate) fn hurry(&self) {
        self.client().hurry(clock::monotonic());
        self.shared.wakeup.wake();
    }

    /// Returns what is held at `wall`.
    pub(crate) fn held(&self, wall: WallTime) -> Held {
        self.client().held(clock::monotonic(), wall)
    }

    pub(crate) fn refused(&self) -> Option<RefusedFor> {
        self.client().refused()
    }

    pub(crate) fn state(&self, wall: WallTime) -> ServiceState {
        let (client, now) = (self.client(), clock::monotonic());
        ServiceState {
            address: self.service.address.to_string(),
            left: client.held(now, wall).left,
            silent: client.waiting_since().map(|since| now.since(since)),
            unanswered: client.unanswered(),
            refused: client.refused(),
        }
    }

    fn client(&self) -> MutexGuard<'_, Client> {
        self.shared.client()
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.home.is_here() {
            // A forked child shares the descriptor by which its parent's thread would end.
            std::mem::forget(self.thread.take());
            return;
        }
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn client(&self) -> MutexGuard<'_, Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's own state.
struct Asker {
    service: ServiceAt,
    exchange: Secret,
    shared: Arc<Shared>,
    attempt: Option<Attempt>,
}

/// A port, and the service's address that it asks.
struct Attempt {
    port: Port,
    to: SocketAddr,
    began: Instant,
    /// Silence after which there is another.
    patience: Duration,
}

impl Asker {
    fn run(mut self, poller: &mut Poller, stop: &Cancellation) {
        let mut reopen_at = clock::monotonic();
        while !stop.is_cancelled() {
            let now = clock::monotonic();
            if self.is_given_up(now) && now >= reopen_at {
                reopen_at = now + REOPEN_INTERVAL;
                self.begin_again(now, poller);
            }
            // Later than the moment from which a new session counts its time.
            let now = clock::monotonic();
            let due = self.exchange_messages(now);
            let deadline = Instant::earlier(due, Some(now + REOPEN_INTERVAL));
            if poller.wait(deadline).is_err() {
                // The next question is asked later, but it is asked.
                stop.wait(REOPEN_INTERVAL);
            }
            self.shared.wakeup.clear();
        }
    }

    /// Returns whether the service has been silent for too long in this session, or there is none.
    fn is_given_up(&self, now: Instant) -> bool {
        let Some(attempt) = &self.attempt else { return true };
        let silent = self.shared.client().waiting_since().map(|since| since.max(attempt.began));
        silent.is_some_and(|since| now.since(since) >= attempt.patience)
    }

    fn begin_again(&mut self, now: Instant, poller: &Poller) {
        let is_unanswered = self
            .attempt
            .as_ref()
            .is_some_and(|it| self.shared.client().waiting_since().is_some_and(|since| since <= it.began));
        let before = self.attempt.take().filter(|_| is_unanswered).map(|attempt| attempt.patience);
        let patience = before.map_or(FIRST_RENEWAL, |before| (before * 2).min(MAX_RENEWAL));
        // A name may have got another address meanwhile.
        let address = self.service.address.as_str().to_socket_addrs().ok().and_then(|mut found| found.next());
        let Some(to) = address else { return };
        let any = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let config = Config {
            key: self.exchange.clone(),
            peers: [self.service.exchange].into(),
            responder: Some(self.service.exchange),
            suite: Suite::default(),
            seed: random_secret(),
            started: clock::pair(),
        };
        let Ok(port) = Port::open(SocketAddr::new(any, 0), config) else { return };
        if port.watch(poller, PORT).is_ok() {
            self.attempt = Some(Attempt { port, to, began: now, patience });
        }
    }

    /// Takes answers, and asks if that is due; returns when there is something to do next.
    fn exchange_messages(&mut self, now: Instant) -> Option<Instant> {
        let question = self.shared.client().poll(now);
        let next = Some(self.shared.client().next_question());
        let Some(Attempt { port, to, .. }) = &mut self.attempt else { return next };
        if let Some(question) = question {
            port.send(now, *to, &question.to_bytes());
        }
        let (shared, service) = (&self.shared, *to);
        let due = port.take(|_, from, message| {
            if from == service && shared.client().handle(clock::monotonic(), message).is_ok() {
                shared.answered.notify_all();
            }
        });
        let next = Some(self.shared.client().next_question());
        Instant::earlier(next, due)
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Asking").field(&self.service).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keys::PublicKey;

    /// The descriptor that ends the thread is shared with the child.
    #[test]
    fn a_forked_child_that_drops_it_ends_no_thread_of_its_parent_and_does_not_wait() {
        let service = ServiceAt { address: "127.0.0.1:9".parse().unwrap(), exchange: PublicKey([9; 32]) };
        let mut asking = Some(Asking::begin(service, random_secret()).unwrap());
        let child = sys::ForkedChild::run(|| {
            drop(asking.take());
            0
        });
        assert_eq!(child.unwrap().wait(Duration::from_secs(60)).unwrap(), Some(0));
        let asking = asking.unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&asking.stop, END, Interest::Read).unwrap();
        let ready = poller.wait(Some(clock::monotonic())).unwrap();
        assert_eq!(ready.len(), 0, "its end is requested");
    }
}
