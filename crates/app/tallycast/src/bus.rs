//! The network settings that a set of hosts shares: range of groups, port, interface, reach.

mod tuning;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use cast::send::Sending;
use engine::HostRings;
use keys::PublicKey;
use ring::shared::Access;
use units::StreamId;

use crate::address::{Address, AddressError};
use crate::host_view::Start;
pub use tuning::Tuning;

/// The environment variable that overrides the default bus.
pub const BUS_VARIABLE: &str = "TALLYCAST_BUS";

/// Number of low bits of the range that select the group of a stream; the last group is that of
/// announcements.
const GROUP_BITS: u32 = 16;
const ANNOUNCEMENTS: u16 = u16::MAX;
/// Default receive buffer per socket: covers 20 ms without reading at 200 MB/s; if the system grants less, a
/// warning is logged.
const DEFAULT_RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Default send buffer: enough for the longest train; more would only hide that the network is slower than
/// the stream.
const DEFAULT_SEND_BUFFER_BYTES: usize = 1 << 20;

/// Maximum size of the name of a bus within one host, which is part of a file name.
const MAX_HOST_NAME_BYTES: usize = 64;

/// Largest IP packet.
const MAX_MTU: usize = 65_535;

const OPTIONS: [&str; 12] =
    ["iface", "ttl", "mtu", "rcvbuf", "sndbuf", "send", "start", "shm", "access", "group", "keys", "proof"];
/// Returns the options of a bus with a network.
fn known_options() -> Vec<&'static str> {
    OPTIONS.into_iter().chain(tuning::OPTIONS).collect()
}

const HOST_OPTIONS: [&str; 3] = ["dir", "access", "group"];
const ON_DEMAND: &str = "on_demand";
const NOW: &str = "now";

/// Default directory of a host's rings.
pub const DEFAULT_SHM_DIRECTORY: &str = "/dev/shm";

/// The network settings that a set of hosts shares, and how processes of one host share memory.
///
/// As text: `udp://239.84.0.0:7400?iface=eth1&ttl=1`; options `iface` (name, address or index), `ttl`, `mtu`
/// (bytes of an IP packet), `rcvbuf` and `sndbuf` (bytes), `send` (`always` or `on_demand`), `start`
/// (`beginning` or `now`), `keys` (the station's file of keys), `proof` (`on`: publishers sign statements about their
/// samples; needs `keys`), and those of [`Tuning`]. An explicit `udp://` address means that data are received
/// over UDP. With `shm=on`, or `shm=DIRECTORY`, processes of one host read each other's streams from shared
/// memory instead, as on the default bus; `access` is `all`, `group` or `owner`, and `group` names a group
/// whose rings are trusted like those of root and the own user. With `keys`, `access` is `owner` unless it says `group`,
/// which then must be named.
///
/// `shm://NAME` is a bus within one host, without a network; options `dir`, `access` and `group`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bus {
    base: IpAddr,
    port: u16,
    /// Interface by which multicast leaves and enters this host; without it the kernel follows its routes.
    pub interface: Option<String>,
    /// Maximum number of routers datagrams may pass, plus one. Without it multicast stays in the local
    /// network, as with 1, and unicast uses the system's default.
    pub ttl: Option<u8>,
    /// Maximum size of a datagram.
    pub datagram_bytes: usize,
    /// True if `mtu` was given: datagrams then have that size also towards the Internet.
    is_mtu_given: bool,
    /// Receive buffer to request per socket.
    pub receive_buffer_bytes: usize,
    /// Send buffer to request per publisher.
    pub send_buffer_bytes: usize,
    /// Mode in which publishers send: always, or only while a reader is heard.
    pub sending: Sending,
    /// Begin of streams for readers that wait for them; with [`Start::Now`] publishers do not keep their
    /// beginnings.
    pub start: Start,
    /// The station's file of keys, with which streams are secured; the bus never has its content.
    pub keys: Option<PathBuf>,
    /// True if every publisher signs statements about its samples, as with
    /// [`PublisherBuilder::proof`](crate::PublisherBuilder::proof).
    pub proof: bool,
    /// Tuning of the data path.
    pub tuning: Tuning,
    /// Sharing of memory between processes of one host; `None` if they do not share it.
    pub shm: Option<SharedMemory>,
    /// The name of a bus that has no network.
    host_only: Option<String>,
}

