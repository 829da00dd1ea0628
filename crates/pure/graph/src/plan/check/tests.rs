//! Plans that fit, and every reason why others do not.

use super::super::scene::{derive, name, schema, thin};
use super::*;
use crate::plan::{Every, OutputRate};
use crate::{AlarmConfig, Calibration, Edge, Response, SpectralWindow, SpectrumScale, TriggerConfig};

/// Checks nodes on a bus with `lab/u` and `lab/i`, at 1 kHz, in volts and amperes.
fn check(nodes: &[Node]) -> Result<Plan, Vec<String>> {
    let known = |stream: &StreamName| match stream.as_str() {
        "lab/u" => Some(schema("1000", &[("u", "V"), ("ripple", "V")])),
        "lab/i" => Some(schema("1000", &[("i", "A")])),
        "lab/fast" => Some(schema("60000000", &[("x", "")])),
        _ => None,
    };
    let computed = [("made/rms", vec!["lab/thin"])].into();
    let surroundings = Surroundings { schema: &known, computed };
    Plan::check(nodes.to_vec(), &surroundings)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect())
}

fn problem(nodes: &[Node]) -> String {
    check(nodes).unwrap_err().join("; ")
}

#[test]
fn schemas_and_costs_follow_through_the_graph_in_any_order_of_its_nodes() {
    let power = derive("lab/power", "u * i", &[("u", "lab/u:u"), ("i", "lab/i:i")], Some("W"));
    let plan = check(&[thin("lab/slow", "lab/power", "100ms"), power]).unwrap();
    let [slow, power] = plan.planned() else { panic!("two nodes") };
    let slow_schema = slow.schema.as_ref().unwrap();
    assert_eq!(slow_schema.rate.to_string(), "10");
    assert_eq!((&*slow_schema.channels[0].name, &*slow_schema.channels[0].unit), ("value.min", "W"));
    assert_eq!((slow.values_per_s, power.values_per_s), (Some(1_000.0), Some(3_000.0)));
    assert_eq!(plan.values_per_s(), 4_000.0);
}

#[test]
fn an_unknown_stream_leaves_the_rest_of_its_branch_open() {
    let plan = check(&[thin("lab/a", "lab/later", "1ms"), thin("lab/b", "lab/a", "1s")]).unwrap();
    assert!(plan.planned().iter().all(|node| node.schema.is_none() && node.values_per_s.is_none()));
}

#[test]
fn names_are_computed_once() {
    let nodes = [thin("lab/a", "lab/u", "10"), thin("lab/a", "lab/i", "10")];
    assert!(problem(&nodes).starts_with("node `lab/a`: this name is already computed"));
    assert!(problem(&[thin("made/rms", "lab/u", "10")]).starts_with("node `made/rms`: this name is already"));
}

#[test]
fn a_circle_is_refused_also_by_way_of_what_is_computed_beside_the_graph() {
    let nodes = [thin("lab/a", "lab/b", "10"), thin("lab/b", "lab/a", "10")];
    assert_eq!(
        problem(&nodes),
        "node `lab/a`: `lab/a` is computed from itself: lab/a from lab/b from lab/a\ntake one of these inputs out"
    );
    assert!(problem(&[thin("lab/thin", "made/rms", "10")]).contains("lab/thin from made/rms from lab/thin"));
}

#[test]
fn every_node_with_a_problem_is_named() {
    let bad_window = thin("lab/a", "lab/u", "1500us");
    let bad_channel = derive("lab/b", "u", &[("u", "lab/u:v")], None);
    let bad_expression = derive("lab/c", "u *", &[("u", "lab/later:v")], None);
    let problems =
        check(&[bad_window, bad_channel, bad_expression, thin("lab/ok", "lab/u", "10")]).unwrap_err();
    assert_eq!(problems.len(), 3, "{problems:#?}");
    assert!(problems[0].starts_with("node `lab/a`: 1500us is not a whole number of samples"));
    assert!(problems[1].contains("has no channel `v`; it has u, ripple"));
    assert!(problems[2].starts_with("node `lab/c`: "));
}

#[test]
fn problems_of_names_and_circles_hide_no_others() {
    let bad = thin("lab/bad", "lab/u", "1500us");
    let twice = [thin("lab/twice", "lab/u", "10"), thin("lab/twice", "lab/i", "10")];
    let circle = |a: &str, b: &str| [thin(a, b, "10"), thin(b, a, "10")];
    let nodes = [&circle("lab/a", "lab/b")[..], &[bad], &twice, &circle("lab/c", "lab/d")].concat();
    let problems = check(&nodes).unwrap_err();
    let starts =
        ["node `lab/a`: `lab/a` is computed", "node `lab/bad`: 1500us", "node `lab/twice`: this name"];
    for (problem, start) in
        problems.iter().zip(starts.into_iter().chain(["node `lab/c`: `lab/c` is computed"]))
    {
        assert!(problem.starts_with(start), "{problem}");
    }
    assert_eq!(problems.len(), 4);
}

