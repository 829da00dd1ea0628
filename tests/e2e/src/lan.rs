//! Hosts around a bridge, each in its own network namespace.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::Arc;

use sys::{Namespace, NamespaceError};

/// Name of every host's interface.
const INTERFACE: &str = "eth0";

/// Hosts around a bridge; dropping it removes them.
pub struct Lan {
    hosts: Vec<Host>,
}

/// A host: a network namespace with one interface.
#[derive(Clone, Debug)]
pub struct Host {
    namespace: Arc<Namespace>,
    address: String,
    /// The bridge's namespace, and its port to this host.
    bridge: Arc<Namespace>,
    port: String,
}

impl Lan {
    /// Creates a lan.
    ///
    /// # Errors
    /// The reason, if namespaces cannot be made here.
    pub fn new(names: &[&str]) -> Result<Self, NamespaceError> {
        let bridge = Arc::new(Namespace::create("lan")?);
        // A lan without a querier: with snooping, a bridge would stop forwarding groups after some minutes.
        bridge.run("ip link add br0 type bridge mcast_snooping 0")?;
        bridge.run("ip link set br0 up")?;
        let mut lan = Self { hosts: Vec::new() };
        for (index, name) in names.iter().enumerate() {
            let namespace = Arc::new(Namespace::create(name)?);
            quieten(&namespace)?;
            let (address, port) = (format!("10.84.0.{}", index + 1), format!("p{index}"));
            let host = Host { namespace, address, bridge: Arc::clone(&bridge), port };
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
        let bridge = self.hosts.first().map(|host| host.bridge.name());
        self.hosts.iter().map(Host::namespace).chain(bridge).for_each(forget_shared_memory);
    }
}

impl Host {
    /// Makes the host's interface, and connects it to the bridge.
    fn plug_in(&self) -> Result<(), NamespaceError> {
        let Self { namespace, address, bridge, port } = self;
        bridge.connect(port, namespace, INTERFACE)?;
        bridge.run(&format!("ip link set {port} master br0 up"))?;
        namespace.run(&format!("ip address add {address}/24 dev {INTERFACE}"))?;
        // Without duplicate address detection, which would delay the first datagrams.
        namespace.run(&format!("ip address add {}/64 dev {INTERFACE} nodad", self.ip(true)))?;
        namespace.run(&format!("ip link set {INTERFACE} up")).map(drop)
    }

    /// Runs a command of words separated by blanks on this host, and returns its output.
    fn run(&self, command: &str) -> String {
        self.namespace.run(command).expect("iproute2 obeys root in its own namespace")
    }

    /// Removes the host's interface.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn unplug(&self) {
        self.run(&format!("ip link delete {INTERFACE}"));
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
        self.run(&format!("ip address delete {}/24 dev {INTERFACE}", self.address));
        self.run(&format!("ip address add {address}/24 dev {INTERFACE}"));
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
        self.namespace.command(program)
    }

    /// Returns a command that runs a program on this host as a user without any privilege, in nobody's group.
    #[must_use]
    pub fn unprivileged_command(&self, program: &str) -> Command {
        let mut command = self.command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", program]);
        command
    }

    /// Runs `act` on a thread of its own in this host's namespace.
    ///
    /// # Panics
    /// If `act` panics.
    pub fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        self.namespace.inside(act).expect("the host is there")
    }

    /// Makes all traffic that leaves this host pass a queue that is too small for it.
    ///
    /// The kernel silently drops packets that leave while the first queue is replaced: call
    /// [`unthrottle`](Self::unthrottle) before anything is sent, or keep the sender stopped meanwhile.
    ///
    /// # Panics
    /// If the queue discipline cannot be set.
    pub fn throttle(&self, rate: &str, burst: &str, limit: &str) {
        let queue = format!("root tbf rate {rate} burst {burst} limit {limit}");
        self.run(&format!("tc qdisc replace dev {INTERFACE} {queue}"));
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
        self.namespace.name()
    }

    /// Returns a command that runs on the bridge, in its namespace.
    #[must_use]
    pub fn bridge_command(&self, program: &str) -> Command {
        self.bridge.command(program)
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
        self.run(&format!("ip link set {INTERFACE} mtu {mtu}"));
    }

    /// Makes the host's trains leave packet by packet, as on a cable: then, unlike on a virtual one, each packet is
    /// checked against the next interface's MTU.
    ///
    /// # Panics
    /// If the interface cannot be set.
    pub fn cut_trains(&self) {
        self.run(&format!("ip link set dev {INTERFACE} gso_max_segs 1"));
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
        self.bridge.run(&format!("tc qdisc add dev {} clsact", self.port)).expect("a bridge has its port");
        let filter = ["filter", "add", "dev", &self.port, "egress", "bpf", "da", "bytecode", &program];
        let output = self.bridge_command("tc").args(filter).output().expect("it ran a moment ago");
        assert!(output.status.success(), "{output:?}");
    }

    /// Makes what leaves this host from a UDP port over IPv4 vanish.
    ///
    /// # Panics
    /// If the filter cannot be set.
    pub fn silence(&self, port: u16) {
        // Classic BPF: load the source port behind the headers of Ethernet and IPv4; drop it (TC_ACT_SHOT), or pass.
        let program = format!("4,40 0 0 34,21 0 1 {port},6 0 0 2,6 0 0 4294967295");
        self.run(&format!("tc qdisc add dev {INTERFACE} clsact"));
        let filter = ["filter", "add", "dev", INTERFACE, "egress", "bpf", "da", "bytecode", &program];
        let output = self.command("tc").args(filter).output().expect("it ran a moment ago");
        assert!(output.status.success(), "{output:?}");
    }

    /// Returns the local ports of the host's UDP sockets over IPv4.
    ///
    /// # Panics
    /// If they cannot be read.
    #[must_use]
    pub fn udp_ports(&self) -> Vec<u16> {
        let sockets = self.inside(|| fs::read_to_string("/proc/thread-self/net/udp").expect("there is IPv4"));
        // The second word of each line is the local address and port, in hexadecimal.
        let port = |line: &str| {
            let local = line.split_whitespace().nth(1)?;
            u16::from_str_radix(local.rsplit(':').next()?, 16).ok()
        };
        sockets.lines().skip(1).filter_map(port).collect()
    }

    /// Returns the number of packets the host's queue discipline dropped.
    ///
    /// # Panics
    /// If the counter cannot be read.
    #[must_use]
    pub fn queue_dropped(&self) -> u64 {
        let shown = self.run(&format!("tc -s -j qdisc show dev {INTERFACE}"));
        let shown: serde_json::Value = serde_json::from_str(&shown).expect("tc writes JSON");
        shown[0]["drops"].as_u64().expect("a queue discipline counts its drops")
    }
}

/// Silences a host's own traffic while a scene runs: its losses would count among the scene's. No router
/// solicitation, no probe for another host with its address, which comes up to a second after the interface is up, and
/// immediate group reports instead of delayed ones.
fn quieten(namespace: &Namespace) -> Result<(), NamespaceError> {
    const DEFAULT: &str = "net.ipv6.conf.default";
    let settings = ["router_solicitations=0", "dad_transmits=0", "mldv2_unsolicited_report_interval=1"];
    settings.iter().try_for_each(|it| namespace.run(&format!("sysctl -qw {DEFAULT}.{it}")).map(drop))
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
