//! Exchange of probes with a group and with other hosts.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use diagnose::audit::Check;
use diagnose::preflight::{Heard, Peers, Probe, Way};
use serde_json::{Value, json};
use sys::{
    Interest, Interface, Loopback, OpenError, Outcome, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket,
    SendOptions, SendSocket, SendTechniques, clock, header_bytes, path_mtu,
};
use units::Instant;

/// Group to test, and the host that tests it.
#[derive(Clone, Debug)]
pub struct PreflightOptions {
    /// Address of the group, and the port that is reserved for probes.
    pub group: SocketAddr,
    /// Interface for joining and sending; without it the kernel follows its routes.
    pub interface: Option<Interface>,
    /// TTL of probes: one more than the number of routers that they may pass.
    pub ttl: u8,
    /// Name of this host.
    pub station: String,
    /// Hosts that are sent unicast probes from the start, even before they are received.
    pub hosts: Vec<IpAddr>,
}

/// Running preflight.
pub struct Preflight {
    options: PreflightOptions,
    /// Identity of this run.
    id: u64,
    group: ReceiveSocket,
    direct: ReceiveSocket,
    out: SendSocket,
    poller: Poller,
    batch: ReceiveBatch,
    peers: Peers,
    largest_bytes: usize,
    next_probe: Instant,
    /// Number of probes sent to the group.
    said: u64,
    /// Number of probes sent to each host.
    said_directly: BTreeMap<SocketAddr, u64>,
    /// First error of sending probes to the group.
    refused: Option<String>,
}

/// Host that was received for the first time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Newcomer {
    /// Name of the host.
    pub station: String,
    /// Address of the host.
    pub address: IpAddr,
}

/// Interval between probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of large probes to the group: one in five has the maximum size of the interface.
const LARGE_EVERY: u64 = 5;
/// Maximum number of reception reports in a probe; with more hosts each gets some.
const MAX_HEARD: usize = 12;
const MAX_STATION_LETTERS: usize = 64;
const BUFFER_BYTES: usize = 1 << 20;
const GROUP: u64 = 0;
const DIRECT: u64 = 1;

impl Preflight {
    /// Joins the group.
    ///
    /// # Errors
    /// [`OpenError`] with its remedy, or another error of the kernel.
    pub fn begin(options: PreflightOptions) -> Result<Self, PreflightError> {
        let PreflightOptions { group: at, interface, ttl, .. } = &options;
        let receive = |address| ReceiveOptions {
            interface: interface.clone(),
            ..ReceiveOptions::at(address, BUFFER_BYTES)
        };
        let group = ReceiveSocket::open(&receive(*at))?;
        let any: IpAddr =
            if at.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        // At this port others can send unicast probes before receiving this host; if it is taken, they must receive
        // it first.
        let known = ReceiveSocket::open(&receive((any, answer_port(*at)).into()));
        let direct = known.or_else(|_| ReceiveSocket::open(&receive((any, 0).into())))?;
        let out = SendSocket::open(&SendOptions {
            destination: *at,
            interface: interface.clone(),
            ttl: *ttl,
            loopback: Loopback::On,
            buffer_bytes: BUFFER_BYTES,
            techniques: SendTechniques::default(),
        })?;
        let largest_bytes = path_mtu(*at, interface.as_ref())?.saturating_sub(header_bytes(at));
        let poller = Poller::new()?;
        poller.add(&group, GROUP, Interest::Read)?;
        poller.add(&direct, DIRECT, Interest::Read)?;
        let now = clock::monotonic();
        // The standard library seeds every `RandomState` from the system.
        let id = RandomState::new().build_hasher().finish();
        Ok(Self {
            peers: Peers::new(id, now),
            id,
            group,
            direct,
            out,
            poller,
            batch: ReceiveBatch::for_trains(),
            largest_bytes: largest_bytes.min(MAX_PAYLOAD_BYTES),
            next_probe: now,
            said: 0,
            said_directly: BTreeMap::new(),
            refused: None,
            options,
        })
    }

