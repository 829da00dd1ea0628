//! A heated plate in two dimensions, simulated in real time: its temperature as images and at three probes. Heater and
//! conductivity are steered while it runs: `cargo run --release --example heated_plate`, then
//! `tallycast steer set sim/plate heater=3`. A monitor shows it at `/?plot=plate/image:temperature;panel=image`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::SIGINT;
use tallycast::cyclic::{AppError, AppReport};
use tallycast::steering::Parameter;
use tallycast::{Channel, Node};

const WIDTH: usize = 96;
const HEIGHT: usize = 64;
/// Time steps of the scheme within one cycle.
const STEPS: usize = 10;
/// The probes: on the heater, beside it, at the cold edge; row and column.
const PROBES: [(usize, usize); 3] = [(32, 24), (32, 48), (32, 90)];
const ROOM: f32 = 20.0;

type Plate = Vec<f32>;

/// Advances the temperatures by one step: explicit differences (Courant, Friedrichs and Lewy 1928; stable up to a
/// diffusion of 0.25), a heated square, edges that lose their heat to the room.
fn advance(plate: &Plate, next: &mut Plate, diffusion: f32, heat: f32) {
    for row in 0..HEIGHT {
        for column in 0..WIDTH {
            let is_edge = row == 0 || column == 0 || row == HEIGHT - 1 || column == WIDTH - 1;
            let at = row * WIDTH + column;
            next[at] = if is_edge {
                ROOM
            } else {
                let around = plate[at - 1] + plate[at + 1] + plate[at - WIDTH] + plate[at + WIDTH];
                let is_heated = (28..36).contains(&row) && (20..28).contains(&column);
                let source = if is_heated { heat } else { 0.0 };
                plate[at] + diffusion * (around - 4.0 * plate[at]) + source
            };
        }
    }
}

/// Simulates until `is_over`, asked in each cycle.
pub(crate) fn simulate(node: &Node, is_over: impl Fn() -> bool + Send) -> Result<AppReport, AppError> {
    let mut app = node.app("sim/plate");
    app.period(Duration::from_millis(50));
    let heater = Parameter::new("heater", 1.0_f64).unit("kW").range(0.0, 5.0).lease("plate");
    let heater = app.parameter(heater);
    let diffusion = app.parameter(Parameter::new("diffusion", 0.2_f64).range(0.01, 0.25).lease("plate"));
    let shape = [HEIGHT as u32, WIDTH as u32];
    let image = app.output::<f32>("plate/image", [Channel::new("temperature", "°C").with_shape(shape)]);
    let probes = app.output::<f32>("plate/probes", [("heater", "°C"), ("middle", "°C"), ("edge", "°C")]);
    let (mut plate, mut next) = (vec![ROOM; WIDTH * HEIGHT], vec![ROOM; WIDTH * HEIGHT]);
    app.run(move |cycle| {
        let (heat, diffusion) = (cycle.parameter(heater)[0] as f32, cycle.parameter(diffusion)[0] as f32);
        for _ in 0..STEPS {
            advance(&plate, &mut next, diffusion, heat);
            std::mem::swap(&mut plate, &mut next);
        }
        cycle.write(image, &plate)?;
        cycle.write(probes, &PROBES.map(|(row, column)| plate[row * WIDTH + column]))?;
        if is_over() {
            cycle.stop();
        }
        Ok(())
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, Arc::clone(&stop))?;
    let report = simulate(&Node::from_env()?, || stop.load(Ordering::Relaxed))?;
    println!("{} cycles, commands: {:?}", report.counters.cycles, report.commands.unwrap_or_default());
    Ok(())
}
