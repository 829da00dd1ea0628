//! The values of one element in a window, and their statistics.

use super::Statistic;

/// Accumulated values of one element.
///
/// Mean and squared distances are those of Chan, Golub and LeVeque 1979: the sums of two parts of a sample combine without
/// the cancellation of large squares.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Samples that arrived, NaN among them.
    pub(super) present: u64,
    /// Values that the statistics are of.
    counted: u64,
    min: f64,
    max: f64,
    mean: f64,
    /// Sum of the squared distances from the mean.
    distances: f64,
    /// All values, if a statistic needs them.
    values: Option<Vec<f64>>,
}

impl Window {
    pub(super) const fn new(keeps_values: bool) -> Self {
        let values = if keeps_values { Some(Vec::new()) } else { None };
        Self {
            present: 0,
            counted: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            mean: 0.0,
            distances: 0.0,
            values,
        }
    }

    /// Forgets all values, and keeps their memory.
    pub(super) fn clear(&mut self) {
        let mut values = self.values.take();
        values.iter_mut().for_each(Vec::clear);
        *self = Self { values, ..Self::new(false) };
    }

    pub(super) fn add(&mut self, values: &[f64]) {
        self.present += values.len() as u64;
        let numbers = || values.iter().copied().filter(|value| !value.is_nan());
        let (mut counted, mut total) = (0_u64, 0.0);
        for value in numbers() {
            counted += 1;
            total += value;
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
        if counted == 0 {
            return;
        }
        let mean = total / counted as f64;
        let distances: f64 = numbers().map(|value| (value - mean) * (value - mean)).sum();
        let (before, all) = (self.counted as f64, (self.counted + counted) as f64);
        let apart = mean - self.mean;
        self.distances += distances + apart * apart * before * (counted as f64 / all);
        self.mean += apart * (counted as f64 / all);
        self.counted += counted;
        if let Some(kept) = &mut self.values {
            kept.extend(numbers());
        }
    }

    pub(super) fn value(&mut self, statistic: Statistic) -> f64 {
        let counted = self.counted as f64;
        match statistic {
            Statistic::N => counted,
            _ if self.counted == 0 => f64::NAN,
            Statistic::Min => self.min,
            Statistic::Max => self.max,
            Statistic::Mean => self.mean,
            Statistic::Rms => (self.distances / counted + self.mean * self.mean).sqrt(),
            Statistic::Std => (self.distances / counted).sqrt(),
            Statistic::Quantile(percent) => {
                quantile(self.values.as_mut().expect("kept for this statistic"), percent.as_share())
            }
        }
    }
}

/// Returns a quantile of one value or more, whose order changes.
fn quantile(values: &mut [f64], share: f64) -> f64 {
    let place = share * (values.len() - 1) as f64;
    let (_, below, above) = values.select_nth_unstable_by(place.floor() as usize, f64::total_cmp);
    let below = *below;
    match above.iter().copied().min_by(f64::total_cmp) {
        Some(above) if place.fract() > 0.0 => below + (above - below) * place.fract(),
        _ => below,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Random;

    /// Returns the statistics of `values`, added in parts of random lengths.
    fn window(values: &[f64], random: &mut Random) -> Window {
        let mut window = Window::new(true);
        window.add(&[7.0]);
        window.clear();
        let mut rest = values;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(1 + random.below(rest.len() as u64) as usize);
            window.add(part);
            rest = after;
        }
        window
    }

    #[test]
    fn statistics_are_those_of_the_whole_window_however_it_arrives() {
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let offset = [0.0, 1e9][random.below(2) as usize];
            let count = 1 + random.below(60);
            let values: Vec<f64> = (0..count).map(|_| offset + random.unit()).collect();
            let mut window = window(&values, &mut random);
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            // Distances from a value of the window are exact: what remains is the rounding of the values themselves.
            let from_first: Vec<f64> = values.iter().map(|value| value - values[0]).collect();
            let n = count as f64;
            let mean = from_first.iter().sum::<f64>() / n;
            let std = (from_first.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / n).sqrt();
            let is_near = |a: f64, b: f64| (a - b).abs() <= 1e-9_f64.max(offset * 1e-15);
            assert!(is_near(window.value(Statistic::Mean), values[0] + mean), "seed {seed}");
            assert!((window.value(Statistic::Std) - std).abs() < 1e-6, "seed {seed}");
            let rms = (values.iter().map(|it| it * it).sum::<f64>() / n).sqrt();
            assert!((window.value(Statistic::Rms) / rms - 1.0).abs() < 1e-9, "seed {seed}");
            let statistic = |text: &str| text.parse().unwrap();
            for (text, place) in
                [("q0", 0), ("q100", sorted.len() - 1), ("min", 0), ("max", sorted.len() - 1)]
            {
                assert_eq!(window.value(statistic(text)), sorted[place], "seed {seed} {text}");
            }
            let median = (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
            assert!(is_near(window.value(statistic("q50")), median), "seed {seed}");
            assert_eq!(window.value(Statistic::N), n);
        }
    }

    #[test]
    fn a_quantile_between_two_values_is_interpolated() {
        // numpy.quantile([1, 2, 4, 8], 0.25) by its default method.
        assert_eq!(quantile(&mut [8.0, 1.0, 4.0, 2.0], 0.25), 1.75);
        assert_eq!(quantile(&mut [3.0], 0.7), 3.0);
    }

    #[test]
    fn values_that_are_no_numbers_count_as_present_alone() {
        let mut window = Window::new(true);
        window.add(&[f64::NAN, f64::NAN]);
        assert_eq!((window.present, window.value(Statistic::N)), (2, 0.0));
        assert!(window.value(Statistic::Mean).is_nan() && window.value(Statistic::Min).is_nan());
        window.add(&[2.0, f64::NAN, 4.0]);
        assert_eq!((window.value(Statistic::Mean), window.value(Statistic::N)), (3.0, 2.0));
    }
}
