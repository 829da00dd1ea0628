//! The two ends of our transport.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use peers::{Whose, cpu_seconds, process};
use engine::{PortOptions, ReliablePort};
use udt::{SocketConfig, SocketType};

use crate::{BLOCK_BYTES, System, Task, Told};

/// Requested size of the kernel's buffers, granted as far as its limits allow. Units: bytes.
const KERNEL_BUFFER_BYTES: usize = 8 << 20;
/// Buffer size of our sockets. Units: bytes.
const SOCKET_BUFFER_BYTES: u32 = 12 << 20;

fn port(address: SocketAddr, task: &Task) -> Result<ReliablePort> {
    let options = PortOptions {
        address,
        receive_buffer_bytes: KERNEL_BUFFER_BYTES,
        send_buffer_bytes: KERNEL_BUFFER_BYTES,
        offloads: task.system != System::TallycastPlain,
        seed: u64::from(std::process::id()),
        secret: [0; 16],
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
    let port = port(any, task)?;
    let socket = port.connect(task.address, config(task)?)?;
    let block = vec![7_u8; BLOCK_BYTES];
    let (began, before) = (Instant::now(), cpu_seconds(Whose::Process));
    let mut bytes = 0;
    while began.elapsed() < Duration::from_secs_f64(task.seconds) {
        bytes += port.send(socket, &block, None)?;
    }
    port.flush(socket, None)?;
    let stats = port.stats(socket).context("the connection is still open")?;
    if std::env::var_os("TALLYCAST_BENCH_STATS").is_some() {
        eprintln!("{stats:?}");
    }
    port.close(socket);
    Ok(Told {
        bytes: bytes as f64,
        seconds: began.elapsed().as_secs_f64(),
        cpu_seconds: cpu_seconds(Whose::Process) - before,
        again: stats.retransmitted_packets as f64,
    })
}

pub(crate) fn receive(task: &Task) -> Result<Told> {
    let port = port(task.address, task)?;
    port.listen(config(task)?, 4).context("the only listener")?;
    process::tell("ready", &())?;
    let socket = port.accept(None)?;
    let mut block = vec![0; BLOCK_BYTES];
    let mut bytes = port.receive(socket, &mut block, None)?;
    let (began, before) = (Instant::now(), cpu_seconds(Whose::Process));
    let mut last = began;
    loop {
        let count = port.receive(socket, &mut block, None)?;
        if count == 0 {
            break;
        }
        last = Instant::now();
        bytes += count;
    }
    if std::env::var_os("TALLYCAST_BENCH_STATS").is_some() {
        eprintln!("{:?}", port.stats(socket));
    }
    port.close(socket);
    Ok(Told {
        bytes: bytes as f64,
        seconds: (last - began).as_secs_f64(),
        cpu_seconds: cpu_seconds(Whose::Process) - before,
        again: 0.0,
    })
}