    /// Sends and receives probes until the next is due; returns the hosts that were received for the first time.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn step(&mut self) -> io::Result<Vec<Newcomer>> {
        let now = clock::monotonic();
        if now >= self.next_probe {
            self.next_probe = now + PROBE_INTERVAL;
            self.say();
        }
        let ready: Vec<u64> = self.poller.wait(Some(self.next_probe))?.iter().map(|it| it.token).collect();
        let mut newcomers = Vec::new();
        for (token, way) in [(GROUP, Way::Group), (DIRECT, Way::Direct)] {
            if ready.contains(&token) {
                self.hear(way, &mut newcomers)?;
            }
        }
        Ok(newcomers)
    }

    /// Checks the reception so far.
    #[must_use]
    pub fn judge(&self) -> Vec<Check> {
        self.peers.judge(clock::monotonic(), self.largest_bytes as u64)
    }

    /// Returns the first error of sending probes to the group, if there was one.
    #[must_use]
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    fn say(&mut self) {
        let probe = self.probe(self.said);
        let is_large = self.said.is_multiple_of(LARGE_EVERY);
        let size_bytes = if is_large { self.largest_bytes } else { 0 };
        self.said += 1;
        let group = self.options.group;
        for outcome in self.out.send_batch(&[&encode(&probe, size_bytes)], group) {
            if let Outcome::Refused(why) = outcome {
                self.refused.get_or_insert_with(|| why.to_string());
            }
        }
        let named = self.options.hosts.iter().map(|host| SocketAddr::from((*host, answer_port(group))));
        let heard = self.peers.known().map(|(_, peer)| peer.address);
        let mut hosts: Vec<SocketAddr> = named.chain(heard).collect();
        hosts.sort_unstable();
        hosts.dedup();
        for host in hosts {
            let number = self.said_directly.entry(host).or_default();
            let probe = Probe { number: *number, ..probe.clone() };
            *number += 1;
            // The other host reports whether it arrives.
            self.out.send_batch(&[&encode(&probe, 0)], host);
        }
    }

    fn probe(&self, number: u64) -> Probe {
        Probe {
            sender: self.id,
            station: self.options.station.clone(),
            answer_port: self.direct.local_address().port(),
            number,
            largest_bytes: self.largest_bytes as u64,
            heard: self.peers.heard().take(MAX_HEARD).collect(),
        }
    }

    fn hear(&mut self, way: Way, newcomers: &mut Vec<Newcomer>) -> io::Result<()> {
        let socket = if way == Way::Group { &self.group } else { &self.direct };
        loop {
            if socket.receive_batch(&mut self.batch)? == 0 {
                return Ok(());
            }
            let now = clock::monotonic();
            for received in self.batch.iter() {
                for bytes in received.datagrams() {
                    let Some(probe) = decode(bytes) else { continue };
                    let newcomer = self.peers.hear(now, way, probe, received.from, bytes.len() as u64);
                    newcomers.extend(
                        newcomer.map(|peer| Newcomer {
                            station: peer.station.clone(),
                            address: peer.address.ip(),
                        }),
                    );
                }
            }
        }
    }
}

/// Reason why a preflight is impossible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreflightError {
    /// A socket could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The kernel refused another operation.
    #[error("the path to the group cannot be tested: {0}")]
    System(#[from] io::Error),
}

/// Largest payload of a UDP datagram over IPv4, in bytes.
const MAX_PAYLOAD_BYTES: usize = 65_507;

/// Returns the port of unicast probes: the one next to the group's.
const fn answer_port(group: SocketAddr) -> u16 {
    group.port().wrapping_add(1)
}

/// Encodes a probe, padded with spaces to `size_bytes`.
fn encode(probe: &Probe, size_bytes: usize) -> Vec<u8> {
    let hex = |id: u64| format!("{id:016x}");
    let heard = |it: &Heard| json!([hex(it.host), it.by_group, it.directly, it.largest_bytes]);
    let object = json!({
        "tallycast_preflight": 1,
        "whose": hex(probe.sender),
        "station": probe.station,
        "answer_port": probe.answer_port,
        "number": probe.number,
        "largest": probe.largest_bytes,
        "heard": probe.heard.iter().map(heard).collect::<Vec<_>>(),
    });
    let mut bytes = object.to_string().into_bytes();
    bytes.resize(bytes.len().max(size_bytes), b' ');
    bytes
}

