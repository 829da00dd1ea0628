//! Encryption of the page and the API: TLS 1.3 with a certificate of this host's own authority, or of given files.
//!
//! The certificate is chosen when a connection begins, so one that is renewed or replaced needs no restart. Handshakes
//! are driven and bounded in [`connections`](crate::connections). Start with [`Certificates`].

mod authority;
mod files;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use authority::Issued;
pub use authority::{Authority, AuthorityError};
pub use files::CertificateError;
use files::Watched;

use crate::clock::{self, Moment};

/// The only protocol above TLS: HTTP/1.1, on which pages open WebSockets.
const PROTOCOL: &[u8] = b"http/1.1";

/// Encryption of the connections of pages and programs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Tls {
    /// On addresses other than loopback, as [`Automatic`](Self::Automatic).
    #[default]
    BeyondLoopback,
    /// None.
    Off,
    /// A certificate of the host's own authority, which is made when it is first needed.
    Automatic,
    /// Files in PEM: a certificate with its chain, and its key; they may be the same.
    Files {
        /// Certificate and chain.
        certificate: PathBuf,
        /// Private key.
        key: PathBuf,
    },
}

/// Reason why connections cannot be encrypted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The local authority cannot be used.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The certificate in files cannot be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// There is no folder for the authority.
    #[error(
        "neither XDG_STATE_HOME nor HOME names a folder for the local certificate authority\nset one of them, or name files with --tls CERTIFICATE,KEY"
    )]
    NoFolder,
}

/// The certificate shown to clients, as it is now.
#[derive(Debug)]
pub(crate) struct Certificates {
    current: Mutex<Current>,
    authority: Option<Authority>,
}

#[derive(Debug)]
enum Current {
    Issued(Issued),
    Watched(Watched),
}

impl Certificates {
    /// Makes what the configuration asks for; `None` without encryption.
    pub(crate) fn new(
        tls: &Tls,
        folder: Option<PathBuf>,
        bound: SocketAddr,
        names: &[String],
    ) -> Result<Option<Self>, TlsError> {
        match tls {
            Tls::Off => Ok(None),
            Tls::BeyondLoopback if bound.ip().is_loopback() => Ok(None),
            Tls::BeyondLoopback | Tls::Automatic => {
                let authority = Authority::open(&folder.ok_or(TlsError::NoFolder)?)?;
                let issued = Issued::new(authority.clone(), names_of(bound, names), clock::now())?;
                Ok(Some(Self { current: Mutex::new(Current::Issued(issued)), authority: Some(authority) }))
            }
            Tls::Files { certificate, key } => {
                let watched = Watched::open(certificate.clone(), key.clone(), clock::now())?;
                Ok(Some(Self { current: Mutex::new(Current::Watched(watched)), authority: None }))
            }
        }
    }

    /// Returns the local authority, if it signs the certificate.
    pub(crate) const fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    /// Returns the configuration of connections.
    pub(crate) fn server_config(self: &Arc<Self>) -> ServerConfig {
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).expect("ring has TLS 1.3");
        let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::<Self>::clone(self));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config
    }

    /// Returns how often new files could not be used.
    pub(crate) fn refused_files(&self) -> u64 {
        match &*self.lock() {
            Current::Issued(_) => 0,
            Current::Watched(watched) => watched.refused(),
        }
    }

    fn at(&self, now: Moment) -> Arc<CertifiedKey> {
        match &mut *self.lock() {
            Current::Issued(issued) => issued.at(now),
            Current::Watched(watched) => watched.at(now),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.at(clock::now()))
    }
}

/// Returns the back end of all cryptography.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns the names and addresses under which a server is reached; one on all addresses has those of all interfaces.
fn names_of(bound: SocketAddr, names: &[String]) -> Vec<String> {
    let interfaces = if bound.ip().is_unspecified() { addresses() } else { vec![bound.ip()] };
    let loopback = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let known = loopback.into_iter().chain(interfaces.iter().map(IpAddr::to_string));
    let mut all: Vec<String> = known.chain(names.iter().filter(|name| name.is_ascii()).cloned()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the addresses of the interfaces; without the right to see them the certificate lacks them.
fn addresses() -> Vec<IpAddr> {
    let interfaces = sys::Interface::all().unwrap_or_default();
    interfaces.into_iter().flat_map(|interface| interface.addresses).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_names_what_the_server_is_reached_by() {
        let names = names_of("192.0.2.7:7480".parse().unwrap(), &["daq-3".to_owned(), "müller".to_owned()]);
        assert_eq!(names, ["127.0.0.1", "192.0.2.7", "::1", "daq-3", "localhost"]);
        let all = names_of("0.0.0.0:7480".parse().unwrap(), &[]);
        assert!(!all.contains(&"0.0.0.0".to_owned()), "{all:?}");
    }

    #[test]
    fn loopback_needs_no_certificate_and_another_address_does() {
        let folder = tempfile::tempdir().unwrap();
        let made = |tls: &Tls, bound: &str| {
            let folder = Some(folder.path().to_owned());
            Certificates::new(tls, folder, bound.parse().unwrap(), &[]).unwrap().is_some()
        };
        assert!(!made(&Tls::BeyondLoopback, "127.0.0.1:0") && !made(&Tls::BeyondLoopback, "[::1]:0"));
        assert!(!made(&Tls::Off, "0.0.0.0:0"));
        assert!(!folder.path().join("authority.pem").exists(), "nothing is made unless it is needed");
        assert!(made(&Tls::BeyondLoopback, "192.0.2.7:0") && made(&Tls::Automatic, "127.0.0.1:0"));
    }
}
