//! What an app says before it is steered: its parameters, its log, its address, its keys and rules.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use ::steer::{Config, Declared, Kept, Standing, ValueError};
use access::{MAX_POLICY_BYTES, Policy, PrincipalName, Reach};
use keys::PublicKey;
use sample::{Dtype, Element, StreamName};
use sys::OpenError;
use sys::private_file::{self, Privacy};
use units::Epoch;

use super::host::{Began, Host, Shared};
use super::log_file::{LogFile, default_log};
use super::{
    KEY_LABEL, PARAMETER_LABEL, PORT_LABEL, Parameter, STREAM_PREFIX, Steered, Steering, SteeringError, row,
};
use crate::node::Node;
use crate::udt::{Error, Keys, Listener, Options, PortError};

/// First of the UDP ports at which apps take commands.
pub const FIRST_PORT: u16 = 7_410;
/// Last of these ports: a host has up to 64 steered apps unless they are given other ports.
pub const LAST_PORT: u16 = 7_473;

/// An app's steering before it begins; created by [`Node::steering`].
#[derive(Clone, Debug)]
pub struct SteeringBuilder {
    node: Node,
    app: String,
    declared: Vec<Result<Declared, ValueError>>,
    /// What the app kept with values, by positions of their parameters.
    kept: BTreeMap<usize, Kept>,
    ip: IpAddr,
    port: Option<u16>,
    keys: Option<Keys>,
    names: BTreeMap<PublicKey, PrincipalName>,
    policy: Option<Policy>,
    log: Option<PathBuf>,
}

impl Node {
    /// Begins to describe the steering of an app.
    #[must_use]
    pub fn steering(&self, app: impl Into<String>) -> SteeringBuilder {
        SteeringBuilder {
            node: self.clone(),
            app: app.into(),
            declared: Vec::new(),
            kept: BTreeMap::new(),
            ip: Ipv4Addr::LOCALHOST.into(),
            port: None,
            keys: None,
            names: BTreeMap::new(),
            policy: None,
            log: None,
        }
    }
}

impl SteeringBuilder {
    /// Adds a parameter.
    pub fn parameter<E: Element>(&mut self, parameter: Parameter<E>) -> Steered<E> {
        self.declared.push(parameter.declared());
        Steered { place: self.declared.len() - 1, element: PhantomData }
    }

    /// Adds a parameter whose type is known only when the app runs, with the value with which it begins.
    pub fn declared(&mut self, parameter: ::steer::Parameter, value: ::steer::Value) -> usize {
        self.declared.push(Ok(Declared { parameter, value }));
        self.declared.len() - 1
    }

    /// Says what the app kept with the value with which a parameter begins: then the app can tell of every command of the
    /// run before whether it took effect, also of those without an outcome.
    pub fn kept<E: Element>(&mut self, parameter: Steered<E>, kept: Kept) -> &mut Self {
        self.kept_at(parameter.place, kept)
    }

    /// As [`kept`](Self::kept), for the parameter at a position, in the order of declaration.
    pub fn kept_at(&mut self, place: usize, kept: Kept) -> &mut Self {
        self.kept.insert(place, kept);
        self
    }

    /// Returns whether it has no parameter.
    pub(crate) const fn is_empty(&self) -> bool {
        self.declared.is_empty()
    }

    /// Listens at an address of this host; 127.0.0.1 by default. Others than loopback need [keys](Self::keys).
    ///
    /// Without a port, the first free one of [`FIRST_PORT`] to [`LAST_PORT`].
    pub const fn listen(&mut self, ip: IpAddr, port: Option<u16>) -> &mut Self {
        (self.ip, self.port) = (ip, port);
        self
    }

    /// Takes commands over secured connections of the listed peers only; `names` are those of the rules of access.
    pub fn keys(&mut self, keys: Keys, names: BTreeMap<PublicKey, PrincipalName>) -> &mut Self {
        (self.keys, self.names) = (Some(keys), names);
        self
    }

    /// Sets the rules of access. By default those of the file `access` in `$TALLYCAST_ACCESS` or
    /// `~/.config/tallycast`; without that file anyone on this host may steer, and no other host.
    pub fn policy(&mut self, policy: Policy) -> &mut Self {
        self.policy = Some(policy);
        self
    }

    /// Sets the file of the log of commands; [`default_log`] by default.
    pub fn log(&mut self, path: impl Into<PathBuf>) -> &mut Self {
        self.log = Some(path.into());
        self
    }