/// Sharing of memory between processes of one host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedMemory {
    /// Directory of the rings, in a memory file system.
    pub directory: PathBuf,
    /// Users that may read the streams published here.
    pub access: Access,
    /// Group whose rings are trusted too, and to which rings created here belong.
    pub group: Option<Group>,
}

/// A group of users of this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Name or number as it was given.
    pub name: String,
    /// Its number.
    pub id: u32,
}

impl FromStr for Group {
    type Err = BusError;

    fn from_str(name: &str) -> Result<Self, BusError> {
        let id = name.parse().ok().or_else(|| sys::host::group_id(name).ok().flatten());
        let id = id.ok_or_else(|| BusError::Group(name.to_owned()))?;
        Ok(Self { name: name.to_owned(), id })
    }
}

impl Default for SharedMemory {
    fn default() -> Self {
        Self { directory: DEFAULT_SHM_DIRECTORY.into(), access: Access::default(), group: None }
    }
}

/// Reason why a bus is not valid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BusError {
    /// The text is not an address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The address is not the start of a range of groups.
    #[error(
        "{0} is not the start of a range of groups\nuse a multicast address whose last 16 bits are zero, such as 239.84.0.0 or ff15::5443:0:0"
    )]
    Range(IpAddr),
    /// The name is not valid for a bus within one host.
    #[error(
        "`{0}` does not name a bus within one host\nwrite it as shm://NAME, with letters, digits, `-`, `_` and `.`, 64 at most"
    )]
    HostName(String),
    /// The value is neither a switch nor a directory.
    #[error("invalid shm={0}: it must be on, off, or a directory such as /dev/shm")]
    SharedMemory(String),
    /// The value names no class of readers.
    #[error("invalid access={0}: it must be all, group or owner")]
    Access(String),
    /// The group does not exist on this host.
    #[error(
        "unknown group in group={0}: /etc/group has no such group\nuse a group from that file, or the number of another"
    )]
    Group(String),
    /// The bus has keys, and every user of the host could read its rings.
    #[error(
        "the bus has keys, and access=all lets every user of this host read its streams in shared memory\n\
         use access=owner, or access=group with group=NAME"
    )]
    SecuredForAll,
    /// The bus has keys, and its rings would be readable for whatever group new files happen to get.
    #[error(
        "the bus has keys, and access=group does not say which group may read its streams in shared memory\n\
         name one whose members may: access=group&group=NAME"
    )]
    SecuredForUnnamed,
    /// Publishers are to sign, and have no keys.
    #[error(
        "proof=on needs keys: statements about the samples are signed by this station\n\
         add the station's file of keys (keys=FILE), or omit proof"
    )]
    ProofNeedsKeys,
    /// The MTU is outside the range of datagrams.
    #[error("MTU of {mtu} bytes is out of range: {min} to {max}", min = .headers + wire::MIN_DATA_BYTES, max = MAX_MTU)]
    Mtu {
        /// The MTU asked for, in bytes.
        mtu: usize,
        /// Size of the IP and UDP headers within it.
        headers: usize,
    },
}

impl Default for Bus {
    fn default() -> Self {
        let network = Self::of(Ipv4Addr::new(239, 84, 0, 0).into(), crate::address::DEFAULT_PORT);
        Self { shm: Some(SharedMemory::default()), ..network }
    }
}

impl Bus {
    fn of(base: IpAddr, port: u16) -> Self {
        let datagram_bytes =
            if base.is_ipv4() { wire::DATAGRAM_BYTES_IPV4 } else { wire::DATAGRAM_BYTES_IPV6 };
        Self {
            base,
            port,
            interface: None,
            ttl: None,
            datagram_bytes,
            is_mtu_given: false,
            receive_buffer_bytes: DEFAULT_RECEIVE_BUFFER_BYTES,
            send_buffer_bytes: DEFAULT_SEND_BUFFER_BYTES,
            shm: None,
            host_only: None,
            sending: Sending::Always,
            start: Start::Beginning,
            keys: None,
            proof: false,
            tuning: Tuning::default(),
        }
    }

