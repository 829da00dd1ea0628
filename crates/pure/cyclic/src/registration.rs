//! Registration of an app: the name and the labels of its status stream.
//!
//! Layout: `docs/guide/cyclic.md`, "The status stream".

use core::time::Duration;

use sample::{Dtype, Schema, SchemaError, StreamName};

use crate::PeriodError;
use crate::schedule::Beat;
use crate::status::StatusRow;

/// Prefix of the names of status streams: `apps/`, followed by the app's name.
pub const STATUS_PREFIX: &str = "apps/";
/// Maximum number of inputs and outputs of an app together: each takes one label, of which a stream
/// has 256.
pub const MAX_WIRES: usize = 200;

const PERIOD: &str = "app.period_ns";
const PHASE: &str = "app.phase_ns";
const SCHEDULING: &str = "app.scheduling";
const INPUT: &str = "app.input.";
const OUTPUT: &str = "app.output.";

/// Samples of an input that a cycle gets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Take {
    /// The newest sample, even if it is not new.
    #[default]
    Newest,
    /// All samples that arrived since the last cycle.
    All,
}

/// An input of an app.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wire {
    /// The stream.
    pub stream: StreamName,
    /// Samples that a cycle gets.
    pub take: Take,
}

/// Description that an app publishes of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Registration {
    /// The app's name.
    pub app: StreamName,
    /// Period of the calls of its function, and their phase within it.
    pub beat: Beat,
    /// Scheduling of its thread: `other`, or `fifo` and a priority.
    pub scheduling: String,
    /// Streams it reads.
    pub inputs: Vec<Wire>,
    /// Streams it writes.
    pub outputs: Vec<StreamName>,
}

/// Reason why an app cannot be registered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// The name or the schema is not valid for a stream.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The period is not valid.
    #[error(transparent)]
    Period(#[from] PeriodError),
    /// There are more inputs and outputs than labels.
    #[error(
        "an app has at most {MAX_WIRES} inputs and outputs, not {0}\nput several channels into one stream"
    )]
    TooMany(usize),
    /// One stream is given as two outputs.
    #[error("output `{0}` is given twice\ngive each output a name of its own")]
    TwiceWritten(StreamName),
    /// The app's own status stream is given as an output.
    #[error("the output `{0}` is the app's own status stream\ngive the output another name")]
    OwnStatus(StreamName),
}

impl Take {
    const fn word(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::All => "all",
        }
    }
}

impl core::fmt::Display for Take {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.pad(self.word())
    }
}

impl Registration {
    /// Returns the name of the app's status stream.
    ///
    /// # Errors
    /// [`SchemaError::Name`] if the app's name leaves no room for the prefix.
    pub fn status_stream(&self) -> Result<StreamName, SchemaError> {
        format!("{STATUS_PREFIX}{}", self.app).parse()
    }

    /// Returns the schema of the app's status stream, whose labels hold the registration.
    ///
    /// # Errors
    /// [`RegistrationError`] if the registration is not valid.
    pub fn schema(&self) -> Result<Schema, RegistrationError> {
        let status = self.status_stream()?;
        let wires = self.inputs.len() + self.outputs.len();
        if wires > MAX_WIRES {
            return Err(RegistrationError::TooMany(wires));
        }
        let mut seen = std::collections::BTreeSet::new();
        if let Some(twice) = self.outputs.iter().find(|output| !seen.insert(output.as_str())) {
            return Err(RegistrationError::TwiceWritten(twice.clone()));
        }
        if self.outputs.contains(&status) {
            return Err(RegistrationError::OwnStatus(status));
        }
        let rate = self.beat.rate()?;
        let mut schema = Schema::new(Dtype::U64, rate, StatusRow::channels(self.inputs.len()))?;
        let own = [
            (PERIOD.to_owned(), self.beat.period.as_nanos().to_string()),
            (PHASE.to_owned(), self.beat.phase.as_nanos().to_string()),
            (SCHEDULING.to_owned(), self.scheduling.clone()),
        ];
        let inputs = self.inputs.iter().enumerate();
        let inputs =
            inputs.map(|(at, wire)| (format!("{INPUT}{at:03}"), format!("{} {}", wire.take, wire.stream)));
        let outputs = self.outputs.iter().enumerate();
        let outputs = outputs.map(|(at, stream)| (format!("{OUTPUT}{at:03}"), stream.to_string()));
        schema.labels = own.into_iter().chain(inputs).chain(outputs).collect();
        Ok(schema)
    }

