//! The file of a station's keys, and the file of a laboratory's authority, as text.
//!
//! A [`KeyFile`] has all that a station needs: the group's secrets, the authority's public key, the station's private
//! keys and their certificate. It is checked as a whole when it is read. An [`AuthorityFile`] has the private key that
//! certifies stations, and stays away from them. Both are TOML; keys and secrets are in Base64.
//!
//! Errors name the line and never quote it. Texts and keys are overwritten when they are dropped. Two places are not:
//! strings that somebody wrote with escapes, which the parser copies, and the signing keys inside the crate `ring`.

pub(crate) mod reading;
pub(crate) mod writing;

use core::fmt;
use core::ops::Range;
use std::sync::Arc;

use units::WallTime;
use zeroize::Zeroizing;

use self::reading::Document;
use crate::service::ServiceAddress;
use crate::station::is_name;
use crate::{
    Authority, Certificate, CertificateError, GroupSecret, KeySet, MAX_SECRETS, Membership, PublicKey,
    SIGNATURE_BYTES, Secret, Signature, SigningKey, Station, Token, exchange_public,
};

/// Maximum size of a file of keys: about 200 peers. Units: bytes.
pub const MAX_KEY_FILE_BYTES: usize = 64 * 1024;

/// Version of both formats.
const FORMAT: &str = "1";

/// A station's keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyFile {
    laboratory: String,
    authority: PublicKey,
    station: StationKeys,
    /// The service that has the secrets; the file has none then.
    service: Option<ServiceAt>,
    /// Sorted by `from`; 1 to [`MAX_SECRETS`] unless a service has them, each with a token of its own.
    secrets: Vec<GroupSecret>,
    peers: Vec<Peer>,
}

/// A key service as its members know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceAt {
    /// Where it answers.
    pub address: ServiceAddress,
    /// Its public key (X25519).
    pub exchange: PublicKey,
}

/// A station's private keys and the certificate of their public ones.
#[derive(Clone, PartialEq, Eq)]
pub struct StationKeys {
    seed: Secret,
    exchange: Secret,
    certificate: Certificate,
}

/// Another station, as a peer of connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// The public key of its connections (X25519).
    pub exchange: PublicKey,
}

/// The private key of a laboratory's authority.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthorityFile {
    laboratory: String,
    seed: Secret,
}

/// Reason why a text is not a file of keys. Lines count from 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// Not TOML.
    #[error("line {line}: {message}\nrestore the file from a copy, or make another: tallycast keys add")]
    Syntax {
        /// The line.
        line: usize,
        /// What the parser expected.
        message: String,
    },
    /// An entry that no file of this format has.
    #[error(
        "line {0}: no such entry in a file of keys\nremove it, or use the version of tallycast that wrote it"
    )]
    Unknown(usize),
    /// An entry is missing.
    #[error(
        "line {line}: `{name}` is missing\nrestore the file from a copy, or make another: tallycast keys add"
    )]
    Missing {
        /// First line of the table in which it should be.
        line: usize,
        /// Name of the entry.
        name: &'static str,
    },
    /// An entry has a wrong value.
    #[error("line {line}: `{name}` must be {wanted}\nmend the line, or restore the file from a copy")]
    Value {
        /// The line.
        line: usize,
        /// Name of the entry.
        name: &'static str,
        /// Valid values.
        wanted: &'static str,
    },
    /// A format of another version.
    #[error("line {0}: a file of keys of another format\nuse the version of tallycast that wrote it")]
    Format(usize),
    /// An authority's file in place of a station's.
    #[error(
        "this is the file of a laboratory's authority, which no station needs\n\
         name the station's own file, which ends in .keys; make one: tallycast keys add"
    )]
    IsAuthority,
    /// A station's file in place of the authority's.
    #[error(
        "this is the file of a station, which certifies nothing\n\
         name the authority's file, which `tallycast keys new` made and which ends in .authority"
    )]
    IsStation,
    /// Another file in place of that of a key service.
    #[error(
        "this is no file of a key service\n\
         name the one that `tallycast keys new --service` made and which ends in .service"
    )]
    IsNoService,
    /// The file of a key service in place of a station's.
    #[error("this is the file of a key service\nname a station's own file, which ends in .keys")]
    IsService,
    /// A file with secrets although a key service has them.
    #[error(
        "line {0}: a station that asks a key service has no secrets in its file\nremove this one, or `[service]`"
    )]
    SecretBesideService(usize),
    /// Two secrets with one token.
    #[error("line {line}: the key token {token} is given twice\nkeep one of the two secrets")]
    TokenTwice {
        /// Line of the second.
        line: usize,
        /// The token.
        token: Token,
    },
    /// Too many secrets.
    #[error("line {0}: more than {MAX_SECRETS} secrets\nremove those that have ended: tallycast keys retire")]
    TooManySecrets(usize),
    /// The station's keys do not belong together.
    #[error("line {line}: {source}\nrestore the file from a copy, or make another: tallycast keys add")]
    Station {
        /// Line of the certificate.
        line: usize,
        /// Reason.
        #[source]
        source: CertificateError,
    },
    /// The private key of connections is not that of the certificate.
    #[error(
        "line {0}: `exchange` is not the private key of the certificate\n\
         restore the file from a copy, or make another: tallycast keys add"
    )]
    Exchange(usize),
    /// The text is too long.
    #[error("more than {MAX_KEY_FILE_BYTES} bytes\nthis is not a file of keys, or it has too many peers")]
    Long,
}

