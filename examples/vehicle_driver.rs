//! The first of three apps of a small vehicle: presses the pedal in 64 steps, repeatedly, a step every 10 ms.
//!
//! Run `cargo run --example vehicle_driver` together with `vehicle_engine` and `vehicle_body`, on this host or on
//! others; `tallycast apps` draws them. Ctrl-C ends an app in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;
use tallycast::Node;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, Arc::clone(&stop))?;
    let mut app = Node::from_env()?.app("vehicle/driver");
    let pedal = app.output::<f64>("driver/pedal", [("position", "")]);
    let report = app.run(|cycle| {
        let position = (cycle.index() % 64) as f64 / 64.0;
        cycle.write(pedal, &[position])?;
        if stop.load(Ordering::Relaxed) {
            cycle.stop();
        }
        Ok(())
    })?;
    println!("{:?}", report.counters);
    Ok(())
}