    /// Reads a registration from a status stream; `None` if the stream is not a status stream.
    #[must_use]
    pub fn read(name: &StreamName, schema: &Schema) -> Option<Self> {
        let app = name.as_str().strip_prefix(STATUS_PREFIX)?.parse().ok()?;
        let label = |key: &str| schema.labels.get(key);
        let nanos = |key: &str| label(key)?.parse().ok().map(Duration::from_nanos);
        // Labels are sorted, and so are the numbers after the prefix.
        let numbered = |prefix: &'static str| {
            schema.labels.iter().filter(move |(key, _)| key.starts_with(prefix)).map(|(_, value)| value)
        };
        let inputs = numbered(INPUT).map(|text| Wire::read(text)).collect::<Option<Vec<_>>>()?;
        let outputs = numbered(OUTPUT).map(|text| text.parse().ok()).collect::<Option<Vec<_>>>()?;
        let is_a_row = schema.dtype == Dtype::U64 && schema.channels == StatusRow::channels(inputs.len());
        is_a_row.then_some(())?;
        Some(Self {
            app,
            beat: Beat { period: nanos(PERIOD)?, phase: nanos(PHASE)? },
            scheduling: label(SCHEDULING)?.clone(),
            inputs,
            outputs,
        })
    }
}

impl Wire {
    fn read(text: &str) -> Option<Self> {
        let (take, stream) = text.split_once(' ')?;
        let take = [Take::Newest, Take::All].into_iter().find(|known| known.word() == take)?;
        Some(Self { stream: stream.parse().ok()?, take })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn registration(app: &str, inputs: &[&str], outputs: &[&str]) -> Registration {
        let name = |text: &&str| text.parse().unwrap();
        Registration {
            app: app.parse().unwrap(),
            beat: Beat { period: Duration::from_millis(10), phase: Duration::ZERO },
            scheduling: "other".to_owned(),
            inputs: inputs.iter().map(|stream| Wire { stream: name(stream), take: Take::Newest }).collect(),
            outputs: outputs.iter().map(name).collect(),
        }
    }

    #[test]
    fn what_an_app_tells_of_itself_is_read_back() {
        let mut told = registration("vehicle/engine", &["driver/pedal", "road/slope"], &["engine/torque"]);
        told.inputs[1].take = Take::All;
        let schema = told.schema().unwrap();
        let name = told.status_stream().unwrap();
        assert_eq!(name.as_str(), "apps/vehicle/engine");
        assert_eq!(Registration::read(&name, &schema), Some(told));
        assert_eq!(schema.rate.to_string(), "100");
    }

    #[test]
    fn streams_that_only_look_like_an_app_are_none() {
        let told = registration("a", &["b"], &[]);
        let (name, schema) = (told.status_stream().unwrap(), told.schema().unwrap());
        assert_eq!(Registration::read(&"lab/a".parse().unwrap(), &schema), None);
        for (key, value) in
            [(PERIOD, "soon"), (PHASE, "-1"), ("app.input.000", "some b"), ("app.input.001", "all c")]
        {
            let mut other = schema.clone();
            other.labels.insert(key.to_owned(), value.to_owned());
            assert_eq!(Registration::read(&name, &other), None, "{key}={value}");
        }
        let mut other = schema.clone();
        other.dtype = Dtype::F8;
        assert_eq!(Registration::read(&name, &other), None);
    }

    #[test]
    fn what_labels_cannot_tell_is_refused() {
        let streams: Vec<String> = (0..=MAX_WIRES).map(|at| format!("s/{at}")).collect();
        let streams: Vec<&str> = streams.iter().map(String::as_str).collect();
        assert!(registration("a", &streams[..MAX_WIRES], &[]).schema().is_ok());
        let refused = registration("a", &streams[..MAX_WIRES], &["out"]).schema();
        assert_eq!(refused, Err(RegistrationError::TooMany(MAX_WIRES + 1)));
        let twice = registration("a", &[], &["x", "y", "x"]).schema();
        assert_eq!(twice, Err(RegistrationError::TwiceWritten("x".parse().unwrap())));
        let own = registration("a", &["apps/a"], &["apps/b", "apps/a"]).schema();
        assert_eq!(own, Err(RegistrationError::OwnStatus("apps/a".parse().unwrap())));
        assert!(registration("a", &["apps/a"], &["apps/b"]).schema().is_ok());
    }

    #[test]
    fn a_beat_that_cannot_be_kept_is_refused() {
        let mut told = registration("a", &[], &[]);
        told.beat.phase = told.beat.period;
        let refused = PeriodError::Phase { phase: told.beat.phase, period: told.beat.period };
        assert_eq!(told.schema(), Err(RegistrationError::Period(refused)));
        told.beat.phase -= Duration::from_nanos(1);
        assert!(told.schema().is_ok());
    }
}