#[test]
fn units_that_do_not_fit_need_a_stated_result() {
    let inputs = [("u", "lab/u:u"), ("i", "lab/i:i")];
    let sum = problem(&[derive("lab/sum", "u + i", &inputs, None)]);
    assert!(sum.contains("u is in V") && sum.contains("i is in A") && sum.contains("unit = "), "{sum}");
    check(&[derive("lab/sum", "u + i", &inputs, Some("1"))]).unwrap();
    check(&[derive("lab/power", "u * i", &inputs, None)]).unwrap();
    check(&[derive("lab/one", "u + 1", &[("u", "lab/u:u")], None)]).unwrap();
}

#[test]
fn a_graph_is_bounded_in_nodes_and_in_values() {
    let nodes: Vec<_> = (0..=MAX_NODES).map(|i| thin(&format!("lab/{i}"), "lab/u", "10")).collect();
    assert!(problem(&nodes).starts_with("a graph has at most 256 nodes, not 257"));
    assert!(check(&nodes[1..]).is_ok());
    let wide = [thin("lab/a", "lab/fast", "10"), thin("lab/b", "lab/fast", "10")];
    assert!(problem(&wide).starts_with("the nodes would read 120 million values per second"));
    assert!(check(&wide[1..]).is_ok());
}

#[test]
fn the_statistics_of_a_reduction_are_checked_before_its_rate_is_known() {
    let node = |statistics: &[&str]| {
        let statistics = statistics.iter().map(|it| it.parse().unwrap()).collect();
        let kind =
            Kind::Reduce { input: name("lab/later"), every: "1s".parse::<Every>().unwrap(), statistics };
        Node { name: name("lab/a"), kind }
    };
    assert!(problem(&[node(&[])]).starts_with("node `lab/a`: a reduction needs"));
    check(&[node(&["mean"])]).unwrap();
}

#[test]
fn channels_that_are_selected_or_calibrated_must_be_there() {
    let select = |channels: &[&str]| {
        let channels = channels.iter().map(|it| (*it).to_owned()).collect();
        Node { name: name("lab/a"), kind: Kind::Select { input: name("lab/u"), channels } }
    };
    let plan = check(&[select(&["ripple"])]).unwrap();
    assert_eq!(plan.planned()[0].schema.as_ref().unwrap().channels[0].name, "ripple");
    assert!(problem(&[select(&["hum"])]).contains("has no channel `hum`; it has u, ripple"));
    assert!(problem(&[select(&[])]).ends_with("channels, not 0"));
    assert!(problem(&[select(&["u", "u"])]).ends_with("two channels are named `u`"));
    let calibrate = |scale: f64| {
        let kilovolts = Calibration { scale, offset: 0.0, unit: "kV".to_owned() };
        let channels = [("u".to_owned(), kilovolts)].into();
        Node { name: name("lab/a"), kind: Kind::Calibrate { input: name("lab/u"), channels } }
    };
    check(&[calibrate(1e-3)]).unwrap();
    assert!(problem(&[calibrate(0.0)]).ends_with("must be finite, and the scale not zero"));
}

#[test]
fn a_quantile_keeps_a_bounded_number_of_values() {
    let median = |input: &str| {
        let kind = Kind::Reduce {
            input: name(input),
            every: "1s".parse().unwrap(),
            statistics: vec!["q50".parse().unwrap()],
        };
        Node { name: name("lab/a"), kind }
    };
    check(&[median("lab/u")]).unwrap();
    assert!(problem(&[median("lab/fast")]).contains("60000000 of stream `lab/fast`, and 16777216 at most"));
}

#[test]
fn a_filter_must_fit_the_rate_of_its_stream_as_soon_as_that_is_known() {
    let filter = |input: &str, response: Response, order: u32| Node {
        name: name("lab/a"),
        kind: Kind::Filter { input: name(input), response, order },
    };
    let plan = check(&[filter("lab/u", Response::Notch([49.0, 51.0]), 2)]).unwrap();
    let schema = plan.planned()[0].schema.as_ref().unwrap();
    assert_eq!((&*schema.channels[1].name, &*schema.channels[1].unit), ("ripple", "V"));
    let high = Response::Lowpass(500.0);
    assert!(problem(&[filter("lab/u", high, 4)]).contains("the edge 500 Hz must be below half the rate"));
    check(&[filter("lab/later", high, 4)]).unwrap();
    let thinned = thin("lab/thinned", "lab/u", "10");
    assert!(
        problem(&[filter("lab/thinned", Response::Lowpass(60.0), 4), thinned])
            .contains("has 100 samples per")
    );
    for bad in [filter("lab/later", high, 3), filter("lab/later", Response::Bandpass([2.0, 1.0]), 4)] {
        assert!(problem(&[bad]).starts_with("node `lab/a`: the "));
    }
}

