//! The far site of a demo with `--wan`: a bus and a page of its own, and the path there.
//!
//! All runs on this host. Either site has its own bus, which only the port tells from the other; a relay at either end joins
//! them, and `tallycast link` between the relays delays and loses what they send.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use serde_json::Value;
use sys::Cancellation;
use tallycast::Bus;
use wan::HAND_OVER;

use super::children::{Children, Role};
use super::scene::KEEP_NONE;
use super::{PAGE_PATIENCE, POLL_INTERVAL, READERS_PATIENCE, private_bus};
use crate::quantity::Probability;
use crate::settings;

/// The reader's process at the far site, which must print an account of every stream, too.
pub(super) const FAR_READER: &str = "far monitor";
/// The processes between the sites, which print no account.
const FAR_RELAY: &str = "far relay";
const NEAR_RELAY: &str = "near relay";
pub(super) const LINK: &str = "path between the relays";
/// Names of the sites' stations: a relay must differ from those that a stream has passed.
pub(super) const NEAR: &str = "near";
const FAR: &str = "far";
/// Deadline for short ways.
const USUAL_DEADLINE: Duration = Duration::from_secs(1);
/// Round trips within the deadline of long ways: time for four repairs.
const ROUND_TRIPS: f64 = 4.5;
/// Largest delay: the deadline for it is within the longest one.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// The path between the sites, the same in each direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) delay: Duration,
    pub(super) loss: Probability,
}

/// The far site.
pub(super) struct FarSite {
    way: Way,
    bus: String,
    listen: SocketAddr,
    settings: PathBuf,
    access: Option<PathBuf>,
}

impl Way {
    /// Returns the deadline that the relays get: time for four repairs, and no less than usual.
    pub(super) fn deadline(self) -> Duration {
        USUAL_DEADLINE.max((self.delay * 2).mul_f64(ROUND_TRIPS) + HAND_OVER)
    }

    /// Describes it for people.
    pub(super) fn text(self) -> String {
        let loss = self.loss.0 * 100.0;
        format!("{:?} and {loss}% loss in each direction, deadline {:?}", self.delay, self.deadline())
    }
}

impl FarSite {
    /// Chooses a bus, and settings without a word of the user's: streams that a monitor derives come from the near one.
    pub(super) fn choose(
        way: Way,
        near_bus: &str,
        listen: SocketAddr,
        folder: &Path,
        access: Option<PathBuf>,
    ) -> anyhow::Result<Self> {
        let near: Bus = near_bus.parse()?;
        if near.keys.is_some() {
            bail!(
                "the far bus of a demo has no keys, and would show the streams of {} to others\nomit keys= from the bus",
                settings::brief(&near)
            );
        }
        let settings = folder.join("far.toml");
        std::fs::write(&settings, "").with_context(|| format!("cannot write {}", settings.display()))?;
        Ok(Self { way, bus: private_bus()?, listen, settings, access })
    }

    /// Starts the far monitor server, and all that lies between the buses; returns once the relays have met.
    pub(super) fn start(
        &self,
        near_bus: &str,
        near_settings: Option<&Path>,
        children: &mut Children,
        cancellation: &Cancellation,
    ) -> anyhow::Result<()> {
        let far_settings = self.settings.display().to_string();
        let place = ["--bus", &self.bus, "--station", FAR, "--config", &far_settings];
        let (listen, patience) = (self.listen.to_string(), format!("{}s", READERS_PATIENCE.as_secs()));
        let monitor =
            ["monitor", "**", "--reader", FAR, "--listen", &listen, "--patience", &patience, KEEP_NONE];
        let access = self.access.as_ref().map(|folder| folder.display().to_string());
        let access: Vec<&str> = access.iter().flat_map(|folder| ["--access", folder]).collect();
        start(children, Role::FarReader, FAR_READER, &[&monitor, &access, &place])?;

        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).to_string();
        start(children, Role::Carrier, FAR_RELAY, &[&["relay", "--listen", &any], &place])?;
        let relay = hear(children, [FAR_RELAY, "listening"], cancellation)?;
        let (delay, loss) = (format!("{}us", self.way.delay.as_micros()), self.way.loss.to_string());
        let ends = ["link", "--relay", &any, "--to", text(&relay["address"])?];
        start(children, Role::Carrier, LINK, &[&ends, &["--delay", &delay, "--loss", &loss]])?;
        let link = hear(children, [LINK, "listening"], cancellation)?;
        let (peer, deadline) = (text(&link["address"])?, format!("{}us", self.way.deadline().as_micros()));
        let peer = format!("udt://{peer}");
        let near = ["relay", &peer, "**", "--deadline", &deadline, "--bus", near_bus, "--station", NEAR];
        let settings = near_settings.map(|file| file.display().to_string());
        let settings: Vec<&str> = settings.iter().flat_map(|file| ["--config", file]).collect();
        start(children, Role::Carrier, NEAR_RELAY, &[&near, &settings])?;
        hear(children, [NEAR_RELAY, "met"], cancellation).map(drop)
    }

    /// Returns the address of its page.
    pub(super) const fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Says what lies between the sites, and where its bus is.
    pub(super) fn tell(&self) {
        eprintln!("path      {}", self.way.text());
        eprintln!("relays    tallycast relay --list");
        eprintln!("far bus   {}", self.bus);
    }
}

fn start(children: &mut Children, role: Role, name: &str, words: &[&[&str]]) -> anyhow::Result<()> {
    children.start(role, name, words.concat().into_iter().chain(["--json", "--with-parent"]))
}

/// Waits for an event that a child prints.
fn hear(
    children: &mut Children,
    [name, event]: [&str; 2],
    cancellation: &Cancellation,
) -> anyhow::Result<Value> {
    let began = Instant::now();
    loop {
        if let Some(value) = children.heard(name, event) {
            return Ok(value);
        }
        children.check()?;
        if cancellation.wait(POLL_INTERVAL) {
            bail!("ended before the relays were connected");
        }
        if began.elapsed() > PAGE_PATIENCE {
            return Err(anyhow!("no word from the {name}\nset TALLYCAST_LOG=debug to see its messages"));
        }
    }
}

fn text(value: &Value) -> anyhow::Result<&str> {
    value.as_str().context("a listening process has told no address")
}

/// Reads the delay of the path.
pub(super) fn delay(text: &str) -> Result<Duration, String> {
    let delay = units::text::duration(text).map_err(|error| error.to_string())?;
    if delay > MAX_DELAY { Err(format!("at most {MAX_DELAY:?}")) } else { Ok(delay) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_has_time_for_four_repairs_and_is_one_that_relays_take() {
        let deadline = |delay| Way { delay, loss: Probability::default() }.deadline();
        assert_eq!(deadline(Duration::ZERO), USUAL_DEADLINE);
        assert_eq!(deadline(Duration::from_millis(200)), Duration::from_millis(1_802));
        assert!(wan::check_deadline(deadline(MAX_DELAY)).is_ok());
    }

    #[test]
    fn a_delay_is_at_most_the_largest() {
        assert_eq!(delay("5s"), Ok(MAX_DELAY));
        assert_eq!(delay("5001ms"), Err("at most 5s".to_owned()));
        assert!(delay("near").is_err());
    }
}
