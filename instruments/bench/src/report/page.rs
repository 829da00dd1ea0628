//! Parts common to the pages of all reports: circumstances of the measurement, and medians of repeats.

use super::value_text;
use drawing::{Column, Page, Tone};

use super::noise;
use super::row::Row;

/// Adds the circumstances of the measurement and its disturbances.
pub(crate) fn circumstances(page: &mut Page, text: &str, noise: &[String]) {
    page.paragraph(text);
    let tone = if noise.is_empty() { Tone::Quiet } else { Tone::Warning };
    page.remark(&noise::in_words(noise), tone);
}

/// Adds a table of medians below a heading.
pub(crate) fn medians(page: &mut Page, heading: &str, rows: &[Row]) {
    page.heading(heading);
    let columns = [
        Column::Word("what"),
        Column::Word("of"),
        Column::Word("figure"),
        Column::Number("median"),
        Column::Number("least"),
        Column::Number("most"),
        Column::Number("runs"),
    ];
    page.table(
        &columns,
        rows.iter().map(|row| {
            let value = |value| value_text(value, &row.unit);
            let [median, min, max] = [row.median, row.min, row.max].map(value);
            let metric = row.metric.replace('_', " ");
            vec![row.system.clone(), row.case.clone(), metric, median, min, max, row.runs.to_string()]
        }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disturbed_a_measurement_is_shown_with_its_medians() {
        let mut page = Page::new("", "");
        circumstances(&mut page, "a <host>\nanother", &["load > 1".to_owned()]);
        medians(&mut page, "Medians", &[Row::example()]);
        let page = page.end(&[]);
        for part in ["a &lt;host&gt;<br>", "class=\"noisy\"", "load &gt; 1", "<h2>Medians</h2>"] {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert!(!page.contains("NaN"));
    }
}
