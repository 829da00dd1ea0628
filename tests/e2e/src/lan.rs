//! Hosts around a bridge, each in its own network namespace.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counter of the lans of this process, so that scenes may run in parallel.
static NEXT_LAN: AtomicU32 = AtomicU32::new(0);

/// Name of every host's interface.
const INTERFACE: &str = "eth0";

/// Hosts around a bridge; dropping it removes them.
pub struct Lan {
    prefix: String,
    hosts: Vec<Host>,
}

/// A host: a network namespace with one interface.
#[derive(Clone, Debug)]
pub struct Host {
    namespace: String,
    address: String,
    /// The bridge's namespace, and its port to this host.
    bridge: String,
    port: String,
}

impl Lan {
    /// Creates a lan.
    ///
    /// # Errors
    /// The reason, if namespaces cannot be made here.
    pub fn new(names: &[&str]) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("network namespaces need root".to_owned());
        }
        let number = NEXT_LAN.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("tc{}-{number}", std::process::id());
        let bridge = format!("{prefix}-lan");
        let mut lan = Self { prefix, hosts: Vec::new() };
        ip(&["netns", "add", &bridge])?;
        let on_bridge = |arguments: &[&str]| on(&bridge, arguments);
        // A lan without a querier: with snooping, a bridge would stop forwarding groups after some minutes.
        on_bridge(&["link", "add", "br0", "type", "bridge", "mcast_snooping", "0"])?;
        on_bridge(&["link", "set", "br0", "up"])?;
        for (index, name) in names.iter().enumerate() {
            let namespace = format!("{}-{name}", lan.prefix);
            let port = format!("p{index}");
            ip(&["netns", "add", &namespace])?;
            quieten(&namespace)?;
            let own = format!("10.84.0.{}", index + 1);
            on(&namespace, &["link", "set", "lo", "up"])?;
            let host = Host { namespace, address: own, bridge: bridge.clone(), port };
            host.plug_in()?;
            lan.hosts.push(host);
        }
        Ok(lan)
    }

    /// Returns the hosts in the order of their names.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }
}

impl Drop for Lan {
    fn drop(&mut self) {
        let namespaces = self.hosts.iter().map(|host| host.namespace.clone());
        for namespace in namespaces.chain([format!("{}-lan", self.prefix)]) {
            forget_shared_memory(&namespace);
            if let Err(reason) = ip(&["netns", "delete", &namespace]) {
                eprintln!("{reason}");
            }
        }
    }
}

impl Host {
    /// Makes the host's interface, and connects it to the bridge.
    fn plug_in(&self) -> Result<(), String> {
        let Self { namespace, address, bridge, port } = self;
        on(bridge, &["link", "add", port, "type", "veth", "peer", "name", INTERFACE, "netns", namespace])?;
        on(bridge, &["link", "set", port, "master", "br0", "up"])?;
        on(namespace, &["address", "add", &format!("{address}/24"), "dev", INTERFACE])?;
        // Without duplicate address detection, which would delay the first datagrams.
        let v6 = format!("{}/64", self.ip(true));
        on(namespace, &["address", "add", &v6, "dev", INTERFACE, "nodad"])?;
        on(namespace, &["link", "set", INTERFACE, "up"])
    }

