//! Quantities as text for people.

/// Writes a rate in decimal units.
pub(crate) fn rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, 1_000.0, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

/// Writes a size in binary units.
pub(crate) fn bytes(bytes: f64) -> String {
    scaled(bytes, 1_024.0, ["B", "KiB", "MiB", "GiB", "TiB"])
}

/// Writes a time of so many seconds in the unit that leaves a number to be grasped.
pub(crate) fn seconds(seconds: f64) -> String {
    scaled(seconds * 1e9, 1_000.0, ["ns", "µs", "ms", "s", "ks"])
}

/// Writes how many there are of something.
pub(crate) fn counted(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Writes a whole number with its thousands apart; half of one, which medians may end in, is rounded.
pub(crate) fn grouped(value: f64) -> String {
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

/// Writes a value of a row in its unit.
pub(crate) fn value(value: f64, unit: &str) -> String {
    match unit {
        "bit/s" => rate(value),
        "s" => seconds(value),
        "1/s" => format!("{} /s", grouped(value)),
        unit => format!("{value:.3} {unit}"),
    }
}

fn scaled(mut value: f64, base: f64, units: [&str; 5]) -> String {
    let mut unit = 0;
    while value >= base && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    match value {
        _ if unit == 0 => format!("{value:.0} {}", units[0]),
        0.0..10.0 => format!("{value:.2} {}", units[unit]),
        10.0..100.0 => format!("{value:.1} {}", units[unit]),
        _ => format!("{value:.0} {}", units[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_decimal_sizes_binary_and_times_grasped() {
        assert_eq!(rate(999.0), "999 bit/s");
        assert_eq!(rate(1_000.0), "1.00 kbit/s");
        assert_eq!(rate(12_345_678.0), "12.3 Mbit/s");
        assert_eq!(bytes(1_024.0), "1.00 KiB");
        assert_eq!(bytes(128.0 * 1_024.0), "128 KiB");
        assert_eq!(seconds(0.000_009_697), "9.70 µs");
        assert_eq!(seconds(0.000_000_5), "500 ns");
        assert_eq!(seconds(90.0), "90.0 s");
        assert_eq!(value(1.0, "%"), "1.000 %");
        assert_eq!(value(791_676.1, "1/s"), "791,676 /s");
    }

    #[test]
    fn thousands_stand_apart() {
        for (value, text) in [(0.0, "0"), (999.0, "999"), (1_000.0, "1,000"), (1_234_567.5, "1,234,568")] {
            assert_eq!(grouped(value), text);
        }
    }
}
