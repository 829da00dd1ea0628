//! Ages of a stream's samples as they leave an end of the link.

use core::time::Duration;

use units::Histogram;

/// Ages over a time, of one message or block each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ages {
    /// Median, to about 3 %.
    pub median: Duration,
    /// Not exceeded by 99 of 100, to about 3 %.
    pub percentile_99: Duration,
    /// The largest.
    pub largest: Duration,
}

/// Ages since the last query. Memory is allocated with the first one: most streams of an end may be silent.
#[derive(Debug, Default)]
pub(crate) struct AgeWindow(Option<Histogram>);

impl AgeWindow {
    pub(crate) fn record(&mut self, age: Duration) {
        self.0.get_or_insert_default().record(age);
    }

    /// Returns the ages since the last call; `None` without any.
    pub(crate) fn take(&mut self) -> Option<Ages> {
        let histogram = self.0.take()?;
        Some(Ages {
            median: histogram.quantile(0.5),
            percentile_99: histogram.quantile(0.99),
            largest: histogram.max(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_the_ages_since_the_last_one() {
        let ms = Duration::from_millis;
        let mut window = AgeWindow::default();
        assert_eq!(window.take(), None);
        (1..=100).for_each(|age| window.record(ms(age)));
        window.record(ms(900));
        let ages = window.take().unwrap();
        assert!(ages.median.abs_diff(ms(51)) <= ms(2), "{ages:?}");
        assert!(ages.percentile_99.abs_diff(ms(100)) <= ms(4), "{ages:?}");
        assert_eq!(ages.largest, ms(900));
        assert_eq!(window.take(), None);
        window.record(ms(3));
        assert_eq!(window.take().unwrap().largest, ms(3));
    }
}
