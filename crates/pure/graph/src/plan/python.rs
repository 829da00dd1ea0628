//! An operator in Python as files describe it, and what can be wrong with that before anything is started.
//!
//! The function's own declaration (`@tc.operator(...)`) is in its Python file; settings here take precedence. Settings of
//! a monitor have an [`OperatorConfig`], a graph a [`PythonNode`], which is named by its stream.

use core::ops::RangeInclusive;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use sample::{Channel, Dtype, Schema, SchemaError, StreamName, UnknownDtype};
use units::SampleRate;

/// The most streams that one operator reads.
const MAX_INPUTS: usize = 16;
/// Maximum number of input samples per output sample: a day at a million per second.
const MAX_EVERY: u64 = 1 << 37;
/// Memory of a process in bytes: an interpreter with NumPy needs the least.
const MEMORY_BYTES: RangeInclusive<u64> = 64 << 20..=1 << 50;

/// An operator in Python: a function of streams, in its own process, whose results are a stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorConfig {
    /// Name of the operator.
    pub name: String,
    /// Function or class: `module:function`, or `path.py:function`.
    pub python: String,
    /// The streams it reads; the samples of the first give the grid of the output.
    pub inputs: Vec<String>,
    /// Stream that it publishes.
    pub output: String,
    /// Number of samples of the first input per output sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// The type of the output's elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// The channels of the output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<OperatorChannel>,
    /// Treatment of input samples with missing elements, and of incomplete windows of `every` samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<Incomplete>,
    /// Arguments for the function or class, by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
    /// Memory that its process may have, such as `512MiB`; not limited by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

/// An operator in Python as a node of a graph: what it is named by, and publishes, is the node's name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PythonNode {
    /// Function or class: `path.py:function`, or `module:function`.
    pub python: String,
    /// The streams it reads; the samples of the first give the grid of the output.
    pub inputs: Vec<StreamName>,
    /// Number of samples of the first input per output sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// The type of the output's elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// The channels of the output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<OperatorChannel>,
    /// Treatment of input samples with missing elements, and of incomplete windows of `every` samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<Incomplete>,
    /// Arguments for the function or class, by name.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
    /// Memory that its process may have, such as `512MiB`; not limited by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

/// A channel of an operator's output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorChannel {
    /// Its name.
    pub name: String,
    /// Its unit.
    #[serde(default)]
    pub unit: String,
    /// Shape of one sample; empty for a single value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<u32>,
}

/// Treatment of incomplete input.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Incomplete {
    /// It is a hole of the output.
    Hole,
    /// The function is given it, with a mask of what is missing.
    Give,
}

/// Reason why an operator is invalid.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorError {
    /// A name that is not one word.
    #[error("invalid operator name `{0}`; write one word of letters, digits, `_`, `-` and `.`")]
    Name(String),
    /// Something that names no function.
    #[error("`{0}` does not name a function; write python = \"module:function\" or \"path.py:function\"")]
    Function(String),
    /// An invalid stream name or channel list.
    #[error(transparent)]
    Stream(#[from] SchemaError),
    /// Too few or too many inputs.
    #[error("an operator reads 1 to {MAX_INPUTS} streams, not {0}; write inputs = [\"lab/probe\"]")]
    Inputs(usize),
    /// A stream that is named twice.
    #[error("input `{0}` is given twice; name each stream once")]
    InputTwice(String),
    /// An operator that reads its own result.
    #[error("`{0}` is both input and output; give the output another name")]
    Itself(String),
    /// A type that there is not.
    #[error(transparent)]
    Dtype(#[from] UnknownDtype),
    /// A number of samples that cannot be.
    #[error("invalid every = {0}; write the number of input samples per output sample, 1 or more")]
    Every(u64),
    /// A size that no process can have.
    #[error("invalid memory = \"{0}\"; write a size from 64MiB on, such as \"512MiB\"")]
    Memory(String),
    /// A function that a request may not name.
    #[error(
        "a graph that is sent to a server names its functions as FILE.py:FUNCTION, not `{0}`\n\
         put the file into the folder `monitor.programs` of the server's settings"
    )]
    Elsewhere(String),
    /// A name or an output that another has.
    #[error("`{0}` is the name or the output of another; choose another name")]
    Twice(String),
}

