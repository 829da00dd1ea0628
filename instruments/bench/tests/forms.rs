//! The forms of every report, made from reports that were measured once and are stored next to this file: text,
//! CSV and HTML stay the same while the code that makes them changes, and so does JSON, which is read and
//! written again.

use bench::report::Forms;
use serde::de::DeserializeOwned;

/// Compares a report's forms with their golden files.
fn check<R: Forms + DeserializeOwned>(name: &str, json: &str) {
    let report: R = serde_json::from_str(json).expect("a report that was measured");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("forms");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        insta::assert_snapshot!(format!("{name}.txt"), report.to_string());
        insta::assert_snapshot!(format!("{name}.csv"), report.to_csv());
        insta::assert_snapshot!(format!("{name}.html"), report.to_html().expect("its figures can be drawn"));
    });
    assert_eq!(serde_json::to_string(&report).expect("a report is JSON"), json.trim_end());
}

macro_rules! forms {
    ($($test:ident: $report:ty, $name:literal;)*) => {
        $(#[test]
        fn $test() {
            check::<$report>($name, include_str!(concat!("forms/", $name, ".json")));
        })*
    };
}

forms! {
    capacity: bench::capacity::Report, "capacity";
    cost: bench::cost::Report, "cost";
    cycle: bench::cycle::Report, "cycle";
    multicast: bench::multicast::Report, "multicast";
    pingpong: bench::pingpong::Report, "pingpong";
    sweep: bench::sweep::Report, "sweep";
    throughput_of_a_connection: bench::throughput::Report, "throughput";
    throughput_of_datagrams: bench::throughput::Report, "throughput-datagrams";
    throughput_of_a_stream: bench::throughput::Report, "throughput-stream";
}
