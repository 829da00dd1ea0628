//! Addresses of reliable connections: `udt://host:7400?cc=reno&mtu=9000`.
//!
//! Unlike those of streams they may name a host: the peer is remote, and the network chooses the path.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::sync::Arc;

use ::keys::Suite;
use ::udt::{FirstSize, SocketType};
use congestion::{OptionError, UnknownControl, named};

use super::Options;
use crate::address::DEFAULT_PORT;

/// Options of the address itself; all others belong to the congestion control.
const KNOWN: &str = "cc, mtu, maxrate, sndbuf, rcvbuf, secure, peer, suite";
/// Default congestion control: UDT's own.
const USUAL_CONTROL: &str = "udt";

/// Address and settings of a reliable connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    host: String,
    port: u16,
    query: String,
}

/// Reason why an address is not valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The text is not a URL of this kind.
    #[error(
        "`{0}` is not an address\nwrite it as udt://host:7400 or udt://0.0.0.0:7400?cc=reno, IPv6 hosts in brackets"
    )]
    Unreadable(String),
    /// The host has no address.
    #[error("cannot resolve host `{host}`: {error}\ncheck its spelling, or use its numeric address")]
    Unresolved {
        /// Name of the host.
        host: String,
        /// Error of the resolver.
        error: std::io::Error,
    },
    /// An option does not exist, or its value is not valid.
    #[error("{error}\noptions of the address: {KNOWN}; all others belong to the congestion control")]
    Option {
        /// Error of the option.
        error: OptionError,
    },
    /// The congestion control does not exist, or has no such option.
    #[error("{0}\noptions of the address: {KNOWN}; all others belong to the congestion control")]
    Control(UnknownControl),
}

