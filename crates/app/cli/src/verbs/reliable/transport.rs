//! Source, destination and transport, as given on the command line.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use serde_json::json;
use tallycast::udt::{Address, Options, PublicKey, Repair, Silence, SocketType};
use units::text;

use super::Screen;
use super::keys::{FollowedPeers, KeyArguments};

/// Default size of the buffers at each end: 64 MiB in packets of 1,456 bytes, 50 ms at 10 Gbit/s.
const BUFFER_PACKETS: &str = "46080";
/// A transfer can continue over another connection, so a dead peer is given up sooner than by libudt: after 5 s.
const SILENCE: Silence =
    Silence { attempts: 8, least_step: Duration::from_millis(100), last_step: Duration::from_secs(1) };

/// Congestion control of live streams, which cannot wait.
const LIVE_CONTROL: &str = "live";

/// Data verified or acknowledged by the end need no linger time; an aborted transfer is not worth waiting for.
const LINGER: Duration = Duration::from_secs(1);

/// Options of rate and congestion control.
#[derive(Args, Debug, Default)]
pub(crate) struct TransportArguments {
    /// Congestion control, such as udt, reno or fixed; its options go into the address: ?cc=fixed&rate=900m
    #[arg(long, short = 'C', visible_alias = "congestion", value_name = "NAME")]
    cc: Option<String>,
    /// Maximum rate, headers included, such as 100M
    #[arg(long, short = 'b', alias = "rate", value_name = "RATE", value_parser = text::bits_per_second)]
    bitrate: Option<f64>,
    #[command(flatten)]
    keys: KeyArguments,
}

/// Positional arguments: paths, and the address.
#[derive(Args, Debug)]
pub(crate) struct Words {
    /// Paths, then udt://host:7400, IPv6 hosts in brackets
    #[arg(value_name = "PATH|ADDRESS")]
    words: Vec<OsString>,
}

impl TransportArguments {
    /// Returns what files are carried with.
    pub(crate) fn for_files(&self, address: &Address) -> anyhow::Result<Options> {
        let mut options = self.options(address, SocketType::Stream)?;
        options.socket.silence = SILENCE;
        options.keys = self.keys.at(address)?;
        Ok(options)
    }

    /// Returns what live streams are carried with: messages, with the control for them unless another is named.
    pub(crate) fn for_streams(&self, address: &Address) -> anyhow::Result<Options> {
        let mut options = self.options(&address.clone().or("cc", LIVE_CONTROL), SocketType::Datagram)?;
        options.socket.repair = Repair::Timely;
        options.keys = self.keys.at(address)?;
        Ok(options)
    }

    /// Returns the list of peers of a port at this address, if it follows a file, and who is in it now.
    pub(crate) fn follow(
        &self,
        address: &Address,
    ) -> anyhow::Result<Option<(FollowedPeers, BTreeSet<PublicKey>)>> {
        if address.is_clear() { Ok(None) } else { self.keys.follow() }
    }

    /// Warns that everybody on the way can read and change what is transferred, unless the address asks for that or the
    /// way stays within this host.
    pub(crate) fn warn_if_clear(&self, screen: &Screen, address: &Address, peer: IpAddr) {
        if self.keys.is_some() || address.is_clear() || peer.to_canonical().is_loopback() {
            return;
        }
        let text = || {
            "warning: not encrypted, and open to everybody who reaches the port; use --key and --peer, or secure=off \
             in the address"
                .to_owned()
        };
        screen.say(text, || json!({"event": "clear", "address": address.to_string()}));
    }

    /// Returns an address with the congestion control that is given beside it.
    pub(crate) fn named(&self, address: &Address) -> Address {
        self.cc.as_ref().map_or_else(|| address.clone(), |control| address.clone().with("cc", control))
    }

    /// Returns the maximum rate. Units: bytes per second.
    pub(crate) fn max_bytes_per_s(&self) -> Option<u64> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "above zero; a larger value than the type holds is no limit"
        )]
        self.bitrate.map(|bits_per_s| ((bits_per_s / 8.0) as u64).max(1))
    }

    /// Returns the transport of an order of another host: its maximum rate, and the keys of this one.
    pub(crate) fn of_order(&self, max_bytes_per_s: Option<u64>) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let bitrate = max_bytes_per_s.map(|bytes| bytes as f64 * 8.0);
        Self { cc: None, bitrate, keys: self.keys.clone() }
    }

    /// Returns whether there is a key: then nobody else decides to send in the clear.
    pub(crate) const fn has_key(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns what a connection of that kind is made with.
    pub(crate) fn options(&self, address: &Address, kind: SocketType) -> anyhow::Result<Options> {
        let address = self.named(address).or("sndbuf", BUFFER_PACKETS).or("rcvbuf", BUFFER_PACKETS);
        let mut options = address.options(kind)?;
        options.socket.linger = LINGER;
        options.socket.max_bytes_per_s = self.max_bytes_per_s().or(options.socket.max_bytes_per_s);
        Ok(options)
    }
}

impl Words {
    /// Separates the paths from the address, which is last.
    pub(crate) fn split(&self, usage: &str) -> anyhow::Result<(Vec<PathBuf>, Option<Address>)> {
        let is_address = |word: &&OsString| word.to_str().is_some_and(|word| word.contains("://"));
        let address = self.words.last().filter(is_address);
        let paths = &self.words[..self.words.len() - usize::from(address.is_some())];
        if let Some(early) = paths.iter().find(is_address) {
            bail!("`{}` is an address, and the address must come last\nwrite {usage}", early.display());
        }
        let address = address.and_then(|word| word.to_str()).map(str::parse).transpose()?;
        Ok((paths.iter().map(PathBuf::from).collect(), address))
    }
}
