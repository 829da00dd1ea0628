//! Publishes what a device of one's own delivers, with its own times and its own holes: `cargo run --example own_source`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tallycast::{Bus, Channel, Dtype, Node, Stage, WallTime};

/// Stands for a device that hands over 100 samples ten times a second and loses some now and then.
fn read_device(round: u64) -> Option<(WallTime, Vec<u8>)> {
    std::thread::sleep(Duration::from_millis(100));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let samples = (0..100_u64).flat_map(|index| ((round * 100 + index) as i16).to_le_bytes()).collect();
    (round % 17 != 16).then(|| (WallTime::from_nanos(now.as_nanos() as i64 - 99_000_000), samples))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = Node::open(Bus::from_env()?)?;
    let stream = node.publisher("lab/device").dtype(Dtype::I16).rate("1k".parse()?);
    let mut publisher = stream.channel(Channel::new("level", "mV").with_scale(0.1, 0.0)).open()?;
    for round in 0..100 {
        match read_device(round) {
            Some((first_taken, samples)) => publisher.send_at(first_taken, &samples)?,
            None => publisher.skip(100, Stage::Source)?,
        }
    }
    println!("{:?}", publisher.close().samples);
    Ok(())
}
