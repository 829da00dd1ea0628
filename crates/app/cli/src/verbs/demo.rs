//! `tallycast demo`: sources, monitor server and recorder on this machine, each in its own process, over real UDP
//! multicast.
//!
//! The processes are in `children`, their command lines in `scene`, the check of their accounts in `verdict`. A secured
//! demo has keys and sign-ins of its own (`laboratory`), an attacker (`outsider`), and more to check (`defence`). One with
//! `--wan` has a far site (`wan`); one with `--coupled` a simulation that is steered (`coupled`).

mod children;
mod coupled;
mod defence;
mod forger;
mod laboratory;
mod outsider;
mod plaintext;
mod proof;
mod scene;
mod verdict;
mod wan;

use std::fs::DirBuilder;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use monitor::Authority;
use sys::Cancellation;
use tallycast::Bus;
use units::text;

use self::wan::{FAR_READER, FarSite, Way};
use crate::Outcome;
use crate::deadline::Deadline;
use crate::quantity::Probability;
use crate::settings::{self, Sources};
use crate::signals;
use children::Children;
use coupled::Coupling;
use defence::Defence;
use laboratory::{Laboratory, Rotations, SignIns};
use outsider::Outsider;
use proof::Proofs;
use scene::Scene;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast demo                                          opens the web page; ends with Ctrl-C
  tallycast demo --loss 1%                                with planted loss; the page has a switch for it, too
  tallycast demo --headless --duration 20s --json         the final account of every reader, one object per line
  tallycast demo --wan 100ms --loss 1%                    two sites, and two pages: relays over an emulated path
  tallycast demo --coupled                                a simulation that viewers steer, and a shared view of it
  tallycast demo --secure                                 with keys, rotations, sign-in, proof, and an attacker

Exit code 1: an account is missing, not closed, not balanced or not explained, or the archive lacks data that were read;
with --secure also if an outsider read or changed anything, or the archive is not what the publishers signed; with --coupled
and --headless also if the account of the commands does not close, or the archive lacks a change.";

/// Default address of the web page.
const DEFAULT_LISTEN: &str = "127.0.0.1:7480";
/// Time that readers wait for the last accounts to close: a loss settles in two seconds, the rest is reserve.
const READERS_PATIENCE: Duration = Duration::from_secs(20);
/// Time that a child may take to end before it is killed: a reader's patience, and as much again for its work.
const CHILDREN_PATIENCE: Duration = Duration::from_secs(40);
/// Time within which the page must answer before a message is printed.
const PAGE_PATIENCE: Duration = Duration::from_secs(20);
/// Interval at which the children are checked: one may end unasked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Do not open the web page; print every reader's account at the end
    #[arg(long)]
    headless: bool,
    /// End after this time [default with --headless: 20s]
    #[arg(long, short = 't', value_name = "DURATION", value_parser = text::duration)]
    duration: Option<Duration>,
    /// Print the accounts as JSON, one object per line
    #[arg(long, short = 'J')]
    json: bool,
    /// Plant loss from the start: withhold datagrams with this probability; with --wan, lose them on the path instead, in
    /// each direction
    #[arg(long, value_name = "PROBABILITY", default_value = "0")]
    loss: Probability,
    /// Show a far site as well, with a page of its own, to which relays carry the streams over an emulated path with this
    /// delay in each direction
    #[arg(long, value_name = "DELAY", value_parser = wan::delay, conflicts_with = "secure")]
    wan: Option<Duration>,
    /// Show a simulation instead of recorded signals, which viewers steer on a shared view of it
    #[arg(long, conflicts_with_all = ["wan", "secure"])]
    coupled: bool,
    /// Secure streams and page with keys and passwords made for this demo, and let outsiders attack them
    #[arg(long)]
    secure: bool,
    /// Address of the web page
    #[arg(long, value_name = "ADDRESS", value_parser = settings::listen_address)]
    listen: Option<SocketAddr>,
    /// Folder for the archive [default: a temporary folder, removed at the end]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Do not remove the temporary folder
    #[arg(long, conflicts_with = "dir")]
    keep: bool,
}

