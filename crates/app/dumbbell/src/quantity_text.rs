//! Quantities as text for people.

/// Writes a rate with three digits: `94.7 Mbit/s`.
pub(crate) fn rate(bits_per_second: f64) -> String {
    let (value, unit) = magnitude(bits_per_second);
    format!("{} {unit}bit/s", digits(value))
}

/// Writes two rates in one unit, as the larger has it: `91.2 – 94.7 Mbit/s`.
pub(crate) fn range(least: f64, most: f64) -> String {
    let (value, unit) = magnitude(most);
    format!("{} – {} {unit}", digits(if most > 0.0 { least * value / most } else { 0.0 }), digits(value))
}

/// Writes a size: `2.50 MB`.
pub(crate) fn size(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let (value, unit) = magnitude(bytes as f64);
    if unit.is_empty() { format!("{bytes} B") } else { format!("{} {unit}B", digits(value)) }
}

/// Writes a part of a whole: `0`, `1.2%`, `1.0e-5`.
pub(crate) fn part(part: f64) -> String {
    match part {
        0.0 => "0".to_owned(),
        0.001.. => format!("{:.2}%", part * 100.0),
        _ => format!("{part:.1e}"),
    }
}

/// Writes how many: `1 seed`, `3 seeds`.
pub(crate) fn count(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn magnitude(value: f64) -> (f64, &'static str) {
    match value {
        1e9.. => (value / 1e9, "G"),
        1e6.. => (value / 1e6, "M"),
        1e3.. => (value / 1e3, "k"),
        _ => (value, ""),
    }
}

fn digits(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits_and_their_unit() {
        assert_eq!(rate(94_700_000.0), "94.7 Mbit/s");
        assert_eq!(rate(9_470_000_000.0), "9.47 Gbit/s");
        assert_eq!(rate(0.0), "0.00 bit/s");
        assert_eq!(range(912e6, 1.2e9), "0.91 – 1.20 G");
        assert_eq!(size(2_500_000), "2.50 MB");
        assert_eq!(size(999), "999 B");
        assert_eq!((part(0.0), part(0.012), part(1e-5)), ("0".into(), "1.20%".into(), "1.0e-5".into()));
        assert_eq!((count(1, "flow"), count(2, "flow")), ("1 flow".into(), "2 flows".into()));
    }
}
