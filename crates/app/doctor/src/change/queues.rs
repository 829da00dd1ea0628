//! Queues of devices: the limits of their disciplines, and their lengths.

use sys::{Qdisc, QdiscLimit};

use super::error::ChangeError;

/// A queue discipline.
pub(super) struct At<'a> {
    /// Device that it belongs to.
    pub(super) device: &'a str,
    /// Number of the discipline.
    pub(super) handle: u32,
    /// Number of its parent: the root, or the class of another one.
    pub(super) parent: u32,
}

/// Sets the limit of a queue discipline if it still has the value that was left.
pub(super) fn set_limit(at: &At<'_>, limit: u32, expected: u32) -> Result<(), ChangeError> {
    let queue = find(at)?;
    let now = queue.limit.as_ref().map(QdiscLimit::value).ok_or(ChangeError::Gone)?;
    if now == limit {
        return Ok(());
    }
    if now != expected {
        let what = format!("the limit of {} before {}", queue.kind, at.device);
        return Err(ChangeError::since(&what, now, expected));
    }
    Ok(queue.set_limit(limit)?)
}

fn find(at: &At<'_>) -> Result<Qdisc, ChangeError> {
    let device = index(at.device)?.0;
    let is_it = |it: &Qdisc| (it.device, it.handle, it.parent) == (device, at.handle, at.parent);
    sys::qdiscs()?.into_iter().find(is_it).ok_or(ChangeError::Gone)
}

/// Sets the length of a device's queue if it still has the value that was left.
pub(super) fn set_transmit_queue(device: &str, packets: u32, expected: u32) -> Result<(), ChangeError> {
    let (index, now) = index(device)?;
    if now == packets {
        return Ok(());
    }
    if now != expected {
        return Err(ChangeError::since(&format!("the queue of {device}"), now, expected));
    }
    Ok(sys::set_queue_packets(index, packets)?)
}

/// Returns the number of a device, and the length of its queue.
fn index(device: &str) -> Result<(u32, u32), ChangeError> {
    let link = sys::links()?.into_iter().find(|link| link.name == device).ok_or(ChangeError::Gone)?;
    Ok((link.index, link.queue_packets))
}

#[cfg(test)]
mod tests {
    use support::or_skip;
    use sys::Namespace;

    use super::*;

    #[test]
    fn a_queue_that_is_not_there_is_gone_and_one_that_somebody_changed_is_left_alone() {
        let nowhere = At { device: "no-such0", handle: 0x1_0000, parent: u32::MAX };
        assert!(matches!(set_limit(&nowhere, 5, 4), Err(ChangeError::Gone)));
        assert!(matches!(set_limit(&At { device: "lo", ..nowhere }, 5, 4), Err(ChangeError::Gone)));
        assert!(matches!(set_transmit_queue("no-such0", 5, 4), Err(ChangeError::Gone)));
        let now = index("lo").unwrap().1;
        assert!(set_transmit_queue("lo", now, 0).is_ok(), "it is so already");
        let changed = set_transmit_queue("lo", now + 2, now + 1);
        assert!(matches!(changed, Err(ChangeError::ChangedSince { .. })), "{changed:?}");
    }

    /// Creates a network namespace with a device `q0`, or prints why that is impossible.
    fn with_device() -> Option<Namespace> {
        let namespace = or_skip(Namespace::create("fix"))?;
        or_skip(namespace.run("ip link add q0 type veth peer name q1"))?;
        or_skip(namespace.run("tc qdisc replace dev q0 root handle 7: pfifo limit 10"))?;
        Some(namespace)
    }

    #[test]
    fn a_queues_limit_is_raised_and_left_alone_once_somebody_has_changed_it() {
        let Some(namespace) = with_device() else { return };
        let queue = At { device: "q0", handle: 0x7_0000, parent: u32::MAX };
        let set = |limit, expected| namespace.inside(|| set_limit(&queue, limit, expected)).unwrap();
        set(64, 10).unwrap();
        set(64, 10).unwrap();
        namespace.run("tc qdisc change dev q0 root handle 7: pfifo limit 99").unwrap();
        let changed = set(10, 64).unwrap_err();
        assert!(matches!(changed, ChangeError::ChangedSince { now: 99, expected: 64, .. }), "{changed:?}");
        set(10, 99).unwrap();
        // A new one in its place is not the one that was changed.
        namespace.run("tc qdisc replace dev q0 root handle 8: pfifo limit 64").unwrap();
        assert!(matches!(set(10, 64), Err(ChangeError::Gone)));
    }
}