    /// Returns a bus within one host.
    fn on_host(name: &str, shm: SharedMemory) -> Self {
        Self { shm: Some(shm), host_only: Some(name.to_owned()), ..Self::default() }
    }

    /// Returns whether the bus extends beyond this host.
    #[must_use]
    pub const fn has_network(&self) -> bool {
        self.host_only.is_none()
    }

    /// Returns the directory of this host's drop board: that of shared memory, even if streams do not use it.
    #[must_use]
    pub fn drop_board(&self) -> PathBuf {
        self.shm.as_ref().map_or_else(|| DEFAULT_SHM_DIRECTORY.into(), |shm| shm.directory.clone())
    }

    /// Returns the rings of this host, if processes share memory; of the laboratory of a secured bus.
    pub(crate) fn host_rings(&self, authority: Option<PublicKey>) -> Option<HostRings> {
        let shm = self.shm.as_ref()?;
        // Buses are distinguished by their groups, whatever else is set: as on the network.
        let network = || SocketAddr::new(self.base, self.port).to_string();
        let name = self.host_only.clone().unwrap_or_else(network);
        Some(
            HostRings::new(&shm.directory, &name, shm.access)
                .of_group(self.group_id())
                .of_laboratory(authority),
        )
    }

    /// Returns the number of the group whose rings are trusted.
    pub(crate) fn group_id(&self) -> Option<u32> {
        self.shm.as_ref()?.group.as_ref().map(|group| group.id)
    }

    /// Parses the bus in the environment variable [`BUS_VARIABLE`]; the default if it is not set.
    ///
    /// # Errors
    /// [`BusError`] if its value is not a bus.
    pub fn from_env() -> Result<Self, BusError> {
        std::env::var(BUS_VARIABLE).map_or_else(|_| Ok(Self::default()), |text| text.parse())
    }

    /// Checks the preconditions of the network: the size of datagrams may have been set to any value.
    ///
    /// # Errors
    /// [`BusError::Mtu`] if datagrams cannot be of that size.
    pub(crate) fn check(&self) -> Result<(), BusError> {
        let headers = self.headers_bytes();
        let mtu = self.datagram_bytes.saturating_add(headers);
        if self.proof && self.keys.is_none() {
            return Err(BusError::ProofNeedsKeys);
        }
        if self.keys.is_some()
            && let Some(shm) = &self.shm
        {
            match (shm.access, &shm.group) {
                (Access::All, _) => return Err(BusError::SecuredForAll),
                (Access::Group, None) => return Err(BusError::SecuredForUnnamed),
                (Access::Owner, _) | (Access::Group, Some(_)) => {}
            }
        }
        let fits = (wire::MIN_DATA_BYTES..=wire::MAX_DATAGRAM_BYTES).contains(&self.datagram_bytes);
        if fits && mtu <= MAX_MTU { Ok(()) } else { Err(BusError::Mtu { mtu, headers }) }
    }

    /// Returns the size of datagrams to these destinations: towards the Internet, unless another size was set, what
    /// every path carries.
    pub(crate) fn datagram_bytes_to(&self, destinations: &[SocketAddr]) -> usize {
        let is_default =
            !self.is_mtu_given && self.datagram_bytes == Self::of(self.base, self.port).datagram_bytes;
        let is_far = |to: &SocketAddr| !wire::is_within_site(to.ip());
        let far = destinations.iter().find(|to| is_far(to)).filter(|_| is_default);
        far.map_or(self.datagram_bytes, |_| wire::MIN_DATAGRAM_BYTES)
    }

    /// Returns the size of the IP and UDP headers of a packet.
    const fn headers_bytes(&self) -> usize {
        if self.is_v6() { 48 } else { 28 }
    }

    /// Returns whether the bus uses IPv6.
    #[must_use]
    pub const fn is_v6(&self) -> bool {
        self.base.is_ipv6()
    }