/// Reason why a file's secrets are not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// There is no room for another.
    #[error("there are {MAX_SECRETS} secrets already\nremove those that have ended: tallycast keys retire")]
    Full,
    /// There is one with this token already.
    #[error("there is a secret with the key token {0} already\nrotate again: another one is drawn")]
    Exists(Token),
    /// There is none with this token.
    #[error("no secret has the key token {0}\nlist them: tallycast keys show")]
    Unknown(Token),
    /// The key service has the secrets.
    #[error(
        "a key service makes and changes the secrets of this station\nlook at its file: tallycast keys show FILE.service"
    )]
    OfService,
    /// Members send with it.
    #[error(
        "members send with the secret {0} now\n\
         first make another and wait until its time has come: tallycast keys rotate"
    )]
    InUse(Token),
}

impl KeyFile {
    /// Joins a station's keys and a first secret of the group.
    ///
    /// # Errors
    /// [`CertificateError`] if the authority did not sign the certificate.
    pub fn new(
        authority: &AuthorityFile,
        station: StationKeys,
        secret: GroupSecret,
    ) -> Result<Self, CertificateError> {
        let (laboratory, authority) = (authority.laboratory.clone(), authority.authority().public());
        let (secrets, peers) = (vec![secret], Vec::new());
        let file = Self { laboratory, authority, station, service: None, secrets, peers };
        file.check_signed()?;
        Ok(file)
    }

    /// Joins a station's keys and the service that it gets the group's secrets from.
    ///
    /// # Errors
    /// [`CertificateError`] if the authority did not sign the certificate.
    pub fn with_service(
        authority: &AuthorityFile,
        station: StationKeys,
        service: ServiceAt,
    ) -> Result<Self, CertificateError> {
        let (laboratory, authority) = (authority.laboratory.clone(), authority.authority().public());
        let (secrets, peers) = (Vec::new(), Vec::new());
        let file = Self { laboratory, authority, station, service: Some(service), secrets, peers };
        file.check_signed()?;
        Ok(file)
    }

    /// Makes the file of another station of the same group: the same secrets and peers.
    ///
    /// # Errors
    /// [`CertificateError`] if the laboratory's authority did not sign its certificate.
    pub fn for_station(&self, station: StationKeys) -> Result<Self, CertificateError> {
        let file = Self { station, ..self.clone() };
        file.check_signed()?;
        Ok(file)
    }

