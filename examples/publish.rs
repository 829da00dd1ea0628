//! Publishes two channels at a thousand samples per second for ten seconds: `cargo run --example publish`.

use std::time::{Duration, Instant};

use tallycast::{Bus, Channel, Dtype, Node};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = Node::open(Bus::from_env()?)?;
    let channels = [Channel::new("current", "A"), Channel::new("voltage", "V")];
    let stream = node.publisher("lab/probe").dtype(Dtype::F4).rate("1000".parse()?);
    let mut publisher =
        channels.into_iter().fold(stream, |stream, channel| stream.channel(channel)).open()?;
    let began = Instant::now();
    for index in 1..=1_000_u16 {
        // Ten samples of two channels: [sample][channel].
        let block: Vec<f32> = (0..20).map(|element| f32::from(index) + element as f32 / 20.0).collect();
        publisher.send(&block)?;
        std::thread::sleep(
            (began + Duration::from_millis(10) * index.into()).saturating_duration_since(Instant::now()),
        );
    }
    println!("{:?}", publisher.close().samples);
    Ok(())
}
