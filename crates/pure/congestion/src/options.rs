//! Options of a control in text form: `alpha=20&beta=0.5`, each by name, without guessing.

use std::collections::BTreeMap;

/// Options by name, still to be taken by a control.
///
/// A control takes its options, then [`finish`](Self::finish) refuses the others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    given: BTreeMap<String, String>,
    known: Vec<&'static str>,
}

/// A control, or its factory, that is made of options.
pub(crate) trait FromOptions: Sized {
    /// Takes the options that it knows; the caller refuses the others.
    fn from_options(options: &mut Options) -> Result<Self, OptionError>;
}

/// Reason why options are refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptionError {
    /// An option without an equals sign.
    #[error("malformed option `{0}`: write name=value")]
    NotAnOption(String),
    /// A repeated option.
    #[error("option `{0}` is given twice")]
    Twice(String),
    /// The control has no such option.
    #[error("unknown option `{name}`; {}", known_options(.known))]
    Unknown {
        /// The given name.
        name: String,
        /// Names of the known options.
        known: Vec<&'static str>,
    },
    /// An invalid value.
    #[error("invalid value {name}={value}: {name} is {expected}")]
    Value {
        /// Name of the option.
        name: &'static str,
        /// The given value.
        value: String,
        /// Description of valid values.
        expected: String,
    },
    /// A required option is missing.
    #[error("{name} is missing: {expected}")]
    Missing {
        /// Name of the option.
        name: &'static str,
        /// Description of valid values.
        expected: &'static str,
    },
}

impl Options {
    /// Parses `name=value&name=value`; an empty text has no options.
    ///
    /// # Errors
    /// If a part has no equals sign, or a name is repeated.
    pub fn parse(text: &str) -> Result<Self, OptionError> {
        let mut given = BTreeMap::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| OptionError::NotAnOption(part.to_owned()))?;
            if given.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(OptionError::Twice(name.to_owned()));
            }
        }
        Ok(Self { given, known: Vec::new() })
    }

    /// Takes a number within `from..=to`, `usual` by default.
    ///
    /// # Errors
    /// If it is no number, or outside the range.
    pub fn number(&mut self, name: &'static str, usual: f64, from: f64, to: f64) -> Result<f64, OptionError> {
        let Some(value) = self.take(name) else { return Ok(usual) };
        let number: Option<f64> = value.parse().ok().filter(|number| (from..=to).contains(number));
        let expected = || format!("a number from {from} to {to}, usually {usual}");
        number.ok_or_else(|| OptionError::Value { name, value, expected: expected() })
    }

    /// Takes a rate in bits per second with the suffixes k, m and g for 10³, 10⁶ and 10⁹.
    ///
    /// # Errors
    /// If it is missing, or no positive rate.
    pub fn rate(&mut self, name: &'static str) -> Result<f64, OptionError> {
        let value = self.take(name).ok_or(OptionError::Missing { name, expected: RATE })?;
        read_rate(name, value)
    }

    /// Takes a rate as [`rate`](Self::rate) does, `usual` bits per second by default.
    ///
    /// # Errors
    /// If it is no positive rate.
    pub fn rate_or(&mut self, name: &'static str, usual: f64) -> Result<f64, OptionError> {
        self.take(name).map_or(Ok(usual), |value| read_rate(name, value))
    }

    /// Refuses options that no control took.
    ///
    /// # Errors
    /// If an option is left; the error lists the known ones.
    pub fn finish(mut self) -> Result<(), OptionError> {
        match self.given.pop_first() {
            Some((name, _)) => Err(OptionError::Unknown { name, known: self.known }),
            None => Ok(()),
        }
    }

    fn take(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        self.given.remove(name)
    }
}

/// Description of a rate.
const RATE: &str = "bits per second as 950m or 10g";

fn read_rate(name: &'static str, value: String) -> Result<f64, OptionError> {
    let lower = value.to_ascii_lowercase();
    let (digits, factor) = match lower.char_indices().next_back() {
        Some((at, 'k')) => (&lower[..at], 1e3),
        Some((at, 'm')) => (&lower[..at], 1e6),
        Some((at, 'g')) => (&lower[..at], 1e9),
        _ => (lower.as_str(), 1.0),
    };
    let rate = digits.parse::<f64>().ok().map(|number| number * factor);
    rate.filter(|rate| rate.is_finite() && *rate > 0.0).ok_or_else(|| OptionError::Value {
        name,
        value,
        expected: RATE.to_owned(),
    })
}

fn known_options(known: &[&str]) -> String {
    if known.is_empty() {
        "this control takes none".to_owned()
    } else {
        format!("known options: {}", known.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_by_name() {
        let mut options = Options::parse("alpha=20&rate=1.5G").unwrap();
        assert_eq!(options.number("alpha", 200.0, 1.0, 1e6), Ok(20.0));
        assert_eq!(options.number("gamma", 0.5, 0.0, 1.0), Ok(0.5));
        assert_eq!(options.rate("rate"), Ok(1.5e9));
        assert_eq!(options.rate_or("start", 10e6), Ok(10e6));
        assert_eq!(options.finish(), Ok(()));
    }

    #[test]
    fn what_is_not_understood_is_refused_with_what_is() {
        let mut options = Options::parse("alpa=20").unwrap();
        options.number("alpha", 200.0, 1.0, 1e6).unwrap();
        let error = options.finish().unwrap_err();
        assert_eq!(error.to_string(), "unknown option `alpa`; known options: alpha");

        let error = Options::parse("alpha=0").unwrap().number("alpha", 200.0, 1.0, 9.0).unwrap_err();
        assert_eq!(error.to_string(), "invalid value alpha=0: alpha is a number from 1 to 9, usually 200");
        let error = Options::parse("").unwrap().rate("rate").unwrap_err();
        assert_eq!(error.to_string(), "rate is missing: bits per second as 950m or 10g");
        for text in ["rate=", "rate=0", "rate=-1m", "rate=inf", "rate=fast"] {
            assert!(Options::parse(text).unwrap().rate("rate").is_err(), "{text}");
        }
        assert_eq!(Options::parse("alpha"), Err(OptionError::NotAnOption("alpha".to_owned())));
        assert_eq!(Options::parse("a=1&a=2"), Err(OptionError::Twice("a".to_owned())));
    }
}
