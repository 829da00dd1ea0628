//! `tallycast recv`: receives files of `tallycast send` into a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::json;
use sys::Cancellation;
use tallycast::udt::{
    Address, Connection, EndpointStats, Listener, PublicKey, SessionStats, Source, WaitError,
};
use transfer::{
    Bundles, Failure, Notice, Opening, Receiver, SlotId, Slots, Store, Stripes, Taken, Tally, Whereto,
};

use super::reliable::{
    FollowedPeers, Meter, POLL_INTERVAL, Screen, TransportArguments, WATCH, Words, raw, shown,
};
use crate::Outcome;
use crate::signals;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast recv incoming/                            from any sender, on port 7400, until Ctrl-C
  tallycast recv incoming/ udt://10.0.0.1:9000 -1     one transfer, on one interface
  tallycast recv --offer shots/                       offer a folder to `tallycast send --from`
  tallycast recv incoming/ --key archive.key --peer KEY   encrypted, from the owner of that public key only
  tallycast recv --memory                             measure the speed only
  tallycast recv --raw udt://0.0.0.0:9000 > file      from any program that speaks UDT 4
  tallycast recv --raw --messages udt://0.0.0.0:9000  messages, one after the other

Incomplete files are kept in .tallycast-partial of the directory; a file in its place is complete and verified.
With --key listed peers alone are heard. Without it any host that reaches the port may send, and with --offer have files sent anywhere: restrict access with a firewall. Existing files stay, unless --overwrite.
Exit code 1: something was refused or is missing; the output says what.";

const USAGE: &str = "tallycast recv DIR udt://0.0.0.0:7400";
/// Default address at which senders are awaited.
const USUAL: &str = "udt://0.0.0.0:7400";
/// Maximum number of concurrent connections, one thread each. Beyond it idle ones are dropped, and others must
/// reconnect.
const MOST_CONNECTIONS: usize = 64;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    words: Words,
    #[command(flatten)]
    transport: TransportArguments,
    /// End after one complete transfer
    #[arg(long, short = '1', alias = "once")]
    one_off: bool,
    /// Replace existing files of the same name
    #[arg(long, conflicts_with_all = ["memory", "raw"])]
    overwrite: bool,
    /// Send files below this folder wherever `tallycast send --from` of any host orders; without PATH nothing is received
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["memory", "raw"])]
    offer: Option<PathBuf>,
    /// Verify what arrives and discard it, to measure
    #[arg(long, conflicts_with = "raw")]
    memory: bool,
    /// Accept one connection, and write what arrives unchanged to standard output
    #[arg(long, conflicts_with_all = ["one_off", "key"])]
    raw: bool,
    /// With --raw: receive messages instead of a stream
    #[arg(long, requires = "raw")]
    messages: bool,
    /// Print progress, every file and each account as JSON, one object per line; with --raw on standard error
    #[arg(long, short = 'J')]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let (paths, address) = arguments.words.split(USAGE)?;
    let usual = || USUAL.parse::<Address>().map_err(anyhow::Error::from);
    let address = address.map_or_else(usual, Ok)?;
    let cancellation = signals::cancellation()?;
    let whereto = match paths.as_slice() {
        [] if arguments.raw => {
            return raw::receive(
                &address,
                &arguments.transport,
                arguments.messages,
                arguments.json,
                &cancellation,
            );
        }
        [] if arguments.memory => Some(Whereto::Nowhere),
        [] if arguments.offer.is_some() => None,
        [] => bail!("no directory to receive into is given\nwrite {USAGE}"),
        _ if arguments.raw || arguments.memory => {
            bail!("--raw and --memory take no directory\nomit one or the other")
        }
        [directory] => Some(Whereto::Directory(open(directory, arguments.overwrite)?)),
        [_, other, ..] => bail!("unexpected second directory `{}`\nwrite {USAGE}", other.display()),
    };
    if let Some(folder) = arguments.offer.as_ref().filter(|folder| !folder.is_dir()) {
        bail!("--offer {}: no such folder", folder.display());
    }
    let options = arguments.transport.for_files(&address)?;
    let listener = Listener::bind_to(address.resolve()?, &options)
        .with_context(|| format!("cannot listen at {address}"))?;
    let screen = Screen::new(arguments.json);
    let at = listener.local_address();
    let text = || format!("waiting at udt://{at} for `tallycast send PATH… udt://this-host:{}`", at.port());
    screen.say(text, || json!({"event": "listening", "address": format!("udt://{at}"), "port": at.port()}));
    arguments.transport.warn_if_clear(&screen, &address, at.ip());
    if let Some(keys) = &options.keys {
        let (own, listed) = (shown(&keys.public()), keys.peers.len());
        let text = || format!("accepting {listed} listed peers; own public key: {own}");
        screen.say(text, || json!({"event": "secured", "public_key": own, "peers": listed}));
    }
    let service = Service {
        receiver: whereto.map(Receiver::new),
        offered: arguments.offer.as_deref(),
        bundles: Bundles::default(),
        once: arguments.one_off,
        screen: &screen,
        transport: &arguments.transport,
        cancellation: &cancellation,
        ending: Mutex::default(),
        is_over: AtomicBool::new(false),
        hall: Mutex::new(Hall { slots: Slots::new(MOST_CONNECTIONS), served: BTreeMap::new() }),
    };
    let followed = arguments.transport.follow(&address)?.map(|(peers, listed)| {
        // The file may have changed since the listener was opened.
        listener.relist(&listed);
        peers
    });
    service.serve(&listener, followed)?;
    let ending = service.ending.into_inner().unwrap_or_else(PoisonError::into_inner);
    match ending.failure.filter(|_| arguments.one_off) {
        Some(failure) => Err(failure),
        None if ending.is_something_refused || ending.is_something_missing => Ok(Outcome::Found),
        None => Ok(Outcome::Fine),
    }
}