    /// Returns the group and port of a stream.
    #[must_use]
    pub fn group(&self, stream: StreamId) -> SocketAddr {
        let low = u16::try_from(stream.0 & 0xffff).expect("16 bits");
        // The announcements' group is reserved: a stream whose hash selects it takes the one before.
        self.address(if low == ANNOUNCEMENTS { ANNOUNCEMENTS - 1 } else { low })
    }

    /// Returns the group and port of announcements.
    #[must_use]
    pub fn announcements(&self) -> SocketAddr {
        self.address(ANNOUNCEMENTS)
    }

    fn address(&self, low: u16) -> SocketAddr {
        let ip = match self.base {
            IpAddr::V4(base) => Ipv4Addr::from_bits(base.to_bits() | u32::from(low)).into(),
            IpAddr::V6(base) => Ipv6Addr::from_bits(base.to_bits() | u128::from(low)).into(),
        };
        SocketAddr::new(ip, self.port)
    }
}

impl FromStr for Bus {
    type Err = BusError;

    fn from_str(text: &str) -> Result<Self, BusError> {
        if let Some(host_only) = text.strip_prefix("shm://") {
            return Self::parse_on_host(host_only);
        }
        let address = Address::parse(text, &known_options())?;
        let base = address.socket.ip();
        let low_bits_are_zero = match base {
            IpAddr::V4(base) => base.to_bits().trailing_zeros() >= GROUP_BITS,
            IpAddr::V6(base) => base.to_bits().trailing_zeros() >= GROUP_BITS,
        };
        if !(base.is_multicast() && low_bits_are_zero) {
            return Err(BusError::Range(base));
        }
        let mut bus = Self::of(base, address.socket.port());
        bus.interface = address.options.get("iface").cloned();
        bus.ttl = address.number("ttl", "0 to 255")?;
        let bytes = "a number of bytes";
        bus.receive_buffer_bytes = address.number("rcvbuf", bytes)?.unwrap_or(bus.receive_buffer_bytes);
        bus.send_buffer_bytes = address.number("sndbuf", bytes)?.unwrap_or(bus.send_buffer_bytes);
        bus.keys = address.options.get("keys").map(|path| parse_keys(path)).transpose()?;
        bus.proof = match address.options.get("proof").map(String::as_str) {
            None | Some("off") => false,
            Some("on") if bus.keys.is_some() => true,
            Some("on") => return Err(BusError::ProofNeedsKeys),
            Some(other) => {
                let (name, value) = ("proof", other.to_owned());
                return Err(AddressError::Value { name, value, wanted: "on or off" }.into());
            }
        };
        bus.tuning = Tuning::parse(&address.options)?;
        bus.shm = parse_shm(address.options.get("shm"), &address.options)?;
        bus.sending = match address.options.get("send").map(String::as_str) {
            None | Some("always") => Sending::Always,
            Some(ON_DEMAND) => Sending::OnDemand,
            Some(other) => {
                let (name, value) = ("send", other.to_owned());
                return Err(AddressError::Value { name, value, wanted: "always or on_demand" }.into());
            }
        };
        bus.start = match address.options.get("start").map(String::as_str) {
            None | Some("beginning") => Start::Beginning,
            Some(NOW) => Start::Now,
            Some(other) => {
                let (name, value) = ("start", other.to_owned());
                return Err(AddressError::Value { name, value, wanted: "beginning or now" }.into());
            }
        };
        if let Some(mtu) = address.number::<usize>("mtu", bytes)? {
            let headers = bus.headers_bytes();
            bus.datagram_bytes = mtu.checked_sub(headers).ok_or(BusError::Mtu { mtu, headers })?;
            bus.is_mtu_given = true;
            bus.check()?;
        }
        Ok(bus)
    }
}

impl Bus {
    fn parse_on_host(text: &str) -> Result<Self, BusError> {
        let (name, query) = text.split_once('?').unwrap_or((text, ""));
        let name = name.trim_end_matches('/');
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if name.is_empty() || name.len() > MAX_HOST_NAME_BYTES || !name.chars().all(is_plain) {
            return Err(BusError::HostName(name.to_owned()));
        }
        let options = Address::parse_options(query, &HOST_OPTIONS)?;
        let directory = options.get("dir").cloned().unwrap_or_else(|| "on".to_owned());
        let shm = parse_shm(Some(&directory), &options)?;
        Ok(Self::on_host(name, shm.ok_or(BusError::SharedMemory(directory))?))
    }
}

