//! Losses in devices: a program on the reader's device, a ring of the sender's tunnel without an active reader.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Stdio;

use anyhow::{Context, ensure};
use diagnose::Profile;
use sys::{Tun, TunOptions, VNET_HEADER_BYTES};

use super::path::until_shown;
use super::steps::Stepping;
use crate::absent::{self, Absent};
use crate::scene::{PORT, Scene, Version};
use crate::traffic::{PAYLOAD_BYTES, Planted, send};

/// Names of the compiler, in the order of the search.
const CLANGS: [&str; 8] =
    ["clang", "clang-14", "clang-15", "clang-16", "clang-17", "clang-18", "clang-19", "clang-20"];

/// Drops one in eight of the datagrams to the port, at random; behind Ethernet and an IP header without options.
const PROGRAM: &str = r#"
static unsigned (*some)(void) = (void *) 7;
struct xdp_md { unsigned data, data_end; };
__attribute__((section("xdp"), used)) int lab(struct xdp_md *context)
{
    unsigned char *data = (void *) (unsigned long) context->data, *end = (void *) (unsigned long) context->data_end;
    if (data + 58 > end || data[AT] != PORT >> 8 || data[AT + 1] != (PORT & 255)) return 2;
    return some() < 0x20000000 ? 1 : 2;
}
char licence[] __attribute__((section("license"), used)) = "GPL";
"#;

/// Attaches the generic kind of XDP program, which every device supports and no counter counts.
pub(super) fn xdp_on_device(scene: &mut Scene) -> anyhow::Result<()> {
    load(scene, "xdpgeneric")
}

/// Attaches the kind that a driver runs itself, and counts.
pub(super) fn xdp_in_driver(scene: &mut Scene) -> anyhow::Result<()> {
    load(scene, "xdpdrv")
}

fn load(scene: &Scene, kind: &str) -> anyhow::Result<()> {
    let clang = absent::find(&CLANGS)?;
    let folder = tempfile::tempdir()?;
    let (source, object) = (folder.path().join("lab.c"), folder.path().join("lab.o"));
    let at = if scene.version == Version::V4 { 36 } else { 56 };
    std::fs::write(&source, format!("#define AT {at}\n#define PORT {PORT}\n{PROGRAM}"))?;
    let mut command = std::process::Command::new(clang);
    let output =
        command.args(["-target", "bpf", "-O2", "-g", "-c"]).arg(&source).arg("-o").arg(&object).output()?;
    ensure!(output.status.success(), "{clang}: {}", String::from_utf8_lossy(&output.stderr));
    scene.on_reader(&format!("ip link set dev eth0 {kind} obj {} sec xdp", object.display()))
}

/// Addresses behind the sender's tunnel.
const BEHIND: [&str; 2] = ["10.86.0.2", "fd86::2"];
/// Capacity of its ring. Units: packets.
const RING: u64 = 100;

/// Creates a tunnel without a reader.
pub(super) fn tunnel(scene: &mut Scene) -> anyhow::Result<()> {
    if !std::path::Path::new("/dev/net/tun").exists() {
        return Err(Absent("there is no /dev/net/tun".to_owned()).into());
    }
    absent::find(&["perl"])?;
    // The host's own traffic must not enter the ring.
    scene.on_sender(&format!(
        "ip tuntap add dev tun0 mode tun
         sysctl -qw net.ipv6.conf.tun0.addr_gen_mode=1 net.ipv6.conf.tun0.router_solicitations=0
         ip link set dev tun0 txqueuelen {RING} up
         ip address add 10.86.0.1/24 dev tun0
         ip address add fd86::1/64 dev tun0 nodad"
    ))
}

