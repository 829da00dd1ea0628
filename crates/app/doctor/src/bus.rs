//! Announcements of a bus, certificates of its stations, and this station's file of keys, as facts for an audit of its
//! security.
//!
//! It listens only: to the group of announcements, then for a short time to [one stream](certificates) of each station.

mod certificates;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use diagnose::audit::bus::{Announced, Bus, KeyContent, Keys, Protection};
use keyring::Keyring;
use keys::{GroupKey, KeySet, Purpose};
use sys::{Interest, Interface, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket, clock};
use units::{StreamId, WallTime};
use wire::{Announcement, CLOCK_BOUND, Datagram, Kind, SecuredHead};

use self::certificates::Stations;

/// Bus to audit.
#[derive(Clone, Debug)]
pub struct BusOptions {
    /// Group and port of its announcements; `None` for a bus within this host.
    pub announcements: Option<SocketAddr>,
    /// Interface; without it the kernel follows its routes.
    pub interface: Option<Interface>,
    /// This station's file of keys.
    pub keys: Option<PathBuf>,
    /// Time to listen; publishers announce their streams once a second.
    pub listen: Duration,
}

const BUFFER_BYTES: usize = 1 << 20;
/// Most announcements that are kept: anybody can make up streams.
const MAX_ANNOUNCED: usize = 4_096;

/// Reads the file of keys, and listens.
pub(crate) fn facts(options: &BusOptions) -> Bus {
    let wall = clock::wall();
    let keyring = options.keys.as_deref().map(|path| (path, Keyring::open(path, wall)));
    let keys = keyring.as_ref().map(|(path, keyring)| {
        let keyring = keyring.as_ref().map_err(ToString::to_string);
        Keys { path: path.display().to_string(), content: keyring.and_then(|keyring| content(keyring, wall)) }
    });
    let mut bus = Bus { keys, listened: options.listen, clock_bound: CLOCK_BOUND, ..Bus::default() };
    let Some(group) = options.announcements else {
        bus.deaf = Some("the bus stays within this host".to_owned());
        return bus;
    };
    let membership = keyring.and_then(|(_, keyring)| keyring.ok()).map(|keyring| keyring.membership());
    let heard = listen(group, options, membership.as_deref().map(|membership| &membership.keys));
    let (streams, stations) = match heard {
        Ok(heard) => heard,
        Err(why) => {
            bus.deaf = Some(format!("announcements cannot be received: {why}"));
            return bus;
        }
    };
    bus.streams = streams;
    if let Some(membership) = membership {
        bus.stations = stations.look(options.interface.as_ref(), &membership, options.listen);
    }
    bus
}

fn content(keyring: &Keyring, wall: WallTime) -> Result<KeyContent, String> {
    let membership = keyring.membership();
    let certificate = membership.station.certificate();
    let left_ns = certificate.not_after.nanos_since(wall);
    let Some(sending) = membership.keys.sending(wall) else {
        let silent = "the key service does not answer".to_owned();
        return Err(keyring.news(wall).map_or(silent, |news| news.to_string()));
    };
    let tokens = |is_later: bool| {
        let others = membership.keys.iter().filter(|it| it.token != sending.token);
        others.filter(|it| (it.from > wall) == is_later).map(|it| it.token.to_string()).collect()
    };
    Ok(KeyContent {
        station: certificate.name.clone(),
        service: keyring.service_address(),
        certificate_left: Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0)),
        in_use: sending.token.to_string(),
        is_early: sending.from > wall,
        next: tokens(true),
        accepted: tokens(false),
    })
}

fn listen(
    group: SocketAddr,
    options: &BusOptions,
    keys: Option<&KeySet>,
) -> Result<(Vec<Announced>, Stations), Box<dyn std::error::Error>> {
    let interface = options.interface.clone();
    let socket =
        ReceiveSocket::open(&ReceiveOptions { interface, ..ReceiveOptions::at(group, BUFFER_BYTES) })?;
    let mut poller = Poller::new()?;
    poller.add(&socket, 0, Interest::Read)?;
    let (until, mut batch) = (clock::monotonic() + options.listen, ReceiveBatch::for_trains());
    let mut announced: BTreeMap<(StreamId, IpAddr, u8), Announced> = BTreeMap::new();
    let mut stations = Stations::default();
    while clock::monotonic() < until {
        if socket.receive_batch(&mut batch)? == 0 {
            poller.wait(Some(until))?;
            continue;
        }
        let wall = clock::wall();
        for (received, bytes) in batch.iter_mut() {
            for datagram in bytes.chunks_mut(received.segment_bytes.max(1)) {
                let heard = read(datagram, keys, wall);
                let Some(Heard { stream, protection, announcement }) = heard else { continue };
                let kind = match &protection {
                    Protection::Clear { .. } => 0,
                    Protection::Secured { .. } => 1,
                    Protection::NoKey { .. } => 2,
                    Protection::BadTag => 3,
                };
                let (place, from) = ((stream, received.from.ip(), kind), received.from.ip());
                if let Some(announcement) = announcement {
                    stations.note(from, &announcement);
                }
                if announced.len() < MAX_ANNOUNCED {
                    announced.entry(place).or_insert(Announced { from, protection });
                }
            }
        }
    }
    Ok((announced.into_values().collect(), stations))
}

/// An announcement as it was heard.
struct Heard {
    stream: StreamId,
    protection: Protection,
    /// The announcement, if it is authentic.
    announcement: Option<Announcement>,
}

/// Reads an announcement; `None` for all else.
fn read(datagram: &mut [u8], keys: Option<&KeySet>, wall: WallTime) -> Option<Heard> {
    let heard = |stream, protection| Some(Heard { stream, protection, announcement: None });
    let Some(head) = SecuredHead::read(datagram) else {
        let Ok(Datagram::Announcement(it)) = Datagram::decode(datagram) else { return None };
        return heard(it.stream, Protection::Clear { name: it.name.to_string(), station: it.station });
    };
    if head.kind != Kind::Announcement {
        return None;
    }
    let Some(secret) = keys.and_then(|keys| head.secret_in(keys)) else {
        return heard(head.stream, Protection::NoKey { token: head.token.to_string() });
    };
    let key = GroupKey::new(secret, head.salt).derive(Purpose::Unnumbered);
    let end = datagram.len();
    let Ok(size_bytes) = head.open(&key, datagram, 0..end, 0) else {
        return heard(head.stream, Protection::BadTag);
    };
    let Ok(Datagram::Announcement(it)) = Datagram::decode(&datagram[..size_bytes]) else { return None };
    // The counter is the sender's UTC, or a little more.
    let ahead_ns = i64::try_from(head.nonce).unwrap_or(i64::MAX).saturating_sub(wall.as_nanos());
    let (name, station, token) = (it.name.to_string(), it.station.clone(), head.token.to_string());
    let protection = Protection::Secured { name, station, token, ahead_ns };
    Some(Heard { stream: head.stream, protection, announcement: Some(it) })
}