fn parse_keys(path: &str) -> Result<PathBuf, BusError> {
    let (name, value, wanted) = ("keys", path.to_owned(), "a station's file of keys such as lab/daq-1.keys");
    if path.is_empty() { Err(AddressError::Value { name, value, wanted }.into()) } else { Ok(path.into()) }
}

fn parse_shm(
    shm: Option<&String>,
    options: &BTreeMap<String, String>,
) -> Result<Option<SharedMemory>, BusError> {
    let group = options.get("group").map(|name| name.parse()).transpose()?;
    // Rings hold plain samples: on a secured bus not every user of the host may read them.
    let usual = if options.contains_key("keys") { "owner" } else { "all" };
    let access = match options.get("access").map_or(usual, String::as_str) {
        "all" => Access::All,
        "group" => Access::Group,
        "owner" => Access::Owner,
        other => return Err(BusError::Access(other.to_owned())),
    };
    match shm.map_or("off", String::as_str) {
        "off" => Ok(None),
        "on" => Ok(Some(SharedMemory { access, group, ..SharedMemory::default() })),
        path if path.starts_with('/') => Ok(Some(SharedMemory { directory: path.into(), access, group })),
        other => Err(BusError::SharedMemory(other.to_owned())),
    }
}

const fn access_word(access: Access) -> &'static str {
    match access {
        Access::All => "all",
        Access::Group => "group",
        Access::Owner => "owner",
    }
}

fn write_group(formatter: &mut fmt::Formatter<'_>, shm: &SharedMemory) -> fmt::Result {
    shm.group.as_ref().map_or(Ok(()), |group| write!(formatter, "&group={}", group.name))
}