/// Holds the tunnel open, and reads one packet per line of input.
const READER: &str = r#"
    use Fcntl; $| = 1;
    sysopen(my $tunnel, "/dev/net/tun", O_RDWR | O_NONBLOCK) or die "$!";
    my $wanted = pack("a16 s x22", "tun0", 0x1001);
    ioctl($tunnel, 0x400454ca, $wanted) or die "$!";
    print "open\n"; <STDIN>;
    while (sysread($tunnel, my $packet, 70000)) { print unpack("H*", $packet), "\n" }
"#;

pub(super) fn send_into_a_full_ring(scene: &mut Scene) -> anyhow::Result<Planted> {
    const COUNT: u64 = 1_000;
    let mut command = scene.sender().command("perl");
    let mut reader = command.args(["-e", READER]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(reader.stdout.take().context("a pipe was asked for")?).lines();
    ensure!(lines.next().transpose()?.as_deref() == Some("open"), "cannot open the tunnel");
    until_its_queue_works(scene)?;
    let to = BEHIND[usize::from(scene.version == Version::V6)].parse()?;
    // One after the other, in the sender's own thread: afterwards each is in the ring or lost.
    send(&scene.sender_socket()?, SocketAddr::new(to, PORT), 0..COUNT, PAYLOAD_BYTES)?;
    reader.stdin.take().context("a pipe was asked for")?.write_all(b"\n")?;
    let header_bytes = if scene.version == Version::V4 { 28 } else { 48 };
    let number = |line: String| Some(Profile::TALLYCAST.read(bytes(&line).get(header_bytes..)?)?.number);
    let arrived: BTreeSet<u64> = lines.map_while(Result::ok).filter_map(number).collect();
    reader.wait()?;
    ensure!(arrived.len() as u64 <= RING, "the ring held {}", arrived.len());
    Ok(Planted::of(0..COUNT, &arrived))
}

/// Steps into a tunnel whose ring is too short for them, and which is read after each step.
struct Ring {
    tunnel: Tun,
    writer: UdpSocket,
    sent: u64,
    arrived: BTreeSet<u64>,
}

/// Addresses of a second tunnel.
const SECOND: (Ipv4Addr, [u8; 4]) = (Ipv4Addr::new(10, 87, 0, 1), [10, 87, 0, 2]);

pub(super) fn into_a_short_ring(scene: &mut Scene) -> anyhow::Result<Box<dyn Stepping>> {
    let (address, name) = (SECOND.0, "tun1".to_owned());
    let queue_packets = u32::try_from(RING)?;
    let options = TunOptions { name, address, prefix_bits: 24, mtu: 1_500, queue_packets, trains: false };
    let tunnel = scene.within(scene.sender(), || Ok(Tun::open(&options)?))?;
    // It was opened before it came up: its queue works at once.
    Ok(Box::new(Ring { tunnel, writer: scene.sender_socket()?, sent: 0, arrived: BTreeSet::new() }))
}

impl Stepping for Ring {
    fn step(&mut self) -> anyhow::Result<()> {
        const BURST: u64 = 150;
        let to = SocketAddr::from((SECOND.1, PORT));
        send(&self.writer, to, self.sent..self.sent + BURST, PAYLOAD_BYTES)?;
        self.sent += BURST;
        let mut packet = [0; 2_000];
        loop {
            let size = self.tunnel.read(&mut packet)?;
            if size == 0 {
                return Ok(());
            }
            let payload = packet.get(VNET_HEADER_BYTES + 28..size).unwrap_or_default();
            self.arrived.extend(Profile::TALLYCAST.read(payload).map(|named| named.number));
        }
    }

    fn reader(&self) -> Option<&UdpSocket> {
        None
    }

    fn lost(&self) -> u64 {
        self.sent - self.arrived.len() as u64
    }
}

/// Waits until the tunnel's queue works. Earlier packets are dropped by its placeholder (`noop`): the kernel
/// activates the right queue in a thread of its own, some time after the tunnel was opened.
fn until_its_queue_works(scene: &Scene) -> anyhow::Result<()> {
    until_shown(scene, &["-o", "link", "show", "dev", "tun0"], " state UP ")
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    digits.filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
