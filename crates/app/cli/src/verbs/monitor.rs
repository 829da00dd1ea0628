//! `tallycast monitor`: the server that thins, combines and remembers streams, and serves the page and the API.

mod inject_file;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use monitor::plan::Node;
use monitor::{
    Authority, DEFAULT_PAGES_PER_ADDRESS, GraphFile, MAX_PAGES, MonitorConfig, MonitorHandle, Tls, TlsError,
};
use serde_json::json;
use tallycast::StreamPattern;
use toml::Value;
use units::text;

use crate::Outcome;
use crate::deadline::Deadline;
use crate::messages::print_line;
use crate::settings::{self, Origin, Settings, Sources, derivations, nodes, operators, patterns};
use crate::signals::AsChild;
use crate::verbs::graph::read as graph_file;
use crate::verbs::reliable::keys::KeyArguments;
use crate::verbs::subscribe::account_line;
use crate::verbs::unjoined;
use inject_file::InjectFile;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast monitor                                       every stream; page at http://127.0.0.1:7480/
  tallycast monitor 'lab/**' --archive tallycast-archive  with recorded history
  tallycast monitor --listen 0.0.0.0:7480 --allow-host control-room.example
  tallycast monitor --listen 0.0.0.0:7480 --tls host.crt,host.key
  tallycast monitor --fingerprint                         fingerprint of this host's own authority

More streams can be joined or derived at run time, on the page or through the API; to do so at the start, use
[monitor] in the settings.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Streams to join at the start [default: monitor.patterns of the settings]
    #[arg(value_name = "PATTERN")]
    patterns: Vec<StreamPattern>,
    /// Address of the page and the API [default: monitor.listen of the settings]
    #[arg(long, value_name = "ADDRESS", value_parser = settings::listen_address)]
    listen: Option<SocketAddr>,
    /// Encrypt page and API: auto, with a certificate of this host's own authority; off; or files in PEM, CERTIFICATE,KEY,
    /// read again when they change [default: off on loopback, else auto]
    #[arg(long, value_name = "TLS", value_parser = tls)]
    tls: Option<Tls>,
    /// Allow --tls off on other addresses than loopback: every host on the way can read and change everything
    #[arg(long)]
    insecure: bool,
    /// Folder of users, tokens and rules; see tallycast access [default: access.folder of the settings]
    #[arg(long, value_name = "DIR")]
    access: Option<PathBuf>,
    /// Print the SHA-256 fingerprint of this host's own certificate authority and its file for browsers, and end
    #[arg(long)]
    fingerprint: bool,
    /// Also show recorded history from the archive in this folder
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// Begin with the [[node]] tables of this file, instead of the graph that was applied last and of [[monitor.node]]
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
    /// Neither run nor keep graphs that are applied beyond the end of the monitor server
    #[arg(long, hide = true)]
    no_kept_graph: bool,
    /// Also accept requests for this host name; may be given several times
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Maximum number of open pages per client address, of 256 in all; behind a proxy all pages share one address
    #[arg(long, value_name = "COUNT", default_value_t = DEFAULT_PAGES_PER_ADDRESS, value_parser = pages)]
    pages_per_address: usize,
    /// Age from which samples are of no use: relays serve it, and what is older when it comes is lost [default: none]
    #[arg(long, value_name = "DURATION", value_parser = text::duration)]
    deadline: Option<Duration>,
    /// Steer apps of other hosts, too: this station's file of keys, which lists their stations as peers
    #[arg(long, value_name = "FILE")]
    steer_key: Option<PathBuf>,
    /// Name of this reader in accounts
    #[arg(long, value_name = "NAME", default_value = "monitor")]
    reader: String,
    /// End after this time, such as 8h
    #[arg(long, short = 't', value_name = "DURATION", value_parser = text::duration)]
    duration: Option<Duration>,
    /// Print the listening address, and the accounts at the end, as JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
    /// Let the page plant loss: it writes the probability into this file, which publishers follow
    #[arg(long, value_name = "PATH", hide = true)]
    inject_control: Option<PathBuf>,
    #[command(flatten)]
    child: AsChild,
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    if arguments.fingerprint {
        return print_fingerprint(arguments.json);
    }
    let settings = sources.load()?;
    let cancellation = arguments.child.cancellation()?;
    let config = arguments.config(&settings)?;
    let node = config.node.clone();
    let handle = monitor::start(config)?;
    say_where(&handle, arguments.json)?;
    let deadline = Deadline::after(arguments.duration);
    while !deadline.is_over() && !cancellation.wait(deadline.left(Duration::MAX)) {}
    let accounts = handle.finish(arguments.child.patience);
    let mut in_order = unjoined::say(&node);
    for account in &accounts {
        in_order &= tallycast::is_in_order_among(account, &accounts);
        if arguments.json {
            print_line(&account_line(account))?;
        }
    }
    Ok(if in_order { Outcome::Fine } else { Outcome::Found })
}

