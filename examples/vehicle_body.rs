//! The last of three apps of a small vehicle: computes speed from the engine's torque:
//! `cargo run --example vehicle_body`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::SIGINT;
use tallycast::cyclic::{Freshness, Take};
use tallycast::{Node, account_json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, Arc::clone(&stop))?;
    let mut app = Node::from_env()?.app("vehicle/body");
    app.phase(Duration::from_millis(6)); // After the app that feeds it.
    let torque = app.input::<f64>("engine/torque", Take::Newest);
    let speed = app.output::<f64>("vehicle/speed", [("speed", "km/h"), ("pedal_cycle", "")]);
    let report = app.run(|cycle| {
        let torque = cycle.input(torque);
        if let Some([torque, pedal_cycle]) = torque.newest().filter(|_| torque.freshness != Freshness::Missed)
        {
            // Diminishing returns: the more torque, the less each increment adds.
            cycle.write(speed, &[torque * (800.0 - torque) / 3_200.0, *pedal_cycle])?;
        }
        if stop.load(Ordering::Relaxed) {
            cycle.stop();
        }
        Ok(())
    })?;
    report.accounts.iter().for_each(|account| println!("{}", account_json(account)));
    Ok(())
}
