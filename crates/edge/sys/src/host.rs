//! State of this host (or of the network namespace): the limits that decide what sockets are granted, and below,
//! interfaces, clocks, counters, processors and processes.

mod card;
pub mod clock;
pub mod core_dumps;
pub mod counters;
pub(crate) mod descriptors;
pub(crate) mod device_counters;
pub mod folders;
pub(crate) mod fork;
pub(crate) mod groups;
pub(crate) mod interface;
pub mod levels;
pub(crate) mod namespace;
mod offloads;
pub mod private_file;
pub mod process;
pub mod processor_time;
pub mod processors;
pub mod scheduling;
pub mod trust;
pub(crate) mod tun;

use std::{fs, io};

use crate::raw;

/// Returns the number of IPv4 groups that one socket may join (`net.ipv4.igmp_max_memberships`).
///
/// # Errors
/// If `/proc` cannot be read, as in some containers.
pub fn igmp_max_memberships() -> io::Result<u64> {
    sysctl("net.ipv4.igmp_max_memberships")
}

/// Returns the largest receive buffer granted without privilege (`net.core.rmem_max`).
///
/// Units: bytes as requested, before the kernel doubles them.
///
/// # Errors
/// If `/proc` cannot be read, as in some containers.
pub fn receive_buffer_limit() -> io::Result<u64> {
    sysctl("net.core.rmem_max")
}

/// Returns the receive buffer of a socket that requests none (`net.core.rmem_default`).
///
/// Units: bytes as the kernel counts them, twice those of a request.
///
/// # Errors
/// If `/proc` cannot be read, as in some containers.
pub fn receive_buffer_default() -> io::Result<u64> {
    sysctl("net.core.rmem_default")
}

/// Returns the largest send buffer granted without privilege (`net.core.wmem_max`).
///
/// Units: bytes as requested, before the kernel doubles them.
///
/// # Errors
/// If `/proc` cannot be read, as in some containers.
pub fn send_buffer_limit() -> io::Result<u64> {
    sysctl("net.core.wmem_max")
}

/// Returns the number of packets in a processor's backlog, which holds packets that arrive faster
/// than its softirq takes them (`net.core.netdev_max_backlog`).
///
/// # Errors
/// If `/proc` cannot be read, as in some containers; it exists only in the first network namespace.
pub fn backlog_limit() -> io::Result<u64> {
    sysctl("net.core.netdev_max_backlog")
}

/// Returns the number of memory pages of this host, and the size of a page in bytes.
///
/// # Errors
/// If `/proc` cannot be read, as in some containers.
pub fn memory_pages() -> io::Result<(u64, u64)> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let page_bytes = raw::page_bytes()?;
    let kilobytes = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
    let bytes = kilobytes.and_then(|it| it.checked_mul(1_024)).ok_or(io::ErrorKind::InvalidData)?;
    Ok((bytes / page_bytes, page_bytes))
}

/// Reads a number from `/proc/sys`, by its dotted name in `sysctl`.
///
/// # Errors
/// If no setting has this name, it is not a number, or it cannot be read.
pub fn sysctl(name: &str) -> io::Result<u64> {
    let text = fs::read_to_string(sysctl_path(name))?;
    text.trim().parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads the numbers of one setting of `/proc/sys` that has several, such as `net.ipv4.tcp_rmem`.
///
/// # Errors
/// If no setting has this name, one of its values is not a number, or it cannot be read.
pub fn sysctl_numbers(name: &str) -> io::Result<Vec<u64>> {
    let numbers: Result<_, _> = sysctl_text(name)?.split_whitespace().map(str::parse).collect();
    numbers.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Reads a setting of `/proc/sys` that is a text.
///
/// # Errors
/// If no setting has this name, or it cannot be read.
pub fn sysctl_text(name: &str) -> io::Result<String> {
    Ok(fs::read_to_string(sysctl_path(name))?.trim().to_owned())
}

/// Sets a number in `/proc/sys`.
///
/// # Errors
/// If no setting has this name, or this process may not change it.
pub fn set_sysctl(name: &str, value: u64) -> io::Result<()> {
    fs::write(sysctl_path(name), format!("{value}\n"))
}

/// Sets the numbers of one setting of `/proc/sys` that has several.
///
/// # Errors
/// If no setting has this name, or this process may not change it.
pub fn set_sysctl_numbers(name: &str, values: &[u64]) -> io::Result<()> {
    let values: Vec<String> = values.iter().map(u64::to_string).collect();
    fs::write(sysctl_path(name), format!("{}\n", values.join(" ")))
}

/// Returns the number of a group by its name in `/etc/group`; `None` if the file has no such name.
///
/// Groups of a directory service are not in that file: they must be given by number.
///
/// # Errors
/// If the file cannot be read.
pub fn group_id(name: &str) -> io::Result<Option<u32>> {
    Ok(group_in(&fs::read_to_string("/etc/group")?, name))
}

/// Source: group(5): `name:password:number:members`.
fn group_in(text: &str, name: &str) -> Option<u32> {
    let mut lines = text.lines().map(|line| line.split(':'));
    let mut fields = lines.find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
    fields.nth(1)?.parse().ok()
}

/// Converts a name as `sysctl(8)` accepts it: with dots, or with slashes if a part contains a dot,
/// as names of interfaces may.
fn sysctl_path(name: &str) -> String {
    let has_slashes = name.contains('/') && !name.contains("..");
    format!("/proc/sys/{}", if has_slashes { name.to_owned() } else { name.replace('.', "/") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_name() {
        let text = "root:x:0:\nlab:x:50:ada,grace\nlaboratory:x:51:\nbroken\nodd:x:many:\n";
        let of = |name| group_in(text, name);
        assert_eq!([of("root"), of("lab"), of("laboratory")], [Some(0), Some(50), Some(51)]);
        for name in ["", "la", "ada", "broken", "odd", "x"] {
            assert_eq!(of(name), None, "{name}");
        }
        assert_eq!(group_id("root").unwrap(), Some(0));
    }

    #[test]
    fn the_limits_are_numbers() {
        for limit in
            [igmp_max_memberships(), receive_buffer_limit(), receive_buffer_default(), send_buffer_limit()]
        {
            assert!(limit.unwrap() > 0);
        }
        let (pages, page_bytes) = memory_pages().unwrap();
        assert!(pages > 0 && page_bytes.is_power_of_two() && page_bytes >= 4_096);
        assert!(sysctl("net.no.such.thing").is_err());
        assert_eq!(sysctl("net/core/rmem_max").unwrap(), receive_buffer_limit().unwrap());
        assert_eq!(sysctl_path("net/ipv4/conf/eth0.7/rp_filter"), "/proc/sys/net/ipv4/conf/eth0.7/rp_filter");
        assert_eq!(sysctl_path("net/../../etc/passwd"), "/proc/sys/net///////etc/passwd", "it stays there");
        assert_eq!(sysctl_numbers("net.ipv4.tcp_rmem").unwrap().len(), 3);
        assert!(sysctl_numbers("net.ipv4.tcp_congestion_control").is_err());
        assert!(!sysctl_text("net.ipv4.tcp_congestion_control").unwrap().contains('\n'));
        assert!(set_sysctl("net.no.such.thing", 1).is_err());
        assert!(set_sysctl_numbers("net.no.such.thing", &[1, 2]).is_err());
    }
}
