//! Parameter: what an app lets others change, and the check of a value against it.
//!
//! Start with [`Parameter::check`]. Who may change it and at which moment is decided in [`crate::App`].

use access::May;
use sample::{Dtype, StreamName};

use crate::value::{MAX_DIMENSIONS, MAX_VALUE_BYTES, Number, Value};
use crate::{MAX_NAME_BYTES, Rule};

/// The longest unit of a parameter. Units: bytes.
pub const MAX_UNIT_BYTES: usize = 64;

/// A parameter as its app declares it.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// Name within the app, such as `gain`; a path is allowed.
    pub name: String,
    /// Dtype of every element.
    pub dtype: Dtype,
    /// Shape, row-major; empty for a single element.
    pub shape: Vec<u32>,
    /// Unit of the elements; empty if they have none.
    pub unit: String,
    /// Least value of each element.
    pub min: Option<Number>,
    /// Greatest value of each element.
    pub max: Option<Number>,
    /// Greatest difference of each element from the present value.
    pub greatest_step: Option<Number>,
    /// Kind of use that a rule of access must allow to the sender.
    pub who: May,
    /// What a session must hold besides.
    pub needs: Needs,
}

/// What a session must hold to change a parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// The lease of this group of parameters.
    Lease {
        /// Name of the group.
        group: String,
    },
}

/// Error in the declaration of a parameter.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// The name is not a path of words, or too long.
    #[error(
        "invalid name `{0}` of a parameter\nwrite words of letters, digits, `_`, `-` and `.` with `/` between them, \
         {MAX_NAME_BYTES} bytes at most"
    )]
    Name(String),
    /// The unit, or the name of the group, is too long.
    #[error(
        "the unit of parameter `{0}` has at most {MAX_UNIT_BYTES} bytes, and the name of its group 1 to {MAX_NAME_BYTES}"
    )]
    Text(String),
    /// More elements or dimensions than a value may have, or none.
    #[error(
        "parameter `{0}` has no elements, or more than {MAX_DIMENSIONS} dimensions or {MAX_VALUE_BYTES} bytes\n\
         split it into several parameters"
    )]
    Size(String),
    /// A limit of a dtype that has no order.
    #[error("parameter `{0}` is complex or boolean and can have no minimum, maximum or greatest step")]
    Unordered(String),
    /// A limit that is not of the dtype's kind, NaN, or contradicts another one.
    #[error(
        "the limits of parameter `{0}` must be finite numbers of its dtype, the minimum at most the maximum, \
         and the greatest step above zero"
    )]
    Limits(String),
    /// The first value breaks the parameter's own rules.
    #[error("the value with which parameter `{name}` begins is {rule}")]
    Begins {
        /// Name of the parameter.
        name: String,
        /// The rule.
        rule: Rule,
    },
    /// Two parameters of one name.
    #[error("two parameters are named `{0}`")]
    Duplicate(String),
    /// More parameters than an app may have.
    #[error("an app has at most {0} parameters")]
    TooMany(usize),
}

impl Parameter {
    /// Makes a parameter without limits: a single element that every rule for `steer` opens, without a lease.
    #[must_use]
    pub fn new(name: &str, dtype: Dtype) -> Self {
        Self {
            name: name.to_owned(),
            dtype,
            shape: Vec::new(),
            unit: String::new(),
            min: None,
            max: None,
            greatest_step: None,
            who: May::Steer,
            needs: Needs::Nothing,
        }
    }

    /// Checks the declaration.
    ///
    /// # Errors
    /// `Name`, `Text`, `Size`, `Unordered` and `Limits` of [`ParameterError`].
    pub fn validate(&self) -> Result<(), ParameterError> {
        let name = || self.name.clone();
        if self.name.len() > MAX_NAME_BYTES || self.name.parse::<StreamName>().is_err() {
            return Err(ParameterError::Name(name()));
        }
        let is_group = |group: &String| (1..=MAX_NAME_BYTES).contains(&group.len());
        let is_lease_named = match &self.needs {
            Needs::Nothing => true,
            Needs::Lease { group } => is_group(group),
        };
        if self.unit.len() > MAX_UNIT_BYTES || !is_lease_named {
            return Err(ParameterError::Text(name()));
        }
        let elements = self
            .shape
            .iter()
            .try_fold(1_usize, |product, extent| product.checked_mul(usize::try_from(*extent).ok()?));
        let bytes = elements.and_then(|count| count.checked_mul(self.dtype.size_bytes()));
        if self.shape.len() > MAX_DIMENSIONS || !bytes.is_some_and(|it| (1..=MAX_VALUE_BYTES).contains(&it)) {
            return Err(ParameterError::Size(name()));
        }
        let limits = [self.min, self.max, self.greatest_step];
        let is_real = match self.dtype {
            Dtype::C8 | Dtype::C16 | Dtype::Bool => {
                let is_free = limits.iter().all(Option::is_none);
                return if is_free { Ok(()) } else { Err(ParameterError::Unordered(name())) };
            }
            Dtype::F4 | Dtype::F8 => true,
            _ => false,
        };
        let fits = |limit: &Number| limit.is_finite() && matches!(limit, Number::Real(_)) == is_real;
        let zero = if is_real { Number::Real(0.0) } else { Number::Integer(0) };
        let is_ordered = self.min.zip(self.max).is_none_or(|(min, max)| min.is_at_most(max));
        let moves = self.greatest_step.is_none_or(|step| !step.is_at_most(zero));
        let is_sound = limits.iter().flatten().all(fits) && is_ordered && moves;
        if is_sound { Ok(()) } else { Err(ParameterError::Limits(name())) }
    }

