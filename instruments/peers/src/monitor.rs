//! The monitor server beside a measurement: its process, requests to it, and the connections of pages.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tungstenite::WebSocket;
use tungstenite::client::IntoClientRequest;

use crate::Server;

/// Watchdog: time limit for an answer, and for each message that a page awaits.
const WATCHDOG: Duration = Duration::from_secs(60);

/// A monitor server that runs until this is dropped.
pub struct Monitor {
    server: Server,
    address: SocketAddr,
}

impl Monitor {
    /// Starts the command's monitor server on a bus, with a pattern of streams and other arguments; returns once it
    /// takes requests.
    ///
    /// # Errors
    /// If it cannot be started, or exits before.
    pub fn start(command: &Path, bus: &str, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(command);
        command.args(["--bus", bus, "monitor", "--listen", "127.0.0.1:0", "--json"]).args(arguments);
        let (server, said) = Server::start(&mut command, "address")?;
        let said: Value = serde_json::from_str(&said)?;
        let address = said["address"].as_str().context("the monitor server printed no address")?.parse()?;
        Ok(Self { server, address })
    }

    /// Returns the address at which it takes requests and pages.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the processor time of its process, as [`Server::processor_time`].
    ///
    /// # Errors
    /// If the system has no such clock.
    pub fn processor_time(&self) -> Result<Duration> {
        self.server.processor_time()
    }

    /// Sends a request such as `PUT /api/graph`, with the revision that it is of if that is needed; returns the
    /// answer's body.
    ///
    /// # Errors
    /// If the request is refused, or the answer is not JSON.
    pub fn ask(&self, request: &str, if_match: Option<&str>, body: &str) -> Result<Value> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(WATCHDOG))?;
        let if_match = if_match.map_or_else(String::new, |revision| format!("If-Match: {revision}\r\n"));
        write!(
            stream,
            "{request} HTTP/1.1\r\nHost: {}\r\n{if_match}Content-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("the server's answer has no body")?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        ensure!(status == "200", "{request}: {head}\n{body}");
        serde_json::from_str(body).with_context(|| format!("{request}: not JSON"))
    }
}

/// Connects to a monitor server as its page does.
///
/// # Errors
/// If the server refuses the connection.
pub fn connect_page(server: SocketAddr) -> Result<WebSocket<TcpStream>> {
    let stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(WATCHDOG))?;
    stream.set_nodelay(true)?;
    let request = format!("ws://{server}/api/live").into_client_request()?;
    let (socket, _) =
        tungstenite::client(request, stream).context("the monitor server refused a page's connection")?;
    Ok(socket)
}