    /// Reads and checks a file; whether the certificate is valid at a time is up to [`membership`](Self::membership).
    ///
    /// The text is the caller's to overwrite.
    ///
    /// # Errors
    /// [`KeyFileError`], which never quotes the text.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        let mut document = Document::parse(text)?;
        if document.has_table("authority") {
            return Err(KeyFileError::IsAuthority);
        }
        if document.has_table("service") && !document.has_table("station") {
            return Err(KeyFileError::IsService);
        }
        let (laboratory, authority) = document.laboratory()?;
        let (line, station) = read_station(document.table("station")?)?;
        let service = document.has_table("service").then(|| read_service(document.table("service")?));
        let service = service.transpose()?;
        let tables = document.tables("secret")?;
        if let Some(table) = tables.first().filter(|_| service.is_some()) {
            return Err(KeyFileError::SecretBesideService(table.line()));
        }
        let secrets = read_secrets(tables)?;
        let peers = document.tables("peer")?.into_iter().map(read_peer).collect::<Result<_, _>>()?;
        document.finish()?;
        if secrets.is_empty() && service.is_none() {
            return Err(KeyFileError::Missing { line: 1, name: "secret" });
        }
        let file = Self { laboratory, authority, station, service, secrets, peers };
        file.check_signed().map_err(|source| KeyFileError::Station { line, source })?;
        Ok(file)
    }

    /// Writes the file as [`parse`](Self::parse) reads it.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        writing::key_file(self)
    }

    /// Returns the membership that the file gives at `wall`.
    ///
    /// # Errors
    /// `TooEarly` and `Expired` of [`CertificateError`].
    pub fn membership(&self, wall: WallTime) -> Result<Membership, CertificateError> {
        let Self { laboratory, authority, station, .. } = self;
        station.certificate.check(authority, wall)?;
        Ok(Membership {
            laboratory: laboratory.clone(),
            authority: *authority,
            keys: self.key_set(),
            station: Arc::new(Station::new(station.certificate.clone(), station.signing())?),
            exchange: station.exchange.clone(),
        })
    }

    /// Returns the group's secrets as a member holds them.
    #[must_use]
    pub fn key_set(&self) -> KeySet {
        KeySet::new(self.secrets.iter().cloned())
    }

    /// Returns the laboratory's name.
    #[must_use]
    pub fn laboratory(&self) -> &str {
        &self.laboratory
    }

    /// Returns the public key of the laboratory's authority.
    #[must_use]
    pub const fn authority(&self) -> PublicKey {
        self.authority
    }

    /// Returns the station's keys.
    #[must_use]
    pub const fn station(&self) -> &StationKeys {
        &self.station
    }

    /// Returns the key service that has the secrets.
    #[must_use]
    pub const fn service(&self) -> Option<&ServiceAt> {
        self.service.as_ref()
    }

    /// Returns the group's secrets, the earliest first; none if a service has them.
    #[must_use]
    pub fn secrets(&self) -> &[GroupSecret] {
        &self.secrets
    }

    /// Returns the peers of connections.
    #[must_use]
    pub fn peers(&self) -> &[Peer] {
        &self.peers
    }

    /// Lists a peer, in place of another of its name.
    pub fn list_peer(&mut self, peer: Peer) {
        match self.peers.iter_mut().find(|known| known.name == peer.name) {
            Some(known) => *known = peer,
            None => self.peers.push(peer),
        }
    }

    /// Lists a peer no longer: connections with it are refused from the next start of a program.
    pub fn unlist_peer(&mut self, name: &str) {
        self.peers.retain(|peer| peer.name != name);
    }

    /// Returns the secret that members send with at `wall`, by the rule of [`KeySet::sending`]; `None` if a service has
    /// the secrets.
    #[must_use]
    pub fn sending(&self, wall: WallTime) -> Option<&GroupSecret> {
        let latest = self.secrets.iter().rev().find(|secret| secret.from <= wall);
        latest.or(self.secrets.first())
    }

    /// Adds a secret.
    ///
    /// # Errors
    /// [`SecretError`] if there is no room, or its token is taken.
    pub fn add_secret(&mut self, secret: GroupSecret) -> Result<(), SecretError> {
        if self.service.is_some() {
            return Err(SecretError::OfService);
        }
        if self.secrets.len() == MAX_SECRETS {
            return Err(SecretError::Full);
        }
        if self.secrets.iter().any(|known| known.token == secret.token) {
            return Err(SecretError::Exists(secret.token));
        }
        let at = self.secrets.partition_point(|known| known.from <= secret.from);
        self.secrets.insert(at, secret);
        Ok(())
    }

    /// Removes a secret, which is then not accepted any more.
    ///
    /// # Errors
    /// [`SecretError`] if there is none with this token, or if it is the one to send with at `wall`.
    pub fn retire_secret(&mut self, token: Token, wall: WallTime) -> Result<(), SecretError> {
        let at = self.secrets.iter().position(|secret| secret.token == token);
        let at = at.ok_or(SecretError::Unknown(token))?;
        if self.secrets.len() == 1 || self.sending(wall).is_some_and(|it| it.token == token) {
            return Err(SecretError::InUse(token));
        }
        self.secrets.remove(at);
        Ok(())
    }

    fn check_signed(&self) -> Result<(), CertificateError> {
        let certificate = &self.station.certificate;
        // At its own beginning the certificate is valid, if it ever is: the time is checked when it is used.
        certificate.check(&self.authority, certificate.not_before)
    }
}

