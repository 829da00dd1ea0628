//! Encrypted connections: certificates, names, and handshakes that stand still.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use monitor::{MonitorConfig, MonitorError, MonitorHandle, Tls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use support::http::Answer;
use support::{WATCHDOG, wait_until};
use tungstenite::client::IntoClientRequest;

use crate::neighbours::{SHORT, closed};
use crate::scene::{ask_as, bus, node, start};

/// Starts a monitor with a certificate of its own authority.
fn sealed(folder: &Path, configure: impl FnOnce(&mut MonitorConfig)) -> MonitorHandle {
    let mut config = MonitorConfig::new(node(&bus()));
    (config.tls, config.tls_folder) = (Tls::Automatic, Some(folder.to_owned()));
    configure(&mut config);
    start(config)
}

/// A client that trusts the authority in a folder.
pub(crate) struct Client(Arc<ClientConfig>);

impl Client {
    pub(crate) fn of(folder: &Path) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(folder.join("authority.crt")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        Self(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
    }

    pub(crate) fn connect(
        &self,
        address: SocketAddr,
        name: &str,
    ) -> StreamOwned<ClientConnection, TcpStream> {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        StreamOwned::new(ClientConnection::new(Arc::clone(&self.0), name).unwrap(), stream)
    }

    /// Asks with exactly this request line and these headers.
    pub(crate) fn ask(&self, address: SocketAddr, head: &str, body: &str) -> std::io::Result<Answer> {
        let mut stream = self.connect(address, "localhost");
        write!(stream, "{head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let body = bytes.split_off(end + 4);
        let head = String::from_utf8(bytes).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Ok(Answer { status, head, body })
    }

    pub(crate) fn get(&self, address: SocketAddr, path: &str) -> Answer {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost:{}", address.port());
        self.ask(address, &head, "").unwrap()
    }
}

#[test]
fn page_and_web_socket_are_served_through_tls_to_clients_that_trust_the_authority() {
    let folder = tempfile::tempdir().unwrap();
    let monitor = sealed(folder.path(), |_| ());
    let address = monitor.address();
    assert_eq!(monitor.page(), format!("https://{address}/"));
    let client = Client::of(folder.path());
    assert_eq!(client.get(address, "/healthz").text(), "ok\n");
    let request = format!("wss://localhost:{}/api/live", address.port()).into_client_request().unwrap();
    let (mut socket, _) = tungstenite::client(request, client.connect(address, "localhost")).unwrap();
    assert!(socket.read().unwrap().to_text().unwrap().contains("hello"));
    // By its address too, and by no other name.
    let mut by_address = client.connect(address, "127.0.0.1");
    write!(by_address, "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut other = client.connect(address, "evil.example");
    assert!(other.write_all(b"GET").and_then(|()| other.flush()).is_err());
    let elsewhere = tempfile::tempdir().unwrap();
    monitor::Authority::open(elsewhere.path()).unwrap();
    let stranger = Client::of(elsewhere.path());
    assert!(stranger.ask(address, "GET / HTTP/1.1\r\nHost: localhost", "").is_err(), "another authority");
}

#[test]
fn a_page_in_clear_is_another_page_than_the_encrypted_one() {
    let folder = tempfile::tempdir().unwrap();
    let monitor = sealed(folder.path(), |_| ());
    let (address, client) = (monitor.address(), Client::of(folder.path()));
    let host = format!("localhost:{}", address.port());
    for (scheme, status) in [("https", 200), ("http", 403)] {
        let head = format!("POST /api/join HTTP/1.1\r\nHost: {host}\r\nOrigin: {scheme}://{host}");
        assert_eq!(client.ask(address, &head, r#"{"pattern":"**"}"#).unwrap().status, status, "{scheme}");
    }
}

/// All connections are open at the same time, so that the test waits only once for the monitor's patience.
#[test]
fn a_handshake_that_stands_still_or_fails_is_closed_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let monitor = sealed(folder.path(), |config| config.patience = SHORT);
    let address = monitor.address();
    let connect = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(WATCHDOG)).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    // Nothing; the beginning of a hello; the beginning of a request in clear; records that are no hello.
    let still = [connect(b""), connect(b"\x16\x03\x01\x02\x00\x01\x00"), connect(b"GET / HTTP/1.1\r\n")];
    let wrong = [connect(b"\x16\x03\x01\x00\x02\x00\x00"), connect(b"\x17\x03\x01\x00\x02\x00\x00")];
    wrong.into_iter().chain(still).for_each(closed);
    let metrics = Client::of(folder.path()).get(address, "/metrics");
    // The third of those that stand still was known to be in clear before.
    for counted in [r#"{reason="handshake"} 5"#, r#"{reason="unencrypted"} 1"#] {
        let counted = format!("tallycast_monitor_connections_closed_total{counted}");
        assert!(metrics.text().contains(&counted), "{}", metrics.text());
    }
}

#[test]
fn a_request_in_clear_is_told_the_way_to_the_encrypted_page() {
    let folder = tempfile::tempdir().unwrap();
    let monitor = sealed(folder.path(), |_| ());
    let address = monitor.address();
    let moved = ask_as(address, &format!("GET /guide HTTP/1.1\r\nHost: {address}"), "");
    assert_eq!((moved.status, moved.text()), (308, ""));
    assert!(moved.head.contains(&format!("Location: https://{address}/guide")), "{}", moved.head);
    // More than is read of a head, and a body behind it.
    let long = format!("POST /api/join HTTP/1.1\r\nHost: {address}\r\nX: {}", "x".repeat(30_000));
    for head in [&format!("POST /api/join HTTP/1.1\r\nHost: {address}"), &long] {
        let refused = ask_as(address, head, r#"{"pattern":"lab/x"}"#);
        assert_eq!(refused.status, 400);
        assert!(refused.json()["help"].as_str().unwrap().contains("https://"), "{}", refused.text());
    }
    let strange = ask_as(address, "GET / HTTP/1.1\r\nHost: evil.example", "");
    assert!(strange.status == 400 && !strange.head.contains("Location"), "{}", strange.head);
    let client = Client::of(folder.path());
    assert_eq!(client.get(address, "/api/patterns").text(), r#"["**"]"#, "nothing was joined");
    let counted = r#"tallycast_monitor_connections_closed_total{reason="unencrypted"} 4"#;
    assert!(client.get(address, "/metrics").text().contains(counted));
}

#[test]
fn a_handshake_gives_its_place_to_a_newcomer_of_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let monitor = sealed(folder.path(), |config| config.pages_per_address = 1);
    let address = monitor.address();
    // One address has four connections for a page.
    let held: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(Client::of(folder.path()).get(address, "/healthz").status, 200);
    drop(held);
}

#[test]
fn the_certificate_in_files_is_replaced_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let put = |host: &Path| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        // One file with both; its name changes its content at once.
        let draft = host.with_extension("draft");
        std::fs::write(&draft, format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem())).unwrap();
        std::fs::set_permissions(&draft, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::rename(&draft, host).unwrap();
        std::fs::write(folder.path().join("authority.crt"), made.cert.pem()).unwrap();
    };
    let host = folder.path().join("host.pem");
    put(&host);
    let monitor = sealed(folder.path(), |config| {
        config.tls = Tls::Files { certificate: host.clone(), key: host.clone() }
    });
    let address = monitor.address();
    let answers =
        || Client::of(folder.path()).ask(address, "GET /healthz HTTP/1.1\r\nHost: localhost", "").is_ok();
    assert!(answers() && monitor.authority().is_none());
    put(&host);
    wait_until("the new certificate", || answers().then_some(()));
}

#[test]
fn other_addresses_than_loopback_need_encryption_or_a_word_that_none_is_wanted() {
    let begin = |insecure, tls| {
        let mut config = MonitorConfig::new(node(&bus()));
        (config.listen, config.insecure, config.tls) = ("0.0.0.0:0".parse().unwrap(), insecure, tls);
        monitor::start(config)
    };
    assert!(matches!(begin(false, Tls::Off), Err(MonitorError::Unencrypted(_))));
    let open = begin(true, Tls::Off).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], open.address().port()));
    assert!(open.page().starts_with("http://"));
    drop((open, address));
}
