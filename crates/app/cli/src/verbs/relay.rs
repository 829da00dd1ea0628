//! `tallycast relay`: live streams of this bus on the bus of a distant laboratory, within one deadline.

mod listing;

pub(crate) use listing::{backfill_errors, because, millis, of_backfill};

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;
use tallycast::udt::Address;
use tallycast::{Node, RelayState, StreamPattern, SubscriberBuilder};
use units::text;
use wan::{
    BusPublication, Far, FarSettings, ListedPeers, Near, NearSettings, Notice, Source, check_deadline,
};

use super::reliable::{Screen, TransportArguments};
use crate::Outcome;
use crate::messages::print_line;
use crate::settings::Sources;
use crate::signals::WithParent;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast relay --listen 7400                     at the far laboratory: publish here what relays send
  tallycast relay udt://far:7400 'lab/**'           at home: send these streams there
  tallycast relay udt://far:7400 'lab/**' --deadline 300ms --bitrate 50M
  tallycast relay udt://far:7400 'lab/**' --key home.keys --peer far
  tallycast relay --listen 7400 --archive archive   fill holes of the far archive, from the near one
  tallycast relay --list                            the relays of this host

The deadline is the age from which a sample is of no use, from its publisher to the far bus: what is lost on the way is sent again while it can come in time. It must be at least round trip / 2 + 2 ms; with round trip × (k + 1/2) + 2 ms there is time for k repairs. What comes too late is given up, and the accounts of far readers name the hop and the reason.
With --archive at both ends the far archive becomes complete: `tallycast record` writes both archives, and the far relay fetches later what its archive misses, while live samples have precedence.
A relay connects again for ever, after pauses of 0.25 s to 5 s. With --key listed peers alone are heard.
Exit code 2: the deadline cannot be met, or the port cannot be used.";

const USAGE: &str = "tallycast relay udt://far:7400 'lab/**'";
/// Port at which relays listen, unless another is named.
const PORT: u16 = tallycast::DEFAULT_PORT;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Far relay, such as udt://far:7400, then the streams to send there, such as 'lab/**'
    #[arg(value_name = "ADDRESS|PATTERN")]
    words: Vec<String>,
    /// Publish here what relays send that connect to this port, or address
    #[arg(long, value_name = "PORT|ADDRESS", conflicts_with_all = ["list", "words"])]
    listen: Option<String>,
    /// Age from which samples are of no use at the far bus; its readers may ask for more [default: what they ask for, else 1s]
    #[arg(long, value_name = "DURATION", value_parser = text::duration)]
    deadline: Option<Duration>,
    /// With an address: streams with the higher number go first where not all fit; may be given several times [default: label `priority`, else 0]
    #[arg(long, value_name = "PATTERN=NUMBER", value_parser = priority, conflicts_with_all = ["listen", "list"])]
    priority: Vec<(StreamPattern, u8)>,
    /// Archive that is recorded here: a far relay fills its holes, a near one hands out what the far one misses
    #[arg(long, value_name = "ROOT", conflicts_with = "list")]
    archive: Option<PathBuf>,
    #[command(flatten)]
    transport: TransportArguments,
    /// List the relays of this host: round trip, repairs, and what was given up
    #[arg(long, conflicts_with = "words")]
    list: bool,
    /// Print events and states as JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
    #[command(flatten)]
    parent: WithParent,
}

pub(crate) fn run(arguments: &Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let node = sources.load()?.node()?;
    if arguments.list {
        return list(&node, arguments.json);
    }
    match &arguments.listen {
        Some(place) => listen(arguments, &node, place),
        None => dial(arguments, &node),
    }
}

