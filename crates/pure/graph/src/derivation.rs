//! A stream computed from others by an expression, with its own account.
//!
//! The derivation aligns its inputs on the grid of the first ([`crate::Aligner`]), evaluates the expression row
//! by row and passes on every hole with the input and stage it was inherited from. Its indices count the grid's
//! instants from 0, so the samples offered always equal those delivered plus those in inherited holes.

use std::collections::BTreeMap;
use std::sync::Arc;

use sample::{Channel, Dtype, SampleBuffer, Schema, StreamName, UnknownEntries};
use units::{SampleRate, WallTime};

use crate::value::write_value;
use crate::{
    AlignConfig, Aligned, Aligner, Expression, ExpressionError, Inherited, Input, InputError, Operator,
    Output, Totals,
};

/// Settings of a derived stream.
#[derive(Clone, PartialEq, Debug)]
pub struct DerivationConfig {
    /// The derived stream's name.
    pub name: StreamName,
    /// The expression over the inputs' variables.
    pub expression: String,
    /// The inputs; the first gives the grid.
    pub inputs: Vec<DerivedInput>,
    /// The unit of the result.
    pub unit: String,
    /// The type of the result: `f4` or `f8`.
    pub dtype: Dtype,
    /// Settings of the alignment of the inputs.
    pub align: AlignConfig,
}

/// One input of a derivation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DerivedInput {
    /// Its name in the expression.
    pub variable: String,
    /// The stream.
    pub stream: StreamName,
    /// The stream's channel, of one value per sample.
    pub channel: String,
}

/// Error in the configuration of a derivation.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeriveError {
    /// Invalid expression.
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    /// A result that is not a float.
    #[error("invalid dtype {0} of a derived stream; use f4 or f8")]
    Dtype(Dtype),
    /// A derivation that would read itself.
    #[error("`{0}` cannot be derived from itself; give the derived stream another name")]
    Itself(StreamName),
}

/// Derives one stream: an [`Operator`] of the configured inputs, which waits for their horizons.
///
/// The output has one channel `value` at the grid's rate; its labels give the expression and the origin of each
/// variable. Totals count the grid's instants.
#[derive(Clone, Debug)]
pub struct Derivation {
    config: DerivationConfig,
    expression: Expression,
    aligner: Aligner,
    schema: Option<Arc<Schema>>,
    totals: Totals,
    values: Vec<f64>,
}

impl DerivationConfig {
    /// Makes the configuration of a derivation to `f8` that aligns its inputs by default.
    #[must_use]
    pub fn new(name: StreamName, expression: impl Into<String>, inputs: Vec<DerivedInput>) -> Self {
        let (expression, unit) = (expression.into(), String::new());
        Self { name, expression, inputs, unit, dtype: Dtype::F8, align: AlignConfig::default() }
    }
}

impl Derivation {
    /// Makes a derivation. The inputs' actual channels are known only with their first blocks.
    ///
    /// # Errors
    /// [`DeriveError`] if the expression does not fit the inputs, or the result is not a float.
    pub fn new(config: DerivationConfig) -> Result<Self, DeriveError> {
        let variables: Vec<&str> = config.inputs.iter().map(|input| input.variable.as_str()).collect();
        let expression = Expression::parse(&config.expression, &variables)?;
        if !matches!(config.dtype, Dtype::F4 | Dtype::F8) {
            return Err(DeriveError::Dtype(config.dtype));
        }
        if config.inputs.iter().any(|input| input.stream == config.name) {
            return Err(DeriveError::Itself(config.name));
        }
        let inputs = config.inputs.iter().map(|input| (input.stream.clone(), input.channel.clone()));
        let aligner = Aligner::new(config.align, inputs);
        let (schema, totals) = (None, Totals::default());
        Ok(Self { config, expression, aligner, schema, totals, values: Vec::new() })
    }

    /// Returns the configuration.
    #[must_use]
    pub const fn config(&self) -> &DerivationConfig {
        &self.config
    }

    fn derived_schema(&self, rate: SampleRate) -> Schema {
        let channels = vec![Channel::new("value", self.config.unit.clone())];
        let origin = |input: &DerivedInput| {
            (format!("input.{}", input.variable), format!("{}:{}", input.stream, input.channel))
        };
        let mut labels: BTreeMap<_, _> = self.config.inputs.iter().map(origin).collect();
        labels.insert("expression".to_owned(), self.expression.to_string());
        Schema { dtype: self.config.dtype, rate, channels, labels, unknown: UnknownEntries::new() }
    }

    fn evaluate(&mut self, first_index: u64, t0: WallTime, columns: &[Vec<f64>]) -> Output {
        self.values.clear();
        self.expression.evaluate(columns, &mut self.values);
        let size = self.config.dtype.size_bytes();
        let mut data = SampleBuffer::zeroed(self.values.len() * size);
        for (value, place) in self.values.iter().zip(data.as_bytes_mut().chunks_exact_mut(size)) {
            write_value(*value, place);
        }
        let samples = self.values.len() as u64;
        self.totals.delivered += samples;
        Output::Samples { first_index, t0, samples, data }
    }
}

impl Operator for Derivation {
    fn handle(&mut self, input: usize, what: Input<'_>) -> Result<(), InputError> {
        self.aligner.handle(input, what)?;
        if self.schema.is_none()
            && let Some(grid) = self.aligner.schema(0)
        {
            self.schema = Some(Arc::new(self.derived_schema(grid.rate)));
        }
        Ok(())
    }

    fn poll(&mut self) -> Option<Output> {
        let output = match self.aligner.poll()? {
            Aligned::Rows { first_index, t0, columns } => self.evaluate(first_index, t0, &columns),
            Aligned::Hole { first_index, t0, samples, input, stage } => {
                self.totals.source += samples;
                let stream = self.aligner.stream(input).clone();
                Output::Hole { first_index, t0, samples, inherited: Inherited { stream, stage } }
            }
        };
        self.totals.offered = self.aligner.next_index();
        Some(output)
    }

    fn schema(&self) -> Option<Arc<Schema>> {
        self.schema.clone()
    }

    fn totals(&self) -> Totals {
        Totals { late: self.aligner.late(), ..self.totals }
    }
}

#[cfg(test)]
mod tests;
