//! QUIC with quinn: one stream, encrypted as QUIC requires, on a runtime of one thread per side.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use peers::process;
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use crate::meter::{Meter, Told};
use crate::{BLOCK_BYTES, Task};

/// Window size, as for our transport. Units: bytes.
const WINDOW_BYTES: u32 = 12 << 20;
/// Size of the UDP and IPv4 headers. Units: bytes.
const HEADERS_BYTES: u32 = 28;
/// Maximum MTU for quinn: with the 64 KiB of the loopback interface quinn 0.11 transfers nothing. Units: bytes.
const MOST_MTU: u32 = 9_000;
/// Subject of the certificate.
const NAME: &str = "reader";

/// Returns settings that use the whole capacity of the case: no search for the path's MTU, windows as large as the
/// others'.
fn transport(task: &Task) -> Result<Arc<TransportConfig>> {
    let mut transport = TransportConfig::default();
    let datagram_bytes = u16::try_from(task.mtu.min(MOST_MTU) - HEADERS_BYTES)?;
    transport.initial_mtu(datagram_bytes).mtu_discovery_config(None);
    transport.stream_receive_window(VarInt::from_u32(WINDOW_BYTES));
    transport.receive_window(VarInt::from_u32(WINDOW_BYTES));
    transport.send_window(u64::from(WINDOW_BYTES));
    Ok(Arc::new(transport))
}

/// Returns the path of the reader's certificate for the source.
fn certificate_path(task: &Task) -> PathBuf {
    std::env::temp_dir().join(format!("tallycast-bench-{}.crt", task.address.port()))
}

fn on_one_thread<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

pub(crate) fn send(task: &Task) -> Result<Told> {
    on_one_thread(async {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(std::fs::read(certificate_path(task))?))?;
        let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
        config.transport_config(transport(task)?);
        let mut endpoint = Endpoint::client(([0, 0, 0, 0], 0).into())?;
        endpoint.set_default_client_config(config);
        let connection = endpoint.connect(task.address, NAME)?.await?;
        let mut stream = connection.open_uni().await?;
        let block = vec![7_u8; BLOCK_BYTES];
        let mut meter = Meter::begin();
        while meter.goes_on(task) {
            stream.write_all(&block).await?;
            meter.sent(block.len());
        }
        stream.finish()?;
        stream.stopped().await?;
        let told = meter.of_source(connection.stats().path.lost_packets);
        connection.close(VarInt::from_u32(0), b"");
        endpoint.wait_idle().await;
        Ok(told)
    })
}

pub(crate) fn receive(task: &Task) -> Result<Told> {
    on_one_thread(async {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut config = ServerConfig::with_single_cert(vec![made.cert.der().clone()], key.into())?;
        config.transport_config(transport(task)?);
        let endpoint = Endpoint::server(config, task.address)?;
        std::fs::write(certificate_path(task), made.cert.der())?;
        process::tell("ready", &())?;
        let connection = endpoint.accept().await.context("the endpoint is open")?.await?;
        std::fs::remove_file(certificate_path(task))?;
        let mut stream = connection.accept_uni().await?;
        let mut block = vec![0; BLOCK_BYTES];
        let first = stream.read(&mut block).await?.context("something is sent")?;
        let mut meter = Meter::begin();
        meter.received(first);
        while let Some(count) = stream.read(&mut block).await? {
            meter.received(count);
        }
        let told = meter.of_reader();
        // The source learns that everything was read before this end closes.
        connection.closed().await;
        Ok(told)
    })
}
