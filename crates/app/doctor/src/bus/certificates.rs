//! Certificates of other stations, from their descriptions of streams.
//!
//! Announcements have none, so the slowest stream of each station is joined until its description has come: the load of
//! its data lasts for about a second. Nothing is sent, and no stream to a single address is joined, whose datagrams are
//! for another.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use diagnose::audit::bus::{Described, Validity};
use keys::{CertificateError, GroupKey, Membership, Purpose, Salt, Stretch};
use sys::{Interest, Interface, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket, clock};
use units::{Epoch, StreamId, WallTime};
use wire::{Announcement, Datagram, DescriptorAssembler, Distrust, Kind, SecuredHead, Security};

const BUFFER_BYTES: usize = 1 << 20;
/// Most stations that are looked at: each may need a group of its own, of which the kernel admits few.
const MAX_STATIONS: usize = 16;
/// Most descriptions that are put together at once: only members make them, but anybody repeats recorded parts.
const MAX_ASSEMBLED: usize = 4 * MAX_STATIONS;

/// A stream of each station that is heard.
#[derive(Debug, Default)]
pub(super) struct Stations(BTreeMap<(String, IpAddr), Stream>);

#[derive(Clone, Copy, Debug)]
struct Stream {
    stream: StreamId,
    group: SocketAddr,
    bytes_per_s: f64,
}

/// Opens descriptors, and puts descriptions together.
struct Reader<'a> {
    membership: &'a Membership,
    assembled: BTreeMap<(StreamId, Epoch, Salt), DescriptorAssembler>,
}

impl Stations {
    /// Takes an authentic announcement: of each station the slowest stream of a group is kept.
    pub(super) fn note(&mut self, from: IpAddr, announcement: &Announcement) {
        let Announcement { stream, group, rate, dtype, elements_per_sample, .. } = *announcement;
        let sample_bytes = f64::from(elements_per_sample) * dtype.size_bytes() as f64;
        let heard = Stream { stream, group, bytes_per_s: rate.as_hz() * sample_bytes };
        let known = self.0.entry((announcement.station.clone(), from)).or_insert(heard);
        let is_better = |heard: Stream, known: Stream| {
            let is_group = |stream: Stream| stream.group.ip().is_multicast();
            (is_group(heard) && !is_group(known))
                || (is_group(heard) == is_group(known) && heard.bytes_per_s < known.bytes_per_s)
        };
        if is_better(heard, *known) {
            *known = heard;
        }
    }

    /// Joins the streams until all descriptions have come, or the time is over. What cannot be received is not seen.
    pub(super) fn look(
        self,
        interface: Option<&Interface>,
        membership: &Membership,
        at_most: Duration,
    ) -> Vec<Described> {
        let mut wanted = BTreeMap::new();
        for stream in self.0.values().filter(|it| it.group.ip().is_multicast()).take(MAX_STATIONS) {
            wanted.insert(stream.stream, stream.group);
        }
        let found = read(wanted, interface, membership, at_most).unwrap_or_default();
        let described = self.0.into_iter().map(|((station, from), Stream { stream, .. })| {
            let certificate = found.get(&stream).cloned();
            Described { station, from, certificate }
        });
        described.collect()
    }
}

/// Receives at the groups until there is a description of each stream.
fn read(
    mut wanted: BTreeMap<StreamId, SocketAddr>,
    interface: Option<&Interface>,
    membership: &Membership,
    at_most: Duration,
) -> std::io::Result<BTreeMap<StreamId, Validity>> {
    let (until, mut poller) = (clock::monotonic() + at_most, Poller::new()?);
    let mut sockets: BTreeMap<SocketAddr, ReceiveSocket> = BTreeMap::new();
    for group in wanted.values() {
        let interface = interface.cloned();
        let options = ReceiveOptions { interface, ..ReceiveOptions::at(*group, BUFFER_BYTES) };
        // A group that cannot be joined is one whose description does not arrive.
        if let Ok(socket) = ReceiveSocket::open(&options) {
            poller.add(&socket, 0, Interest::Read)?;
            sockets.insert(*group, socket);
        }
    }
    let (mut batch, mut found) = (ReceiveBatch::for_trains(), BTreeMap::new());
    let mut reader = Reader { membership, assembled: BTreeMap::new() };
    while !wanted.is_empty() && !sockets.is_empty() && clock::monotonic() < until {
        poller.wait(Some(until))?;
        for socket in sockets.values() {
            if socket.receive_batch(&mut batch)? == 0 {
                continue;
            }
            let wall = clock::wall();
            for (received, bytes) in batch.iter_mut() {
                for datagram in bytes.chunks_mut(received.segment_bytes.max(1)) {
                    if let Some((stream, validity)) = reader.take(&wanted, datagram, wall) {
                        wanted.remove(&stream);
                        found.insert(stream, validity);
                    }
                }
            }
        }
        sockets.retain(|group, _| wanted.values().any(|wanted| wanted == group));
    }
    Ok(found)
}

impl Reader<'_> {
    /// Takes a datagram; returns the validity of the certificate in the description that it completes.
    fn take(
        &mut self,
        wanted: &BTreeMap<StreamId, SocketAddr>,
        datagram: &mut [u8],
        wall: WallTime,
    ) -> Option<(StreamId, Validity)> {
        let head = SecuredHead::read(datagram)?;
        if head.kind != Kind::Descriptor || !wanted.contains_key(&head.stream) {
            return None;
        }
        let SecuredHead { stream, epoch, salt, .. } = head;
        let secret = head.secret_in(&self.membership.keys)?;
        let key = GroupKey::new(secret, salt).derive(Purpose::Stream(Stretch { stream, epoch }));
        let end = datagram.len();
        let size_bytes = head.open(&key, datagram, 0..end, 0).ok()?;
        let Ok(Datagram::Descriptor(part)) = Datagram::decode(&datagram[..size_bytes]) else { return None };
        if self.assembled.len() >= MAX_ASSEMBLED {
            self.assembled.clear();
        }
        let description = self.assembled.entry((stream, epoch, salt)).or_default().accept(&part).ok()??;
        let security = Security::of(&description)?;
        let left_ns = security.certificate.not_after.nanos_since(wall);
        let left = Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0));
        match security.check(&description, (epoch, salt), &self.membership.authority, wall) {
            Ok(()) => Some((stream, Validity::Left(left))),
            Err(Distrust::Certificate(CertificateError::Expired { .. })) => Some((stream, Validity::Ended)),
            Err(Distrust::Certificate(error)) => Some((stream, Validity::NotBelieved(first_line(&error)))),
            // A recording, or a clock, of which the check `bus-clocks` tells: the next may be better.
            Err(_) => None,
        }
    }
}

fn first_line(error: &CertificateError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
