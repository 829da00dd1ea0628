//! Sources of settings: flags take precedence over environment, file and defaults, and the origin is kept.
//!
//! Every key is described once, in [`KEYS`]; `config show` and `config check` print and check by it.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use monitor::plan::Node as GraphNode;
use monitor::{OperatorConfig, check_graph, check_operators};
use sys::trust::{self, Purpose, TrustError};
use tallycast::{BUS_VARIABLE, Bus, Node, StreamPattern};
use toml::{Table, Value};

/// The environment variable that names the file of settings.
const CONFIG_VARIABLE: &str = "TALLYCAST_CONFIG";
/// The environment variable that names the folder of access files.
const ACCESS_VARIABLE: &str = "TALLYCAST_ACCESS";

/// Flags of every verb that select the sources of settings.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Network settings: udp://GROUPS:PORT?iface=eth1&ttl=1&shm=on, or shm://NAME within this host [env: TALLYCAST_BUS]
    #[arg(long, global = true, help_heading = "Settings", value_name = "URL")]
    bus: Option<String>,
    /// Name of this station in announcements and reports [default: the host's name]
    #[arg(long, global = true, help_heading = "Settings", value_name = "NAME")]
    station: Option<String>,
    /// Settings file in TOML [env: TALLYCAST_CONFIG] [default: ~/.config/tallycast.toml if it exists]
    #[arg(long, global = true, help_heading = "Settings", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Origin of a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Flag(&'static str),
    Environment(&'static str),
    File(PathBuf),
    Default,
}

/// One key of the settings.
pub(crate) struct Key {
    /// Its path in the file: `section.key`.
    pub(crate) name: &'static str,
    /// The flag over it, if there is one.
    pub(crate) flag: Option<&'static str>,
    /// The environment variable over it.
    pub(crate) variable: Option<&'static str>,
    /// Description in one line.
    pub(crate) about: &'static str,
    /// Default value, as TOML.
    default: &'static str,
    /// Check of a value.
    check: fn(&Value) -> anyhow::Result<()>,
}

/// Every key there is.
pub(crate) const KEYS: [Key; 11] = [
    Key {
        name: "bus.address",
        flag: Some("--bus"),
        variable: Some(BUS_VARIABLE),
        about: "network settings; options iface, ttl, mtu, rcvbuf, sndbuf, send, shm, access, group, keys, proof, and those of docs/guide/tuning.md; or shm://NAME",
        default: "\"udp://239.84.0.0:7400?shm=on\"",
        check: |value| Ok(text(value)?.parse::<Bus>().map(drop)?),
    },
    Key {
        name: "bus.station",
        flag: Some("--station"),
        variable: None,
        about: "name of this station; empty: the host's name",
        default: "\"\"",
        check: |value| Ok(tallycast::check_station(text(value)?)?),
    },
    Key {
        name: "monitor.listen",
        flag: Some("--listen"),
        variable: None,
        about: "address of the monitor server's page and API",
        default: "\"127.0.0.1:7480\"",
        check: |value| listen_address(text(value)?).map(drop).map_err(anyhow::Error::msg),
    },
    Key {
        name: "monitor.patterns",
        flag: Some("PATTERN"),
        variable: None,
        about: "streams that the monitor server joins",
        default: "[\"**\"]",
        check: |value| patterns(value).map(drop),
    },
    Key {
        name: "monitor.derive",
        flag: None,
        variable: None,
        about: "derived streams: [[monitor.derive]] name, expression, inputs, unit",
        default: "[]",
        check: |value| derivations(value).map(drop),
    },
    Key {
        name: "monitor.node",
        flag: None,
        variable: None,
        about: "nodes of the processing graph: [[monitor.node]] name, kind, and the settings of that kind",
        default: "[]",
        check: |value| nodes(value).map(drop),
    },
    Key {
        name: "monitor.operator",
        flag: None,
        variable: None,
        about: "operators in Python: [[monitor.operator]] name, python, inputs, output, every, dtype, channels, incomplete, settings",
        default: "[]",
        check: |value| operators(value).map(drop),
    },
    Key {
        name: "monitor.python",
        flag: None,
        variable: None,
        about: "interpreter that runs the operators",
        default: "\"python3\"",
        check: |value| text(value).map(drop),
    },
    Key {
        name: "monitor.programs",
        flag: None,
        variable: None,
        about: "folder of Python files whose operators a graph that is applied may start; empty: none",
        default: "\"\"",
        check: |value| text(value).map(drop),
    },
    Key {
        name: "access.folder",
        flag: Some("--access"),
        variable: Some(ACCESS_VARIABLE),
        about: "folder of the access files: rules, users, tokens; empty: ~/.config/tallycast",
        default: "\"\"",
        check: |value| text(value).map(drop),
    },
    Key {
        name: "record.root",
        flag: Some("--archive"),
        variable: None,
        about: "folder of the archive",
        default: "\"tallycast-archive\"",
        check: |value| text(value).map(drop),
    },
];