impl StationKeys {
    /// Makes a station's keys from two random seeds, and certifies them.
    ///
    /// # Errors
    /// [`CertificateError::Malformed`] if `name` is no name of a station.
    pub fn new(
        authority: &AuthorityFile,
        name: &str,
        [seed, exchange]: [Secret; 2],
        validity: Range<WallTime>,
    ) -> Result<Self, CertificateError> {
        let keys = Self {
            certificate: Certificate {
                name: name.to_owned(),
                signing: signing_key(&seed).public(),
                exchange: exchange_public(&exchange),
                not_before: validity.start,
                not_after: validity.end,
                signature: Signature([0; SIGNATURE_BYTES]),
            },
            seed,
            exchange,
        };
        is_name(name).then(|| keys.certified(authority, validity)).ok_or(CertificateError::Malformed)
    }

    /// Returns the same keys with a new certificate.
    #[must_use]
    pub fn certified(self, authority: &AuthorityFile, validity: Range<WallTime>) -> Self {
        let certificate =
            Certificate { not_before: validity.start, not_after: validity.end, ..self.certificate };
        Self { certificate: authority.authority().certify(certificate), ..self }
    }

    /// Returns the certificate.
    #[must_use]
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    fn signing(&self) -> SigningKey {
        signing_key(&self.seed)
    }
}

impl AuthorityFile {
    /// Makes a laboratory's authority from a random seed; `None` if `laboratory` is no name.
    #[must_use]
    pub fn new(laboratory: &str, seed: Secret) -> Option<Self> {
        is_name(laboratory).then(|| Self { laboratory: laboratory.to_owned(), seed })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`KeyFileError`], which never quotes the text.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        let mut document = Document::parse(text)?;
        if document.has_table("station") {
            return Err(KeyFileError::IsStation);
        }
        let (_, laboratory) = document.name("laboratory")?;
        let mut table = document.table("authority")?;
        let (_, seed) = table.secret("signing")?;
        table.finish()?;
        document.finish()?;
        Ok(Self { laboratory, seed })
    }

    /// Writes the file as [`parse`](Self::parse) reads it.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        writing::authority_file(self)
    }

    /// Returns the laboratory's name.
    #[must_use]
    pub fn laboratory(&self) -> &str {
        &self.laboratory
    }

    /// Returns the authority.
    #[must_use]
    pub fn authority(&self) -> Authority {
        Authority::new(signing_key(&self.seed))
    }
}

fn signing_key(seed: &Secret) -> SigningKey {
    SigningKey::from_seed(&Zeroizing::new(*seed.reveal()))
}

fn read_station(mut table: Document<'_>) -> Result<(usize, StationKeys), KeyFileError> {
    let (name_line, name) = table.name("name")?;
    let (_, seed) = table.secret("signing")?;
    let (exchange_line, exchange) = table.secret("exchange")?;
    let (line, certificate) = table.certificate("certificate")?;
    table.finish()?;
    if certificate.name != name {
        let wanted = "the name in the certificate";
        return Err(KeyFileError::Value { line: name_line, name: "name", wanted });
    }
    if certificate.signing != signing_key(&seed).public() {
        return Err(KeyFileError::Station { line, source: CertificateError::Key(name) });
    }
    if certificate.exchange != exchange_public(&exchange) {
        return Err(KeyFileError::Exchange(exchange_line));
    }
    Ok((line, StationKeys { seed, exchange, certificate }))
}

fn read_secrets(tables: Vec<Document<'_>>) -> Result<Vec<GroupSecret>, KeyFileError> {
    let mut secrets: Vec<GroupSecret> = Vec::with_capacity(MAX_SECRETS);
    for mut table in tables {
        if secrets.len() == MAX_SECRETS {
            return Err(KeyFileError::TooManySecrets(table.line()));
        }
        let (line, secret) = table.group_secret()?;
        table.finish()?;
        let token = secret.token;
        if secrets.iter().any(|known| known.token == token) {
            return Err(KeyFileError::TokenTwice { line, token });
        }
        secrets.push(secret);
    }
    secrets.sort_by_key(|secret| secret.from);
    Ok(secrets)
}

fn read_service(mut table: Document<'_>) -> Result<ServiceAt, KeyFileError> {
    let (_, address) = table.service_address("address")?;
    let (_, exchange) = table.public_key("exchange")?;
    table.finish()?;
    Ok(ServiceAt { address, exchange })
}

fn read_peer(mut table: Document<'_>) -> Result<Peer, KeyFileError> {
    let (name, exchange) = table.station()?;
    table.finish()?;
    Ok(Peer { name, exchange })
}

impl fmt::Debug for StationKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "StationKeys({:?}, …)", self.certificate.name)
    }
}

impl fmt::Debug for AuthorityFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AuthorityFile({:?}, …)", self.laboratory)
    }
}

#[cfg(test)]
mod tests;