fn open(directory: &Path, may_replace: bool) -> anyhow::Result<Store> {
    Store::open(directory, may_replace)
        .with_context(|| format!("cannot receive into {}", directory.display()))
}

/// Serves one connection a thread.
struct Service<'a> {
    /// `None` if nothing is received.
    receiver: Option<Receiver>,
    offered: Option<&'a Path>,
    bundles: Bundles<Option<Source>, (SlotId, Arc<Connection>)>,
    once: bool,
    screen: &'a Screen,
    transport: &'a TransportArguments,
    cancellation: &'a Cancellation,
    ending: Mutex<Ending>,
    is_over: AtomicBool,
    hall: Mutex<Hall>,
}

/// Those who are served.
struct Hall {
    slots: Slots<Option<Source>>,
    served: BTreeMap<SlotId, Served>,
}

/// One who is served.
#[derive(Clone)]
struct Served {
    peer: String,
    /// Key by which it identified itself; none in the clear.
    key: Option<PublicKey>,
    connection: Arc<Connection>,
    meter: Arc<Meter>,
    /// Another sender has its slot now.
    is_sent_away: Arc<AtomicBool>,
    /// Its progress is shown with that of another stream.
    is_part: Arc<AtomicBool>,
}

/// State of everything so far.
#[derive(Default)]
struct Ending {
    is_something_refused: bool,
    /// True if the last connection broke, or its transfer could not continue.
    is_something_missing: bool,
    /// Reason why this end could not continue.
    failure: Option<anyhow::Error>,
}

