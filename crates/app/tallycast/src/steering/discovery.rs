//! Where an app takes commands: its stream tells.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use sample::{Schema, StreamName};
use sys::clock;

use super::{KEY_LABEL, PORT_LABEL, STREAM_PREFIX, SteeringError};
use crate::event::Event;
use crate::node::Node;
use crate::udt::Address;

/// Interval of looks at the announcements.
const LOOK: Duration = Duration::from_millis(50);

/// Returns the address at which an app of the bus takes commands; its option `peer` is the app's key.
///
/// # Errors
/// [`SteeringError::NoApp`] if no app of this name was found within `patience`.
pub fn find(node: &Node, app: &StreamName, patience: Duration) -> Result<Address, SteeringError> {
    let missing = || SteeringError::NoApp(app.to_string());
    let stream = format!("{STREAM_PREFIX}{app}");
    let end = clock::monotonic() + patience;
    let ip = loop {
        let on_host = node.streams_on_host().into_iter().find(|it| it.description.name.as_str() == stream);
        if let Some(on_host) = on_host {
            return address(Ipv4Addr::LOCALHOST.into(), &on_host.description.schema).ok_or_else(missing);
        }
        let announced = node.streams(LOOK)?;
        let announced = announced.iter().find(|it| it.announcement.name.as_str() == stream);
        match announced {
            Some(announced) => break announced.from.ip(),
            None if clock::monotonic() < end => {}
            None => return Err(missing()),
        }
    };
    let mut subscriber = node.subscriber(stream).open()?;
    let end = clock::monotonic() + patience;
    while clock::monotonic() < end {
        if let Some(Event::Began(info)) = subscriber.next(end.since(clock::monotonic())) {
            return address(ip, &info.schema).ok_or_else(missing);
        }
    }
    Err(missing())
}

/// Returns the names of the apps of the bus that can be steered, which are found within `patience`.
///
/// # Errors
/// [`SteeringError::Stream`] if announcements cannot be received.
pub fn apps(node: &Node, patience: Duration) -> Result<BTreeSet<StreamName>, SteeringError> {
    let announced = node.streams(patience)?.into_iter().map(|it| it.announcement.name.to_string());
    let on_host = node.streams_on_host().into_iter().map(|it| it.description.name.to_string());
    let names = announced.chain(on_host);
    Ok(names.filter_map(|name| name.strip_prefix(STREAM_PREFIX)?.parse().ok()).collect())
}

fn address(ip: IpAddr, schema: &Schema) -> Option<Address> {
    let port = schema.labels.get(PORT_LABEL)?.parse().ok()?;
    let address = Address::at(SocketAddr::new(ip, port));
    Some(match schema.labels.get(KEY_LABEL) {
        Some(key) => address.with("peer", key),
        None => address,
    })
}