pub(crate) fn run(arguments: Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let cancellation = signals::cancellation()?;
    let folder = Folder::make(&arguments)?;
    let way = arguments.way()?;
    let (settings, asked_file) = (sources.load()?, sources.asked_file());
    let named = settings.named_bus()?;
    let listen = free_page_address(arguments.listen)?;
    let is_private = named.is_none() && listen.ip().is_loopback();
    let bus = named.map_or_else(private_bus, Ok)?;
    let secured = arguments.secure.then(|| Secured::make(&bus)).transpose()?;
    let access = match &secured {
        Some(secured) => Some(secured.laboratory.access()),
        None => is_private.then(|| without_rules(folder.path())).transpose()?,
    };
    let tls = secured.as_ref().map(|secured| secured.laboratory.state());
    let control = folder.path().join("inject");
    let planted = if way.is_some() { Probability::default() } else { arguments.loss };
    std::fs::write(&control, planted.to_string())?;
    let far = way.map(|way| {
        // The far site obeys the same rules; the user's own folder need not exist.
        let in_force = || settings.access_in_force(None).map(|usual| usual.filter(|folder| folder.is_dir()));
        let access = access.clone().map_or_else(in_force, |access| Ok(Some(access)))?;
        FarSite::choose(way, &bus, far_page_address(listen)?, folder.path(), access)
    });
    let far = far.transpose()?;
    let scene = Scene {
        publishers: secured.as_ref().map_or(&bus, |secured| &secured.publishers),
        readers: secured.as_ref().map_or(&bus, |secured| &secured.readers),
        settings: asked_file.as_deref(),
        station: far.as_ref().map(|_| wan::NEAR),
        listen,
        folder: folder.path(),
        control: &control,
        access: access.as_deref(),
        tls: tls.as_deref(),
        patience: READERS_PATIENCE,
    };

    let mut children = Children::default();
    scene.start_readers(&mut children)?;
    if let Some(secured) = &secured {
        scene.start_outsiders([&bus, &secured.laboratory.outsiders()], &mut children)?;
    }
    if let Some(far) = &far {
        far.start(&bus, asked_file.as_deref(), &mut children, &cancellation)?;
    }
    for page in pages(&scene, far.as_ref()) {
        wait_for_page(page, &mut children, &cancellation)?;
    }
    if arguments.coupled {
        coupled::start_simulation(&scene, &mut children)?;
    } else {
        scene.start_sources(&mut children)?;
    }
    let shared_view = arguments.coupled.then(|| coupled::share_view(listen)).transpose()?;
    let steered = arguments.coupled && arguments.headless;
    let viewer = steered.then(|| coupled::Viewer::start(scene.readers)).transpose()?;
    let mut attack = secured.as_ref().map(Attack::start).transpose()?;
    tell(&scene, secured.as_ref(), far.as_ref(), &arguments)?;
    let of_all = shared_view.as_ref().map_or("", |[of_all, _]| of_all);
    if let Some([of_all, of_watchers]) = &shared_view {
        let page = page_of(&scene, listen);
        eprintln!("shared    {page}{of_all}\nto watch  {page}{of_watchers}");
    }
    if !arguments.headless {
        pages(&scene, far.as_ref()).for_each(|page| open_page(&format!("{}{of_all}", page_of(&scene, page))));
    }

    let default = arguments.headless.then_some(Duration::from_secs(20));
    let deadline = Deadline::after(arguments.duration.or(default));
    while !deadline.is_over() && !cancellation.wait(deadline.left(POLL_INTERVAL)) {
        children.check()?;
        attack.as_mut().map_or(Ok(()), |attack| attack.rotations.look())?;
    }
    let commands = viewer.map(coupled::Viewer::end).transpose()?;
    let in_use = attack.as_ref().map(|attack| attack.rotations.in_use()).unwrap_or_default();
    // The attacker goes on while the accounts close.
    children.finish_all(CHILDREN_PATIENCE)?;
    let report = attack.map(|attack| attack.outsider.end()).transpose()?;
    let of_members = |child: &str| !scene::OUTSIDERS.contains(&child);
    let (members, outsiders): (Vec<_>, Vec<_>) =
        children.lines().iter().cloned().partition(|line| of_members(&line.child));
    // An emulator that was late on a busy host has found something about itself only.
    let is_judged = |child: &str| of_members(child) && child != wan::LINK;
    let exits: Vec<_> = children.exits().iter().filter(|exit| is_judged(&exit.child)).cloned().collect();
    let readers: Vec<&str> = scene::READERS.into_iter().chain(far.iter().map(|_| FAR_READER)).collect();
    let verdict = verdict::judge(&members, &exits, &readers);
    verdict.print(arguments.json)?;
    let mut is_in_order = verdict.is_in_order();
    if let Some(secured) = &secured {
        let (archive, run) = (folder.path().join(scene::ARCHIVE), scene::RUN.parse()?);
        let signatory = secured.laboratory.signatory()?;
        is_in_order &= Proofs::of(&archive, &run, &signatory, &members)?.print(arguments.json)?;
    }
    if let Some(commands) = &commands {
        let (archive, run) = (folder.path().join(scene::ARCHIVE), scene::RUN.parse()?);
        is_in_order &= Coupling::judge(&members, commands, &archive, &run)?.print(arguments.json)?;
    }
    if let Some(report) = report {
        let defence = Defence {
            members: &members,
            outsiders: &outsiders,
            messages: children.messages(),
            report,
            in_use,
        };
        is_in_order &= defence.print(arguments.json)?;
    }
    folder.say_where();
    Ok(if is_in_order { Outcome::Fine } else { Outcome::Found })
}

