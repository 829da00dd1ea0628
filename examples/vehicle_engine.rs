//! The second of three apps of a small vehicle: computes torque from the pedal's position:
//! `cargo run --example vehicle_engine`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::SIGINT;
use tallycast::cyclic::{Freshness, Take};
use tallycast::{Node, account_json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, Arc::clone(&stop))?;
    let mut app = Node::from_env()?.app("vehicle/engine");
    app.phase(Duration::from_millis(3)); // After the app that feeds it.
    let pedal = app.input::<f64>("driver/pedal", Take::Newest);
    let torque = app.output::<f64>("engine/torque", [("torque", "Nm"), ("pedal_cycle", "")]);
    let report = app.run(|cycle| {
        let pedal = cycle.input(pedal);
        // Without a position in time nothing is written: readers of the torque report a missed input.
        if let Some(sample) = pedal.newest_sample().filter(|_| pedal.freshness != Freshness::Missed) {
            cycle.write(torque, &[400.0 * sample.elements[0], sample.index as f64])?;
        }
        if stop.load(Ordering::Relaxed) {
            cycle.stop();
        }
        Ok(())
    })?;
    report.accounts.iter().for_each(|account| println!("{}", account_json(account)));
    Ok(())
}
