//! The two ends of our transport.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use engine::{PortKeys, PortOptions, ReliablePort};
use keys::{Secret, Suite};
use peers::process;
use udt::{SocketConfig, SocketType};

use crate::meter::{Meter, Told};
use crate::{System, Task};

/// Requested size of the kernel's buffers, granted as far as its limits allow. Units: bytes.
const KERNEL_BUFFER_BYTES: usize = 8 << 20;
/// Buffer size of our sockets. Units: bytes.
const SOCKET_BUFFER_BYTES: u32 = 12 << 20;

/// Private keys of the two ends: of a measurement, and of nothing else.
const ENDS: [u8; 2] = [1, 2];

/// Returns the keys of the end with this index, which lists the other.
fn keys(task: &Task, end: usize) -> Option<PortKeys> {
    let secret = |index: usize| Secret::new([ENDS[index]; 32].into());
    let other = keys::exchange_public(&secret(1 - end));
    let suite = match task.system {
        System::TallycastNoise => Suite::Aes256Gcm,
        System::TallycastChacha => Suite::ChaCha20Poly1305,
        _ => return None,
    };
    Some(PortKeys {
        key: secret(end),
        peers: [other].into(),
        responder: Some(other),
        suite,
        seed: keyring::random_secret(),
    })
}

fn port(address: SocketAddr, task: &Task, end: usize) -> Result<ReliablePort> {
    let options = PortOptions {
        address,
        receive_buffer_bytes: KERNEL_BUFFER_BYTES,
        send_buffer_bytes: KERNEL_BUFFER_BYTES,
        offloads: task.system != System::TallycastPlain,
        seed: u64::from(std::process::id()),
        secret: [0; 16],
        keys: keys(task, end),
    };
    Ok(ReliablePort::open(&options)?)
}

fn config(task: &Task) -> Result<SocketConfig> {
    let mut config = SocketConfig::new(SocketType::Stream);
    config.packet_bytes = task.mtu.min(65_535);
    let packets = SOCKET_BUFFER_BYTES / config.packet_bytes;
    (config.send_buffer_packets, config.receive_buffer_packets) = (packets, packets);
    let control = if task.system == System::TallycastUdt { "udt" } else { "scalable" };
    config.congestion = Arc::from(congestion::named(control, "")?);
    Ok(config)
}

pub(crate) fn send(task: &Task) -> Result<Told> {
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    let port = port(any, task, 0)?;
    let socket = port.connect(task.address, config(task)?)?;
    let mut meter = Meter::begin();
    meter.send(task, |block| Ok(port.send(socket, block, None)?))?;
    port.flush(socket, None)?;
    let stats = port.stats(socket).context("the connection is still open")?;
    if std::env::var_os("TALLYCAST_BENCH_STATS").is_some() {
        eprintln!("{stats:?}");
    }
    port.close(socket);
    Ok(meter.of_source(stats.retransmitted_packets))
}

pub(crate) fn receive(task: &Task) -> Result<Told> {
    let port = port(task.address, task, 1)?;
    port.listen(config(task)?, 4).context("the only listener")?;
    process::tell("ready", &())?;
    let socket = port.accept(None)?;
    let meter = Meter::receive(|block| Ok(port.receive(socket, block, None)?))?;
    if std::env::var_os("TALLYCAST_BENCH_STATS").is_some() {
        eprintln!("{:?}", port.stats(socket));
    }
    port.close(socket);
    Ok(meter.of_reader())
}
