//! Loop of the relay: writes datagrams that are due, reads arrivals, waits for either.

use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use sys::{Interest, Poller, ReceiveBatch, ReceiveSocket, Received, SendSocket, clock};
use units::Instant;

use crate::account::Account;
use crate::arrivals::Arrivals;
use crate::driver::{Driver, Trains};
use crate::forwarding_queue::ForwardingQueue;
use crate::parcel::{MOST_HELD_BYTES, Parcel, Store};
use crate::police::Police;
use crate::report::{Report, Watch, Way};

use super::client::Client;
use super::train::Train;
use super::{BUFFER_BYTES, RelayOptions};

/// Time after which a silent client may be replaced by a new one if the table is full.
const SILENCE: Duration = Duration::from_secs(30);
/// Token of the clients' side; the tokens of the others are the clients' indices.
const NEAR: u64 = u64::MAX - 1;
/// Maximum number of trains of one direction in a row: with more, a fast client would delay the others.
const TRAINS_PER_TURN: usize = 64;

/// State of a running relay.
pub(super) struct Work {
    options: RelayOptions,
    near: ReceiveSocket,
    poller: Poller,
    driver: Driver,
    arrivals: Arrivals,
    table: Table,
    hands: Hands,
    /// Accounts of ended clients, for both directions.
    ended: [Account; 2],
    ended_unseen: u64,
    clients_ever: u64,
    turned_away: u64,
}

/// Table of clients by address.
struct Table {
    clients: Vec<Option<Client>>,
    places: BTreeMap<SocketAddr, usize>,
}

/// Buffers for writing, shared by all clients.
struct Hands {
    near_out: SendSocket,
    store: Store,
    train: Train,
    polices: [Police; 2],
    merge: Duration,
}

impl Work {
    pub(super) fn begin(near: ReceiveSocket, options: RelayOptions) -> io::Result<Self> {
        let near_out =
            SendSocket::beside(&near, sys::SendTechniques { connect: false, ..options.send() }, BUFFER_BYTES)
                .map_err(io::Error::other)?;
        let poller = Poller::new()?;
        poller.add(&near, NEAR, Interest::Read)?;
        let most = if options.manner.trains == Trains::Taken { usize::MAX } else { 1 };
        let hands = Hands {
            near_out,
            store: Store::new(MOST_HELD_BYTES),
            train: Train::new(most),
            polices: Default::default(),
            merge: options.manner.merge,
        };
        let table = Table { clients: Vec::new(), places: BTreeMap::new() };
        Ok(Self {
            driver: Driver::begin(options.manner.fifo)?,
            arrivals: Arrivals::new(),
            ended: Default::default(),
            ended_unseen: 0,
            clients_ever: 0,
            turned_away: 0,
            options,
            near,
            poller,
            table,
            hands,
        })
    }

    pub(super) fn run(mut self, watch: &Watch) -> io::Result<Report> {
        let mut batch = ReceiveBatch::for_trains();
        let mut ready = Vec::new();
        loop {
            let now = self.driver.now();
            if self.driver.looks_up(now) {
                watch.show(self.accounts());
                if watch.is_over() {
                    return Ok(self.report(now));
                }
            }
            let due = self.table.next_due().map(|due| due + self.hands.merge);
            ready.clear();
            let is_ready = self.poller.wait(Some(self.driver.deadline(due)))?;
            ready.extend(is_ready.iter().map(|ready| ready.token));
            self.write_due();
            for token in &ready {
                match usize::try_from(*token).ok().filter(|_| *token != NEAR) {
                    Some(place) => self.read_far(place, &mut batch)?,
                    None => self.read_near(&mut batch)?,
                }
                // Due datagrams leave before more are read: an emulator that keeps reading never catches up.
                self.write_due();
            }
        }
    }

    fn write_due(&mut self) {
        for client in self.table.clients.iter_mut().flatten() {
            self.hands.write_due(&self.driver, client, self.options.target);
        }
    }

