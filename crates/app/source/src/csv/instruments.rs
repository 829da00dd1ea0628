//! Instruments whose files need more than the general rules, recognised by their first line.
//!
//! | instrument | first line | rows |
//! |---|---|---|
//! | Campbell logger, TOA5 | `"TOA5",station,model,…` | from line 5; names, units and processing above |
//! | Rigol oscilloscope, waveform | `X,CH1,…,Start,Increment` | from line 3: number, volts; units, start and period above |
//! | Rigol oscilloscope, memory | `CH1(V),t0 = -1e-3s, tInc = 2e-06s,` | from line 2: volts |
//! | Tektronix TDS oscilloscope | `Record Length,2.5e+03,,time,volts,` | from line 1, beside the settings in three columns |
//!
//! Tektronix's newer oscilloscopes, Keysight and LeCroy follow the general rules, but for units and periods in the lines
//! above the header row. Source: files of these instruments; LoggerNet manual, appendix B (TOA5).

use std::borrow::Cow;

use sample::Channel;
use units::SampleRate;

use super::fields::Separator;
use super::head::{HeadError, Line, named};
use super::layout::Found;
use crate::columns::is_time;
use crate::grid::rate_of_period;
use crate::numbers::{heading, headings};

/// Number of lines of a TDS oscilloscope's file that have settings beside the values.
const TDS_SETTINGS: usize = 18;
/// Keys of the sampling period in the lines above a table without times: Tektronix, Keysight Infiniium.
const PERIODS: [&str; 3] = ["sample interval", "xinc", "xincrement"];

#[derive(Clone, Copy)]
enum Instrument {
    Toa5,
    RigolWaveform,
    RigolMemory,
    TektronixTds,
}

/// Returns whether the first line is that of an instrument with rules of its own.
pub(super) fn claims(lines: &[Line]) -> bool {
    lines.first().is_some_and(|first| instrument(&first.text).is_some())
}

fn instrument(first: &str) -> Option<Instrument> {
    let fields = Separator::Comma.split(first);
    let has = |key: &str| fields.iter().any(|field| field.starts_with(key));
    match &*fields[0] {
        "TOA5" => Some(Instrument::Toa5),
        "X" if has("Start") && has("Increment") => Some(Instrument::RigolWaveform),
        "Record Length" if fields.len() >= 5 && !fields[4].is_empty() => Some(Instrument::TektronixTds),
        _ if has("t0") && has("tInc") => Some(Instrument::RigolMemory),
        _ => None,
    }
}

/// Returns the layout of an instrument with rules of its own, and its first row, once there are enough lines.
pub(super) fn read(lines: &[Line], is_whole: bool) -> Option<(Found, &Line)> {
    match (lines.first().and_then(|first| instrument(&first.text)), lines) {
        (Some(Instrument::Toa5), [_, names, units, _, row]) => Some((toa5(names, units, row), row)),
        (Some(Instrument::RigolWaveform), [names, units, row]) => {
            Some((rigol_waveform(names, units, row), row))
        }
        (Some(Instrument::RigolMemory), [names, row]) => Some((rigol_memory(names, row), row)),
        (Some(Instrument::TektronixTds), [row, ..]) if is_whole || lines.len() == TDS_SETTINGS => {
            Some((tektronix_tds(lines, row), row))
        }
        _ => None,
    }
}

/// Refuses files of several recordings.
pub(super) fn check(above: &[Line]) -> Result<(), HeadError> {
    let [first, second, ..] = above else { return Ok(()) };
    match Separator::Comma.split(&second.text).as_slice() {
        [key, count, ..] if first.text.starts_with("LECROY") && key == "Segments" && count != "1" => {
            Err(HeadError::Segments(count.to_string()))
        }
        _ => Ok(()),
    }
}

/// Returns the instrument or program of a text that follows the general rules.
pub(super) fn name(lines: &[Line]) -> Option<&'static str> {
    let first = lines.first()?;
    let begins = |key: &str| lines.iter().any(|line| line.text.starts_with(key));
    if first.text.starts_with("LECROY") {
        Some("a LeCroy oscilloscope")
    } else if first.text.starts_with("x-axis,") || begins("XInc") {
        Some("a Keysight oscilloscope")
    } else if begins("Vertical Units,") && begins("Sample Interval,") {
        Some("a Tektronix oscilloscope")
    } else {
        None
    }
}

/// Returns the rate of a table without times, if a line above it states the period: `Sample Interval,4e-08`.
pub(super) fn stated_rate(above: &[Line]) -> Option<SampleRate> {
    let is_period = |key: &str| PERIODS.contains(&key.to_lowercase().as_str());
    settings(above).find(|(key, _)| is_period(key)).and_then(|(_, values)| rate_of_period(values.first()?))
}

