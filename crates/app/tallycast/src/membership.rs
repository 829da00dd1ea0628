//! The membership with which a node takes part in a secured bus.

use std::sync::Arc;

use keys::Membership;

use crate::bus::Bus;
use crate::node::NodeError;

/// Loads the membership in the bus's file of keys; `None` if the bus has no keys.
///
/// Until streams are secured with it, a bus with keys is refused: streams that were to be secured are never in clear.
///
/// # Errors
/// `Keys` and `NotSecured` of [`NodeError`].
pub(crate) fn open_membership(bus: &Bus) -> Result<Option<Arc<Membership>>, NodeError> {
    let Some(path) = &bus.keys else { return Ok(None) };
    let _membership = keyring::load(path, sys::clock::wall())?;
    Err(NodeError::NotSecured(path.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bus_without_keys_needs_no_file_and_one_with_keys_is_never_in_clear() {
        assert!(matches!(open_membership(&Bus::default()), Ok(None)));
        let folder = tempfile::tempdir().unwrap();
        let bus = format!("udp://239.84.0.0?keys={}/daq-1.keys", folder.path().display());
        let told = crate::Node::open(bus.parse().unwrap()).err().unwrap().to_string();
        assert!(told.contains("there is no file of keys") && told.contains("tallycast keys new"), "{told}");
    }
}
