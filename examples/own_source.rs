//! Publishes the data of a device, with its own times and holes: `cargo run --example own_source`.

use std::time::Duration;

use tallycast::{Channel, Dtype, Node, Stage, WallTime};

/// Simulates a device that delivers 100 samples ten times a second and loses some now and then.
fn read_device(round: i16) -> Option<(WallTime, [i16; 100])> {
    std::thread::sleep(Duration::from_millis(100));
    let first_taken = tallycast::now().offset(-99_000_000);
    (round % 17 != 16).then(|| (first_taken, std::array::from_fn(|index| round * 100 + index as i16)))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = Node::from_env()?;
    let level = Channel::new("level", "mV").with_scale(0.1, 0.0);
    let mut publisher = node.publisher("lab/device").dtype(Dtype::I16).rate(1_000).channel(level).open()?;
    for round in 0..100 {
        match read_device(round) {
            Some((first_taken, samples)) => publisher.send_at(first_taken, &samples)?,
            None => publisher.skip(100, Stage::Source)?,
        }
    }
    println!("{:?}", publisher.close().samples);
    Ok(())
}