impl OperatorConfig {
    /// Checks everything that is known without starting it: names, streams, types.
    ///
    /// # Errors
    /// [`OperatorError`], all but `Twice`.
    pub fn check(&self) -> Result<(), OperatorError> {
        let word = self.name.parse::<StreamName>();
        if word.is_err() || self.name.contains('/') {
            return Err(OperatorError::Name(self.name.clone()));
        }
        self.check_all_but_name()
    }

    fn check_all_but_name(&self) -> Result<(), OperatorError> {
        if !self.names_a_function() {
            return Err(OperatorError::Function(self.python.clone()));
        }
        if self.inputs.is_empty() || self.inputs.len() > MAX_INPUTS {
            return Err(OperatorError::Inputs(self.inputs.len()));
        }
        self.output.parse::<StreamName>()?;
        for (place, input) in self.inputs.iter().enumerate() {
            input.parse::<StreamName>()?;
            if *input == self.output {
                return Err(OperatorError::Itself(input.clone()));
            }
            if self.inputs[..place].contains(input) {
                return Err(OperatorError::InputTwice(input.clone()));
            }
        }
        if let Some(every) = self.every.filter(|every| !(1..=MAX_EVERY).contains(every)) {
            return Err(OperatorError::Every(every));
        }
        self.memory_bytes()?;
        let dtype = self.dtype.as_deref().map(str::parse::<Dtype>).transpose()?;
        if !self.channels.is_empty() {
            let channels = self.channels.iter();
            let channels =
                channels.map(|it| Channel::new(&*it.name, &*it.unit).with_shape(it.shape.clone())).collect();
            // The rate is the input's, which is not yet known.
            let rate = SampleRate::hz(1).expect("one a second is a rate");
            Schema::new(dtype.unwrap_or(Dtype::F8), rate, channels)?;
        }
        Ok(())
    }

    /// Resolves a relative path of the function's file against the folder of `settings`.
    pub fn look_beside(&mut self, settings: &Path) {
        if let Some(folder) = settings.parent() {
            self.look_in(folder);
        }
    }

    /// Resolves a relative path of the function's file against `folder`.
    pub fn look_in(&mut self, folder: &Path) {
        look_in(&mut self.python, folder);
    }

    /// Returns the memory that its process may have, if that is limited. Units: bytes.
    ///
    /// # Errors
    /// [`OperatorError::Memory`].
    pub fn memory_bytes(&self) -> Result<Option<u64>, OperatorError> {
        let Some(text) = &self.memory else { return Ok(None) };
        let bytes = units::text::size_bytes(text).ok().and_then(|bytes| u64::try_from(bytes).ok());
        let bytes = bytes.filter(|bytes| MEMORY_BYTES.contains(bytes));
        bytes.map(Some).ok_or_else(|| OperatorError::Memory(text.clone()))
    }

    /// Returns whether it names `module:function` or `path.py:function`, where a function may be an attribute of
    /// another.
    fn names_a_function(&self) -> bool {
        let path = |text: &str| text.split('.').all(is_identifier);
        match (file_and_function(&self.python), self.python.rsplit_once(':')) {
            (Some((_, function)), _) => path(function),
            (None, Some((module, function))) => path(module) && path(function),
            (None, None) => false,
        }
    }

    /// Returns the names of its input streams and of its output stream.
    ///
    /// # Panics
    /// If it was not [checked](Self::check).
    pub fn streams(&self) -> impl Iterator<Item = StreamName> {
        let names = self.inputs.iter().chain([&self.output]);
        names.map(|name| name.parse().expect("it was checked"))
    }
}