/// The settings of one run of the program.
pub(crate) struct Settings {
    file: Option<(PathBuf, Table)>,
    bus: Option<String>,
    station: Option<String>,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(formatter, "flag {flag}"),
            Self::Environment(variable) => write!(formatter, "environment {variable}"),
            Self::File(path) => write!(formatter, "file {}", path.display()),
            Self::Default => formatter.write_str("default"),
        }
    }
}

impl Sources {
    /// Reads the file of settings, if there is one.
    pub(crate) fn load(&self) -> anyhow::Result<Settings> {
        let asked = self.asked_file();
        let is_found = asked.is_none();
        let path = asked.or_else(|| default_path().filter(|path| path.is_file()));
        let read = |path: &Path| {
            if is_found { read_opened(open_default(path)?, path) } else { read(path) }
        };
        let file = path.map(|path| read(&path).map(|table| (path, table))).transpose()?;
        Ok(Settings { file, bus: self.bus.clone(), station: self.station.clone() })
    }

    /// Returns the file of settings that a flag or the environment names.
    pub(crate) fn asked_file(&self) -> Option<PathBuf> {
        self.config.clone().or_else(|| std::env::var_os(CONFIG_VARIABLE).map(PathBuf::from))
    }
}

impl Settings {
    /// Returns a key's value and its origin.
    ///
    /// # Panics
    /// If there is no such key: keys are written in this program only.
    pub(crate) fn value(&self, name: &str, flag: Option<Value>) -> anyhow::Result<(Value, Origin)> {
        let key = KEYS.iter().find(|key| key.name == name).expect("a key of the table");
        let (value, origin) = self.lookup(key, flag);
        (key.check)(&value).with_context(|| format!("{} from {origin}", key.name))?;
        Ok((value, origin))
    }

    /// Returns a key's value as text.
    pub(crate) fn text(&self, name: &str, flag: Option<&str>) -> anyhow::Result<String> {
        let (value, _) = self.value(name, flag.map(|flag| Value::String(flag.to_owned())))?;
        text(&value).map(str::to_owned)
    }

    /// Returns the bus.
    pub(crate) fn bus(&self) -> anyhow::Result<Bus> {
        Ok(self.text("bus.address", None)?.parse()?)
    }

    /// Returns the bus that a flag, the environment or the file names.
    pub(crate) fn named_bus(&self) -> anyhow::Result<Option<String>> {
        let (value, origin) = self.value("bus.address", None)?;
        Ok(if origin == Origin::Default { None } else { Some(text(&value)?.to_owned()) })
    }

    /// Returns the folder of access files for a command that edits them, which makes it if need be.
    pub(crate) fn access_folder(&self, flag: Option<&Path>) -> anyhow::Result<PathBuf> {
        let folder = self.named_access_folder(flag)?.or_else(usual_access_folder);
        folder.ok_or_else(|| anyhow!("no folder of access files, as HOME is not set\nname one with --access"))
    }

    /// Returns the folder of access files for a service: one that is named must exist, since a mistyped name would
    /// leave the service without users and rules.
    pub(crate) fn access_in_force(&self, flag: Option<&Path>) -> anyhow::Result<Option<PathBuf>> {
        let Some(named) = self.named_access_folder(flag)? else { return Ok(usual_access_folder()) };
        if !named.is_dir() {
            let path = named.display();
            bail!(
                "{path} is not a folder\nmake it with its first user: tallycast access --access {path} user add NAME"
            );
        }
        Ok(Some(named))
    }

    /// Returns the folder of access files that a flag, the environment or the file names.
    fn named_access_folder(&self, flag: Option<&Path>) -> anyhow::Result<Option<PathBuf>> {
        let flag = flag.map(|path| path.to_str().ok_or_else(|| anyhow!("{} is not text", path.display())));
        let named = self.text("access.folder", flag.transpose()?)?;
        Ok(if named.is_empty() { None } else { Some(named.into()) })
    }