/// Gives units to headings without, from lines such as `Vertical Units,V`.
pub(super) fn add_units(above: &[Line], headings: &mut [Channel]) {
    let of = |wanted: &str| settings(above).find(|(key, _)| key == wanted).map(|(_, values)| values);
    let (horizontal, vertical) = (of("Horizontal Units"), of("Vertical Units").unwrap_or_default());
    let (times, channels): (Vec<_>, Vec<_>) =
        headings.iter_mut().filter(|it| it.unit.is_empty()).partition(|it| is_time(it));
    for channel in times {
        channel.unit = horizontal.iter().flatten().next().cloned().unwrap_or_default();
    }
    for (place, channel) in channels.into_iter().enumerate() {
        channel.unit = vertical.get(place).or(vertical.first()).cloned().unwrap_or_default();
    }
}

/// Returns the keys and values of lines such as `Sample Interval,4e-08` or `XInc:  5E-11`.
fn settings(lines: &[Line]) -> impl Iterator<Item = (String, Vec<String>)> + '_ {
    let divided = |line: &str| match line.split_once(':') {
        Some((key, value)) if !key.contains(',') => (key.trim().to_owned(), vec![value.trim().to_owned()]),
        _ => {
            let mut fields = Separator::Comma.split(line).into_iter().map(Cow::into_owned);
            (fields.next().unwrap_or_default(), fields.filter(|field| !field.is_empty()).collect())
        }
    };
    lines.iter().map(move |line| divided(&line.text))
}

fn fields(line: &Line) -> Vec<String> {
    Separator::Comma.split(&line.text).into_iter().map(Cow::into_owned).collect()
}

fn of(instrument: &'static str, header: Option<&Line>, row: &Line, headings: Vec<Channel>) -> Found {
    Found {
        instrument: Some(instrument),
        separator: Separator::Comma,
        header_line: header.map(|line| line.number),
        unit_line: None,
        first_row: row.number,
        headings,
        rate: None,
        index: None,
        left_out: Vec::new(),
    }
}

/// The record number counts the rows of the logger's memory; it is no measured value.
fn toa5(names: &Line, units: &Line, row: &Line) -> Found {
    let headings = named(&fields(names), &fields(units));
    let left_out = headings.iter().position(|heading| heading.name == "RECORD").into_iter().collect();
    let found = of("a Campbell logger (TOA5)", Some(names), row, headings);
    Found { unit_line: Some(units.number), left_out, ..found }
}

fn rigol_waveform(names: &Line, units: &Line, row: &Line) -> Found {
    let (names_of, settings) = (fields(names), fields(units));
    let place = |key: &str| names_of.iter().position(|name| name == key).unwrap_or(names_of.len());
    let headings = named(&names_of[..place("Start")], &settings);
    let is_numbered = settings.first().is_some_and(|unit| unit == "Sequence");
    Found {
        unit_line: Some(units.number),
        rate: settings.get(place("Increment")).and_then(|period| rate_of_period(period)),
        index: is_numbered.then_some(0),
        left_out: if is_numbered { Vec::new() } else { vec![0] },
        ..of("a Rigol oscilloscope", Some(names), row, headings)
    }
}

fn rigol_memory(names: &Line, row: &Line) -> Found {
    let names_of = fields(names);
    let channels = names_of.iter().filter(|name| !name.is_empty() && !name.contains('='));
    let headings = headings(channels.map(String::as_str));
    let period = names_of.iter().find_map(|field| field.strip_prefix("tInc")?.split_once('='));
    let rate = period.and_then(|(_, text)| rate_of_period(text.trim().trim_end_matches('s')));
    Found { rate, ..of("a Rigol oscilloscope", Some(names), row, headings) }
}

fn tektronix_tds(lines: &[Line], row: &Line) -> Found {
    let setting = |key: &str| {
        let line = lines.iter().map(fields).find(|fields| fields[0] == key);
        line.and_then(|fields| fields.get(1).cloned()).unwrap_or_default()
    };
    let channel = heading(&setting("Source"), 0).name;
    let unit = |key: &str, usual: &str| {
        Some(setting(key)).filter(|unit| !unit.is_empty()).unwrap_or(usual.to_owned())
    };
    let mut headings = vec![Channel::new("", ""); 3];
    headings.push(Channel::new("TIME", unit("Horizontal Units", "s")));
    headings.push(Channel::new(channel, unit("Vertical Units", "V")));
    Found { left_out: vec![0, 1, 2], ..of("a Tektronix oscilloscope (TDS)", None, row, headings) }
}