    /// Removes the host's interface.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn unplug(&self) {
        on(&self.namespace, &["link", "delete", INTERFACE]).expect("a host has its interface");
    }

    /// Restores the host's interface after [`unplug`](Self::unplug): with the same name, and a new index.
    ///
    /// # Panics
    /// If it exists already.
    pub fn plug_in_again(&self) {
        self.plug_in().expect("what could be made once can be made again");
    }

    /// Gives the host another IPv4 address in place of its own.
    ///
    /// # Panics
    /// If its address was replaced already.
    pub fn move_to(&self, address: &str) {
        let own = format!("{}/24", self.address);
        on(&self.namespace, &["address", "delete", &own, "dev", INTERFACE]).expect("a host has its address");
        let other = format!("{address}/24");
        on(&self.namespace, &["address", "add", &other, "dev", INTERFACE]).expect("it is free");
    }

    /// Returns the bus as this host uses it, with further options such as `&rcvbuf=4096`.
    #[must_use]
    pub fn bus(&self, options: &str) -> String {
        format!("udp://239.84.0.0:7400?iface={INTERFACE}{options}")
    }

    /// Returns the bus for readers that count a stream from their join point on: they do not claim earlier samples,
    /// so that samples missed at the beginning on a busy machine are no loss of the scene.
    #[must_use]
    pub fn bus_from_now(&self, options: &str) -> String {
        self.bus(&format!("&start=now{options}"))
    }

    /// Returns the bus of the same hosts over IPv6.
    #[must_use]
    pub fn bus_v6(&self) -> String {
        format!("udp://[ff15::5443:0:0]:7400?iface={INTERFACE}")
    }

    /// Returns a command that runs in this host's namespace.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, program]);
        command
    }

    /// Makes all traffic that leaves this host pass a queue that is too small for it.
    ///
    /// The kernel silently drops packets that leave while the first queue is replaced: call
    /// [`unthrottle`](Self::unthrottle) before anything is sent, or keep the sender stopped meanwhile.
    ///
    /// # Panics
    /// If the queue discipline cannot be set.
    pub fn throttle(&self, rate: &str, burst: &str, limit: &str) {
        let queue = ["root", "tbf", "rate", rate, "burst", burst, "limit", limit];
        tc(&self.namespace, &[&["qdisc", "replace", "dev", INTERFACE], &queue[..]].concat());
    }

    /// Removes the limit on outgoing traffic.
    ///
    /// The queue is enlarged, not removed: removing it would silently drop the packets in it.
    ///
    /// # Panics
    /// If the queue discipline cannot be set.
    pub fn unthrottle(&self) {
        self.throttle("1gbit", "1000000", "10000000");
    }

    /// Returns the name of the host's network namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns a command that runs on the bridge, in its namespace.
    #[must_use]
    pub fn bridge_command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.bridge, program]);
        command
    }

    /// Returns the host's address of either version.
    ///
    /// # Panics
    /// Never: a lan assigns valid addresses.
    #[must_use]
    pub fn ip(&self, is_v6: bool) -> IpAddr {
        let v4: Ipv4Addr = self.address.parse().expect("an address of the lan");
        let [.., last] = v4.octets();
        if is_v6 { IpAddr::V6(Ipv6Addr::new(0xfd84, 0, 0, 0, 0, 0, 0, last.into())) } else { v4.into() }
    }

    /// Returns the name of the host's interface.
    #[must_use]
    pub const fn interface(&self) -> &'static str {
        INTERFACE
    }

    /// Returns the host's address.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// Reduces the MTU of the host's own interface; the bridge keeps its MTU.
    ///
    /// # Panics
    /// If the MTU cannot be set.
    pub fn narrow(&self, mtu: u32) {
        let mtu = mtu.to_string();
        ip(&["-n", &self.namespace, "link", "set", INTERFACE, "mtu", &mtu]).expect("an MTU can be set");
    }

    /// Makes the host's trains leave packet by packet, as on a cable: then, unlike on a virtual one, each packet is
    /// checked against the next interface's MTU.
    ///
    /// # Panics
    /// If the interface cannot be set.
    pub fn cut_trains(&self) {
        let set = ["-n", &self.namespace, "link", "set", "dev", INTERFACE, "gso_max_segs", "1"];
        ip(&set).expect("a virtual interface's trains can be cut");
    }

    /// Makes the bridge lose this share of the packets to this host, at random.
    ///
    /// # Panics
    /// If the filter cannot be set.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 2³²")]
    pub fn lose(&self, share: f64) {
        let threshold = (share * 4_294_967_296.0) as u32;
        // Classic BPF: load a random word; pass at or above the threshold, drop below it (TC_ACT_SHOT).
        let program = format!("4,32 0 0 4294963256,53 0 1 {threshold},6 0 0 4294967295,6 0 0 2");
        tc(&self.bridge, &["qdisc", "add", "dev", &self.port, "clsact"]);
        let filter = ["filter", "add", "dev", &self.port, "egress", "bpf", "da", "bytecode", &program];
        tc(&self.bridge, &filter);
    }

    /// Returns the number of packets the host's queue discipline dropped.
    ///
    /// # Panics
    /// If the counter cannot be read.
    #[must_use]
    pub fn queue_dropped(&self) -> u64 {
        let shown = output("tc", &["-n", &self.namespace, "-s", "-j", "qdisc", "show", "dev", INTERFACE]);
        let shown: serde_json::Value =
            serde_json::from_str(&shown.expect("tc shows")).expect("tc writes JSON");
        shown[0]["drops"].as_u64().expect("a queue discipline counts its drops")
    }
}

/// Silences a host's own traffic while a scene runs: its losses would count among the scene's. No router
/// solicitation, and immediate group reports instead of delayed ones.
fn quieten(namespace: &str) -> Result<(), String> {
    let default = |name: &str| format!("net.ipv6.conf.default.{name}");
    let (router, groups) =
        (default("router_solicitations=0"), default("mldv2_unsolicited_report_interval=1"));
    ip(&["netns", "exec", namespace, "sysctl", "-qw", &router, &groups])
}

/// Removes the shared memory of killed programs under the namespace's number.
fn forget_shared_memory(namespace: &str) {
    let Ok(of_namespace) = fs::metadata(format!("/run/netns/{namespace}")) else { return };
    let number = format!(".{}.", of_namespace.ino());
    for entry in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_of_namespace = |name: &str| name.starts_with("tallycast.") && name.contains(&number);
        if name.to_str().is_some_and(is_of_namespace)
            && let Err(error) = fs::remove_file(entry.path())
        {
            eprintln!("{}: {error}", entry.path().display());
        }
    }
}

fn tc(namespace: &str, arguments: &[&str]) {
    output("tc", &[&["-n", namespace], arguments].concat()).expect("tc obeys root in its own namespace");
}

/// Runs `ip` in a namespace.
fn on(namespace: &str, arguments: &[&str]) -> Result<(), String> {
    ip(&[&["-n", namespace], arguments].concat())
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    output("ip", arguments).map(|_| ())
}

fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let shown = format!("{program} {}", arguments.join(" "));
    let output =
        Command::new(program).args(arguments).output().map_err(|error| format!("`{shown}`: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("`{shown}` failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}