    fn read_near(&mut self, batch: &mut ReceiveBatch) -> io::Result<()> {
        receive(&self.near, batch)?;
        let now = clock::monotonic();
        for received in batch.iter() {
            let Some(place) = self.place_of(received.from)? else {
                self.turned_away += received.datagrams().count() as u64;
                continue;
            };
            let at = self.driver.of_machine(self.arrivals.at(now, received.kernel_time));
            let Some(client) = &mut self.table.clients[place] else { continue };
            client.last_heard = at;
            enter(&mut client.forward, at, &received, &mut self.hands.store);
        }
        Ok(())
    }

    fn read_far(&mut self, place: usize, batch: &mut ReceiveBatch) -> io::Result<()> {
        let Some(client) = &mut self.table.clients[place] else { return Ok(()) };
        receive(&client.far, batch)?;
        let now = clock::monotonic();
        for received in batch.iter() {
            let at = self.driver.of_machine(self.arrivals.at(now, received.kernel_time));
            client.last_heard = at;
            enter(&mut client.reverse, at, &received, &mut self.hands.store);
        }
        Ok(())
    }

    /// Returns the index of a client, which may be new; `None` if there is no room for it.
    fn place_of(&mut self, address: SocketAddr) -> io::Result<Option<usize>> {
        if let Some(place) = self.table.places.get(&address) {
            return Ok(Some(*place));
        }
        let free = self.table.clients.iter().position(Option::is_none);
        let place = if let Some(free) = free {
            free
        } else if self.table.clients.len() < self.options.most_clients {
            self.table.clients.push(None);
            self.table.clients.len() - 1
        } else {
            let Some(place) = self.table.longest_silent(self.driver.now()) else { return Ok(None) };
            self.end(place)?;
            place
        };
        // The target was reachable when the relay started; a lack of descriptors is no reason to end the other clients.
        let Ok(client) = Client::open(address, self.clients_ever, &self.options) else { return Ok(None) };
        self.poller.add(&client.far, place as u64, Interest::Read)?;
        self.clients_ever += 1;
        self.table.clients[place] = Some(client);
        self.table.places.insert(address, place);
        Ok(Some(place))
    }

    /// Ends a client without datagrams in flight.
    fn end(&mut self, place: usize) -> io::Result<()> {
        let Some(client) = self.table.clients[place].take() else { return Ok(()) };
        self.poller.remove(&client.far)?;
        self.table.places.remove(&client.address);
        self.ended_unseen += client.unseen();
        for (sum, account) in self.ended.iter_mut().zip(client.accounts()) {
            *sum += account;
        }
        Ok(())
    }

    /// Returns the accounts of both directions, over all clients of the run.
    fn accounts(&self) -> [Account; 2] {
        let mut sums = self.ended;
        for client in self.table.clients.iter().flatten() {
            for (sum, account) in sums.iter_mut().zip(client.accounts()) {
                *sum += account;
            }
        }
        sums
    }

    fn report(&self, now: Instant) -> Report {
        let [forward, reverse] = self.accounts();
        let [late_forward, late_reverse] = [0, 1].map(|direction| self.hands.polices[direction].lateness());
        let unseen_far: u64 = self.table.clients.iter().flatten().map(Client::unseen).sum();
        let unseen_near = self.near.meminfo().map_or(0, |memory| u64::from(memory.drops));
        let (ran, waited) = self.driver.times();
        Report {
            elapsed: now.since(Instant::ORIGIN),
            forward: Way { account: forward, lateness: late_forward, unseen: unseen_near, undelivered: 0 },
            reverse: Way {
                account: reverse,
                lateness: late_reverse,
                unseen: self.ended_unseen + unseen_far,
                undelivered: 0,
            },
            clients: self.clients_ever,
            turned_away: self.turned_away,
            ran,
            waited,
        }
    }
}

