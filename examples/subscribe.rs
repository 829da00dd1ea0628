//! Reads `lab/probe`: samples, gaps with their reasons, the account at the end: `cargo run --example subscribe`.

use std::time::Duration;

use tallycast::{Node, account_json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut subscriber = Node::from_env()?.subscriber("lab/probe").reader("example").open()?;
    for block in subscriber.blocks(Duration::from_secs(5)) {
        for gap in &block.gaps {
            println!("{} samples are missing from {}: {:?}", gap.samples(), gap.first_index(), gap.gap.lost);
        }
        let samples: &[f32] = block.elements()?; // In the reader's own buffer: [sample][channel].
        println!("{} at {} ns: {} values", block.first_index, block.t0_ns(), samples.len());
    }
    subscriber.close().iter().for_each(|account| println!("{:#}", account_json(account)));
    Ok(())
}