    /// Makes this process's node on the bus.
    pub(crate) fn node(&self) -> anyhow::Result<Node> {
        self.node_on(self.bus()?)
    }

    /// Makes this process's node on a bus that a verb has changed.
    pub(crate) fn node_on(&self, bus: Bus) -> anyhow::Result<Node> {
        let mut builder = Node::builder().bus(bus);
        let station = self.text("bus.station", None)?;
        if !station.is_empty() {
            builder = builder.station(station);
        }
        Ok(builder.build()?)
    }

    fn lookup(&self, key: &Key, flag: Option<Value>) -> (Value, Origin) {
        let of_every_verb = match key.name {
            "bus.address" => self.bus.clone(),
            "bus.station" => self.station.clone(),
            _ => None,
        };
        if let Some(value) = flag.or(of_every_verb.map(Value::String)) {
            return (value, Origin::Flag(key.flag.unwrap_or_default()));
        }
        if let Some(variable) = key.variable
            && let Ok(value) = std::env::var(variable)
        {
            return (Value::String(value), Origin::Environment(variable));
        }
        if let Some((path, table)) = &self.file
            && let Some(value) = in_table(table, key.name)
        {
            return (value.clone(), Origin::File(path.clone()));
        }
        (default_of(key), Origin::Default)
    }
}

/// Reads the address of a page.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let wanted =
        "write 127.0.0.1:7480 for this host alone, 0.0.0.0:7480 or [::]:7480 for all, port 0 for a free one";
    text.parse().map_err(|_| match in_brackets(text) {
        Some(address) => {
            format!("`{text}` lacks the brackets of an IPv6 address with a port\nwrite {address}")
        }
        None => format!("`{text}` is not an IP address with a port\n{wanted}"),
    })
}

/// Returns an IPv6 address whose port was written without brackets, with them.
fn in_brackets(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.rsplit_once(':')?;
    Some(SocketAddr::new(address.parse::<Ipv6Addr>().ok()?.into(), port.parse().ok()?))
}

/// Writes a bus without the options that have their defaults.
pub(crate) fn brief(bus: &Bus) -> String {
    let (text, usual) = (bus.to_string(), Bus::default().to_string());
    let options =
        |text: &str| text.split_once('?').map_or_else(String::new, |(_, options)| options.to_owned());
    let usual = options(&usual);
    let said = options(&text);
    let said: Vec<&str> =
        said.split('&').filter(|option| !usual.split('&').any(|usual| usual == *option)).collect();
    let address = text.split('?').next().unwrap_or_default();
    if said.is_empty() { address.to_owned() } else { format!("{address}?{}", said.join("&")) }
}

/// Reads a file of settings and checks every key in it.
pub(crate) fn read(path: &Path) -> anyhow::Result<Table> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    read_opened(file, path)
}

/// Reads an open file of settings.
fn read_opened(mut file: File, path: &Path) -> anyhow::Result<Table> {
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(|| format!("cannot read {}", path.display()))?;
    let table: Table = text.parse().map_err(|error| anyhow!("{}: {error}", path.display()))?;
    check(&table).with_context(|| path.display().to_string())?;
    Ok(table)
}

/// Opens a file at a default path. Root reads only trusted files: settings name programs that are started, and `sudo`
/// may keep the `HOME` of its caller. The opened file itself is checked, whatever has its name by then.
fn open_default(path: &Path) -> anyhow::Result<File> {
    if sys::process::user() != 0 {
        return File::open(path).with_context(|| format!("cannot read {}", path.display()));
    }
    trust::open_trusted(path, Purpose::Read).map_err(|error| match error {
        TrustError::Link(path) => anyhow!(
            "as root, settings are not read through a link: {}\nname the file with --config if you trust it",
            path.display()
        ),
        error => anyhow!("as root, these settings are not trusted: {error}\nor name them with --config"),
    })
}

/// Returns the file that is read unless another is named.
pub(crate) fn default_path() -> Option<PathBuf> {
    sys::folders::config().map(|folder| folder.join("tallycast.toml"))
}

/// Returns the folder of access files unless another is named.
fn usual_access_folder() -> Option<PathBuf> {
    sys::folders::config().map(|folder| folder.join("tallycast"))
}

/// Reads the value of `monitor.patterns`.
pub(crate) fn patterns(value: &Value) -> anyhow::Result<Vec<StreamPattern>> {
    let list = value.as_array().ok_or_else(|| anyhow!("not a list of patterns: {value}"))?;
    list.iter().map(|pattern| Ok(text(pattern)?.parse()?)).collect()
}