impl Table {
    fn next_due(&self) -> Option<Instant> {
        self.clients.iter().flatten().fold(None, |due, client| Instant::earlier(due, client.next_due()))
    }

    /// Returns the index of the client that was silent longest, if it was silent long enough and has no datagrams
    /// in flight.
    fn longest_silent(&self, now: Instant) -> Option<usize> {
        let places =
            self.clients.iter().enumerate().filter_map(|(place, client)| Some((place, client.as_ref()?)));
        let (place, client) = places.min_by_key(|(_, client)| client.last_heard)?;
        (now.since(client.last_heard) >= SILENCE && client.next_due().is_none()).then_some(place)
    }
}

impl Hands {
    /// Writes the datagrams of a client that are due.
    fn write_due(&mut self, driver: &Driver, client: &mut Client, target: SocketAddr) {
        let Client { address, out, forward, reverse, .. } = client;
        self.write(driver, 0, forward, Some(out), target);
        self.write(driver, 1, reverse, None, *address);
    }

    fn write(
        &mut self,
        driver: &Driver,
        direction: usize,
        queue: &mut ForwardingQueue<Parcel>,
        by: Option<&mut SendSocket>,
        to: SocketAddr,
    ) {
        let Self { near_out, store, train, polices, merge } = self;
        let by = by.unwrap_or(near_out);
        for _ in 0..TRAINS_PER_TURN {
            let Some(due) = queue.next_due() else { return };
            let now = driver.now();
            if due + *merge > now {
                return;
            }
            train.clear();
            while let Some((due, parcel)) = queue.pop_if(now, |parcel| train.takes(parcel.bytes().len())) {
                train.push(due, parcel.bytes());
                store.take_back(parcel);
            }
            train.dues.iter().for_each(|due| polices[direction].saw(*due, now));
            train.leave(by, to, &mut queue.account);
        }
    }
}

/// Enters each datagram of a received train on its own.
fn enter(queue: &mut ForwardingQueue<Parcel>, at: Instant, received: &Received<'_>, store: &mut Store) {
    for datagram in received.datagrams() {
        queue.enter(at, datagram, datagram.len() as u64, || store.keep(&[datagram]));
    }
}

/// Reads a batch; an ICMP error about an earlier datagram is reported by the next send, and hides no arrival.
fn receive(socket: &ReceiveSocket, batch: &mut ReceiveBatch) -> io::Result<()> {
    match socket.receive_batch(batch) {
        Ok(_) => Ok(()),
        Err(error) if is_path_error(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_path_error(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable, PermissionDenied,
    };
    matches!(
        error.kind(),
        ConnectionRefused | HostUnreachable | NetworkDown | NetworkUnreachable | PermissionDenied
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Conditions;

    #[test]
    fn the_client_that_was_silent_for_the_longest_gives_way_once_that_is_long() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let options = RelayOptions::new(address(0), address(9), Conditions::default(), 1);
        let client = |port| Client::open(address(port), 0, &options).unwrap();
        let mut table =
            Table { clients: vec![Some(client(1)), Some(client(2)), None], places: BTreeMap::new() };
        let at = |time| Instant::ORIGIN + time;
        let second = Duration::from_secs(1);
        for (place, time) in [(0, 2 * second), (1, second)] {
            table.clients[place].as_mut().unwrap().last_heard = at(time);
        }
        assert_eq!(table.longest_silent(at(SILENCE + second - Duration::from_nanos(1))), None);
        assert_eq!(table.longest_silent(at(SILENCE + second)), Some(1));
        // A client with datagrams in flight is not replaced.
        let mut store = Store::new(MOST_HELD_BYTES);
        let reverse = &mut table.clients[1].as_mut().unwrap().reverse;
        reverse.enter(at(second), &[1], 1, || store.keep(&[&[1]]));
        assert_eq!(table.longest_silent(at(SILENCE * 9)), None);
    }
}
