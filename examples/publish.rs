//! Publishes two channels at a thousand samples per second for ten seconds: `cargo run --example publish`.

use std::time::Duration;

use tallycast::{Dtype, Node};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = Node::from_env()?;
    let channels = [("current", "A"), ("voltage", "V")];
    let mut publisher = node.publisher("lab/probe").dtype(Dtype::F4).rate(1_000).channels(channels).open()?;
    let readers = publisher.wait_for_readers(1, Duration::from_secs(2));
    println!("{readers} readers are there");
    for tick in 0..1_000_u16 {
        let turn = f32::from(tick) / 100.0;
        let block: [[f32; 2]; 10] = [[turn.sin(), turn.cos()]; 10]; // [sample][channel]
        publisher.send_when_due(block.as_flattened())?;
    }
    println!("{:?}", publisher.close().samples);
    Ok(())
}
