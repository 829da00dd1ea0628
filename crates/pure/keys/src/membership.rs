//! Membership of a process in a laboratory: the group's secrets, the laboratory's authority, the station's own keys.

use std::sync::Arc;

use units::WallTime;

use crate::{GroupSecret, KeySet, PublicKey, Secret, Station};

/// The keys with which a process takes part in a secured bus.
#[derive(Clone, Debug)]
pub struct Membership {
    /// Name of the laboratory, for messages.
    pub laboratory: String,
    /// The public key of the authority whose stations are believed.
    pub authority: PublicKey,
    /// The group's secrets; none while a key service has not answered, or was away for too long.
    pub keys: KeySet,
    /// The station that signs descriptions.
    pub station: Arc<Station>,
    /// The station's private key of its connections (X25519).
    pub exchange: Secret,
}

impl Membership {
    /// Returns the secret to send with at `wall`; without one nothing may be sent.
    #[must_use]
    pub fn sending(&self, wall: WallTime) -> Option<&GroupSecret> {
        self.keys.sending(wall)
    }
}