impl Arguments {
    /// Returns the path to a far site, if there is one.
    fn way(&self) -> anyhow::Result<Option<Way>> {
        if self.wan.is_some() && !cfg!(feature = "instruments") {
            bail!(
                "this build cannot emulate a path\nbuild tallycast with its feature `instruments`, or omit --wan"
            );
        }
        Ok(self.wan.map(|delay| Way { delay, loss: self.loss }))
    }
}

/// What a secured demo has in addition: it is gone with its folder.
struct Secured {
    laboratory: Laboratory,
    sign_ins: SignIns,
    publishers: String,
    readers: String,
    _folder: tempfile::TempDir,
}

impl Secured {
    fn make(bus: &str) -> anyhow::Result<Self> {
        let parsed: Bus = bus.parse()?;
        if parsed.keys.is_some() || !parsed.has_network() {
            bail!(
                "a secured demo makes keys of its own, for a udp:// bus\nomit keys= from the bus {}",
                settings::brief(&parsed)
            );
        }
        let folder = tempfile::Builder::new().prefix("tallycast-demo-keys-").tempdir();
        let folder = folder.context("cannot create a temporary folder\nset another one with TMPDIR")?;
        let laboratory = Laboratory::make(folder.path(), bus.to_owned())?;
        let (sign_ins, publishers) = (laboratory.sign_ins()?, laboratory.publishers());
        let readers = laboratory.readers();
        Ok(Self { laboratory, sign_ins, publishers, readers, _folder: folder })
    }
}

/// What happens to a secured demo while it runs.
struct Attack<'a> {
    outsider: Outsider,
    rotations: Rotations<'a>,
}

impl<'a> Attack<'a> {
    fn start(secured: &'a Secured) -> anyhow::Result<Self> {
        let outsider = Outsider::start(secured.readers.parse()?)?;
        Ok(Self { outsider, rotations: Rotations::of(&secured.laboratory) })
    }
}

/// Folder of the demo: given by the user, or a temporary one that is removed at the end.
enum Folder {
    Own(PathBuf),
    Temporary(tempfile::TempDir),
    Kept(PathBuf),
}

impl Folder {
    fn make(arguments: &Arguments) -> anyhow::Result<Self> {
        if let Some(own) = &arguments.dir {
            std::fs::create_dir_all(own).with_context(|| format!("cannot create {}", own.display()))?;
            return Ok(Self::Own(own.clone()));
        }
        let temporary = tempfile::Builder::new().prefix("tallycast-demo-").tempdir();
        let temporary = temporary.context("cannot create a temporary folder\nname a folder with --dir")?;
        Ok(if arguments.keep { Self::Kept(temporary.keep()) } else { Self::Temporary(temporary) })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Own(path) | Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }

    fn say_where(&self) {
        match self {
            Self::Temporary(_) => {}
            Self::Own(path) | Self::Kept(path) => {
                let root = path.join(scene::ARCHIVE);
                eprintln!("the recording is in {0}: tallycast query {0} --list", root.display());
            }
        }
    }
}

/// Makes an empty folder of access files: a demo of this host alone is no part of what the user's own rules protect.
fn without_rules(folder: &Path) -> anyhow::Result<PathBuf> {
    let empty = folder.join("without-rules");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&empty);
    made.with_context(|| format!("cannot create {}", empty.display()))?;
    Ok(empty)
}

