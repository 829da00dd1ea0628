//! The client with its sockets: runs one test against an iperf3 server.

use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};

use sys::{Interest, Poller, clock};

use super::client::{Client, Phase};
use super::conversation::{COOKIE_BYTES, Cookie, Input};
use super::error::RunError;
use super::options::{ClientOptions, Family};
use super::parameters::Test;
use super::report::Report;
use super::session::{Around, CANCELLED, CONTROL, Control, Session, Side};
use super::sockets::{self, Origin};
use super::traffic::Role;
use super::watch::Watch;

/// The client connects its streams.
struct Connecting(Origin);

impl Side for Connecting {
    type Phase = Phase;
    const ROLE: Role = Role::Client;

    fn open(session: &mut Session<Self>, test: &Test, _: &Poller) -> std::io::Result<()> {
        for (index, _) in (0_u16..).zip(test.places()) {
            let Control { peer: remote, ref cookie, .. } = session.control;
            let local = session.side.0.of_stream(remote, index);
            session.sockets.push((index.into(), sockets::open_stream(remote, local, test, cookie)?));
        }
        Ok(())
    }
}

/// Runs one test; returns the counts of both sides.
///
/// # Errors
/// [`RunError`] with the reason why there is no result, and the remedy.
pub fn run(options: &ClientOptions, watch: &mut dyn Watch) -> Result<Report, RunError> {
    options.check()?;
    let remote = resolve(options)?;
    let origin = Origin { address: options.bind, port: options.client_port };
    let control = sockets::connect_control(remote, origin)
        .map_err(|source| RunError::Connect { address: remote, source })?;
    control.set_nonblocking(true)?;
    let poller = Poller::new()?;
    poller.add(&control, CONTROL, Interest::Read)?;
    poller.add(watch.cancellation(), CANCELLED, Interest::Read)?;
    let (test, cookie) = (options.test(sockets::segment_bytes(&control)), new_cookie());
    let client = Client::new(clock::monotonic(), test, &cookie);
    let mut around = Around { watch, poller };
    let control = Control { socket: control, peer: remote, cookie };
    let mut session = Session::new(Connecting(origin), control, client, options.interval);
    loop {
        let ending = if around.watch.cancellation().is_cancelled() {
            session.on_input(Input::Interrupt, &mut around)
        } else {
            // Input is handled before the time is checked: a test that has just begun is not over.
            let ending = session.on_control(&mut around);
            ending.or_else(|| session.on_time(&mut around, clock::monotonic()))
        };
        if let Some(ending) = ending {
            return Ok(ending?);
        }
        around.poller.wait(Some(session.next_look()))?;
        session.on_goal();
    }
}

fn resolve(options: &ClientOptions) -> Result<SocketAddr, RunError> {
    let unknown = |source| RunError::Resolve { host: options.host.clone(), source };
    let addresses = (&*options.host, options.port).to_socket_addrs().map_err(unknown)?;
    let wanted = |address: &SocketAddr| match options.family {
        Family::Any => true,
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6(),
    };
    let none = || unknown(std::io::Error::new(ErrorKind::NotFound, "it has no address of that family"));
    addresses.into_iter().find(wanted).ok_or_else(none)
}

/// Returns a random cookie: 36 letters and digits, and a zero. It identifies a client and authenticates
/// nothing.
fn new_cookie() -> Cookie {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let seed = clock::wall().as_nanos().unsigned_abs() ^ (u64::from(std::process::id()) << 40);
    let mut random = units::Random::new(seed);
    let mut cookie = [0; COOKIE_BYTES];
    for letter in &mut cookie[..COOKIE_BYTES - 1] {
        *letter = LETTERS[usize::try_from(random.below(32)).expect("below 32")];
    }
    cookie
}