impl PythonNode {
    /// Returns the operator that publishes the stream `name`.
    #[must_use]
    pub fn operator(&self, name: &StreamName) -> OperatorConfig {
        OperatorConfig {
            name: name.to_string(),
            python: self.python.clone(),
            inputs: self.inputs.iter().map(ToString::to_string).collect(),
            output: name.to_string(),
            every: self.every,
            dtype: self.dtype.clone(),
            channels: self.channels.clone(),
            incomplete: self.incomplete,
            settings: self.settings.clone(),
            memory: self.memory.clone(),
        }
    }

    /// Checks everything that is known without starting it.
    ///
    /// # Errors
    /// [`OperatorError`].
    pub(super) fn check(&self, name: &StreamName) -> Result<(), OperatorError> {
        self.operator(name).check_all_but_name()
    }

    /// Resolves a relative path of the function's file against `folder`.
    pub fn look_in(&mut self, folder: &Path) {
        look_in(&mut self.python, folder);
    }

    /// Refuses a function outside the folder of programs: one that is named by a module, by another folder, or as a part of
    /// something that the file imports.
    ///
    /// # Errors
    /// [`OperatorError::Elsewhere`].
    pub fn check_program(&self) -> Result<(), OperatorError> {
        let is_inside = |file: &Path| file.components().all(|part| matches!(part, Component::Normal(_)));
        let named = file_and_function(&self.python);
        let is_fine = named.is_some_and(|(file, function)| is_inside(file) && is_identifier(function));
        if is_fine { Ok(()) } else { Err(OperatorError::Elsewhere(self.python.clone())) }
    }
}

/// Returns the file of a function, if it is not named by a module.
fn file_and_function(python: &str) -> Option<(&Path, &str)> {
    let (place, function) = python.rsplit_once(':')?;
    let file = Path::new(place);
    file.extension().is_some_and(|it| it == "py").then_some((file, function))
}

fn look_in(python: &mut String, folder: &Path) {
    if let Some((file, function)) = file_and_function(python) {
        *python = format!("{}:{function}", folder.join(file).display());
    }
}

/// Checks operators one by one, and that no two have a name or an output in common.
///
/// # Errors
/// The name of the first that cannot be, and why.
pub fn check_operators(operators: &[OperatorConfig]) -> Result<(), (String, OperatorError)> {
    for (place, operator) in operators.iter().enumerate() {
        let wrong = |error| (operator.name.clone(), error);
        operator.check().map_err(wrong)?;
        let before = &operators[..place];
        if before.iter().any(|other| other.name == operator.name) {
            return Err(wrong(OperatorError::Twice(operator.name.clone())));
        }
        if before.iter().any(|other| other.output == operator.output) {
            return Err(wrong(OperatorError::Twice(operator.output.clone())));
        }
    }
    Ok(())
}