impl Address {
    /// Returns the address at a port of this host or another, without options.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port(), query: String::new() }
    }

    /// Returns the host as it was given.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Resolves the host; returns the first address of the resolver.
    ///
    /// # Errors
    /// [`AddressError::Unresolved`] if it has no address.
    pub fn resolve(&self) -> Result<SocketAddr, AddressError> {
        let unresolved = |error| AddressError::Unresolved { host: self.host.clone(), error };
        let none = || std::io::Error::new(std::io::ErrorKind::NotFound, "it has no address");
        let mut addresses = (self.host.as_str(), self.port).to_socket_addrs().map_err(unresolved)?;
        addresses.next().ok_or_else(|| unresolved(none()))
    }

    /// Resolves the host again, for a socket of one IP version.
    ///
    /// # Errors
    /// [`AddressError::Unresolved`] if it has no address of that version.
    pub fn resolve_as(&self, is_v4: bool) -> Result<SocketAddr, AddressError> {
        let unresolved = |error| AddressError::Unresolved { host: self.host.clone(), error };
        let version = if is_v4 { "IPv4" } else { "IPv6" };
        let none = || {
            std::io::Error::new(std::io::ErrorKind::NotFound, format!("it has no {version} address any more"))
        };
        let mut addresses = (self.host.as_str(), self.port).to_socket_addrs().map_err(unresolved)?;
        addresses.find(|address| address.is_ipv4() == is_v4).ok_or_else(|| unresolved(none()))
    }

    /// Returns the settings of a connection with this address.
    ///
    /// # Errors
    /// If the congestion control or an option is unknown; the error lists the known ones.
    pub fn options(&self, kind: SocketType) -> Result<Options, AddressError> {
        let mut options = if kind == SocketType::Stream { Options::stream() } else { Options::messages() };
        let mut control = USUAL_CONTROL.to_owned();
        let mut of_control = Vec::new();
        for (name, value) in pairs(&self.query)? {
            let socket = &mut options.socket;
            match name {
                "cc" => value.clone_into(&mut control),
                "mtu" => {
                    socket.packet_bytes = number("mtu", value, 76..=65_535, "a packet's bytes, 76 to 65535")?;
                    socket.first_size = FirstSize::Agreed;
                }
                "maxrate" => socket.max_bytes_per_s = Some(bytes_per_s(value)?),
                "peer" => {}
                "suite" => drop(suite(value)?),
                "secure" if value == "off" => {}
                "secure" => return Err(wrong("secure", value, "off, or is omitted")),
                "sndbuf" => socket.send_buffer_packets = packets("sndbuf", value)?,
                "rcvbuf" => socket.receive_buffer_packets = packets("rcvbuf", value)?,
                _ => of_control.push(format!("{name}={value}")),
            }
        }
        let control = named(&control, &of_control.join("&")).map_err(AddressError::Control)?;
        options.socket.congestion = Arc::from(control);
        Ok(options)
    }

    /// Returns whether the address asks for datagrams in the clear, which a key otherwise excludes: `secure=off`.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.query.split('&').any(|part| part == "secure=off")
    }

    /// Returns the public key of the peer as the address names it, for who has several: `peer=KEY`.
    #[must_use]
    pub fn peer(&self) -> Option<&str> {
        self.query.split('&').find_map(|part| part.strip_prefix("peer="))
    }

    /// Returns the cipher of a secured connection as the address names it: `suite=chacha20-poly1305`.
    ///
    /// # Errors
    /// If there is no such cipher.
    pub fn suite(&self) -> Result<Option<Suite>, AddressError> {
        self.query.split('&').find_map(|part| part.strip_prefix("suite=")).map(suite).transpose()
    }

    /// Adds an option unless there is one of that name.
    #[must_use]
    pub fn or(self, name: &str, value: &str) -> Self {
        let is_there = self.query.split('&').any(|part| part.split('=').next() == Some(name));
        if is_there { self } else { self.with(name, value) }
    }

    /// Adds an option, replacing one of that name.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let others = self.query.split('&').filter(|part| !part.is_empty());
        let others = others.filter(|part| part.split('=').next() != Some(name));
        let mut parts: Vec<String> = others.map(str::to_owned).collect();
        parts.push(format!("{name}={value}"));
        self.query = parts.join("&");
        self
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let unreadable = || AddressError::Unreadable(text.to_owned());
        let rest = text.strip_prefix("udt://").ok_or_else(unreadable)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let place = place.trim_end_matches('/');
        let (host, port) = match place.rsplit_once(':') {
            // A bare IPv6 address contains colons.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                (host, port.parse().map_err(|_| unreadable())?)
            }
            _ => (place, DEFAULT_PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(['/', '@', ' ']) {
            return Err(unreadable());
        }
        pairs(query)?;
        Ok(Self { host: host.to_owned(), port, query: query.to_owned() })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, query } = self;
        let mark = if query.is_empty() { "" } else { "?" };
        if host.contains(':') {
            return write!(formatter, "udt://[{host}]:{port}{mark}{query}");
        }
        write!(formatter, "udt://{host}:{port}{mark}{query}")
    }
}

/// Returns the names and values of the options after the `?`, each name once.
fn pairs(query: &str) -> Result<Vec<(&str, &str)>, AddressError> {
    let none = |part: &str| OptionError::NotAnOption(part.to_owned());
    let parts = query.split('&').filter(|part| !part.is_empty());
    let pairs: Result<Vec<_>, _> = parts.map(|part| part.split_once('=').ok_or_else(|| none(part))).collect();
    let pairs = pairs.map_err(|error| AddressError::Option { error })?;
    let is_again = |place: usize| pairs[..place].iter().any(|(name, _)| *name == pairs[place].0);
    match (0..pairs.len()).find(|place| is_again(*place)) {
        Some(place) => Err(AddressError::Option { error: OptionError::Twice(pairs[place].0.to_owned()) }),
        None => Ok(pairs),
    }
}

fn number(
    name: &'static str,
    value: &str,
    range: std::ops::RangeInclusive<u32>,
    expected: &str,
) -> Result<u32, AddressError> {
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| wrong(name, value, expected))
}

fn wrong(name: &'static str, value: &str, expected: &str) -> AddressError {
    let (value, expected) = (value.to_owned(), expected.to_owned());
    AddressError::Option { error: OptionError::Value { name, value, expected } }
}