    /// Checks a value without regard to the present one.
    ///
    /// # Errors
    /// The first of the rules `dtype`, `shape`, `not_finite` and `range` that the value breaks.
    pub fn check(&self, value: &Value) -> Result<(), Rule> {
        if value.dtype() != self.dtype {
            return Err(Rule::Dtype);
        }
        if value.shape() != self.shape {
            return Err(Rule::Shape);
        }
        if !value.numbers().all(Number::is_finite) {
            return Err(Rule::NotFinite);
        }
        let is_within = |number: Number| {
            self.min.is_none_or(|min| min.is_at_most(number))
                && self.max.is_none_or(|max| number.is_at_most(max))
        };
        if value.numbers().all(is_within) { Ok(()) } else { Err(Rule::Range) }
    }

    /// Checks the step from the present value, which has the parameter's dtype and shape.
    ///
    /// # Errors
    /// [`Rule::Step`] if an element changes by more than the greatest step.
    pub fn check_step(&self, present: &Value, value: &Value) -> Result<(), Rule> {
        let Some(step) = self.greatest_step else { return Ok(()) };
        let rounding = if self.dtype == Dtype::F4 { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let mut pairs = present.numbers().zip(value.numbers());
        let is_within = pairs.all(|(old, new)| new.is_within_step(old, step, rounding));
        if is_within { Ok(()) } else { Err(Rule::Step) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain() -> Parameter {
        Parameter {
            min: Some(Number::Real(-1.0)),
            max: Some(Number::Real(2.0)),
            greatest_step: Some(Number::Real(0.1)),
            ..Parameter::new("gain", Dtype::F8)
        }
    }

    fn refused(value: Value) -> Option<Rule> {
        gain().check(&value).err()
    }

    #[test]
    fn values_at_the_limits_are_accepted_and_those_beyond_are_refused() {
        assert_eq!(refused(Value::scalar(2.0)), None);
        assert_eq!(refused(Value::scalar(-1.0)), None);
        assert_eq!(refused(Value::scalar(2.0_f64.next_up())), Some(Rule::Range));
        assert_eq!(refused(Value::scalar((-1.0_f64).next_down())), Some(Rule::Range));
    }

    #[test]
    fn what_is_no_finite_number_or_of_another_kind_is_refused() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(refused(Value::scalar(number)), Some(Rule::NotFinite));
        }
        assert_eq!(refused(Value::scalar(1.0_f32)), Some(Rule::Dtype));
        let two = Value::from_bytes(Dtype::F8, &[2], &[0; 16]).unwrap();
        assert_eq!(refused(two), Some(Rule::Shape));
        let complex = Parameter::new("phase", Dtype::C8);
        assert_eq!(complex.check(&Value::scalar([0.0_f32, f32::NAN])), Err(Rule::NotFinite));
    }

    #[test]
    fn one_element_out_of_range_refuses_an_array() {
        let pair = Parameter { shape: vec![2], ..gain() };
        let value = |second: f64| {
            Value::from_bytes(Dtype::F8, &[2], &[0.0_f64.to_le_bytes(), second.to_le_bytes()].concat())
                .unwrap()
        };
        assert_eq!(pair.check(&value(2.0)), Ok(()));
        assert_eq!(pair.check(&value(2.5)), Err(Rule::Range));
    }

    #[test]
    fn a_step_is_measured_from_the_present_value() {
        let step = |old: f64, new: f64| gain().check_step(&Value::scalar(old), &Value::scalar(new));
        assert_eq!(step(1.0, 1.1), Ok(()), "the rounding of 1.1 is no greater step");
        assert_eq!(step(1.0, 0.9), Ok(()));
        assert_eq!(step(1.0, 1.100_001), Err(Rule::Step));
        let count =
            Parameter { greatest_step: Some(Number::Integer(1)), ..Parameter::new("count", Dtype::U64) };
        let step = |old: u64, new: u64| count.check_step(&Value::scalar(old), &Value::scalar(new));
        assert_eq!(step(u64::MAX, u64::MAX - 1), Ok(()));
        assert_eq!(step(u64::MAX, u64::MAX - 2), Err(Rule::Step), "beyond 2⁵³ integers stay exact");
        assert_eq!(step(u64::MAX, 0), Err(Rule::Step));
    }

    #[test]
    fn unsound_declarations_are_refused() {
        let invalid = |change: fn(&mut Parameter)| {
            let mut parameter = gain();
            change(&mut parameter);
            parameter.validate().is_err()
        };
        assert_eq!(gain().validate(), Ok(()));
        assert!(invalid(|it| it.name = String::new()));
        assert!(invalid(|it| it.name = "a b".to_owned()));
        assert!(invalid(|it| it.unit = "x".repeat(MAX_UNIT_BYTES + 1)));
        assert!(invalid(|it| it.needs = Needs::Lease { group: String::new() }));
        assert!(invalid(|it| it.shape = vec![0]));
        assert!(invalid(|it| it.shape = vec![129]));
        assert!(invalid(|it| it.min = Some(Number::Integer(1))));
        assert!(invalid(|it| it.min = Some(Number::Real(3.0))));
        assert!(invalid(|it| it.max = Some(Number::Real(f64::NAN))));
        assert!(invalid(|it| it.greatest_step = Some(Number::Real(0.0))));
        assert!(invalid(|it| it.dtype = Dtype::Bool));
    }
}
