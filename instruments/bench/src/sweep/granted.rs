//! Buffers that the kernel granted at a point, and texts for those that are smaller than requested.

use units::text;

use super::report::{Point, Run};
use crate::throughput::Found;

/// Granted buffers, before the kernel doubles them: the minimum of all runs; none if no run has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Granted {
    pub(super) send: Option<u64>,
    pub(super) receive: Option<u64>,
}

impl Granted {
    pub(super) fn of<'a>(runs: impl Iterator<Item = &'a Run> + Clone) -> Self {
        let least = |of: fn(&Run) -> Option<u64>| runs.clone().filter_map(of).min();
        Self { send: least(|run| run.send_buffer_bytes), receive: least(|run| run.receive_buffer_bytes) }
    }
}

/// One of the two buffers of a point.
struct Buffer {
    name: &'static str,
    /// Setting that limits it.
    limit: &'static str,
    asked: Option<u64>,
    granted: Option<u64>,
}

impl Point {
    /// Returns why the send buffer is smaller than requested; `None` if it is not, or none was requested.
    pub(crate) fn clamped_send_buffer(&self) -> Option<String> {
        let (asked, granted) = (self.send_buffer_bytes, self.granted_send_buffer_bytes);
        Buffer { name: "send", limit: "net.core.wmem_max", asked, granted }.clamped()
    }

    /// Returns why the receive buffer is smaller than requested; `None` if it is not, or none was requested.
    pub(crate) fn clamped_receive_buffer(&self) -> Option<String> {
        let (asked, granted) = (self.receive_buffer_bytes, self.granted_receive_buffer_bytes);
        Buffer { name: "receive", limit: "net.core.rmem_max", asked, granted }.clamped()
    }

    /// Returns why no rate was found; `None` if one was, or none was searched for.
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    pub(crate) fn why_no_rate(&self) -> Option<String> {
        let found = self.highest.filter(|found| found.found == Found::Nothing)?;
        Some(format!("no rate held down to {}", text::rate(found.step as f64)))
    }
}

impl Buffer {
    fn clamped(&self) -> Option<String> {
        let Self { name, limit, asked, granted } = *self;
        let asked = asked?;
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let bytes = |bytes: u64| text::size(bytes as f64);
        let Some(granted) = granted else {
            return Some(format!(
                "no run reported what the kernel granted of the requested {}",
                bytes(asked)
            ));
        };
        (granted < asked).then(|| {
            format!(
                "the kernel granted a {name} buffer of only {} where {} was asked for: raise the limit with sudo sysctl -w \
                 {limit}={asked}, or measure as root",
                bytes(granted),
                bytes(asked)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::sweep::example_point;

    #[test]
    fn a_buffer_that_was_clamped_is_said_with_the_limit_that_did_it() {
        let mut point = example_point(64, Some(1 << 20), 0.0, 0);
        assert_eq!((point.clamped_receive_buffer(), point.clamped_send_buffer()), (None, None));
        point.granted_receive_buffer_bytes = Some((1 << 20) - 1);
        let said = point.clamped_receive_buffer().unwrap();
        assert!(said.contains("a receive buffer of only 1024 KiB where 1.00 MiB"), "{said}");
        assert!(said.contains("net.core.rmem_max=1048576"), "{said}");
        point.send_buffer_bytes = Some(1 << 20);
        assert!(point.clamped_send_buffer().unwrap().contains("net.core.wmem_max=1048576"));
        point.granted_send_buffer_bytes = None;
        assert!(point.clamped_send_buffer().unwrap().starts_with("no run reported"));
    }
}
