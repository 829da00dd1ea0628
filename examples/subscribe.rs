//! Reads `lab/*`: samples, gaps with their reasons, and the account at the end: `cargo run --example subscribe`.

use std::time::Duration;

use tallycast::{Bus, Event, Node, account_json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = Node::open(Bus::from_env()?)?;
    let mut subscriber = node.subscriber("lab/*").reader("example").open()?;
    while let Some(event) = subscriber.next(Duration::from_secs(5)) {
        match event {
            Event::Block(block) => {
                let samples = block.elements::<f32>()?; // In the reader's own buffer: [sample][element].
                println!(
                    "{} {} {}: {:?}",
                    block.stream,
                    block.first_index,
                    block.t0.as_nanos(),
                    samples.first()
                );
            }
            Event::Gap(gap) => {
                println!("{} misses {} samples: {:?}", gap.stream, gap.samples(), gap.gap.lost)
            }
            _ => {}
        }
    }
    subscriber.close().iter().for_each(|account| println!("{:#}", account_json(account)));
    Ok(())
}
