//! Writing quantities in readable form: three digits and a unit.

use core::fmt::Display;

/// Number of units of each kind.
const UNITS: usize = 5;
const RATE_UNITS: [&str; UNITS] = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];

/// Writes a rate in decimal units: `94.7 Mbit/s`.
#[must_use]
pub fn rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, 1_000.0, RATE_UNITS)
}

/// Writes a range of rates in the unit of the larger one: `91.2 – 94.7 Mbit/s`.
#[must_use]
pub fn rate_range(least: f64, most: f64) -> String {
    let exponent = exponent(most, 1_000.0);
    let [least, most] = [least, most].map(|rate| digits(rate, 1_000.0, exponent));
    format!("{least} – {most} {}", RATE_UNITS[exponent])
}

/// Writes a size in binary units: `1.50 MiB`.
#[must_use]
pub fn size(bytes: f64) -> String {
    scaled(bytes, 1_024.0, ["B", "KiB", "MiB", "GiB", "TiB"])
}

/// Writes a size in decimal units: `2.50 MB`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn decimal_size(bytes: u64) -> String {
    scaled(bytes as f64, 1_000.0, ["B", "kB", "MB", "GB", "TB"])
}

/// Writes a size in the largest binary unit that leaves a whole number or at least 10: `208 KiB`, `1000 bytes`.
#[must_use]
pub fn exact_size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fits = |scale: u64| bytes >= scale && (bytes.is_multiple_of(scale) || bytes >= 10 * scale);
    let unit = UNITS.iter().find(|(scale, _)| fits(*scale));
    unit.map_or_else(|| format!("{bytes} bytes"), |(scale, unit)| format!("{} {unit}", bytes / scale))
}

/// Writes a time: `9.70 µs`, `90.0 s`.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    scaled(seconds * 1e9, 1_000.0, ["ns", "µs", "ms", "s", "ks"])
}

/// Writes a waiting time in seconds, minutes or hours: `12 s`, `10 min`, `2.0 h`.
#[must_use]
pub fn waiting(seconds: f64) -> String {
    match seconds {
        5_400.0.. => format!("{:.1} h", seconds / 3_600.0),
        90.0.. => format!("{:.0} min", seconds / 60.0),
        _ => format!("{seconds:.0} s"),
    }
}

/// Writes a part of a whole: `0`, `1.20%`, `1.0e-5`.
#[must_use]
pub fn percent(part: f64) -> String {
    match part {
        0.0 => "0".to_owned(),
        0.001.. => format!("{:.2}%", part * 100.0),
        _ => format!("{part:.1e}"),
    }
}

/// Writes a count and its noun: `1 seed`, `3 seeds`.
#[must_use]
pub fn counted<T: Display + PartialEq + From<u8>>(count: T, noun: &str) -> String {
    let plural = if count == T::from(1) { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Writes a whole number with commas between its thousands; a half, which a median may end in, is rounded.
#[must_use]
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a value in the largest unit that does not leave less than 1.
fn scaled(value: f64, base: f64, units: [&str; UNITS]) -> String {
    let exponent = exponent(value, base);
    format!("{} {}", digits(value, base, exponent), units[exponent])
}

/// Returns the index of the largest unit that does not leave less than 1.
fn exponent(mut value: f64, base: f64) -> usize {
    let mut exponent = 0;
    while value >= base && exponent + 1 < UNITS {
        value /= base;
        exponent += 1;
    }
    exponent
}

/// Writes a value in a unit: as a whole number in the first, with three digits in the others.
fn digits(value: f64, base: f64, exponent: usize) -> String {
    let value = (0..exponent).fold(value, |value, _| value / base);
    match value {
        _ if exponent == 0 => format!("{value:.0}"),
        0.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_decimal_and_sizes_are_binary() {
        assert_eq!(rate(999.0), "999 bit/s");
        assert_eq!(rate(1_000.0), "1.00 kbit/s");
        assert_eq!(rate(12_345_678.0), "12.3 Mbit/s");
        assert_eq!(rate_range(912e6, 1.2e9), "0.91 – 1.20 Gbit/s");
        assert_eq!(rate_range(0.0, 7.0), "0 – 7 bit/s");
        assert_eq!(size(1_024.0), "1.00 KiB");
        assert_eq!(size(128.0 * 1_024.0), "128 KiB");
        assert_eq!(decimal_size(2_500_000), "2.50 MB");
        assert_eq!(decimal_size(999), "999 B");
    }

    #[test]
    fn a_size_is_exact_or_has_two_digits_at_least() {
        assert_eq!(
            [exact_size(1 << 20), exact_size(212_992), exact_size(1_000)],
            ["1 MiB", "208 KiB", "1000 bytes"]
        );
        assert_eq!([exact_size(10_240), exact_size(10_000)], ["10 KiB", "10000 bytes"]);
    }

    #[test]
    fn times_have_the_unit_that_leaves_three_digits() {
        assert_eq!(seconds(0.000_009_697), "9.70 µs");
        assert_eq!(seconds(0.000_000_5), "500 ns");
        assert_eq!(seconds(90.0), "90.0 s");
        assert_eq!([12.2, 600.0, 7_200.0].map(waiting), ["12 s", "10 min", "2.0 h"]);
    }

    #[test]
    fn parts_counts_and_thousands() {
        assert_eq!([percent(0.0), percent(0.012), percent(1e-5)], ["0", "1.20%", "1.0e-5"]);
        assert_eq!([counted(1_u32, "flow"), counted(2_u64, "flow")], ["1 flow", "2 flows"]);
        for (value, text) in [(0.0, "0"), (999.0, "999"), (1_000.0, "1,000"), (1_234_567.5, "1,234,568")] {
            assert_eq!(grouped(value), text);
        }
    }
}
