//! Our reliable transport over UDP as a carrier of messages: UDT 4 on the wire, with any of its congestion controls.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use probe::pingpong::PIECE_HEADER_BYTES;
use sys::{clock, header_bytes};
use tallycast::udt::congestion::named;
use tallycast::udt::{Connection, Listener, Options, WaitError};

use super::stream::{Called, Carrier, StreamEnd, accept};
use super::{Attending, Far, LinkError, Listening, Near, POLL_INTERVAL, Task};
use crate::greeting::{GREETING_BYTES, GREETING_PATIENCE, greeting};
use crate::pingpong::options::{System, Wait};

/// Default congestion control: UDT's own.
const USUAL_CONTROL: &str = "udt";
/// Fewest packets in a buffer of a connection, whatever their size.
const FEWEST_PACKETS: usize = 256;
/// Largest packet that UDT can agree on, with its IP header. Units: bytes.
const LARGEST_PACKET_BYTES: usize = 65_535;
/// Time a connection that ends waits for the acknowledgement of its last bytes: nothing measured is in them.
const LINGER: Duration = Duration::from_secs(1);

/// Either end of a connection.
struct Udt {
    connection: Connection,
    control: String,
}

impl Udt {
    fn over(connection: Connection, task: &Task<'_>) -> Self {
        // Zero: what cannot be done at once is not waited for.
        let patience = if task.options.wait == Wait::Spin { Duration::ZERO } else { POLL_INTERVAL };
        connection.set_send_timeout(Some(patience));
        connection.set_receive_timeout(Some(patience));
        Self { connection, control: control_of(task).to_owned() }
    }
}

impl Carrier for Udt {
    fn send(&mut self, bytes: &[u8]) -> Result<Option<usize>, LinkError> {
        in_time(self.connection.send(bytes))
    }

    fn receive(&mut self, memory: &mut [u8]) -> Result<Option<usize>, LinkError> {
        in_time(self.connection.receive(memory))
    }

    fn retransmits(&self) -> Option<u64> {
        Some(self.connection.stats()?.retransmitted_packets)
    }

    fn congestion_control(&self) -> Option<String> {
        Some(self.control.clone())
    }
}

fn in_time(outcome: Result<usize, WaitError>) -> Result<Option<usize>, LinkError> {
    match outcome {
        Ok(count) => Ok(Some(count)),
        Err(WaitError::TimedOut) => Ok(None),
        Err(WaitError::Closed(_)) => Err(LinkError::Closed),
        Err(error) => Err(LinkError::Udt(error.into())),
    }
}

/// Returns the congestion control with its options, as in `fast?alpha=20`.
fn control_of<'a>(task: &'a Task<'_>) -> &'a str {
    match task.system.carrier() {
        System::Udt(Some(control)) => control,
        _ => USUAL_CONTROL,
    }
}

fn options(task: &Task<'_>) -> Result<Options, LinkError> {
    let (control, of_control) = control_of(task).split_once('?').unwrap_or((control_of(task), ""));
    let mut options = Options::stream();
    let packet_bytes = task.piece_bytes as usize + PIECE_HEADER_BYTES + header_bytes(&task.local);
    let packet_bytes = packet_bytes.min(LARGEST_PACKET_BYTES);
    let packets = (task.options.datagram_buffer_bytes() / packet_bytes).max(FEWEST_PACKETS);
    let packets = u32::try_from(packets).unwrap_or(u32::MAX);
    options.socket.congestion = Arc::from(named(control, of_control)?);
    options.socket.packet_bytes = u32::try_from(packet_bytes).expect("it is at most 65,535");
    (options.socket.send_buffer_packets, options.socket.receive_buffer_packets) = (packets, packets);
    // As for TCP: the server must learn of a failure before it takes this end for gone.
    options.socket.connect_timeout = task.patience / 2;
    options.socket.linger = LINGER;
    options.receive_buffer_bytes = task.options.datagram_buffer_bytes();
    Ok(options)
}

/// Connects the client's end.
pub(super) fn connect(task: &Task<'_>, to: SocketAddr, token: u64) -> Result<Box<dyn Near>, LinkError> {
    let (to, options) = (task.check_endpoint(to)?, options(task)?);
    let connection = Connection::connect_from(task.local, to, &options)?;
    connection.send_all(&greeting(token, 0)).map_err(tallycast::udt::Error::from)?;
    Ok(Box::new(StreamEnd::over(Box::new(Udt::over(connection, task)), task)))
}

/// The server's end, which waits for its connection.
struct UdtListening {
    listener: Listener,
    token: u64,
}

/// Opens the server's end.
pub(super) fn listen(task: &Task<'_>, token: u64) -> Result<Box<dyn Listening>, LinkError> {
    Ok(Box::new(UdtListening { listener: Listener::bind_to(task.local, &options(task)?)?, token }))
}

impl UdtListening {
    /// Returns whether a connection comes from the client of this run.
    fn is_of_run(&self, connection: &Connection, task: &Task<'_>) -> bool {
        let is_peer = |address: SocketAddr| address.ip().to_canonical() == task.peer.to_canonical();
        if !connection.peer_address().is_some_and(is_peer) {
            return false;
        }
        let (mut said, mut read) = ([0; GREETING_BYTES], 0);
        let deadline = clock::monotonic() + GREETING_PATIENCE;
        while read < GREETING_BYTES {
            connection.set_receive_timeout(Some(deadline.since(clock::monotonic())));
            match connection.receive(&mut said[read..]) {
                Ok(0) | Err(_) => return false,
                Ok(count) => read += count,
            }
        }
        said == greeting(self.token, 0)
    }
}

impl Listening for UdtListening {
    fn endpoint(&self) -> SocketAddr {
        self.listener.local_address()
    }

    fn accept(
        self: Box<Self>,
        task: &Task<'_>,
        meanwhile: &mut dyn Attending,
    ) -> Result<Option<Box<dyn Far>>, LinkError> {
        let mut next = || -> Result<Option<Called>, LinkError> {
            match self.listener.accept(Some(POLL_INTERVAL)) {
                Ok(connection) if self.is_of_run(&connection, task) => {
                    Ok(Some(Called::OfRun(Box::new(Udt::over(connection, task)))))
                }
                Ok(_) => Ok(Some(Called::Stranger)),
                Err(WaitError::TimedOut) => Ok(None),
                Err(error) => Err(LinkError::Udt(error.into())),
            }
        };
        accept(task, self.endpoint().port(), meanwhile, &mut next)
    }
}