    /// Begins: from now on commands are taken. `epoch` is that of the app's stream, whose sample indices
    /// [`Steering::step`] is given.
    ///
    /// # Errors
    /// [`SteeringError`].
    pub fn open(self, epoch: Epoch) -> Result<Steering, SteeringError> {
        let app: StreamName = self.app.parse()?;
        if self.keys.is_none() && !self.ip.is_loopback() {
            return Err(SteeringError::Clear);
        }
        let declared = self.declared.into_iter().collect::<Result<Vec<_>, _>>()?;
        let policy = match self.policy {
            Some(policy) => policy,
            None => policy_on_disk(self.keys.is_none())?,
        };
        let path = self.log.unwrap_or_else(|| default_log(&app));
        let (log, recovery) = LogFile::open(&app, &path, self.node.keyring())?;
        let values: Vec<_> =
            declared.iter().map(|it| (it.parameter.name.clone(), it.value.clone())).collect();
        // A value of which nothing was kept ended with its process: a command without an outcome is uncertain.
        let kept = |place: usize| self.kept.get(&place).copied().unwrap_or(Kept::Nothing);
        let standings = declared.into_iter().enumerate();
        let standings = standings.map(|(place, declared)| Standing { declared, kept: kept(place) });
        let config = Config { app: app.clone(), epoch, policy };
        let core = recovery.start(config, standings.collect())?;
        let key = self.keys.as_ref().map(Keys::public);
        let listener = listen(self.ip, self.port, self.keys)?;
        let address = listener.local_address();
        let mut publisher = self.node.publisher(format!("{STREAM_PREFIX}{app}"));
        publisher = publisher.dtype(Dtype::F8).rate(1).own_times().channels(row::channels());
        publisher = publisher.label(PORT_LABEL, address.port().to_string());
        if let Some(key) = key {
            publisher = publisher.label(KEY_LABEL, key.to_string());
        }
        for (place, (name, _)) in values.iter().enumerate() {
            publisher = publisher.label(format!("{PARAMETER_LABEL}{place:03}"), name);
        }
        let publisher = publisher.open()?;
        let began = Began { run: publisher.epoch(), head: log.head() };
        let host = Host::start(Shared::new(core, self.names, began), listener, log, publisher)?;
        Ok(Steering::new(host, address, values))
    }
}

fn listen(ip: IpAddr, port: Option<u16>, keys: Option<Keys>) -> Result<Listener, SteeringError> {
    let options = Options { keys, ..Options::messages() };
    let ports = port.map_or(FIRST_PORT..=LAST_PORT, |port| port..=port);
    for candidate in ports {
        match Listener::bind_to(SocketAddr::new(ip, candidate), &options) {
            Err(Error::Port(PortError::Open(OpenError::InUse { .. }))) if port.is_none() => {}
            opened => return Ok(opened?),
        }
    }
    Err(SteeringError::NoPort { host: ip.to_string() })
}

/// Reads the rules of access of this user.
fn policy_on_disk(is_clear: bool) -> Result<Policy, SteeringError> {
    let reach = if is_clear { Reach::Loopback } else { Reach::Elsewhere };
    let named = std::env::var_os("TALLYCAST_ACCESS").filter(|it| !it.is_empty()).map(PathBuf::from);
    let usual = || sys::folders::config().map(|folder| folder.join("tallycast"));
    named.or_else(usual).map_or(Ok(Policy::without_file(reach)), |folder| policy_in(&folder, reach))
}

/// Reads the rules of access in a folder, which no other user could have written.
fn policy_in(folder: &Path, reach: Reach) -> Result<Policy, SteeringError> {
    let path = folder.join("access");
    let failed = |error: String| SteeringError::Rules { path: path.clone(), error };
    let text = private_file::read(&path, Privacy::Open, MAX_POLICY_BYTES);
    match text.map_err(|error| failed(error.to_string()))? {
        Some(text) => Policy::parse(&text).map_err(|error| failed(error.to_string())),
        None => Ok(Policy::without_file(reach)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn rules_that_others_could_have_written_and_wrong_ones_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let read = || policy_in(folder.path(), Reach::Loopback);
        assert_eq!(read().unwrap(), Policy::without_file(Reach::Loopback));
        let path = folder.path().join("access");
        write(&path, "allow anyone steer **\n").unwrap();
        set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(read().unwrap().rules().len(), 1);
        set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(read(), Err(SteeringError::Rules { .. })), "anyone could have written them");
        set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        write(&path, "allow everything\n").unwrap();
        assert!(matches!(read(), Err(SteeringError::Rules { .. })));
    }
}
