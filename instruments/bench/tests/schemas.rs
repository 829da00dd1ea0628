//! The published schemas of reports: each page is what the types of a report say, and accepts the reports that are stored
//! next to this file. `INSTA_UPDATE=always` rewrites the pages.

use schemars::JsonSchema;
use serde_json::Value;
use support::schema;

/// Compares the page with its type, and tries it on reports.
fn check<T: JsonSchema>(page: &str, test: &str, reports: &[&str]) {
    schema::check_page::<T>(page, &format!("tallycast bench {test} --json"));
    for report in reports {
        let mut report: Value = serde_json::from_str(report).expect("JSON");
        assert_eq!(schema::check(page, &report), Ok(()));
        report["more"] = Value::Null;
        assert!(schema::check(page, &report).is_err(), "{page} accepts unknown keys");
    }
}

macro_rules! schemas {
    ($($test:ident: $report:ty, $page:literal, [$($stored:literal),*];)*) => {
        $(#[test]
        fn $test() {
            check::<$report>($page, stringify!($test), &[$(include_str!(concat!("forms/", $stored, ".json"))),*]);
        })*
    };
}

schemas! {
    cost: bench::cost::Report, "bench-cost", ["cost"];
}