/// Says where the page is, and by what a browser can know its server.
fn say_where(handle: &MonitorHandle, json: bool) -> anyhow::Result<()> {
    let fingerprint = handle.authority().map(Authority::fingerprint);
    if json {
        let address = handle.address().to_string();
        let listening = json!({"event": "listening", "address": address, "page": handle.page(), "fingerprint": fingerprint});
        return Ok(print_line(&listening)?);
    }
    eprintln!("the page is at {}", handle.page());
    if let Some(authority) = handle.authority() {
        eprintln!("its certificate authority has the SHA-256 fingerprint\n  {}", authority.fingerprint());
        eprintln!("browsers trust it once they have imported {}", authority.certificate_file().display());
    }
    Ok(())
}

fn print_fingerprint(json: bool) -> anyhow::Result<Outcome> {
    let authority = Authority::open(&monitor::default_tls_folder().ok_or(TlsError::NoFolder)?)?;
    let (fingerprint, file) = (authority.fingerprint(), authority.certificate_file());
    if json {
        print_line(&json!({"event": "authority", "fingerprint": fingerprint, "certificate": file}))?;
    } else {
        writeln!(std::io::stdout(), "{fingerprint}\n{}", file.display())?;
    }
    Ok(Outcome::Fine)
}

impl Arguments {
    fn config(&self, settings: &Settings) -> anyhow::Result<MonitorConfig> {
        let given = (!self.patterns.is_empty())
            .then(|| self.patterns.iter().map(|it| Value::String(it.as_str().to_owned())).collect());
        let (joined, _) = settings.value("monitor.patterns", given.map(Value::Array))?;
        let (derived, _) = settings.value("monitor.derive", None)?;
        let listen = settings.text("monitor.listen", self.listen.map(|it| it.to_string()).as_deref())?;

        let mut config = MonitorConfig::new(settings.node()?);
        config.listen = listen.parse()?;
        config.tls = self.tls.clone().unwrap_or_default();
        config.insecure = self.insecure;
        config.access = settings.access_in_force(self.access.as_deref())?;
        config.reader.clone_from(&self.reader);
        config.deadline = self.deadline;
        config.state = monitor::default_state(config.listen.port());
        config.keeps_graph = !self.no_kept_graph;
        config.patterns = patterns(&joined)?;
        config.nodes = derivations(&derived)?;
        let (listed, origin) = settings.value("monitor.node", None)?;
        config.nodes.extend(nodes(&listed)?);
        if let Origin::File(file) = &origin {
            look_beside(&mut config.nodes, file);
        }
        if let Some(path) = &self.graph {
            let mut nodes = graph_file(path)?;
            look_beside(&mut nodes, path);
            config.graph_file = Some(GraphFile { path: path.clone(), nodes });
        }
        let (_, origin) = settings.value("monitor.programs", None)?;
        let programs = PathBuf::from(settings.text("monitor.programs", None)?);
        if !programs.as_os_str().is_empty() {
            let folder = match &origin {
                Origin::File(file) => file.parent().map(Path::to_owned).unwrap_or_default(),
                _ => PathBuf::new(),
            };
            config.programs = Some(std::path::absolute(folder.join(programs))?);
        }
        let (listed, origin) = settings.value("monitor.operator", None)?;
        config.operators = operators(&listed)?;
        if let Origin::File(file) = &origin {
            config.operators.iter_mut().for_each(|operator| operator.look_beside(file));
        }
        config.python = settings.text("monitor.python", None)?;
        if let Some(path) = &self.steer_key {
            config.steering_keys = KeyArguments::of_file(path.clone()).listed()?;
        }
        config.allowed_hosts.clone_from(&self.allow_host);
        config.pages_per_address = self.pages_per_address;
        if let Some(path) = &self.inject_control {
            let file = InjectFile::open(path).with_context(|| path.display().to_string())?;
            config.inject = Some(Arc::new(file));
        }
        Ok(match &self.archive {
            Some(root) => config.archive(root.as_path()),
            None => config,
        })
    }
}

/// Resolves relative paths of the files of operators in Python against the folder of the file that names them.
fn look_beside(nodes: &mut [Node], file: &Path) {
    if let Some(folder) = file.parent() {
        nodes.iter_mut().for_each(|node| node.look_in(folder));
    }
}

/// Reads how page and API are encrypted.
fn tls(text: &str) -> Result<Tls, String> {
    match text {
        "auto" => Ok(Tls::Automatic),
        "off" => Ok(Tls::Off),
        files => {
            let (certificate, key) = files.split_once(',').ok_or("write auto, off, or CERTIFICATE,KEY")?;
            Ok(Tls::Files { certificate: certificate.into(), key: key.into() })
        }
    }
}

/// Reads a number of pages.
fn pages(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=MAX_PAGES).contains(count));
    count.ok_or_else(|| format!("must be 1 to {MAX_PAGES}"))
}