fn is_identifier(word: &str) -> bool {
    let mut characters = word.chars();
    characters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && characters.all(|character| character.is_alphanumeric() || character == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rms() -> OperatorConfig {
        OperatorConfig {
            name: "rms".to_owned(),
            python: "my_ops:rms".to_owned(),
            inputs: vec!["lab/probe".to_owned()],
            output: "lab/probe/rms".to_owned(),
            every: None,
            dtype: None,
            channels: Vec::new(),
            incomplete: None,
            settings: Map::new(),
            memory: None,
        }
    }

    fn wrong(change: impl FnOnce(&mut OperatorConfig)) -> String {
        let mut operator = rms();
        change(&mut operator);
        operator.check().unwrap_err().to_string()
    }

    #[test]
    fn a_function_is_named_by_its_module_or_its_file() {
        let named = |python: &str| OperatorConfig { python: python.to_owned(), ..rms() };
        for python in ["my_ops:rms", "a.b_1:c.d", "ops/../x.py:f", "größe:µ"] {
            named(python).check().unwrap();
        }
        for python in ["my_ops", "my_ops:", ":rms", "my-ops:rms", "ops/x:f", "ops.py", "a:b c", "a:1b", ""] {
            assert!(matches!(named(python).check(), Err(OperatorError::Function(_))), "{python}");
        }
        let beside = |python: &str| {
            let mut operator = named(python);
            operator.look_beside(Path::new("/etc/lab/tallycast.toml"));
            operator.python
        };
        assert_eq!(beside("ops/x.py:f"), "/etc/lab/ops/x.py:f");
        assert_eq!(beside("/opt/x.py:f"), "/opt/x.py:f");
        assert_eq!(beside("my_ops:rms"), "my_ops:rms");
    }

    #[test]
    fn what_cannot_be_is_told_before_anything_is_started() {
        rms().check().unwrap();
        assert!(wrong(|it| it.name = "a b".to_owned()).contains("invalid operator name"));
        assert!(wrong(|it| it.name = "a/b".to_owned()).contains("invalid operator name"));
        assert!(wrong(|it| it.python = "my_ops".to_owned()).contains("module:function"));
        assert!(wrong(|it| it.inputs.clear()).contains("1 to 16 streams, not 0"));
        assert!(wrong(|it| it.inputs = vec!["lab/*".to_owned()]).contains("invalid stream name"));
        assert!(wrong(|it| it.output = "lab/probe".to_owned()).contains("input and output"));
        assert!(wrong(|it| it.inputs.push("lab/probe".to_owned())).contains("is given twice"));
        assert!(wrong(|it| it.every = Some(0)).contains("every = 0"));
        for memory in ["much", "63MiB", "0", "2PiB"] {
            assert!(wrong(|it| it.memory = Some(memory.to_owned())).contains("invalid memory"), "{memory}");
        }
        let limited = OperatorConfig { memory: Some("64MiB".to_owned()), ..rms() };
        assert_eq!(limited.memory_bytes(), Ok(Some(64 << 20)));
        assert!(wrong(|it| it.dtype = Some("f16".to_owned())).contains("not a dtype"));
        let channel = OperatorChannel { name: "a".to_owned(), unit: String::new(), shape: vec![0] };
        assert!(wrong(|it| it.channels.push(channel)).contains("channel `a`"));
    }

    #[test]
    fn a_request_names_functions_of_files_in_the_folder_of_programs_alone() {
        let node = |python: &str| {
            let inputs = vec!["lab/probe".parse().unwrap()];
            let node = serde_json::json!({"python": python, "inputs": inputs as Vec<StreamName>});
            serde_json::from_value::<PythonNode>(node).unwrap()
        };
        for python in ["ops.py:rms", "lab/ops.py:rms"] {
            node(python).check_program().unwrap();
        }
        for python in [
            "os:system",
            "../ops.py:f",
            "/tmp/ops.py:f",
            "./ops.py:f",
            "a/../../ops.py:f",
            "ops.py:os.system",
        ] {
            let refused = node(python).check_program();
            assert_eq!(refused, Err(OperatorError::Elsewhere(python.to_owned())), "{python}");
        }
    }

    #[test]
    fn no_two_have_a_name_or_an_output_in_common() {
        let mut other = rms();
        let told =
            |other: &OperatorConfig| check_operators(&[rms(), other.clone()]).unwrap_err().1.to_string();
        assert!(told(&other).starts_with("`rms` is the name"));
        other.name = "peak".to_owned();
        assert!(told(&other).starts_with("`lab/probe/rms` is the name or the output"));
        other.output = "lab/probe/peak".to_owned();
        check_operators(&[rms(), other]).unwrap();
    }

    #[test]
    fn unknown_and_missing_keys_are_told() {
        let read = |text: &str| serde_json::from_str::<OperatorConfig>(text).map_err(|it| it.to_string());
        let whole = r#"{"name": "a", "python": "m:f", "inputs": ["x"], "output": "y""#;
        assert!(read(&format!("{whole}}}")).is_ok());
        assert!(read(&format!(r#"{whole}, "rate": 5}}"#)).unwrap_err().contains("unknown field `rate`"));
        assert!(read(&format!(r#"{whole}, "incomplete": "drop"}}"#)).unwrap_err().contains("`drop`"));
        assert!(read(r#"{"name": "a", "inputs": ["x"], "output": "y"}"#).unwrap_err().contains("`python`"));
    }
}