impl fmt::Display for Bus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(name), Some(shm)) = (&self.host_only, &self.shm) {
            let (directory, access) = (shm.directory.display(), access_word(shm.access));
            write!(formatter, "shm://{name}?dir={directory}&access={access}")?;
            return write_group(formatter, shm);
        }
        let address = SocketAddr::new(self.base, self.port);
        write!(
            formatter,
            "udp://{address}?rcvbuf={}&sndbuf={}",
            self.receive_buffer_bytes, self.send_buffer_bytes
        )?;
        if self.is_mtu_given || self.datagram_bytes != Self::of(self.base, self.port).datagram_bytes {
            write!(formatter, "&mtu={}", self.datagram_bytes + self.headers_bytes())?;
        }
        if let Some(interface) = &self.interface {
            write!(formatter, "&iface={interface}")?;
        }
        if let Some(ttl) = self.ttl {
            write!(formatter, "&ttl={ttl}")?;
        }
        if self.sending == Sending::OnDemand {
            write!(formatter, "&send={ON_DEMAND}")?;
        }
        if self.start == Start::Now {
            write!(formatter, "&start={NOW}")?;
        }
        if let Some(keys) = &self.keys {
            write!(formatter, "&keys={}", keys.display())?;
        }
        if self.proof {
            write!(formatter, "&proof=on")?;
        }
        write!(formatter, "{}", self.tuning)?;
        match &self.shm {
            Some(shm) => {
                write!(formatter, "&shm={}&access={}", shm.directory.display(), access_word(shm.access))?;
                write_group(formatter, shm)
            }
            None => write!(formatter, "&shm=off"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_to_the_internet_have_548_bytes_unless_a_size_is_given() {
        let bytes = |bus: &str, to: &[&str]| {
            let to: Vec<SocketAddr> = to.iter().map(|to| to.parse().unwrap()).collect();
            bus.parse::<Bus>().unwrap().datagram_bytes_to(&to)
        };
        let bus = "udp://239.84.0.0";
        assert_eq!(bytes(bus, &["192.168.1.2:7400", "239.84.1.2:7400", "127.0.0.1:1"]), 1_472);
        assert_eq!(bytes(bus, &["192.168.1.2:7400", "203.0.113.9:7400"]), 548);
        assert_eq!(bytes("udp://239.84.0.0?mtu=1500", &["203.0.113.9:7400"]), 1_472);
        assert_eq!(bytes("udp://239.84.0.0?mtu=1400", &["203.0.113.9:7400"]), 1_372);
    }

    #[test]
    fn a_bus_reads_back_as_written() {
        for text in [
            "udp://239.84.0.0:7400?iface=lo",
            "udp://239.84.0.0:7400?mtu=1500",
            "udp://[ff15::5443:0:0]:7000?ttl=3&mtu=9000&rcvbuf=65536",
            "udp://239.84.0.0:7400?shm=on&access=group",
            "udp://239.84.0.0:7400?shm=/run/rings",
            "shm://bench-3",
            "shm://bench-3?dir=/run/rings&access=owner",
            "shm://bench-3?dir=/run/rings&group=root",
            "udp://239.84.0.0:7400?shm=on&access=group&group=4711",
            "udp://239.84.0.0:7400?send=on_demand",
            "udp://239.84.0.0:7400?start=now",
            "udp://239.84.0.0:7400?keys=lab/daq-1.keys&shm=on",
            "udp://239.84.0.0:7400?keys=lab/daq-1.keys&proof=on",
        ] {
            let bus: Bus = text.parse().unwrap();
            assert_eq!(bus.to_string().parse::<Bus>().unwrap(), bus);
        }
    }

    #[test]
    fn an_address_is_taken_at_its_word_and_the_default_bus_takes_the_nearest_way() {
        let reaches = |text: &str| {
            let bus: Bus = text.parse().unwrap();
            (bus.has_network(), bus.shm.is_some())
        };
        assert_eq!(reaches("udp://239.84.0.0?iface=lo"), (true, false));
        assert_eq!(reaches("udp://239.84.0.0?iface=lo&shm=off"), (true, false));
        assert_eq!(reaches("udp://239.84.0.0?shm=on"), (true, true));
        assert_eq!(reaches("shm://lab"), (false, true));
        assert!(Bus::default().has_network() && Bus::default().shm.is_some());
        for text in
            ["shm://", "shm://a b", "shm://a/b", "shm://a?iface=lo", "shm://a?dir=off", "shm://a?dir=x"]
        {
            assert!(text.parse::<Bus>().is_err(), "{text}");
        }
        for option in ["shm=maybe", "shm=dev/shm", "access=everybody", "shm=on&group=no-such-group"] {
            assert!(format!("udp://239.84.0.0?{option}").parse::<Bus>().is_err(), "{option}");
        }
    }

    #[test]
    fn a_bus_says_when_its_publishers_send() {
        let sending = |text: &str| text.parse::<Bus>().map(|bus| bus.sending);
        assert_eq!(sending("udp://239.84.0.0"), Ok(Sending::Always));
        assert_eq!(sending("udp://239.84.0.0?send=always"), Ok(Sending::Always));
        assert_eq!(sending("udp://239.84.0.0?send=on_demand"), Ok(Sending::OnDemand));
        let refused = sending("udp://239.84.0.0?send=never").unwrap_err().to_string();
        assert!(refused.contains("always or on_demand"), "{refused}");
    }

    #[test]
    fn a_bus_says_where_streams_begin() {
        let start = |text: &str| text.parse::<Bus>().map(|bus| bus.start);
        assert_eq!(start("udp://239.84.0.0"), Ok(Start::Beginning));
        assert_eq!(start("udp://239.84.0.0?start=beginning"), Ok(Start::Beginning));
        assert_eq!(start("udp://239.84.0.0?start=now"), Ok(Start::Now));
        let refused = start("udp://239.84.0.0?start=later").unwrap_err().to_string();
        assert!(refused.contains("beginning or now"), "{refused}");
    }

    #[test]
    fn a_bus_names_its_file_of_keys() {
        let keys = |text: &str| text.parse::<Bus>().map(|bus| bus.keys);
        assert_eq!(keys("udp://239.84.0.0"), Ok(None));
        assert_eq!(keys("udp://239.84.0.0?keys=daq-1.keys"), Ok(Some("daq-1.keys".into())));
        let access = |text: &str| text.parse::<Bus>().unwrap().shm.map(|shm| shm.access);
        assert_eq!(access("udp://239.84.0.0?shm=on&keys=k"), Some(Access::Owner));
        assert_eq!(access("udp://239.84.0.0?shm=on&keys=k&access=group"), Some(Access::Group));
        let open: Bus = "udp://239.84.0.0?shm=on&keys=k&access=all".parse().unwrap();
        assert_eq!(open.check(), Err(BusError::SecuredForAll));
        let check =
            |options: &str| format!("udp://239.84.0.0?shm=on{options}").parse::<Bus>().unwrap().check();
        assert_eq!(check("&keys=k&access=group"), Err(BusError::SecuredForUnnamed));
        assert_eq!(check("&keys=k&access=group&group=root"), Ok(()));
        assert_eq!((check("&keys=k"), check("&access=group")), (Ok(()), Ok(())));
        let refused = keys("udp://239.84.0.0?keys=").unwrap_err().to_string();
        assert!(refused.contains("a station's file of keys"), "{refused}");
        // Within one host nothing is encrypted: the option would promise what is not done.
        assert!(
            keys("shm://lab?keys=daq-1.keys").unwrap_err().to_string().contains("unknown address option")
        );
    }

    #[test]
    fn publishers_sign_only_with_keys() {
        let proof = |options: &str| format!("udp://239.84.0.0?{options}").parse::<Bus>().map(|bus| bus.proof);
        assert_eq!((proof("keys=k"), proof("keys=k&proof=off")), (Ok(false), Ok(false)));
        assert_eq!((proof("keys=k&proof=on"), proof("proof=on&keys=k")), (Ok(true), Ok(true)));
        let refused = proof("proof=on").unwrap_err();
        assert_eq!(refused, BusError::ProofNeedsKeys);
        assert!(refused.to_string().contains("\nadd the station's file of keys (keys=FILE)"), "{refused}");
        let refused = proof("keys=k&proof=yes").unwrap_err().to_string();
        assert!(refused.contains("on or off"), "{refused}");
        // Set by hand, where nothing was parsed.
        let by_hand = Bus { proof: true, ..Bus::default() };
        assert_eq!(by_hand.check(), Err(BusError::ProofNeedsKeys));
    }

    #[test]
    fn streams_spread_over_the_range_and_never_fall_on_the_announcements() {
        let bus = Bus::default();
        assert_eq!(bus.group(StreamId(0xabcd_0102)), "239.84.1.2:7400".parse().unwrap());
        assert_eq!(bus.announcements(), "239.84.255.255:7400".parse().unwrap());
        assert_eq!(bus.group(StreamId(0xffff)), "239.84.255.254:7400".parse().unwrap());
    }

    #[test]
    fn an_mtu_leaves_room_for_the_headers_of_its_own_protocol() {
        for (address, smallest) in [("udp://239.84.0.0", 128), ("udp://[ff15::5443:0:0]", 148)] {
            let bus = |mtu: usize| format!("{address}?mtu={mtu}").parse::<Bus>();
            assert_eq!(bus(smallest).unwrap().datagram_bytes, wire::MIN_DATA_BYTES);
            let refused = bus(smallest - 1).unwrap_err().to_string();
            assert!(refused.contains(&format!("out of range: {smallest} to 65535")), "{refused}");
            assert!(bus(65_535).is_ok() && bus(65_536).is_err() && bus(0).is_err());
        }
    }

    #[test]
    fn a_size_of_datagrams_that_was_set_by_hand_is_checked_too() {
        for (datagram_bytes, is_right) in [(99, false), (100, true), (65_507, true), (65_508, false)] {
            let bus = Bus { datagram_bytes, ..Bus::default() };
            assert_eq!(bus.check().is_ok(), is_right, "{datagram_bytes}");
        }
    }

    #[test]
    fn what_is_no_range_of_groups_is_refused() {
        for text in
            ["udp://239.84.0.1", "udp://10.0.0.0", "udp://239.84.0.0?mtu=127", "udp://239.84.0.0?cc=bbr"]
        {
            assert!(text.parse::<Bus>().is_err(), "{text}");
        }
    }
}