/// Makes a bus on the loopback interface with its own port, so that two demos do not mix.
fn private_bus() -> anyhow::Result<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").context("no UDP port available")?;
    Ok(format!("udp://239.84.0.0:{}?iface=lo&ttl=1", socket.local_addr()?.port()))
}

/// Returns an address for the page: the requested one, or the default, or that with the next free port.
fn free_page_address(asked: Option<SocketAddr>) -> anyhow::Result<SocketAddr> {
    if let Some(asked) = asked {
        drop(TcpListener::bind(asked).with_context(|| {
            format!(
                "the page cannot be served at {asked}\nchoose another address with --listen, such as 127.0.0.1:0"
            )
        })?);
    }
    let first = asked.unwrap_or(DEFAULT_LISTEN.parse()?);
    if first.port() != 0 && TcpListener::bind(first).is_ok() {
        return Ok(first);
    }
    let free = TcpListener::bind(SocketAddr::new(first.ip(), 0)).context("no TCP port available")?;
    if asked.is_none() {
        eprintln!("{first} is in use; another port is chosen for the page");
    }
    Ok(free.local_addr()?)
}

/// Returns an address for the far page: that behind the near one, or one with the next free port.
fn far_page_address(near: SocketAddr) -> anyhow::Result<SocketAddr> {
    let next = near.port().checked_add(1).map(|port| SocketAddr::new(near.ip(), port));
    if let Some(next) = next.filter(|next| TcpListener::bind(next).is_ok()) {
        return Ok(next);
    }
    let free = TcpListener::bind(SocketAddr::new(near.ip(), 0)).context("no TCP port available")?;
    Ok(free.local_addr()?)
}

/// Waits until the monitor server accepts connections.
fn wait_for_page(
    listen: SocketAddr,
    children: &mut Children,
    cancellation: &Cancellation,
) -> anyhow::Result<()> {
    let began = Instant::now();
    while TcpStream::connect_timeout(&listen, POLL_INTERVAL).is_err() {
        children.check()?;
        if cancellation.wait(POLL_INTERVAL) {
            bail!("ended before the page was ready");
        }
        if began.elapsed() > PAGE_PATIENCE {
            return Err(anyhow!(
                "the monitor server does not answer at {listen}\nset TALLYCAST_LOG=debug to see its messages"
            ));
        }
    }
    Ok(())
}

fn tell(
    scene: &Scene<'_>,
    secured: Option<&Secured>,
    far: Option<&FarSite>,
    arguments: &Arguments,
) -> anyhow::Result<()> {
    eprintln!("page      {}", page_of(scene, scene.listen));
    if let Some(far) = far {
        eprintln!("far page  {}", page_of(scene, far.listen()));
        far.tell();
    }
    if let Some(secured) = secured {
        let authority = Authority::open(&secured.laboratory.state().join("tallycast/tls"))?;
        eprintln!("authority SHA-256 {}", authority.fingerprint());
        secured.sign_ins.tell();
    }
    eprintln!("bus       {}", scene.readers);
    eprintln!("archive   {}", scene.folder.join(scene::ARCHIVE).display());
    eprintln!("streams   tallycast ls --bus '{}'", scene.readers);
    if !arguments.headless && arguments.duration.is_none() {
        eprintln!("Press Ctrl-C to stop.");
    }
    Ok(())
}

/// Returns where the pages are served.
fn pages(scene: &Scene<'_>, far: Option<&FarSite>) -> impl Iterator<Item = SocketAddr> {
    [scene.listen].into_iter().chain(far.map(FarSite::listen))
}

/// Returns the address of a page: the monitor server encrypts it on other addresses than loopback, and in a secured demo.
fn page_of(scene: &Scene<'_>, listen: SocketAddr) -> String {
    let is_clear = listen.ip().is_loopback() && scene.tls.is_none();
    let scheme = if is_clear { "http" } else { "https" };
    format!("{scheme}://{listen}/")
}

/// Opens a page if there is a desktop; the absence of one is not a failure.
fn open_page(address: &str) {
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|it| std::env::var_os(it).is_some());
    if !desktop {
        return;
    }
    let mut command = std::process::Command::new("xdg-open");
    command.arg(address);
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    if let Ok(mut opener) = command.spawn() {
        // It passes the page to a browser and ends; a thread waits for it, so that no zombie remains.
        drop(std::thread::spawn(move || opener.wait()));
    }
}
