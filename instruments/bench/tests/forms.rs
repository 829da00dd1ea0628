//! The forms of every report, made from reports that are stored next to this file, of each test also one that was
//! ended early: text, CSV and HTML stay the same while the code that makes them changes, and so does JSON, which is
//! read and written again.

use bench::FigureError;
use bench::report::Forms;
use serde::de::DeserializeOwned;

/// Compares a report's forms with their golden files.
fn check<R: Forms + DeserializeOwned>(name: &str, json: &str) {
    let report: R = serde_json::from_str(json).expect("a report that was measured");
    let page = report.to_html().expect("its figures can be drawn");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("forms");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        insta::assert_snapshot!(format!("{name}.txt"), report.to_string());
        insta::assert_snapshot!(format!("{name}.csv"), report.to_csv());
        insta::assert_snapshot!(format!("{name}.html"), page);
    });
    for outside in ["<script", "<link", "src=", "href=", "NaN"] {
        assert!(!page.contains(outside), "the page is not complete in itself: {outside}");
    }
    match report.to_png() {
        Ok(picture) => assert_eq!((&picture[1..4], page.contains("<svg")), (&b"PNG"[..], true)),
        Err(error) => assert_eq!((error, page.contains("<svg")), (FigureError::Empty, false)),
    }
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
    capacity_cut: bench::capacity::Report, "capacity-cut";
    cost: bench::cost::Report, "cost";
    cost_cut: bench::cost::Report, "cost-cut";
    cycle: bench::cycle::Report, "cycle";
    cycle_cut: bench::cycle::Report, "cycle-cut";
    multicast: bench::multicast::Report, "multicast";
    multicast_cut: bench::multicast::Report, "multicast-cut";
    pingpong: bench::pingpong::Report, "pingpong";
    pingpong_cut: bench::pingpong::Report, "pingpong-cut";
    reproduction_cut: bench::report::Reproduction, "reproduce";
    sweep: bench::sweep::Report, "sweep";
    sweep_cut: bench::sweep::Report, "sweep-cut";
    sweep_with_load: bench::sweep::Report, "sweep-load";
    throughput_of_a_connection: bench::throughput::Report, "throughput";
    throughput_of_datagrams: bench::throughput::Report, "throughput-datagrams";
    throughput_of_a_stream: bench::throughput::Report, "throughput-stream";
}
