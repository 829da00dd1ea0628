//! The published schemas of reports: each page is made from the types of a report, and accepts the reports that
//! are stored next to this file. `INSTA_UPDATE=always` rewrites the pages.

use schemars::JsonSchema;
use serde_json::Value;

/// Output of a test that may have nothing to report.
#[derive(JsonSchema)]
#[schemars(untagged, deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is wanted")]
enum Printed<R> {
    /// The report.
    Report(R),
    /// Nothing could be measured.
    Failed {
        /// Reason.
        error: String,
    },
}

/// Compares the page with its type, and tries it on reports.
fn check<T: JsonSchema>(page: &str, test: &str, reports: &[&str]) {
    published::check_page::<T>(page, &format!("tallycast bench {test} --json"));
    for report in reports {
        let mut report: Value = serde_json::from_str(report).expect("JSON");
        assert_eq!(published::check(page, &report), Ok(()));
        report["more"] = Value::Null;
        assert!(published::check(page, &report).is_err(), "{page} accepts unknown keys");
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
    capacity: Printed<bench::capacity::Report>, "bench-capacity", ["capacity", "capacity-cut"];
    cost: bench::cost::Report, "bench-cost", ["cost", "cost-cut"];
    cycle: bench::cycle::Report, "bench-cycle", ["cycle", "cycle-cut"];
    multicast: bench::multicast::Report, "bench-multicast", ["multicast", "multicast-cut"];
    pingpong: bench::pingpong::Report, "bench-pingpong", ["pingpong", "pingpong-cut"];
    reproduce: bench::report::Reproduction, "bench-reproduce", ["reproduce"];
    sweep: Printed<bench::sweep::Report>, "bench-sweep", ["sweep", "sweep-cut", "sweep-load"];
    throughput: bench::throughput::Report, "bench", ["throughput", "throughput-datagrams", "throughput-stream"];
}