/// Decodes a probe; `None` for any other datagram.
fn decode(bytes: &[u8]) -> Option<Probe> {
    let object: Value = serde_json::from_slice(bytes).ok()?;
    let hex = |value: &Value| u64::from_str_radix(value.as_str()?, 16).ok();
    if object["tallycast_preflight"] != 1 {
        return None;
    }
    let heard = |it: &Value| {
        Some(Heard {
            host: hex(&it[0])?,
            by_group: it[1].as_u64()?,
            directly: it[2].as_u64()?,
            largest_bytes: it[3].as_u64()?,
        })
    };
    Some(Probe {
        sender: hex(&object["whose"])?,
        // Control characters are removed, because it is shown in a terminal.
        station: object["station"]
            .as_str()?
            .chars()
            .filter(|letter| !letter.is_control())
            .take(MAX_STATION_LETTERS)
            .collect(),
        answer_port: u16::try_from(object["answer_port"].as_u64()?).ok()?,
        number: object["number"].as_u64()?,
        largest_bytes: object["largest"].as_u64()?,
        heard: object["heard"].as_array()?.iter().take(MAX_HEARD).map(heard).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe() -> Probe {
        let heard = Heard { host: u64::MAX, by_group: 2, directly: 3, largest_bytes: 1_472 };
        Probe {
            sender: 1,
            station: "daq-1".to_owned(),
            answer_port: 7_410,
            number: 5,
            largest_bytes: 8_972,
            heard: vec![heard; MAX_HEARD],
        }
    }

    #[test]
    fn a_probe_reads_back_at_any_size() {
        for size_bytes in [0, 1_472, 8_972] {
            let bytes = encode(&probe(), size_bytes);
            assert!(bytes.len() >= size_bytes && decode(&bytes) == Some(probe()));
        }
        let longest = Probe { station: "x".repeat(MAX_STATION_LETTERS), number: u64::MAX, ..probe() };
        assert!(encode(&longest, 0).len() <= 1_280 - 48, "it must pass the narrowest way of IPv6");
    }

    #[test]
    fn other_datagrams_are_no_probes_and_names_command_no_terminal() {
        let bytes = encode(&probe(), 0);
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None);
        }
        for text in
            ["{}", "[]", "1", "{\"tallycast_preflight\":1}", "{\"tallycast_preflight\":2,\"whose\":\"1\"}"]
        {
            assert_eq!(decode(text.as_bytes()), None);
        }
        let named = Probe { station: "\u{1b}[2Jdaq".to_owned(), ..probe() };
        assert_eq!(decode(&encode(&named, 0)).unwrap().station, "[2Jdaq");
    }

    #[test]
    fn two_on_one_host_hear_each_other() {
        let lo = Interface::find("lo").unwrap();
        let group = Ipv4Addr::new(239, 84, 200, 1);
        // A member of the group occupies the port.
        let member = ReceiveSocket::open(&ReceiveOptions {
            interface: Some(lo.clone()),
            ..ReceiveOptions::at((group, 0).into(), BUFFER_BYTES)
        })
        .unwrap();
        let begin = |number: u32| {
            Preflight::begin(PreflightOptions {
                group: member.local_address(),
                interface: Some(lo.clone()),
                ttl: 1,
                station: format!("daq-{number}"),
                hosts: Vec::new(),
            })
            .unwrap()
        };
        let mut both = [begin(1), begin(2)];
        let mut heard = Vec::new();
        let joined = |it: &Preflight| it.judge()[0].judgement == crate::Judgement::Ok;
        // Under load the kernel may deliver an own probe after one of the other host.
        while heard.len() < 2 || !both.iter().all(joined) {
            heard.extend(both.iter_mut().flat_map(|it| it.step().unwrap()).map(|it| it.station));
        }
        heard.sort();
        assert_eq!(heard, ["daq-1", "daq-2"]);
        assert_eq!(both.each_ref().map(Preflight::refused), [None, None]);
        assert_eq!(both[0].judge()[0].name, "group-joined");
    }
}
