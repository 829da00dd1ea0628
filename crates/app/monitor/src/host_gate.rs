//! Access check: pages and programs must address the server by its own name.
//!
//! A browser lets any page send requests to any address, and a name can be made to resolve to this host
//! (DNS rebinding). The `Host` header has the name used by the client, `Origin` the page.

use std::net::{IpAddr, SocketAddr};

/// Protection of the connections between a server and its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protection {
    /// They do not leave this host.
    Loopback,
    /// They are encrypted.
    Tls,
    /// None: every host on the way can read and change what is sent.
    Insecure,
}

/// Names by which a server may be addressed.
#[derive(Clone, Debug)]
pub(crate) struct HostGate {
    bound: IpAddr,
    protection: Protection,
    names: Vec<String>,
}

/// Reason why a request is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Stranger {
    #[error("the request has no Host header")]
    NoHost,
    #[error("the request is for `{0}`, which is not a name of this server")]
    Host(String),
    #[error("the request comes from a page of `{0}`, which is not this server's")]
    Origin(String),
}

impl Protection {
    /// Returns the protection of a server bound to `bound`, with TLS or without.
    pub(crate) const fn of(bound: SocketAddr, tls: bool) -> Self {
        match (tls, bound.ip().is_loopback()) {
            (true, _) => Self::Tls,
            (false, true) => Self::Loopback,
            (false, false) => Self::Insecure,
        }
    }
}

impl HostGate {
    /// Makes the gate of a server bound to `bound` with the additional `names`.
    pub(crate) fn new(
        bound: SocketAddr,
        protection: Protection,
        names: impl IntoIterator<Item = String>,
    ) -> Self {
        let names = names.into_iter().map(|name| name.to_ascii_lowercase());
        Self { bound: bound.ip(), protection, names: names.chain(["localhost".to_owned()]).collect() }
    }

    /// Returns how the connections of its server are protected.
    pub(crate) const fn protection(&self) -> Protection {
        self.protection
    }

    /// Accepts a request with these headers, or returns why not.
    pub(crate) fn check(&self, host: Option<&str>, origin: Option<&str>) -> Result<(), Stranger> {
        let host = host.ok_or(Stranger::NoHost)?;
        if !self.is_own(host) {
            return Err(Stranger::Host(host.to_owned()));
        }
        let same = |origin: &str| {
            let (scheme, from) = origin.split_once("://").unwrap_or_default();
            // Without TLS of its own, the server may be behind a proxy that has it.
            let is_scheme = scheme == "https" || scheme == "http" && self.protection != Protection::Tls;
            is_scheme && from.eq_ignore_ascii_case(host)
        };
        match origin.filter(|origin| !same(origin)) {
            Some(other) => Err(Stranger::Origin(other.to_owned())),
            None => Ok(()),
        }
    }

    fn is_own(&self, host: &str) -> bool {
        let name = without_port(host);
        match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            // An IP address cannot be redirected to another host, so any is accepted if the server listens on all.
            Ok(ip) => {
                ip == self.bound
                    || self.bound.is_unspecified()
                    || (ip.is_loopback() && self.bound.is_loopback())
            }
            Err(_) => self.names.iter().any(|own| own.eq_ignore_ascii_case(name)),
        }
    }
}

/// Returns a `Host` header's name without its port; a tunnel may have another one than the server.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(bound: &str) -> HostGate {
        let bound = bound.parse().unwrap();
        HostGate::new(bound, Protection::of(bound, false), ["daq-3".to_owned()])
    }

    #[test]
    fn the_server_answers_to_its_own_names_only() {
        let local = gate("127.0.0.1:7480");
        for host in ["127.0.0.1:7480", "localhost:7480", "LOCALHOST", "[::1]:7480", "daq-3:9000"] {
            assert_eq!(local.check(Some(host), None), Ok(()), "{host}");
        }
        for host in
            ["evil.example:7480", "192.168.0.7:7480", "localhost.evil.example", "", "127.0.0.1.nip.io"]
        {
            assert!(local.check(Some(host), None).is_err(), "{host}");
        }
        assert_eq!(local.check(None, None), Err(Stranger::NoHost));
    }

    #[test]
    fn a_server_on_all_addresses_answers_to_addresses_but_not_to_names() {
        let open = gate("0.0.0.0:7480");
        assert!(open.check(Some("192.168.0.7:7480"), None).is_ok());
        assert!(open.check(Some("evil.example:7480"), None).is_err());
        let one = gate("192.168.0.7:7480");
        assert!(one.check(Some("192.168.0.7:7480"), None).is_ok());
        assert!(one.check(Some("192.168.0.8:7480"), None).is_err());
        assert!(one.check(Some("127.0.0.1:7480"), None).is_err());
    }

    #[test]
    fn a_page_of_somebody_else_is_refused() {
        let local = gate("127.0.0.1:7480");
        let from = |origin| local.check(Some("localhost:7480"), Some(origin));
        assert!(from("http://localhost:7480").is_ok());
        assert!(from("https://localhost:7480").is_ok());
        for origin in
            ["http://localhost:7481", "http://127.0.0.1:7480", "null", "http://evil.example", "file://"]
        {
            assert!(from(origin).is_err(), "{origin}");
        }
        let bound = "127.0.0.1:7480".parse().unwrap();
        let sealed = HostGate::new(bound, Protection::of(bound, true), []);
        assert!(sealed.check(Some("localhost:7480"), Some("https://localhost:7480")).is_ok());
        assert!(sealed.check(Some("localhost:7480"), Some("http://localhost:7480")).is_err());
    }
}