/// Reads the value of `monitor.derive`: nodes of one kind.
pub(crate) fn derivations(value: &Value) -> anyhow::Result<Vec<GraphNode>> {
    let mut list = value.clone();
    for entry in list.as_array_mut().into_iter().flatten().filter_map(Value::as_table_mut) {
        entry.entry("kind").or_insert_with(|| "derive".into());
    }
    nodes(&list)
}

/// Reads the value of `monitor.node`.
pub(crate) fn nodes(value: &Value) -> anyhow::Result<Vec<GraphNode>> {
    let list = value.as_array().ok_or_else(|| anyhow!("not a list of nodes: {value}"))?;
    let node = |entry: &Value| -> anyhow::Result<GraphNode> {
        let name = entry.get("name").and_then(Value::as_str).unwrap_or("without a name");
        let node: GraphNode = entry.clone().try_into().with_context(|| format!("node `{name}`"))?;
        check_graph(std::slice::from_ref(&node), &[])?;
        Ok(node)
    };
    list.iter().map(node).collect()
}

/// Reads the value of `monitor.operator`.
pub(crate) fn operators(value: &Value) -> anyhow::Result<Vec<OperatorConfig>> {
    let list = value.as_array().ok_or_else(|| anyhow!("not a list of operators: {value}"))?;
    let operator = |entry: &Value| entry.clone().try_into::<OperatorConfig>().context("an operator");
    let list = list.iter().map(operator).collect::<anyhow::Result<Vec<_>>>()?;
    let checked = check_operators(&list);
    checked.map_err(|(name, error)| anyhow::Error::from(error).context(format!("the operator `{name}`")))?;
    Ok(list)
}

fn check(table: &Table) -> anyhow::Result<()> {
    for (section, content) in table {
        let known = || KEYS.iter().filter_map(|key| key.name.split_once('.'));
        if !known().any(|(name, _)| name == section) {
            let mut names: Vec<&str> = known().map(|(name, _)| name).collect();
            names.dedup();
            bail!("unknown section [{section}]\nknown sections: {}", names.join(", "));
        }
        let content =
            content.as_table().ok_or_else(|| anyhow!("`{section}` is a section: write [{section}]"))?;
        for (name, value) in content {
            let path = format!("{section}.{name}");
            let key = KEYS.iter().find(|key| key.name == path).ok_or_else(|| {
                let names: Vec<&str> =
                    known().filter(|(of, _)| of == section).map(|(_, name)| name).collect();
                anyhow!("unknown key {path}\nknown keys of [{section}]: {}", names.join(", "))
            })?;
            (key.check)(value).context(path)?;
        }
    }
    let none = Value::Array(Vec::new());
    let of_monitor = |key: &str| in_table(table, key).unwrap_or(&none);
    let mut graph = derivations(of_monitor("monitor.derive"))?;
    graph.extend(nodes(of_monitor("monitor.node"))?);
    check_graph(&graph, &operators(of_monitor("monitor.operator"))?).context("[monitor]")
}

fn in_table<'a>(table: &'a Table, name: &str) -> Option<&'a Value> {
    let (section, key) = name.split_once('.')?;
    table.get(section)?.get(key)
}

fn default_of(key: &Key) -> Value {
    let table: Table = format!("value = {}", key.default).parse().expect("the defaults are TOML");
    table["value"].clone()
}

