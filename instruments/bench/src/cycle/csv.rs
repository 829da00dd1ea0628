//! The searches as rows of CSV.

use std::fmt::Write as _;

use super::report::Report;
use crate::report::csv::cell;

const HEADER: &str = "transport,cycle_time_ns,cpus,repeat,multiplicity,found,runs,elsewhere_cpus\n";

/// Writes every search of every point; `cpus` is empty without a quota.
pub(super) fn table(report: &Report) -> String {
    let mut text = HEADER.to_owned();
    for point in &report.points {
        for (repeat, search) in point.searches().iter().enumerate() {
            let found = match search.found {
                super::Found::Nothing => "nothing",
                super::Found::Largest => "largest",
                super::Found::Limit => "limit",
            };
            let _ = writeln!(
                text,
                "{},{},{},{repeat},{},{found},{},{}",
                point.transport,
                point.cycle_time_ns,
                cell(point.cpus),
                search.elements,
                search.runs.len(),
                cell(search.elsewhere_cpus),
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::cycle::report::tests::example;
    use crate::report::Forms as _;

    #[test]
    fn every_search_is_a_row_with_as_many_cells_as_the_header() {
        let report = example();
        let table = report.to_csv();
        let columns = table.lines().next().unwrap().split(',').count();
        let searches: usize = report.points.iter().map(|point| point.searches().len()).sum();
        assert_eq!(table.lines().count(), 1 + searches);
        assert!(table.lines().all(|line| line.split(',').count() == columns), "{table}");
    }
}
