//! The validated description of an app, before any of its streams is opened.

use cyclic::{Registration, Wire};
use sample::{Schema, StreamName};
use sys::scheduling;

use super::app::App;
use super::outcome::AppError;
use crate::node::NodeError;

/// A valid app: names, schemas and beat are checked.
pub(super) struct Plan {
    /// Its registration, without the scheduling, which is known once it runs.
    pub(super) registration: Registration,
    /// The schemas of its outputs, in the app's order.
    pub(super) outputs: Vec<Schema>,
}

impl Plan {
    pub(super) fn of(app: &App) -> Result<Self, AppError> {
        if let Some(priority) = app.fifo_priority
            && !(1..=scheduling::MAX_FIFO_PRIORITY).contains(&priority)
        {
            return Err(AppError::Priority(priority));
        }
        let registration = registration(app)?;
        let rate = registration.schema()?.rate;
        let outputs = app.outputs.iter().map(|plan| {
            let schema = Schema::new(plan.dtype, rate, plan.channels.clone());
            schema.map_err(|error| NodeError::from(error).into())
        });
        Ok(Self { outputs: outputs.collect::<Result<_, AppError>>()?, registration })
    }
}

fn registration(app: &App) -> Result<Registration, AppError> {
    let name = |text: &str| text.parse::<StreamName>().map_err(NodeError::from);
    let inputs = app.inputs.iter().map(|plan| Ok(Wire { stream: name(&plan.stream)?, take: plan.take }));
    Ok(Registration {
        app: name(&app.name)?,
        beat: app.beat,
        scheduling: String::new(),
        inputs: inputs.collect::<Result<_, NodeError>>()?,
        outputs: app.outputs.iter().map(|plan| name(&plan.stream)).collect::<Result<_, _>>()?,
    })
}
