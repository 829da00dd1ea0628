//! The process that publishes what the nodes read.

use std::time::Duration;

use anyhow::Result;
use peers::process::{end_with_leader, stand_by};
use tallycast::{Dtype, Node, Publisher};

use crate::{NODES, RATE_HZ, input};

/// Interval of the blocks of one stream.
const BLOCK_INTERVAL: Duration = Duration::from_millis(20);
/// Times within this interval at which some of the streams send: devices do not send together.
const TURNS: usize = 20;

/// Publishes all streams until the measurement ends.
pub(crate) fn publish(bus: String) -> Result<()> {
    let node = Node::open(bus.parse()?)?;
    let open = |number| {
        let stream = node.publisher(input(number)).dtype(Dtype::F4).rate(RATE_HZ);
        stream.channel(("x", "V")).open()
    };
    let mut publishers = (0..NODES).map(open).collect::<Result<Vec<Publisher>, _>>()?;
    let samples = (BLOCK_INTERVAL.as_secs_f64() * f64::from(RATE_HZ)).round() as usize;
    let wave = |at: usize| (at as f32 * 0.01).sin();
    let block: Vec<f32> = (0..samples).map(wave).collect();
    stand_by()?;
    end_with_leader();
    let (start, together) = (sys::clock::monotonic(), NODES / TURNS);
    for turn in 0_u32.. {
        sys::clock::sleep_until(start + BLOCK_INTERVAL * turn / TURNS as u32);
        let first = turn as usize % TURNS * together;
        for publisher in &mut publishers[first..first + together] {
            publisher.send(&block)?;
        }
    }
    Ok(())
}
