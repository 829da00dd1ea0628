//! An app that can be steered, as the stream of its commands tells of it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use sample::StreamName;
use tallycast::steering::{KEY_LABEL, PARAMETER_LABEL, PORT_LABEL, STREAM_PREFIX, SteeringError};
use tallycast::{Node, OnHost, Reach, StreamInfo};
use units::Epoch;

/// One run of an app.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SteeredApp {
    pub(crate) name: StreamName,
    /// Names of its parameters, in the order of declaration.
    pub(crate) parameters: Vec<String>,
    /// Public key of its connections, hexadecimal; none if they are in the clear.
    pub(super) key: Option<String>,
    /// Epoch of the stream of its commands.
    epoch: Epoch,
    port: u16,
}

impl SteeredApp {
    /// Reads the description of a stream; `None` if it is not that of an app's commands.
    pub(crate) fn of(info: &StreamInfo) -> Option<Self> {
        let name = info.name.as_str().strip_prefix(STREAM_PREFIX)?.parse().ok()?;
        let labels = &info.schema.labels;
        let of_parameters = labels.iter().filter(|(label, _)| label.starts_with(PARAMETER_LABEL));
        Some(Self {
            name,
            parameters: of_parameters.map(|(_, name)| name.clone()).collect(),
            key: labels.get(KEY_LABEL).cloned(),
            epoch: info.epoch,
            port: labels.get(PORT_LABEL)?.parse().ok()?,
        })
    }

    /// Returns the address at which it takes commands. It never waits: the monitor reads the stream, so it has heard
    /// its announcement.
    pub(super) fn address(&self, node: &Node) -> Result<SocketAddr, SteeringError> {
        let stream = format!("{STREAM_PREFIX}{}", self.name);
        // The ring of an agent is that of an app on another host.
        let is_here = |it: &OnHost| it.description.name.as_str() == stream && it.reach == Reach::Shm;
        if node.streams_on_host().iter().any(is_here) {
            return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.port));
        }
        let announced = node.streams(Duration::ZERO)?;
        let from = announced.iter().find(|it| it.announcement.name.as_str() == stream);
        let from = from.ok_or_else(|| SteeringError::NoApp(self.name.to_string()))?.from.ip();
        Ok(SocketAddr::new(from, self.port))
    }
}

impl fmt::Display for SteeredApp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.name, formatter)
    }
}
