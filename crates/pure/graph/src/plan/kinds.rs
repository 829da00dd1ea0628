//! The kinds of nodes and their settings as one table: forms are made of it, and the guide's table is compared with it.
//!
//! It describes what [`Kind`](super::Kind) reads, and decides nothing: the tests hold both together. Start with [`KINDS`].

mod table;
#[cfg(test)]
mod tests;

use serde::{Serialize, Serializer};
use serde_json::Value;

pub use table::KINDS;

/// A kind of nodes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct KindDescription {
    /// Its name, as files have it.
    pub kind: &'static str,
    /// What the output is, in a few words.
    pub makes: &'static str,
    /// Its settings, apart from `name` and `kind`.
    pub settings: &'static [Setting],
}

/// A setting of a kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Setting {
    /// Its name, as files have it.
    pub name: &'static str,
    /// How its value is written.
    #[serde(flatten)]
    pub form: Form,
    /// Whether every node of the kind has it.
    pub needed: bool,
    /// A value.
    #[serde(serialize_with = "as_json")]
    pub example: &'static str,
    /// Value of a node that does not have it, if that is a value; JSON.
    #[serde(serialize_with = "as_json", skip_serializing_if = "str::is_empty")]
    pub default: &'static str,
    /// Meaning, in a few words, with the unit.
    pub words: &'static str,
}

/// How the value of a setting is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "form", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Form {
    /// Name of a stream.
    Stream,
    /// Names of streams.
    Streams,
    /// `stream:channel`.
    Channel,
    /// One `stream:channel`, or several of one stream.
    Channels,
    /// Names of channels of the stream in `input`.
    ChannelNames,
    /// Variables, each with `stream:channel`.
    Variables,
    /// One of the variables in `inputs`.
    Variable,
    /// An expression over the variables in `inputs`.
    Expression,
    /// Channels of the stream in `input`, each with `scale`, `offset` and `unit`.
    Calibrations,
    /// A number of samples, or a duration as text.
    Every,
    /// Samples per second: a number, or a text such as `"48k"` or `"1000/3"`.
    Rate,
    /// A number.
    Number,
    /// A whole number from `least` on, up to `most`.
    Whole {
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// One of several words or numbers; JSON.
    Choice {
        /// The words, or the numbers as text.
        of: &'static [&'static str],
    },
    /// Names of statistics.
    Statistics,
    /// A frequency or two by the name of the response.
    Response,
    /// Text.
    Text,
    /// Channels, each with `name`, `unit` and `shape`.
    OutputChannels,
    /// An object of any values.
    Object,
}

impl KindDescription {
    /// Returns its row of the guide's table without the column on the output: kind and settings, those in parentheses that
    /// may be left out.
    #[must_use]
    pub fn row(&self) -> String {
        let settings: Vec<_> = self.settings.iter().map(Setting::written).collect();
        format!("| `{}` | {} |", self.kind, settings.join(", "))
    }
}

impl Setting {
    /// Returns it as the guide writes it: with the default, or with an example where the name does not tell the form.
    fn written(&self) -> String {
        let shows_its_form = matches!(
            self.form,
            Form::Streams
                | Form::ChannelNames
                | Form::Variables
                | Form::Calibrations
                | Form::Rate
                | Form::Statistics
                | Form::Response
        );
        let value = if self.needed && shows_its_form { self.example } else { self.default };
        let text = if value.is_empty() {
            format!("`{}`", self.name)
        } else {
            format!("`{} = {}`", self.name, toml(&parsed(value)))
        };
        if self.needed { text } else { format!("({text})") }
    }
}

/// Returns a value in one line of TOML.
fn toml(value: &Value) -> String {
    match value {
        Value::Array(values) => format!("[{}]", values.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Value::Object(values) => {
            let pairs: Vec<_> =
                values.iter().map(|(name, value)| format!("{name} = {}", toml(value))).collect();
            format!("{{ {} }}", pairs.join(", "))
        }
        plain => plain.to_string(),
    }
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).expect("the table has JSON")
}

fn as_json<S: Serializer>(json: &&'static str, serializer: S) -> Result<S::Ok, S::Error> {
    parsed(json).serialize(serializer)
}
