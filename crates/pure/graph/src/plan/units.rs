//! Whether an expression combines units that fit.
//!
//! A sum of volts and amperes has no unit. No table of units is needed to see that: an expression has a unit only if it
//! is homogeneous in each unit of its inputs, so that all values of one unit doubled scale the result by a power of two,
//! the same power wherever the expression is evaluated (Buckingham 1914, the principle of dimensional homogeneity).

use crate::Expression;

/// Places at which an expression is evaluated.
const PLACES: usize = 8;
/// Factors of the values of one unit.
const FACTORS: [f64; 2] = [2.0, 3.0];
/// Largest deviation of an exponent that is rounding.
const TOLERANCE: f64 = 1e-6;

/// Returns whether the result of `expression` has a unit.
///
/// Variables without a unit are numbers.
pub(super) fn has_unit(expression: &Expression, units: &[&str]) -> bool {
    let mut distinct: Vec<_> = units.iter().filter(|unit| !unit.is_empty()).collect();
    distinct.sort_unstable();
    distinct.dedup();
    distinct.into_iter().all(|unit| is_homogeneous(expression, units, unit))
}

fn is_homogeneous(expression: &Expression, units: &[&str], unit: &str) -> bool {
    let mut exponent = None;
    let at = |variable: usize, place: usize| {
        // Different for each variable and place, between 0.6 and 1.6, and in no simple ratio.
        0.6 + (0.618_033_988 * (1 + place * 5 + variable * 3) as f64).fract()
    };
    (0..PLACES).all(|place| {
        let columns = |factor: f64| -> Vec<Vec<f64>> {
            let scale = |of: &str| if of == unit { factor } else { 1.0 };
            units.iter().enumerate().map(|(variable, of)| vec![at(variable, place) * scale(of)]).collect()
        };
        let plain = value(expression, &columns(1.0));
        FACTORS.iter().all(|factor| {
            let ratio = value(expression, &columns(*factor)) / plain;
            // Zero, infinity and NaN decide nothing.
            if !ratio.is_finite() || ratio == 0.0 {
                return true;
            }
            let power = ratio.abs().ln() / factor.ln();
            ratio > 0.0 && (power - *exponent.get_or_insert(power)).abs() < TOLERANCE
        })
    })
}

fn value(expression: &Expression, columns: &[Vec<f64>]) -> f64 {
    let mut values = Vec::new();
    expression.evaluate(columns, &mut values);
    values[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_need_one_unit_and_functions_need_numbers() {
        let fits = |text: &str, units: &[&str]| {
            let variables = &["a", "b"][..units.len()];
            has_unit(&Expression::parse(text, variables).unwrap(), units)
        };
        for text in
            ["a + b", "a - b", "max(a, b)", "sqrt(a * a + b * b)", "a / b", "(a + b) / 2", "abs(a - 2 * b)"]
        {
            assert!(fits(text, &["V", "V"]), "{text}");
        }
        for text in ["a * b", "a / b", "a * a / b", "sqrt(a * b)"] {
            assert!(fits(text, &["V", "A"]), "{text}");
        }
        for text in ["a + b", "a - b", "max(a, b)", "a * b + b", "sin(a) * b", "a + a * b", "ln(a * b)"] {
            assert!(!fits(text, &["V", "A"]), "{text}");
        }
        assert!(!fits("a - 273.15", &["K"]) && fits("a * 2", &["K"]));
        assert!(fits("a * sin(b)", &["V", ""]) && fits("a + b", &["", ""]));
    }
}
