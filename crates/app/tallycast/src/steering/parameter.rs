//! Parameters as an app declares them, with the type of their elements.

use std::fmt;
use std::marker::PhantomData;

use ::steer::{Declared, Needs, Number, Value, ValueError};
use access::May;
use sample::{Dtype, Element};
use zerocopy::IntoBytes;

/// A parameter of an app, whose elements are of type `E`.
#[derive(Clone, Debug)]
pub struct Parameter<E> {
    pub(crate) parameter: ::steer::Parameter,
    pub(crate) value: Result<Value, ValueError>,
    element: PhantomData<fn() -> E>,
}

/// A parameter in the app that declared it.
pub struct Steered<E> {
    pub(crate) place: usize,
    pub(crate) element: PhantomData<fn() -> E>,
}

impl<E: Element> Parameter<E> {
    /// Declares a parameter of one element, which begins with `value`.
    #[must_use]
    pub fn new(name: &str, value: E) -> Self {
        Self::of(::steer::Parameter::new(name, E::DTYPE), Ok(Value::scalar(value)))
    }

    /// Declares a parameter of several elements, row-major.
    ///
    /// Shape: `shape`; its product is the number of values.
    #[must_use]
    pub fn array(name: &str, shape: &[u32], values: &[E]) -> Self {
        let parameter =
            ::steer::Parameter { shape: shape.to_vec(), ..::steer::Parameter::new(name, E::DTYPE) };
        Self::of(parameter, Value::from_bytes(E::DTYPE, shape, values.as_bytes()))
    }

    const fn of(parameter: ::steer::Parameter, value: Result<Value, ValueError>) -> Self {
        Self { parameter, value, element: PhantomData }
    }

    /// Names the unit of the elements.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> Self {
        unit.clone_into(&mut self.parameter.unit);
        self
    }

    /// Limits each element to `min` and above, `max` and below.
    #[must_use]
    pub fn range(mut self, min: E, max: E) -> Self {
        (self.parameter.min, self.parameter.max) = (number(min), number(max));
        self
    }

    /// Limits the difference of each element to its present value.
    #[must_use]
    pub fn greatest_step(mut self, step: E) -> Self {
        self.parameter.greatest_step = number(step);
        self
    }

    /// Requires the lease of a group of parameters, which one session holds at a time.
    #[must_use]
    pub fn lease(mut self, group: &str) -> Self {
        self.parameter.needs = Needs::Lease { group: group.to_owned() };
        self
    }

    /// Requires the right to administer the app.
    #[must_use]
    pub const fn administered(mut self) -> Self {
        self.parameter.who = May::Administer;
        self
    }

    pub(crate) fn declared(self) -> Result<Declared, ValueError> {
        Ok(Declared { parameter: self.parameter, value: self.value? })
    }
}

impl Parameter<u8> {
    /// Declares a switch: a boolean, whose element is 0 or 1.
    #[must_use]
    pub fn switch(name: &str, is_on: bool) -> Self {
        Self::of(::steer::Parameter::new(name, Dtype::Bool), Ok(Value::boolean(is_on)))
    }
}

/// Returns an element as a number; complex ones have no limits, which the declaration's check says.
fn number<E: Element>(element: E) -> Option<Number> {
    Value::scalar(element).numbers().next()
}

impl<E> Copy for Steered<E> {}
impl<E> Clone for Steered<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> fmt::Debug for Steered<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Steered").field("place", &self.place).finish()
    }
}
