//! The configuration of a send path's machine: datagrams that fit the path, trains that fit the
//! kernel.

use std::net::SocketAddr;
use std::sync::Arc;

use cast::Sender;
use cast::send::{SenderConfig, SenderSecurity};
use keyring::random_salt;
use sys::{MAX_TRAIN_BYTES, clock, header_bytes, path_mtu};
use units::Instant;
use wire::DescriptionError;

use crate::send::publication_config::{PublicationConfig, Surroundings};

/// Creates the machine that sends a publication.
pub(super) fn create(
    config: &PublicationConfig,
    with: &Surroundings,
    now: Instant,
) -> Result<Sender, DescriptionError> {
    let datagram_bytes = fitting_bytes(config, with);
    // A longer train would be sent in two, of which the second may be short.
    let train_in_one_piece = (MAX_TRAIN_BYTES / datagram_bytes).max(1);
    let sender = SenderConfig {
        description: config.description.clone(),
        epoch: config.epoch,
        datagram_bytes,
        linger: config.linger,
        clock: config.clock,
        destinations: config.destinations.len(),
        pacing: config.pacing.in_trains_of(train_in_one_piece),
        sending: config.sending,
        beginning: config.beginning,
        predecessor: with.predecessor,
        security: with.membership.as_ref().map(|membership| SenderSecurity {
            membership: Arc::clone(membership),
            salt: random_salt(),
            wall: clock::wall(),
        }),
        relayed: config.relayed,
        deadline: config.deadline,
    };
    Sender::new(sender, config.epoch.incarnation, now)
}

/// Returns how large datagrams may be to avoid fragmentation: the requested size, or that of the
/// narrowest path.
///
/// The requested size is kept for an unknown path; if its MTU is smaller, datagrams are sent in
/// fragments.
fn fitting_bytes(config: &PublicationConfig, with: &Surroundings) -> usize {
    let requested = config.datagram_bytes;
    let way = |to: &SocketAddr| Some((path_mtu(*to, with.interface.as_ref()).ok()?, *to));
    let Some((mtu, to)) = config.destinations.iter().filter_map(way).min() else { return requested };
    let secured_bytes = if with.membership.is_some() { wire::SECURED_DATA_BYTES } else { 0 };
    let origin_bytes = if config.relayed.is_some() { wire::ORIGIN_BYTES } else { 0 };
    let least = wire::MIN_DATA_BYTES + secured_bytes + origin_bytes;
    let fitting = mtu.saturating_sub(header_bytes(&to)).max(least);
    if fitting < requested {
        tracing::warn!(
            "stream `{}`: datagrams have {fitting} bytes, not {requested}: the path to {to} has an MTU of {mtu}\n\
             set it on the bus (mtu={mtu}), or raise the MTU of every link of the path",
            config.description.name
        );
    }
    requested.min(fitting)
}