fn text(value: &Value) -> anyhow::Result<&str> {
    value.as_str().ok_or_else(|| anyhow!("not a string: {value}\nwrite it in quotation marks"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(file: &str) -> Settings {
        let file = Some((PathBuf::from("a.toml"), file.parse().unwrap()));
        Settings { file, bus: None, station: None }
    }

    #[test]
    fn every_default_passes_its_own_check() {
        for key in &KEYS {
            (key.check)(&default_of(key)).unwrap();
        }
    }

    #[test]
    fn as_root_settings_that_nobody_named_are_read_only_if_they_are_roots() {
        use std::os::unix::fs::{PermissionsExt, chown};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tallycast.toml");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(open_default(&path).is_ok());
        if sys::process::user() != 0 {
            println!("SKIPPED: others than root trust their own");
            return;
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(open_default(&path).unwrap_err().to_string().contains("chmod go-w"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        chown(&path, Some(65_534), None).unwrap();
        let error = open_default(&path).unwrap_err().to_string();
        assert!(error.contains("belongs to user 65534") && error.contains("--config"), "{error}");
    }

    #[test]
    fn a_flag_is_over_the_file_and_the_file_over_the_default() {
        let settings = settings("[record]\nroot = 'here'");
        assert_eq!(settings.text("record.root", None).unwrap(), "here");
        assert_eq!(settings.text("record.root", Some("there")).unwrap(), "there");
        let (_, origin) = settings.value("monitor.listen", None).unwrap();
        assert_eq!(origin, Origin::Default);
        let (_, origin) = settings.value("record.root", None).unwrap();
        assert_eq!(origin, Origin::File("a.toml".into()));
    }

    #[test]
    fn a_bus_is_named_unless_it_is_the_default() {
        let with = |file: &str| settings(file).named_bus().unwrap();
        assert_eq!(with("[bus]\naddress = 'udp://239.85.0.0'"), Some("udp://239.85.0.0".to_owned()));
        if std::env::var_os(BUS_VARIABLE).is_none() {
            assert_eq!(with(""), None);
        }
    }

    #[test]
    fn of_a_bus_only_what_is_special_is_shown() {
        let shown = |text: &str| brief(&text.parse().unwrap());
        assert_eq!(shown("udp://239.84.0.0?shm=on"), "udp://239.84.0.0:7400");
        let pinned = "udp://239.84.0.0:7400?iface=lo&ttl=2&shm=off";
        assert_eq!(shown("udp://239.84.0.0?iface=lo&ttl=2"), pinned);
        let v6 = "udp://[ff15::5443:0:0]:7000?mtu=9000";
        assert_eq!(shown(&format!("{v6}&shm=on")), v6);
        assert_eq!(shown("shm://lab"), "shm://lab?dir=/dev/shm");
    }

    #[test]
    fn what_is_unknown_or_wrong_is_told_with_its_key() {
        let wrong = |file: &str| format!("{:#}", check(&file.parse().unwrap()).unwrap_err());
        assert!(wrong("[bus]\nadress = 'x'").starts_with("unknown key bus.adress\nknown keys of [bus]:"));
        assert!(wrong("[buss]\nx = 1").starts_with("unknown section [buss]\nknown sections: bus, "));
        assert!(wrong("[bus]\naddress = 'udp://10.0.0.1'").starts_with("bus.address: "));
        assert!(wrong("[monitor]\npatterns = 'all'").starts_with("monitor.patterns: "));
        assert!(wrong("[[monitor.derive]]\nname = 'a'").starts_with("monitor.derive: "));
        let nonsense = "[[monitor.derive]]\nname = 'd'\nexpression = 'u * ('\ninputs = { u = 'a:b' }";
        assert!(wrong(nonsense).starts_with("monitor.derive: node `d`: "), "{}", wrong(nonsense));
        let operator = "[[monitor.operator]]\nname = 'rms'\ninputs = ['lab/x']\noutput = 'lab/y'\n";
        let functionless = wrong(operator);
        assert!(
            functionless.starts_with("monitor.operator: an operator: missing field `python`"),
            "{functionless}"
        );
        let unknown = wrong(&format!("{operator}python = 'ops:rms'\nrate = 5"));
        assert!(unknown.starts_with("monitor.operator: an operator: unknown field `rate`"), "{unknown}");
        let told = wrong(&format!("{operator}python = 'ops'"));
        assert!(
            told.starts_with("monitor.operator: the operator `rms`: `ops` does not name a function"),
            "{told}"
        );
        let derive = |name: &str, from: &str| {
            format!("[[monitor.derive]]\nname = '{name}'\nexpression = 'u'\ninputs = {{ u = '{from}:v' }}\n")
        };
        let circle = wrong(&(derive("a", "b") + &derive("b", "a")));
        assert!(
            circle.starts_with("[monitor]: node `a`: `a` is computed from itself: a from b from a"),
            "{circle}"
        );
        let escape = wrong("[bus]\nstation = \"lab\\u001b[2J\"");
        assert!(escape.starts_with("bus.station: the station `lab\\u{1b}[2J` has a control"), "{escape}");
        assert!(wrong("[monitor]\npython = 3").starts_with("monitor.python: not a string"));
        let nameless = wrong("[monitor]\nlisten = 'localhost:7480'");
        assert!(nameless.contains("write 127.0.0.1:7480"), "{nameless}");
        let bare = listen_address("::1:7490").unwrap_err();
        assert!(bare.ends_with("\nwrite [::1]:7490"), "{bare}");
    }
}
