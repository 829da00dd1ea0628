//! Inputs and outputs of an app: their descriptions, and the handles by which its function names them.

use std::marker::PhantomData;

use cyclic::Take;
use sample::{Channel, Dtype};

/// An input of an app, whose elements are of type `E`.
pub struct Input<E> {
    pub(super) place: usize,
    pub(super) element: PhantomData<fn() -> E>,
}

/// An output of an app, whose elements are of type `E`.
pub struct Output<E> {
    pub(super) place: usize,
    pub(super) element: PhantomData<fn() -> E>,
}

/// An input of an app whose elements have the type with which they are published.
#[derive(Clone, Copy, Debug)]
pub struct UntypedInput {
    pub(super) place: usize,
}

/// An output of an app whose element type is known only when the app runs.
#[derive(Clone, Copy, Debug)]
pub struct UntypedOutput {
    pub(super) place: usize,
}

/// An input as its app describes it.
#[derive(Clone, Debug)]
pub(super) struct InputOf {
    pub(super) stream: String,
    pub(super) take: Take,
    /// Type of the elements; `None` accepts any.
    pub(super) dtype: Option<Dtype>,
}

/// An output as its app describes it.
#[derive(Clone, Debug)]
pub(super) struct OutputOf {
    pub(super) stream: String,
    pub(super) dtype: Dtype,
    pub(super) channels: Vec<Channel>,
}

impl<E> Copy for Input<E> {}
impl<E> Clone for Input<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Output<E> {}
impl<E> Clone for Output<E> {
    fn clone(&self) -> Self {
        *self
    }
}