fn suite(value: &str) -> Result<Suite, AddressError> {
    Suite::from_name(value).ok_or_else(|| {
        let names = Suite::ALL.map(Suite::name);
        wrong("suite", value, &names.join(" or "))
    })
}

fn packets(name: &'static str, value: &str) -> Result<u32, AddressError> {
    number(name, value, 32..=1 << 22, "a buffer in packets, 32 to 4194304")
}

/// Parses a rate in bits per second, as the congestion controls do.
fn bytes_per_s(value: &str) -> Result<u64, AddressError> {
    let read = congestion::Options::parse(&format!("maxrate={value}"));
    let bits = read.and_then(|mut options| options.rate("maxrate"));
    let bits = bits.map_err(|error| AddressError::Option { error })?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate above zero; what is more than can be said is no limit"
    )]
    Ok(((bits / 8.0) as u64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_and_write_as_urls() {
        for (text, host, port) in [
            ("udt://10.0.0.1:9000?cc=reno&start=4", "10.0.0.1", 9_000),
            ("udt://archive.example.org", "archive.example.org", 7_400),
            ("udt://[fe80::1]:9000", "fe80::1", 9_000),
            ("udt://[::1]/", "::1", 7_400),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.host(), address.port), (host, port), "{text}");
            assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
        }
        for text in ["", "udp://1.2.3.4:5", "udt://", "udt://:7", "udt://a b", "udt://h:port", "udt://h/dir"]
        {
            assert!(matches!(text.parse::<Address>(), Err(AddressError::Unreadable(_))), "{text}");
        }
    }

    #[test]
    fn options_are_the_addresss_own_or_the_controls() {
        let address: Address = "udt://h?cc=fixed&rate=1g&mtu=9000&maxrate=8m&rcvbuf=100".parse().unwrap();
        let socket = address.options(SocketType::Stream).unwrap().socket;
        assert_eq!((socket.packet_bytes, socket.max_bytes_per_s), (9_000, Some(1_000_000)));
        assert_eq!((socket.receive_buffer_packets, socket.first_size), (100, FirstSize::Agreed));
        assert_eq!(address.clone().with("peer", "a+b/c=").peer(), Some("a+b/c="));
        assert_eq!(address.suite().unwrap(), None);
        for suite in Suite::ALL {
            let named = address.clone().with("suite", suite.name());
            assert_eq!(named.suite().unwrap(), Some(suite));
            assert!(named.options(SocketType::Stream).is_ok());
        }
        let unknown = address.clone().with("suite", "rot13");
        for error in [unknown.suite().err(), unknown.options(SocketType::Stream).err()] {
            let error = error.unwrap().to_string();
            assert!(error.contains("aes-256-gcm or chacha20-poly1305"), "{error}");
        }
        let address = address.with("cc", "reno").with("maxrate", "16m");
        let error = address.options(SocketType::Stream).unwrap_err().to_string();
        assert!(error.starts_with("reno: unknown option `rate`; known options: start"), "{error}");
        assert!(error.contains("options of the address: cc, mtu"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_said_with_what_there_is() {
        let error = |text: &str| match text.parse::<Address>() {
            Ok(address) => address.options(SocketType::Stream).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error("udt://h?cc=turbo").starts_with("unknown congestion control `turbo`; known are udt"));
        assert!(error("udt://h?mtu=70").contains("mtu is a packet's bytes, 76 to 65535"));
        assert!(error("udt://h?maxrate=fast").contains("bits per second as 950m"));
        assert!(error("udt://h?secure=maybe").contains("secure is off, or is omitted"));
        assert!(error("udt://h?cc").contains("write name=value"));
        assert!(error("udt://h?cc=reno&cc=udt").contains("`cc`"), "no option is given twice");
        let nobody: Address = "udt://no.such.host.invalid:1".parse().unwrap();
        let error = nobody.resolve().unwrap_err().to_string();
        assert!(error.starts_with("cannot resolve host `no.such.host.invalid`"), "{error}");
    }
}