impl Service<'_> {
    fn serve(&self, listener: &Listener, mut peers: Option<FollowedPeers>) -> anyhow::Result<()> {
        let (mut told, mut told_secured) = (EndpointStats::default(), SessionStats::default());
        std::thread::scope(|scope| {
            while !self.is_over() {
                let overdue = self.hall().overdue();
                overdue.iter().for_each(|served| self.send_away(served, "it offered nothing"));
                self.screen.progress(&self.hall().meters());
                self.tell_strangers(&mut told, listener.stats());
                if let Some(stats) = listener.session_stats() {
                    self.tell_unauthentic(&mut told_secured, stats);
                }
                if let Some(peers) = &mut peers {
                    self.follow(listener, peers);
                }
                match listener.accept(Some(WATCH)) {
                    Ok(connection) => {
                        if let Some((slot, served)) = self.slot(connection) {
                            scope.spawn(move || self.session(slot, &served));
                        }
                    }
                    Err(WaitError::TimedOut) => {}
                    Err(error) => {
                        self.is_over.store(true, Ordering::Relaxed);
                        return Err(anyhow!(error).context("cannot accept more connections"));
                    }
                }
            }
            self.sum_up_strangers(listener.stats());
            if let Some(stats) = listener.session_stats() {
                self.sum_up_sessions(&stats);
            }
            Ok(())
        })
    }

    /// Takes up a changed list of peers: who is no longer listed is sent away.
    fn follow(&self, listener: &Listener, peers: &mut FollowedPeers) {
        let listed = match peers.refresh() {
            Ok(None) => return,
            Ok(Some(listed)) => listed,
            Err(error) => {
                let what = format!("the peers listed before stay listed: {error}");
                let text = || format!("warning: {what}");
                return self.screen.say(text, || json!({"event": "warning", "what": what}));
            }
        };
        listener.relist(&listed);
        let gone = self.hall().unlisted(&listed);
        let count = listed.len();
        let text = || format!("accepting {count} listed peers");
        self.screen.say(text, || json!({"event": "relisted", "peers": count}));
        gone.iter().for_each(|served| self.send_away(served, "its key is no longer listed"));
    }

    /// Gives a newcomer a slot, or sends it away.
    fn slot(&self, connection: Connection) -> Option<(SlotId, Served)> {
        let address = connection.peer_address();
        let peer = address.map_or_else(String::new, |address| format!("udt://{address}"));
        let (connection, meter, is_sent_away) =
            (Arc::new(connection), Arc::new(Meter::new()), Arc::default());
        let is_part = Arc::default();
        let key = connection.peer_key();
        let served = Served { peer, key, connection, meter, is_sent_away, is_part };
        let (slot, gone) = self.hall().take(address.map(|address| Source::of(address.ip())), &served);
        if let Some(gone) = gone {
            self.send_away(&gone, "it was idle while others wait");
        }
        if slot.is_none() {
            self.send_away(&served, &format!("all {MOST_CONNECTIONS} slots are taken"));
        }
        Some((slot?, served))
    }

    /// Ends a connection; its sender may reconnect.
    fn send_away(&self, served: &Served, why: &str) {
        let peer = &served.peer;
        let text = || format!("warning: connection of {peer} closed: {why}");
        self.screen.say(text, || json!({"event": "sent_away", "peer": peer, "reason": why}));
        served.connection.hang_up();
        // Only now: a session that ends regularly asks its sender not to reconnect.
        served.is_sent_away.store(true, Ordering::Relaxed);
    }

    /// Reports, once per kind, clients that are refused or fall silent before they are served.
    fn tell_strangers(&self, told: &mut EndpointStats, now: EndpointStats) {
        let is_first = |told: u64, now: u64| told == 0 && now > 0;
        let kinds = [
            (is_first(told.half_open, now.half_open), "fall silent after their handshake"),
            (
                is_first(told.displaced, now.displaced),
                "fall silent after their handshake and are replaced by others",
            ),
            (is_first(told.replaced, now.replaced), "reconnect while their connection is open"),
            (is_first(told.refused, now.refused), "are refused: too many are waiting"),
        ];
        for (_, what) in kinds.iter().filter(|(is_first, _)| *is_first) {
            let text = || format!("warning: clients {what}");
            self.screen.say(text, || json!({"event": "warning", "what": format!("clients {what}")}));
        }
        *told = now;
    }

    /// Reports, once per kind, clients of a secured port that have no listed key.
    fn tell_unauthentic(&self, told: &mut SessionStats, now: SessionStats) {
        let kinds = [
            (
                told.unknown_peers == 0 && now.unknown_peers > 0,
                "have a key that is not listed and are refused",
            ),
            (told.clear == 0 && now.clear > 0, "have no key and are not heard"),
        ];
        for (_, what) in kinds.iter().filter(|(is_first, _)| *is_first) {
            let text = || format!("warning: clients {what}");
            self.screen.say(text, || json!({"event": "warning", "what": format!("clients {what}")}));
        }
        *told = now;
    }

    /// Reports the sessions of a secured port, and the datagrams that were refused, by reason.
    fn sum_up_sessions(&self, stats: &SessionStats) {
        let text = || {
            format!(
                "{} sessions; refused datagrams: {} of unlisted keys, {} in the clear, {} forged, {} repeated, {} others",
                stats.sessions,
                stats.unknown_peers,
                stats.clear,
                stats.bad_tags + stats.bad_handshakes,
                stats.replayed + stats.replayed_handshakes,
                stats.refused()
                    - stats.unknown_peers
                    - stats.clear
                    - stats.bad_tags
                    - stats.bad_handshakes
                    - stats.replayed
                    - stats.replayed_handshakes,
            )
        };
        self.screen.say(text, || {
            json!({
                "event": "sessions",
                "sessions": stats.sessions,
                "refused": stats.refused(),
                "unknown_peers": stats.unknown_peers,
                "clear": stats.clear,
                "bad_tags": stats.bad_tags,
                "bad_handshakes": stats.bad_handshakes,
                "replayed": stats.replayed,
                "replayed_handshakes": stats.replayed_handshakes,
                "no_cookie": stats.no_cookie,
                "expired": stats.expired,
            })
        });
    }

    /// Reports the number of each kind, if any.
    fn sum_up_strangers(&self, stats: EndpointStats) {
        let EndpointStats { half_open, displaced, replaced, refused, .. } = stats;
        if half_open + displaced + replaced + refused == 0 {
            return;
        }
        let text = || {
            format!(
                "clients that brought nothing: {half_open} fell silent after their handshake, {displaced} gave way to \
                 others, {replaced} began anew, {refused} were refused"
            )
        };
        self.screen.say(text, || {
            json!({
                "event": "strangers",
                "half_open": half_open,
                "displaced": displaced,
                "replaced": replaced,
                "refused": refused,
            })
        });
    }

    fn hall(&self) -> MutexGuard<'_, Hall> {
        self.hall.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.cancellation.is_cancelled() || self.is_over.load(Ordering::Relaxed)
    }

    /// Handles one connection.
    fn session(&self, slot: SlotId, served: &Served) {
        let Served { peer, connection, meter, is_sent_away, .. } = served;
        connection.set_receive_timeout(Some(POLL_INTERVAL));
        connection.set_send_timeout(Some(POLL_INTERVAL));
        meter.connected(std::slice::from_ref(connection));
        let stop = || self.is_over() || is_sent_away.load(Ordering::Relaxed);
        let mut tally = Tally::default();
        let opening = Opening::hear(&**connection, &stop);
        let received = opening.map(|opening| self.serve_opened(slot, served, opening, &stop, &mut tally));
        let received = match received {
            Ok(Some(received)) => received,
            Ok(None) => return self.hall().leave(slot),
            Err(failure) => Err(failure),
        };
        self.hall().leave(slot);
        let error = received.as_ref().err().map(ToString::to_string);
        if let Some(error) = &error {
            let text = || format!("warning: {peer}: {error}");
            self.screen.say(text, || json!({"event": "broken", "peer": peer, "error": error}));
        }
        self.screen.account(peer, &tally, meter, error.as_deref());
        let is_last = match received {
            Ok(()) => true,
            Err(failure @ (Failure::Store { .. } | Failure::Room { .. })) => {
                self.ending().failure = Some(failure.into());
                true
            }
            Err(_) => false,
        };
        self.count(&tally, is_last);
    }

    /// Counts the outcome of a transfer; with `--one-off` the first complete one is the last.
    fn count(&self, tally: &Tally, is_complete: bool) {
        let mut ending = self.ending();
        ending.is_something_refused |= tally.refused > 0;
        // A client that offered nothing does not affect the result of others.
        if tally.offered > 0 {
            ending.is_something_missing = tally.missing() > 0;
        }
        if is_complete && self.once {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    fn ending(&self) -> MutexGuard<'_, Ending> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service<'_> {
    /// Receives over a connection, or over all streams of a striped transfer. Returns `None` for an order, which has its
    /// own account, and for a stream whose transfer another thread receives.
    fn serve_opened(
        &self,
        slot: SlotId,
        served: &Served,
        opening: Opening,
        stop: &(dyn Fn() -> bool + Sync),
        tally: &mut Tally,
    ) -> Option<Result<(), Failure>> {
        let Served { peer, connection, meter, .. } = served;
        if let Some(order) = opening.order() {
            self.hall().note(slot, &Notice::Listed { entries: 0, bytes: 0 });
            let sent =
                super::send::carry_out(order, self.offered, connection, (self.screen, self.transport), stop);
            if let Some(carried) = sent {
                self.count(&carried.tally, carried.error.is_none());
            }
            return None;
        }
        let Some(receiver) = &self.receiver else {
            return Some(transfer::refuse(
                &**connection,
                "this host receives nothing, it only offers a folder",
            ));
        };
        let Some(place) = opening.place().cloned() else {
            let mut notice = |notice: Notice<'_>| self.note(&[slot], served, &notice);
            return Some(receiver.receive_opened(opening, &**connection, stop, tally, &mut notice));
        };
        let source = connection.peer_address().map(|address| Source::of(address.ip()));
        self.hall().note(slot, &Notice::Listed { entries: 0, bytes: 0 });
        served.is_part.store(place.index > 0, Ordering::Relaxed);
        let joined = self.bundles.join((source, &place), (slot, Arc::clone(connection)), &**connection, stop);
        let (slots, streams): (Vec<SlotId>, Vec<Arc<Connection>>) = match joined {
            Ok(Some(all)) => all.into_iter().unzip(),
            Ok(None) => return None,
            Err(failure) => return Some(Err(failure)),
        };
        meter.connected(&streams);
        let count = streams.len();
        let text = || format!("{peer}: over {count} streams");
        self.screen.say(text, || json!({"event": "streams", "peer": peer, "streams": count}));
        let mut notice = |notice: Notice<'_>| self.note(&slots, served, &notice);
        let stripes = Stripes::receiving(&streams);
        let received = receiver.receive(&stripes, stop, tally, &mut notice);
        drop(stripes);
        self.bundles.end(&source, place.bundle);
        Some(received)
    }

    fn note(&self, slots: &[SlotId], served: &Served, notice: &Notice<'_>) {
        served.meter.notice(notice);
        slots.iter().for_each(|slot| self.hall().note(*slot, notice));
        self.screen.notice(&served.peer, notice);
    }
}

impl Hall {
    /// Takes a slot for a new connection; also returns the sender that loses its slot, if any.
    fn take(&mut self, source: Option<Source>, served: &Served) -> (Option<SlotId>, Option<Served>) {
        let (slot, gone) = match self.slots.take(Instant::now(), source) {
            Taken::Free(slot) => (slot, None),
            Taken::InsteadOf { slot, gone } => (slot, self.served.remove(&gone)),
            Taken::Full => return (None, None),
        };
        self.served.insert(slot, served.clone());
        (Some(slot), gone)
    }

    /// Returns the senders that offered nothing in time, whose slots are now free.
    fn overdue(&mut self) -> Vec<Served> {
        let overdue = self.slots.overdue(Instant::now());
        overdue.iter().filter_map(|slot| self.served.remove(slot)).collect()
    }

    /// Takes those who identified themselves by a key that is not listed.
    fn unlisted(&mut self, listed: &BTreeSet<PublicKey>) -> Vec<Served> {
        let is_gone = |served: &Served| served.key.is_some_and(|key| !listed.contains(&key));
        let gone: Vec<SlotId> =
            self.served.iter().filter(|(_, served)| is_gone(served)).map(|(slot, _)| *slot).collect();
        gone.iter().filter_map(|slot| self.served.remove(slot)).collect()
    }

    /// Handles a notice of a transfer.
    fn note(&mut self, slot: SlotId, notice: &Notice<'_>) {
        match notice {
            Notice::Listed { .. } => self.slots.offered(Instant::now(), slot),
            _ => self.slots.moved(Instant::now(), slot),
        }
    }

    fn leave(&mut self, slot: SlotId) {
        self.slots.leave(slot);
        self.served.remove(&slot);
    }

    fn meters(&self) -> Vec<(String, Arc<Meter>)> {
        let shown = self.served.values().filter(|served| !served.is_part.load(Ordering::Relaxed));
        shown.map(|served| (served.peer.clone(), Arc::clone(&served.meter))).collect()
    }
}
