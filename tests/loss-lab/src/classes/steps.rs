//! Datagrams that are sent in steps; the readers read everything after each step.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};

use crate::scene::{PORT, Scene};
use crate::traffic::{PAYLOAD_BYTES, Planted, arrived, send, send_trains, settle};

/// Traffic that is sent repeatedly while a setting is changed.
pub(crate) trait Stepping: Send {
    /// Sends once, and lets the readers read.
    fn step(&mut self) -> anyhow::Result<()>;

    /// Returns the socket that loses, if the loss is at a socket.
    fn reader(&self) -> Option<&UdpSocket>;

    /// Returns the maximum number of datagrams that were sent and did not arrive.
    fn lost(&self) -> u64;

    /// Waits until none of the traffic is left in flight.
    fn finish(&mut self, _scene: &Scene) -> anyhow::Result<()> {
        Ok(())
    }
}

/// The sender, and the markers that show that all of its datagrams have passed.
pub(super) struct Course {
    pub(super) writer: UdpSocket,
    /// Sender of markers: by default the same socket.
    pub(super) marker: UdpSocket,
    markers: UdpSocket,
    pub(super) to: SocketAddr,
    to_marker: SocketAddr,
}

impl Course {
    pub(super) fn new(scene: &Scene) -> anyhow::Result<Self> {
        let writer = scene.sender_socket()?;
        Ok(Self {
            marker: writer.try_clone()?,
            writer,
            markers: scene.reader_socket(PORT + 1)?,
            to: scene.to(PORT),
            to_marker: scene.to(PORT + 1),
        })
    }

    pub(super) fn settle(&self) -> anyhow::Result<u64> {
        // Trains are disabled: a marker is one datagram.
        nix::sys::socket::setsockopt(&self.writer, nix::sys::socket::sockopt::UdpGsoSegment, &0)?;
        settle(&self.marker, &self.markers, self.to_marker)
    }
}

/// Content of one step.
#[derive(Clone, Copy)]
pub(super) enum Burst {
    Datagrams { count: u64, payload_bytes: usize },
    Trains { count: u64, segments: u64, payload_bytes: usize },
}

pub(super) const FIFTY: Burst = Burst::Datagrams { count: 50, payload_bytes: PAYLOAD_BYTES };
pub(super) const TEN_TRAINS: Burst = Burst::Trains { count: 10, segments: 8, payload_bytes: 1_000 };

impl Burst {
    const fn datagrams(self) -> u64 {
        match self {
            Self::Datagrams { count, .. } => count,
            Self::Trains { count, segments, .. } => count * segments,
        }
    }

    /// Sends the datagrams of one step; returns their number.
    pub(super) fn send(self, writer: &UdpSocket, to: SocketAddr, step: u64) -> anyhow::Result<u64> {
        match self {
            Self::Datagrams { count, payload_bytes } => {
                send(writer, to, step * count..(step + 1) * count, payload_bytes)?;
            }
            Self::Trains { count, segments, payload_bytes } => {
                send_trains(writer, to, step * count..(step + 1) * count, segments, payload_bytes)?;
            }
        }
        Ok(self.datagrams())
    }
}

/// Sends in steps; the readers read everything after each step.
pub(super) struct Steps {
    pub(super) course: Course,
    burst: Burst,
    done: u64,
    /// Maximum number of lost markers.
    markers: u64,
    /// Readers; the first one loses, the others receive everything.
    pub(super) readers: Vec<(UdpSocket, BTreeSet<u64>)>,
}

impl Steps {
    pub(super) fn new(scene: &Scene, reader: UdpSocket, burst: Burst) -> anyhow::Result<Self> {
        let readers = vec![(reader, BTreeSet::new())];
        Ok(Self { course: Course::new(scene)?, burst, done: 0, markers: 0, readers })
    }

    pub(super) fn run(mut self, steps: u64) -> anyhow::Result<Planted> {
        for _ in 0..steps {
            self.step()?;
        }
        let sent = self.done * self.burst.datagrams();
        for (_, seen) in &self.readers[1..] {
            anyhow::ensure!(seen.len() as u64 == sent, "another reader has {} of {sent}", seen.len());
        }
        let planted = Planted::of(0..sent, &self.readers[0].1);
        Ok(self.readers.into_iter().fold(planted, |planted, (reader, _)| planted.keep(reader)))
    }
}

impl Stepping for Steps {
    fn step(&mut self) -> anyhow::Result<()> {
        self.burst.send(&self.course.writer, self.course.to, self.done)?;
        self.markers += self.course.settle()?;
        self.readers.iter_mut().for_each(|(reader, seen)| arrived(reader, seen));
        self.done += 1;
        Ok(())
    }

    fn reader(&self) -> Option<&UdpSocket> {
        Some(&self.readers[0].0)
    }

    fn lost(&self) -> u64 {
        self.done * self.burst.datagrams() - self.readers[0].1.len() as u64 + self.markers
    }
}

/// Steps of any kind.
pub(super) fn boxed(steps: anyhow::Result<impl Stepping + 'static>) -> anyhow::Result<Box<dyn Stepping>> {
    Ok(Box::new(steps?))
}
