//! One run of an app: its streams are opened, its function is called when due, its streams are closed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use cyclic::{ALARM_ABOVE, CycleMachine, Due};
use sys::{clock, scheduling};
use zerocopy::IntoBytes;

use super::app::App;
use super::cycle::Cycle;
use super::input::{InputPort, reader_name};
use super::outcome::{AppError, AppReport, CycleResult};
use super::output::OutputPort;
use super::plan::Plan;
use crate::node::NodeError;
use crate::steering::Steering;

/// A running app.
struct Running {
    machine: CycleMachine,
    inputs: Vec<InputPort>,
    outputs: Vec<OutputPort>,
    status: OutputPort,
    steering: Option<Steering>,
    elements: Vec<u64>,
    warned_of_alarm: bool,
}

/// Reason why an app ends.
enum End {
    Stopped,
    Failed(Box<dyn std::error::Error + Send + Sync>),
    Panicked(String),
}

impl App {
    /// Calls `function` at every due time until it calls [`Cycle::stop`], fails or panics; returns when all
    /// streams are closed.
    ///
    /// The function runs on a thread of its own. A cycle that ends after the next is due is an overrun: the
    /// cycles that it covered are skipped and counted.
    ///
    /// # Errors
    /// [`AppError`]; if the function failed or panicked, with the report of the app until then.
    pub fn run<F>(self, function: F) -> Result<AppReport, AppError>
    where
        F: FnMut(&mut Cycle<'_>) -> CycleResult + Send,
    {
        on_its_own_thread(&self, function)
    }
}

/// Runs the app on a thread whose scheduling is its own and ends with it: no thread of the node is started
/// from it (`an_app_that_is_pinned_and_urgent_leaves_the_threads_of_its_node_alone`).
fn on_its_own_thread<F>(app: &App, function: F) -> Result<AppReport, AppError>
where
    F: FnMut(&mut Cycle<'_>) -> CycleResult + Send,
{
    let plan = Plan::of(app)?;
    app.node.start_agents(app.inputs.first().map(|_| reader_name(&app.name)))?;
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("tallycast-app".to_owned());
        let spawned = builder.spawn_scoped(scope, || run(app, plan, function)).map_err(AppError::Thread)?;
        // The function's panics are caught where it is called: this one would be a defect of this crate.
        spawned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn run<F>(app: &App, plan: Plan, mut function: F) -> Result<AppReport, AppError>
where
    F: FnMut(&mut Cycle<'_>) -> CycleResult,
{
    let scheduling = schedule_thread(app);
    let mut running = Running::open(app, plan, scheduling)?;
    let (last, end) = loop {
        let (due, end) = running.cycle(&mut function);
        if let Some(end) = end {
            break (due, end);
        }
    };
    let report = running.close();
    let (app, cycle, report) = (app.name.clone(), last.index, report);
    match end {
        End::Stopped => Ok(report),
        End::Failed(source) => Err(AppError::Failed { app, cycle, source, report: Box::new(report) }),
        End::Panicked(message) => Err(AppError::Panicked { app, cycle, message, report: Box::new(report) }),
    }
}

impl Running {
    fn open(app: &App, plan: Plan, scheduling: String) -> Result<Self, AppError> {
        let Plan { mut registration, outputs } = plan;
        registration.scheduling = scheduling;
        let (schema, status_name) = (registration.schema()?, registration.status_stream());
        let status_name = status_name.map_err(NodeError::from)?;
        let inputs = app.inputs.iter().map(|plan| InputPort::open(&app.node, &app.name, plan));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let outputs = registration.outputs.iter().zip(&outputs);
        let outputs = outputs.map(|(stream, schema)| OutputPort::open(&app.node, stream.as_str(), schema));
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let status = OutputPort::open_status(&app.node, status_name.as_str(), &schema)?;
        let steering =
            if app.steering.is_empty() { None } else { Some(app.steering.clone().open(status.epoch())?) };
        // Last, so that the first cycle is not over before all streams are open.
        let machine =
            CycleMachine::new(app.beat, inputs.len(), clock::pair())?.in_process(std::process::id());
        Ok(Self { machine, inputs, outputs, status, steering, elements: Vec::new(), warned_of_alarm: false })
    }

    /// Waits for the next cycle and runs it; returns why it was the last, if so.
    fn cycle<F>(&mut self, function: &mut F) -> (Due, Option<End>)
    where
        F: FnMut(&mut Cycle<'_>) -> CycleResult,
    {
        let due = self.machine.due();
        clock::sleep_until(due.at);
        self.machine.begun(clock::monotonic());
        self.look();
        if let Some(steering) = &mut self.steering {
            steering.step(due.index, due.time);
        }
        let end = self.call(&due, function);
        let ended = self.machine.ended(clock::monotonic());
        if ended.alarms > 0 && !std::mem::replace(&mut self.warned_of_alarm, true) {
            tracing::warn!(
                "timer alarm: more than {ALARM_ABOVE} cycles are pending, {} were skipped so far; further alarms are counted\n\
                 give the app a longer period, or a processor of its own (pin_to, fifo)",
                self.machine.counters().skipped
            );
        }
        let told = self.tell(&due);
        (due, end.or_else(|| told.err().map(|error| End::Failed(error.into()))))
    }

    fn look(&mut self) {
        for (place, input) in self.inputs.iter_mut().enumerate() {
            if let Some(period) = input.look() {
                self.machine.input_known(place, period);
            }
            input.freshness = self.machine.looked(place, &input.news);
        }
    }

    /// Calls the function and sends its outputs, if it returned.
    fn call<F>(&mut self, due: &Due, function: &mut F) -> Option<End>
    where
        F: FnMut(&mut Cycle<'_>) -> CycleResult,
    {
        let mut stop = false;
        let Self { inputs, outputs, steering, .. } = self;
        let mut cycle = Cycle { due: *due, inputs, outputs, stop: &mut stop, steering: steering.as_mut() };
        let returned = catch_unwind(AssertUnwindSafe(|| function(&mut cycle)));
        let sent = match returned {
            Ok(Ok(())) => outputs.iter_mut().try_for_each(|output| output.send(due)),
            Ok(Err(error)) => {
                outputs.iter_mut().for_each(OutputPort::forget);
                return Some(End::Failed(error));
            }
            Err(panic) => {
                outputs.iter_mut().for_each(OutputPort::forget);
                return Some(End::Panicked(message_of(panic.as_ref())));
            }
        };
        match sent {
            Err(error) => Some(End::Failed(error.into())),
            Ok(()) => {
                // Only now the sample with the changes has left.
                if let Some(steering) = steering {
                    steering.done();
                }
                stop.then_some(End::Stopped)
            }
        }
    }

    /// Publishes the status of the cycle.
    fn tell(&mut self, due: &Due) -> Result<(), crate::publisher::PublishError> {
        self.machine.status().write(&mut self.elements);
        self.status.write(self.elements.as_bytes())?;
        self.status.send(due)
    }

    fn close(self) -> AppReport {
        // The cycles that the last cycle covered are skipped too.
        let next = self.machine.due().index;
        let outputs = self.outputs.into_iter().map(|output| output.close(next)).collect();
        let _ = self.status.close(next);
        let accounts = self.inputs.into_iter().flat_map(InputPort::close).collect();
        let commands = self.steering.map(Steering::close);
        AppReport { counters: self.machine.counters().clone(), outputs, accounts, commands }
    }
}

/// Schedules the calling thread as the app asked, as far as it is allowed; returns the resulting scheduling.
fn schedule_thread(app: &App) -> String {
    let mut granted = Vec::new();
    if let Some(priority) = app.fifo_priority {
        match scheduling::run_fifo(priority) {
            Ok(()) => granted.push(format!("fifo {priority}")),
            Err(error) => tracing::warn!(
                "the app `{}` runs without SCHED_FIFO: {error}\nallow it with CAP_SYS_NICE or `ulimit -r {priority}`",
                app.name
            ),
        }
    }
    if granted.is_empty() {
        granted.push("other".to_owned());
    }
    if let Some(cpu) = app.cpu {
        match scheduling::pin_to_cpu(cpu) {
            Ok(()) => granted.push(format!("cpu {cpu}")),
            Err(error) => tracing::warn!(
                "the app `{}` is not pinned to processor {cpu}: {error}\nchoose one of `taskset -cp $$`",
                app.name
            ),
        }
    }
    if let Err(error) = clock::lower_timer_slack() {
        tracing::debug!("sleeps of the app `{}` end up to 50 µs late: {error}", app.name);
    }
    granted.join(", ")
}

/// Returns the message of a panic.
fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
