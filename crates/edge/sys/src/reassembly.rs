//! What datagrams that wait for their other fragments hold of this network namespace's memory.

use std::{fs, io};

/// Returns what incomplete datagrams of IPv4 hold, and those of IPv6, in bytes; nothing where the host has no IPv6.
///
/// # Errors
/// If the kernel does not tell.
pub fn memory_bytes() -> io::Result<[u64; 2]> {
    let v4 = fs::read_to_string("/proc/self/net/sockstat")?;
    let v6 = fs::read_to_string("/proc/self/net/sockstat6").unwrap_or_default();
    Ok([&v4, &v6].map(|text| parse_memory(text).unwrap_or(0)))
}

/// `FRAG: inuse 3 memory 20736`; of IPv6 `FRAG6`.
pub(crate) fn parse_memory(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("FRAG"))?;
    let mut words = line.split_whitespace().skip_while(|word| *word != "memory");
    words.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_fragments_is_told() {
        let v4 = "UDP: inuse 2 mem 7\nRAW: inuse 0\nFRAG: inuse 3 memory 20736\n";
        assert_eq!(parse_memory(v4), Some(20_736));
        assert_eq!(parse_memory("UDP6: inuse 2\nFRAG6: inuse 1 memory 5\n"), Some(5));
        for text in ["", "FRAG:", "FRAG: memory", "FRAG: inuse 3 memory x", "UDP: inuse 2 mem 7\n"] {
            assert_eq!(parse_memory(text), None, "{text}");
        }
        assert!(memory_bytes().is_ok());
    }
}
