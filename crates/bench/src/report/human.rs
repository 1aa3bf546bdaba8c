//! Numbers and times as people read them.

use std::time::Duration;

/// `1.5 MiB`; exact below 1 KiB.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be printed as 1024.0: take the next unit before that.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `4 MiB`, `1.5 KiB`: like [`bytes`], without a fraction that is nothing.
pub fn size(n: u64) -> String {
    bytes(n).replace(".0 ", " ")
}

/// `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 file`, `2 files`.
pub fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// `2days 3h`: the two largest units.
pub fn duration(d: Duration) -> String {
    let text = humantime::format_duration(Duration::from_secs(d.as_secs())).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// A measured number to three significant digits: `1,234,568`, `123`, `12.3`, `1.23`, `0.0123`. Not a finite number: `-`.
pub fn measured(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return "0".to_owned();
    }
    if magnitude >= 99.95 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", count(magnitude.round() as u64));
    }
    // 9.996 is printed with as many digits as 10.0: by what it becomes, not by what it is.
    let digits = if magnitude >= 9.995 {
        1
    } else if magnitude >= 0.9995 {
        2
    } else {
        let leading = (-magnitude.log10().floor()) as usize;
        leading.saturating_add(2).min(9)
    };
    format!("{value:.digits$}")
}

/// A short time: `850 ns`, `12.3 µs`, `4.56 ms`, `1.23 s`, `3m 20s`.
pub fn latency(d: Duration) -> String {
    let seconds = d.as_secs_f64();
    if seconds >= 119.5 {
        return duration(d);
    }
    let (scale, unit) = match seconds {
        s if s >= 0.9995 => (1.0, "s"),
        s if s >= 0.000_999_5 => (1e3, "ms"),
        s if s >= 0.000_000_999_5 => (1e6, "µs"),
        _ => return format!("{} ns", d.as_nanos()),
    };
    format!("{} {unit}", measured(seconds * scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_the_unit_that_fits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(size(4 << 20), "4 MiB");
        assert_eq!(size(1536), "1.5 KiB");
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(7), "7");
        assert_eq!(count(123), "123");
        assert_eq!(count(1_234), "1,234");
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn durations_are_short() {
        assert_eq!(duration(Duration::from_secs(0)), "0s");
        assert_eq!(duration(Duration::from_secs(3_725)), "1h 2m");
    }

    #[test]
    fn measured_numbers_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (0.999_6, "1.00"),
            (1.234, "1.23"),
            (9.996, "10.0"),
            (12.34, "12.3"),
            (99.96, "100"),
            (1_234.5, "1,235"),
            (-5.0, "-5.00"),
            (f64::NAN, "-"),
            (1e-30, "0.000000000"),
        ] {
            assert_eq!(measured(value), text);
        }
    }

    #[test]
    fn latencies_take_the_unit_that_fits() {
        for (nanos, text) in [
            (850, "850 ns"),
            (999_999, "1.00 ms"),
            (12_345, "12.3 µs"),
            (4_560_000, "4.56 ms"),
            (1_230_000_000, "1.23 s"),
            (200_000_000_000, "3m 20s"),
        ] {
            assert_eq!(latency(Duration::from_nanos(nanos)), text);
        }
    }
}
