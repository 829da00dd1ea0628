//! Offloads: packets that the card or the kernel splits and joins in trains, so that the stack is passed once for many.

use crate::Remedy;
use crate::audit::{Check, Facts, Interface, Judgement};

/// Offloads of an interface that are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offloads {
    /// TCP segmentation by the card (TSO).
    pub tso: bool,
    /// Segmentation as late as possible (GSO), also of trains of datagrams.
    pub gso: bool,
    /// Packets of one flow are joined on arrival and can be split again (GRO).
    pub gro: bool,
    /// Packets are joined by the card and cannot be split again (LRO).
    pub lro: bool,
}

/// Packets per second that one processor carries one by one with room to spare: a quarter of about 450,000. Source:
/// measured, `docs/reference/measured.md`.
const ONE_BY_ONE_PER_S: f64 = 110_000.0;
/// Size of a packet on Ethernet, where the MTU is unknown. Units: bytes.
const ETHERNET_BYTES: u32 = 1_500;

impl Offloads {
    /// Reads the active features by the kernel's names, as `ethtool -k` translates them.
    #[must_use]
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut offloads = Self::default();
        for name in names {
            match name {
                "tx-tcp-segmentation" => offloads.tso = true,
                "tx-generic-segmentation" => offloads.gso = true,
                "rx-gro" => offloads.gro = true,
                "rx-lro" => offloads.lro = true,
                _ => {}
            }
        }
        offloads
    }

    /// Returns each offload with its letters and the option of `ethtool -K`.
    const fn each(self) -> [(&'static str, &'static str, bool); 4] {
        [
            ("TSO", "tso", self.tso),
            ("GSO", "gso", self.gso),
            ("GRO", "gro", self.gro),
            ("LRO", "lro", self.lro),
        ]
    }
}

/// Checks the offloads of an interface for the expected rate.
pub(super) fn offloads(interface: &Interface, facts: &Facts) -> Option<Check> {
    const CHECK: &str = "card-offloads";
    let (name, offloads) = (&interface.name, interface.card.offloads?);
    let word =
        |(letters, _, is_on): (&str, &str, bool)| format!("{letters} {}", if is_on { "on" } else { "off" });
    let live = format!("{name}: {}", offloads.each().map(word).join(", "));
    if offloads.lro && interface.is_bridged {
        let why = "the card joins packets for good (LRO), and the bridge has to pass them on as they were; GRO joins them so that they can be split again";
        let check = Check::new(CHECK, Judgement::Warn, live, why);
        return Some(check.recommending("LRO off", [switch(name, &["lro"], false)]));
    }
    let per_second = facts.load.bytes_per_second
        / f64::from(if interface.mtu > 0 { interface.mtu } else { ETHERNET_BYTES });
    let joins = offloads.each().into_iter().filter(|(_, option, is_on)| *option != "lro" && !is_on);
    let (letters, options): (Vec<&str>, Vec<&str>) =
        joins.map(|(letters, option, _)| (letters, option)).unzip();
    if letters.is_empty() || per_second <= ONE_BY_ONE_PER_S {
        let why = "the stack is passed once for many packets; a processor carries about 450,000 a second one by one";
        return Some(Check::new(CHECK, Judgement::Ok, live, why));
    }
    let why = format!(
        "{per_second:.0} packets a second ({}) pass the stack one by one; a processor carries about 450,000, and needs time for more",
        facts.load.origin
    );
    let check = Check::new(CHECK, Judgement::Warn, live, why);
    Some(check.recommending(format!("{} on", letters.join(", ")), [switch(name, &options, true)]))
}

/// Returns the command that switches offloads; a card without TSO refuses that part and keeps the others.
fn switch(name: &str, options: &[&str], on: bool) -> Remedy {
    let set = |is_on: bool| {
        let word = if is_on { "on" } else { "off" };
        let settings: Vec<String> = options.iter().map(|option| format!("{option} {word}")).collect();
        format!("ethtool -K {name} {}", settings.join(" "))
    };
    Remedy::by_command(if on { "switch them on" } else { "switch it off" }, set(on), set(!on))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Card, Load};

    const ALL: Offloads = Offloads { tso: true, gso: true, gro: true, lro: false };

    fn judge(offloads: Offloads, bits_per_second: f64, is_bridged: bool) -> Check {
        let card = Card { offloads: Some(offloads), ..Card::default() };
        let interface =
            Interface { name: "eth0".to_owned(), mtu: 1_500, card, is_bridged, ..Interface::default() };
        let load = Load { bytes_per_second: bits_per_second / 8.0, origin: "as asked", ..Load::default() };
        super::offloads(&interface, &Facts { load, ..Facts::default() }).expect("they are known")
    }

    #[test]
    fn the_kernels_names_are_read() {
        let names = ["tx-checksum-ipv4", "tx-generic-segmentation", "rx-gro", "rx-gro-hw", "rx-lro"];
        assert_eq!(Offloads::from_names(names), Offloads { gso: true, gro: true, lro: true, tso: false });
        assert!(Offloads::from_names(["tx-tcp-segmentation", "tx-tcp6-segmentation"]).each()[0].2);
    }

    #[test]
    fn at_a_high_rate_what_is_off_is_switched_on_and_at_a_low_one_it_is_enough() {
        assert_eq!(judge(ALL, 1e11, false).judgement, Judgement::Ok);
        let off = Offloads { gso: false, gro: false, ..ALL };
        // 110,000 packets of 1,500 bytes a second.
        assert_eq!(judge(off, 1.32e9, false).judgement, Judgement::Ok);
        let slow = judge(off, 1.33e9, false);
        assert_eq!((slow.judgement, slow.recommended.as_deref()), (Judgement::Warn, Some("GSO, GRO on")));
        assert_eq!(slow.live, "eth0: TSO on, GSO off, GRO off, LRO off");
        assert_eq!(slow.remedies[0].command().as_deref(), Some("ethtool -K eth0 gso on gro on"));
        assert_eq!(slow.remedies[0].undo().as_deref(), Some("ethtool -K eth0 gso off gro off"));
    }

    #[test]
    fn what_a_card_joins_for_good_a_bridge_cannot_pass_on() {
        let joined = Offloads { lro: true, ..ALL };
        assert_eq!(judge(joined, 1e9, false).judgement, Judgement::Ok);
        let bridged = judge(joined, 1e9, true);
        assert_eq!((bridged.judgement, bridged.recommended.as_deref()), (Judgement::Warn, Some("LRO off")));
        assert_eq!(bridged.remedies[0].command().as_deref(), Some("ethtool -K eth0 lro off"));
    }
}
