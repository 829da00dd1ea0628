//! Addresses as plain URLs: `udp://239.1.2.3:7400?iface=eth1&ttl=1`.
//!
//! Unknown schemes and options are errors that list the known ones. Hosts are IP addresses: a name would hide
//! which interface and which IP version data take.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The port of streams and announcements unless another is given.
pub const DEFAULT_PORT: u16 = 7400;

/// An address with its options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// Host and port.
    pub socket: SocketAddr,
    /// Options after the `?`, each known to the reader of the address.
    pub options: BTreeMap<String, String>,
}

/// Reason why an address is not valid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The text is not a URL of this kind.
    #[error(
        "`{0}` is not an address\nwrite it as udp://239.84.0.0:7400?iface=eth1&ttl=1, IPv6 hosts in brackets"
    )]
    Unreadable(String),
    /// The transport does not exist.
    #[error("unsupported transport `{0}`\nuse udp://, or shm:// for a bus within one host")]
    Scheme(String),
    /// The option does not exist.
    #[error("unknown address option `{name}`\nknown options: {known}")]
    Option {
        /// Name of the option.
        name: String,
        /// Names of the known options.
        known: String,
    },
    /// The option is given more than once.
    #[error("the address option `{0}` is given twice\nkeep one of them")]
    Twice(String),
    /// The value of an option is not valid.
    #[error("invalid address option {name}={value}: it must be {wanted}")]
    Value {
        /// Name of the option.
        name: &'static str,
        /// Value of the option.
        value: String,
        /// Valid values.
        wanted: &'static str,
    },
}

impl Address {
    /// Parses an address whose options must be among `known`.
    ///
    /// # Errors
    /// [`AddressError`] with the remedy.
    pub fn parse(text: &str, known: &[&str]) -> Result<Self, AddressError> {
        let unreadable = || AddressError::Unreadable(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(unreadable)?;
        if scheme != "udp" {
            return Err(AddressError::Scheme(scheme.to_owned()));
        }
        let (host, query) = rest.split_once('?').unwrap_or((rest, ""));
        let host = host.trim_end_matches('/');
        let socket = host
            .parse::<SocketAddr>()
            .or_else(|_| {
                let bare = host.trim_start_matches('[').trim_end_matches(']');
                bare.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DEFAULT_PORT))
            })
            .map_err(|_| unreadable())?;
        Ok(Self { socket, options: Self::parse_options(query, known)? })
    }

    /// Parses the part after the `?` of an address: options that must be among `known`.
    pub(crate) fn parse_options(
        query: &str,
        known: &[&str],
    ) -> Result<BTreeMap<String, String>, AddressError> {
        let mut options = BTreeMap::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) =
                option.split_once('=').ok_or_else(|| AddressError::Unreadable(query.to_owned()))?;
            if !known.contains(&name) {
                let known = known.join(", ");
                return Err(AddressError::Option { name: name.to_owned(), known });
            }
            if options.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(AddressError::Twice(name.to_owned()));
            }
        }
        Ok(options)
    }

    /// Parses an option as a number.
    ///
    /// # Errors
    /// [`AddressError::Value`] if it is not a number.
    pub fn number<T: FromStr>(
        &self,
        name: &'static str,
        wanted: &'static str,
    ) -> Result<Option<T>, AddressError> {
        let Some(value) = self.options.get(name) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| AddressError::Value { name, value: value.clone(), wanted })
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::parse(text, &[])
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "udp://{}", self.socket)?;
        let mut mark = '?';
        for (name, value) in &self.options {
            write!(formatter, "{mark}{name}={value}")?;
            mark = '&';
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_and_write_as_urls() {
        let known = ["iface", "ttl"];
        let address = Address::parse("udp://239.1.2.3:7401?ttl=2&iface=eth1", &known).unwrap();
        assert_eq!(address.socket, "239.1.2.3:7401".parse().unwrap());
        assert_eq!(address.number::<u8>("ttl", "a number"), Ok(Some(2)));
        assert_eq!(address.to_string(), "udp://239.1.2.3:7401?iface=eth1&ttl=2");
        let address = Address::parse("udp://[ff15::1]", &known).unwrap();
        assert_eq!(address.socket, "[ff15::1]:7400".parse().unwrap());
    }

    #[test]
    fn what_is_unknown_is_refused_with_what_there_is() {
        let error = Address::parse("udp://239.1.2.3?speed=9", &["iface", "ttl"]).unwrap_err();
        assert_eq!(error.to_string(), "unknown address option `speed`\nknown options: iface, ttl");
        assert!(matches!(Address::parse("tcp://1.2.3.4", &[]), Err(AddressError::Scheme(_))));
        for text in ["", "udp://", "udp://host:1", "239.1.2.3:7400", "udp://1.2.3.4?ttl"] {
            assert!(matches!(Address::parse(text, &["ttl"]), Err(AddressError::Unreadable(_))), "{text}");
        }
        let error = Address::parse("udp://239.1.2.3?iface=a&iface=b", &["iface"]).unwrap_err();
        assert_eq!(error.to_string(), "the address option `iface` is given twice\nkeep one of them");
        let address = Address::parse("udp://239.1.2.3?ttl=many", &["ttl"]).unwrap();
        assert!(matches!(address.number::<u8>("ttl", "0 to 255"), Err(AddressError::Value { .. })));
    }
}