/// Sends streams of this bus to a far relay.
fn dial(arguments: &Arguments, node: &Node) -> anyhow::Result<Outcome> {
    let Some((address, patterns)) = arguments.words.split_first().filter(|(word, _)| word.contains("://"))
    else {
        bail!("no address of a far relay is given\nwrite {USAGE}, or --listen {PORT} at the far end");
    };
    let address: Address = address.parse()?;
    let patterns: Vec<StreamPattern> =
        patterns.iter().map(|pattern| pattern.parse()).collect::<Result<_, _>>()?;
    let Some((first, others)) = patterns.split_first() else {
        bail!("no stream to send is given\nwrite {USAGE}");
    };
    let deadline = check_deadline(arguments.deadline.unwrap_or(wan::DEFAULT_DEADLINE))?;
    let options = arguments.transport.for_streams(&address)?;
    let (followed, responder) = (follow(&arguments.transport, &address)?, options.keys.as_ref());
    let responder = responder.and_then(|keys| keys.responder.or_else(|| keys.peers.first().copied()));
    let peer = address.resolve()?;
    let screen = Screen::new(arguments.json);
    refuse_clear(arguments, &screen, &address, peer.ip())?;
    let cancellation = arguments.parent.cancellation()?;
    let builder = node.subscriber(first.as_str()).reader("relay");
    let builder = others.iter().map(StreamPattern::as_str).fold(builder, SubscriberBuilder::pattern);
    // Relays before this one serve the same deadline, if there are any.
    let builder = match arguments.deadline {
        Some(deadline) => builder.deadline(deadline),
        None => builder,
    };
    let tap = builder.tap()?;
    let any: IpAddr =
        if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let port = options.open_to_connect(SocketAddr::new(any, 0))?;
    let incarnation = wan::random_incarnation();
    let settings = NearSettings {
        station: node.station().to_owned(),
        incarnation,
        deadline,
        is_least: arguments.deadline.is_some(),
        priorities: arguments.priority.clone(),
        peer,
        socket: options.socket.clone(),
    };
    let output = RefCell::new(Output::new(screen, node, incarnation, arguments.json));
    let mut near = Near::new(tap, port, settings);
    if address.host().parse::<IpAddr>().is_err() {
        let is_v4 = peer.is_ipv4();
        near =
            near.with_look_up(Arc::new(move || address.resolve_as(is_v4).map_err(|error| error.to_string())));
    }
    if let Some(list) = followed {
        near = near.with_peers(responder, list);
    }
    if let Some(archive) = arguments.archive.clone() {
        near = near.with_archive(Source { archive, patterns });
    }
    near.run(&cancellation, &mut |notice| output.borrow_mut().tell(&notice), &mut |state| {
        output.borrow_mut().show(state);
    })?;
    Ok(Outcome::Fine)
}

/// Publishes here what relays send.
fn listen(arguments: &Arguments, node: &Node, place: &str) -> anyhow::Result<Outcome> {
    let address = match (place.parse::<u16>(), place.parse::<SocketAddr>()) {
        (Ok(port), _) => Address::at(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)),
        (_, Ok(at)) => Address::at(at),
        _ => place.parse::<Address>().with_context(|| format!("--listen {place}"))?,
    };
    let options = arguments.transport.for_streams(&address)?;
    let at = address.resolve()?;
    let screen = Screen::new(arguments.json);
    refuse_clear(arguments, &screen, &address, at.ip())?;
    let cancellation = arguments.parent.cancellation()?;
    let port = options.open_to_listen(at).with_context(|| format!("cannot listen at {address}"))?;
    let incarnation = wan::random_incarnation();
    let deadline = arguments.deadline.map(check_deadline).transpose()?;
    let (station, socket) = (node.station().to_owned(), options.socket.clone());
    let settings = FarSettings { station, incarnation, deadline, socket };
    let output = RefCell::new(Output::new(screen, node, incarnation, arguments.json));
    let mut far = Far::new(port, BusPublication::new(node.clone()), settings);
    if let Some(list) = follow(&arguments.transport, &address)? {
        far = far.with_peers(list);
    }
    if let Some(root) = arguments.archive.clone() {
        far = far.with_archive(root);
    }
    far.run(&cancellation, &mut |notice| output.borrow_mut().tell(&notice), &mut |state| {
        output.borrow_mut().show(state);
    })?;
    Ok(Outcome::Fine)
}

/// Returns the list of peers that follows the station's file, if the keys are from there.
fn follow(transport: &TransportArguments, address: &Address) -> anyhow::Result<Option<ListedPeers>> {
    let Some((mut followed, _)) = transport.follow(address)? else { return Ok(None) };
    Ok(Some(Box::new(move || followed.refresh().map_err(|error| error.to_string()).transpose())))
}

/// Reads a priority, such as `lab/probe=5`.
fn priority(text: &str) -> Result<(StreamPattern, u8), String> {
    let wanted =
        || format!("`{text}` is no priority: write a pattern and a number up to 255, as 'lab/probe=5'");
    let (pattern, number) = text.rsplit_once('=').ok_or_else(wanted)?;
    let pattern = pattern.parse().map_err(|error| format!("{error}"))?;
    Ok((pattern, number.parse().map_err(|_| wanted())?))
}

