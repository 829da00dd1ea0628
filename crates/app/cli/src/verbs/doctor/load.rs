//! Test traffic for the reader examined by `doctor fix`, for times without traffic.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context, bail};
use flow::Feed;

use super::Selection;

/// Opens a sender of `per_second` datagrams per second to the one chosen reader.
pub(super) fn feed(selection: &Selection, per_second: u64) -> anyhow::Result<(Feed, SocketAddr)> {
    let [port] = selection.ports[..] else {
        bail!("a load goes to one reader\nname its port, once: --port PORT");
    };
    if !selection.pids.is_empty() {
        bail!("a load goes to a port and not to a process\nleave --pid out");
    }
    let sockets = sys::udp_sockets().context("the kernel does not list its sockets")?;
    let of_port = sockets.iter().filter(|socket| socket.local.port() == port);
    let to = destination(port, of_port.map(|socket| (socket.local, socket.remote)))?;
    let feed = Feed::open(to, per_second).with_context(|| format!("nothing can be sent to {to}"))?;
    Ok((feed, to))
}

/// Returns a destination that only the socket bound to the port receives.
fn destination(
    port: u16,
    sockets: impl Iterator<Item = (SocketAddr, Option<SocketAddr>)>,
) -> anyhow::Result<SocketAddr> {
    let sockets: Vec<_> = sockets.collect();
    let Some((local, _)) = sockets.first().copied() else {
        bail!("no socket is bound to port {port}\nstart the reader first");
    };
    if sockets.iter().any(|(other, _)| *other != local) {
        bail!("sockets of port {port} are bound to several addresses: the destination is ambiguous");
    }
    if let Some(remote) = sockets.iter().find_map(|(_, remote)| *remote) {
        bail!("the socket of port {port} is connected to {remote} and receives only from it");
    }
    if local.ip().is_multicast() {
        // A group's datagrams may leave by any interface, and reach readers on other hosts.
        bail!(
            "{local} is a group's address: others would receive the load, too\nlet its own publisher send, and leave --load out"
        );
    }
    let ip = match local.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    Ok(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::destination;

    #[test]
    fn a_load_goes_to_the_only_reader_and_stays_on_this_host() {
        let to = |sockets: &[(&str, Option<&str>)]| {
            let parse = |text: &str| text.parse().unwrap();
            destination(9, sockets.iter().map(|(local, remote)| (parse(local), remote.map(parse))))
                .map(|it| it.to_string())
                .map_err(|error| error.to_string())
        };
        assert_eq!(to(&[("0.0.0.0:9", None)]).unwrap(), "127.0.0.1:9");
        assert_eq!(to(&[("[::]:9", None)]).unwrap(), "[::1]:9");
        assert_eq!(to(&[("10.0.0.1:9", None), ("10.0.0.1:9", None)]).unwrap(), "10.0.0.1:9", "SO_REUSEPORT");
        for (sockets, word) in [
            (&[][..], "start the reader"),
            (&[("10.0.0.1:9", None), ("0.0.0.0:9", None)], "several"),
            (&[("10.0.0.1:9", Some("10.0.0.2:7"))], "connected"),
            (&[("239.84.0.0:9", None)], "a group's"),
            (&[("[ff15::1]:9", None)], "a group's"),
        ] {
            let error = to(sockets).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