#[test]
fn spectra_cost_as_often_as_they_read_a_value_and_are_checked_before_the_rate_is_known() {
    let node = |input: &str, size: &str, overlap: f64, average: u32| {
        let (input, size) = (name(input), size.parse::<Every>().unwrap());
        let (window, scale) = (SpectralWindow::Hann, SpectrumScale::Density);
        Node { name: name("lab/a"), kind: Kind::Spectrum { input, size, overlap, window, scale, average } }
    };
    let plan = check(&[node("lab/u", "200ms", 0.75, 2)]).unwrap();
    let schema = plan.planned()[0].schema.as_ref().unwrap();
    let channel = &schema.channels[0];
    assert_eq!((&*channel.name, &*channel.unit, &channel.shape[..]), ("u", "V²/Hz", &[101][..]));
    assert_eq!(schema.rate.to_string(), "10");
    assert_eq!(plan.values_per_s(), 8_000.0);
    check(&[node("lab/later", "200ms", 0.75, 1)]).unwrap();
    for (bad, why) in [
        (node("lab/later", "200ms", 1.0, 1), "the overlap of segments is a fraction from 0 to below 1"),
        (node("lab/later", "200ms", 0.5, 0), "a spectrum is the average of 1 to 4000 segments, not 0"),
        (node("lab/u", "1", 0.5, 1), "a segment of a spectrum has 2 to 1048576 samples, not 1"),
        (node("lab/u", "1500us", 0.5, 1), "1500us is not a whole number of samples"),
    ] {
        assert!(problem(&[bad]).starts_with(&format!("node `lab/a`: {why}")));
    }
    assert!(problem(&[node("lab/fast", "1000", 0.5, 1)]).starts_with("the nodes would read 120 million"));
}

#[test]
fn a_stream_is_resampled_by_a_simple_ratio_and_costs_what_the_faster_side_has() {
    let node = |input: &str, rate: &str| {
        let rate = OutputRate(rate.parse().unwrap());
        Node { name: name("lab/a"), kind: Kind::Resample { input: name(input), rate } }
    };
    for (rate, values_per_s) in [("360", 2_000.0), ("4000", 8_000.0)] {
        let plan = check(&[node("lab/u", rate)]).unwrap();
        let schema = plan.planned()[0].schema.as_ref().unwrap();
        assert_eq!((schema.rate.to_string().as_str(), plan.values_per_s()), (rate, values_per_s));
    }
    assert!(problem(&[node("lab/u", "1001/1000")]).contains("take two steps"));
    assert!(problem(&[node("lab/fast", "120000000")]).starts_with("the nodes would read 120 million"));
    check(&[node("lab/later", "360")]).unwrap();
}

#[test]
fn nodes_of_events_are_checked_with_their_limits_and_stretches() {
    let alarm = |input: &str, low_warning: f64| Node {
        name: name("lab/alarm"),
        kind: Kind::Alarm(AlarmConfig {
            input: vec![input.parse().unwrap()],
            low_alarm: None,
            low_warning: Some(low_warning),
            high_warning: Some(3.0),
            high_alarm: None,
            hysteresis: 0.5,
            hold: "100ms".parse().unwrap(),
            silence: None,
        }),
    };
    let plan = check(&[alarm("lab/u:ripple", 1.0)]).unwrap();
    let schema = plan.planned()[0].schema.as_ref().unwrap();
    assert_eq!((&*schema.channels[4].unit, schema.labels["low_warning"].as_str()), ("V", "1"));
    assert_eq!(plan.nodes()[0].inputs(), [&name("lab/u")]);
    assert!(problem(&[alarm("lab/u:v", 1.0)]).contains("has no channel `v`; it has u, ripple"));
    assert!(problem(&[alarm("lab/later:v", 3.0)]).contains("`low_warning` is not below `high_warning`"));
    assert!(problem(&[alarm("lab/later:v", 2.5)]).contains("0.5 does not fit"));
    assert!(problem(&[alarm("lab/alarm:state", 1.0)]).contains("is computed from itself"));

    let trigger = |input: &str, after: &str| Node {
        name: name("lab/trigger"),
        kind: Kind::Trigger(TriggerConfig {
            input: input.parse().unwrap(),
            channels: vec!["u".to_owned(), "ripple".to_owned()],
            level: 1.0,
            edge: Edge::Rising,
            hysteresis: 0.0,
            before: Every::Samples(100),
            after: after.parse().unwrap(),
            holdoff: None,
        }),
    };
    let plan = check(&[trigger("lab/u:u", "100ms")]).unwrap();
    assert_eq!(plan.planned()[0].schema.as_ref().unwrap().elements_per_sample(), 2 * 200 + 8);
    assert!(
        problem(&[trigger("lab/u:u", "30min")]).contains("a stretch of 1800100 samples has 28801600 bytes")
    );
    assert!(problem(&[trigger("lab/later:u", "2000000")]).contains("shorten `before` and `after`"));
    check(&[trigger("lab/later:u", "30min")]).unwrap();
    // Events have no steady rate.
    let of_events = problem(&[alarm("lab/u:u", 1.0), trigger("lab/alarm:value", "1ms")]);
    assert!(of_events.contains("have times of their own"), "{of_events}");
}