/// Refuses a link in the clear beyond this host, unless the address asks for it.
fn refuse_clear(
    arguments: &Arguments,
    screen: &Screen,
    address: &Address,
    peer: IpAddr,
) -> anyhow::Result<()> {
    let is_local = peer.to_canonical().is_loopback();
    if arguments.transport.has_key() || is_local {
        return Ok(());
    }
    if !address.is_clear() {
        bail!(
            "a link beyond this host is encrypted, and there is no key\nadd --key and --peer, or, for everybody on the \
             way to read and change, secure=off in the address: {}",
            address.clone().with("secure", "off")
        );
    }
    let text = || "warning: not encrypted: everybody on the way can read and change the streams".to_owned();
    screen.say(text, || json!({"event": "clear", "address": address.to_string()}));
    Ok(())
}

/// What a running relay prints and shows.
struct Output {
    screen: Screen,
    board: Option<tallycast::RelayBoard>,
    is_json: bool,
}

impl Output {
    fn new(screen: Screen, node: &Node, incarnation: u64, is_json: bool) -> Self {
        Self { screen, board: node.relay_board(incarnation), is_json }
    }

    fn tell(&self, notice: &Notice) {
        self.screen.say(|| in_words(notice), || serde_json::to_value(notice).expect("plain values"));
    }

    fn show(&mut self, state: &RelayState) {
        let mut value = serde_json::to_value(state).expect("plain values");
        if let Some(board) = &mut self.board {
            board.post(value.to_string().as_bytes());
        }
        if self.is_json {
            value["event"] = "state".into();
            // A closed output is no reason to stop relaying.
            drop(print_line(&value));
        }
    }
}

fn in_words(notice: &Notice) -> String {
    match notice {
        Notice::Listening { address } => {
            format!(
                "waiting at udt://{address} for `tallycast relay udt://this-host:{} PATTERN…`",
                address.port()
            )
        }
        Notice::Connected { peer } => format!("connected with udt://{peer}"),
        Notice::Disconnected { peer, reason, retry_in_s } => {
            let retry = if retry_in_s.is_some() { "; trying again until it is there" } else { "" };
            format!("udt://{peer}: {reason}{retry}")
        }
        Notice::Met { peer, station } => format!("udt://{peer} is station {station}"),
        Notice::Opened { stream, position } => format!("{stream}: relayed from element {position}"),
        Notice::Refused { stream, reason } => format!("warning: {stream} is not relayed: {reason}"),
        Notice::Wanted { stream, deadline_ns, .. } => {
            format!(
                "{stream}: the deadline is {:?} now, as readers want it",
                Duration::from_nanos(*deadline_ns)
            )
        }
        Notice::Closed { stream } => format!("{stream}: ended, and everything of it is accounted for"),
        Notice::StandingBy { stream, station } => {
            format!("{stream}: station {station} publishes it on this bus; standing by until it is silent")
        }
        Notice::TookOver { stream, position } => {
            format!("{stream}: published here from element {position} on, as the other publication is silent")
        }
        Notice::DeadlineKept { stream } => format!("{stream}: the deadline can be kept again"),
        Notice::Relisted { peers } => format!("{peers} peers are listed"),
        Notice::Refilled { stream, samples, missing, lacking, .. } => {
            let lacking = match lacking {
                0 => String::new(),
                count => format!("; of {count} the other archive lacks some or all, too"),
            };
            format!(
                "{stream}: {samples} missing samples came and are stored, {missing} are still missing{lacking}"
            )
        }
        Notice::Warning { what } => format!("warning: {what}"),
        _ => String::new(),
    }
}

/// Lists the relays of this host.
fn list(node: &Node, is_json: bool) -> anyhow::Result<Outcome> {
    let relays = node.relays_on_host();
    for relay in &relays {
        // Boards are those of this user or trusted ones, and may be of a later version.
        let Some(state) = RelayState::read(relay) else { continue };
        if is_json {
            let mut whole: serde_json::Value = serde_json::from_slice(&relay.state)?;
            whole["pid"] = relay.pid.into();
            print_line(&whole)?;
        } else {
            listing::print(relay.pid, &state)?;
        }
    }
    if relays.is_empty() && !is_json {
        eprintln!("no relay runs on this host\nstart one: {USAGE}");
    }
    Ok(Outcome::Fine)
}
