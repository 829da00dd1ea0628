//! Offloads: work that an interface does instead of the processor, as `ethtool -k` lists it; they
//! affect measured rates.

use std::io;

use crate::host::interface::Interface;
use crate::raw::{self, FEATURE_NAME_BYTES, Features};

/// Prefixes of the kernel's names of features that change the cost of sending and receiving:
/// checksums, scatter-gather, and packets that are segmented or joined.
const OFFLOADS: [&str; 9] = [
    "tx-checksum-",
    "rx-checksum",
    "tx-scatter-gather",
    "tx-generic-segmentation",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-udp-segmentation",
    "rx-gro",
    "rx-lro",
];

impl Interface {
    /// Returns the active offloads, in the kernel's order and by its names, such as
    /// `tx-udp-segmentation`.
    ///
    /// # Errors
    /// The kernel's error; above all if the interface has gone, or its driver does not report
    /// offloads.
    pub fn offloads(&self) -> io::Result<Vec<String>> {
        Ok(offloads_in(&raw::interface_features(&self.name)?))
    }
}

fn offloads_in(features: &Features) -> Vec<String> {
    let is_active =
        |index: usize| features.active.get(index / 32).is_some_and(|bits| bits >> (index % 32) & 1 == 1);
    let names = features.names.chunks_exact(FEATURE_NAME_BYTES).map(|name| {
        let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        String::from_utf8_lossy(&name[..len]).into_owned()
    });
    let active = names.enumerate().filter(|(index, _)| is_active(*index)).map(|(_, name)| name);
    active.filter(|name| OFFLOADS.iter().any(|offload| name.starts_with(offload))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(names: &[&str], active: &[u32]) -> Features {
        let mut bytes = Vec::new();
        for name in names {
            let mut padded = [0; FEATURE_NAME_BYTES];
            padded[..name.len()].copy_from_slice(name.as_bytes());
            bytes.extend(padded);
        }
        Features { names: bytes, active: active.to_vec() }
    }

    #[test]
    fn what_is_switched_on_and_matters_is_told_in_the_kernels_order() {
        let names = ["rx-gro", "highdma", "", "tx-udp-segmentation", "rx-lro"];
        assert_eq!(offloads_in(&features(&names, &[0b01111])), ["rx-gro", "tx-udp-segmentation"]);
        assert_eq!(offloads_in(&features(&names, &[])), [""; 0], "no bits, nothing switched on");
    }

    #[test]
    fn the_thirty_third_feature_is_the_first_of_the_second_word() {
        let mut names = vec!["tx-nocache-copy"; 32];
        names.push("rx-checksum");
        assert_eq!(offloads_in(&features(&names, &[0, 1])), ["rx-checksum"]);
        assert_eq!(offloads_in(&features(&names, &[u32::MAX, 0])), [""; 0]);
    }

    #[test]
    fn a_name_may_fill_its_place() {
        let name = "rx-checksum-of-thirty-two-bytes!";
        assert_eq!(name.len(), FEATURE_NAME_BYTES);
        assert_eq!(offloads_in(&features(&[name], &[1])), [name]);
    }

    #[test]
    fn the_loopback_interface_joins_what_it_takes_and_one_that_is_not_there_is_an_error() {
        let lo = Interface::find("lo").unwrap();
        match lo.offloads() {
            Ok(offloads) => {
                assert!(offloads.iter().all(|name| !name.is_empty()), "{offloads:?}");
                let mut once = offloads.clone();
                once.dedup();
                assert_eq!(once, offloads);
            }
            Err(error) => println!("SKIPPED: this kernel does not tell features: {error}"),
        }
        assert!(Interface { name: "nosuch0".to_owned(), ..lo }.offloads().is_err());
    }
}
