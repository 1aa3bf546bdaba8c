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

/// `1.23 ms`: three digits, from `1 ns` to seconds.
pub fn latency(d: Duration) -> String {
    let mut value = d.as_secs_f64() * 1e9;
    let mut unit = "ns";
    for larger in ["us", "ms", "s"] {
        // 999.5 would be printed as 1000: take the next unit before that.
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    format!("{} {unit}", three_digits(value))
}

/// `12.3 s`, `5m 12s`.
pub fn seconds(seconds: f64) -> String {
    match Duration::try_from_secs_f64(seconds) {
        Ok(d) if d < Duration::from_secs(60) => format!("{:.1} s", d.as_secs_f64()),
        Ok(d) => duration(d),
        Err(_) => "-".to_owned(),
    }
}

/// How many a second: `0`, `0.25`, `12.3`, `12,345`.
pub fn rate(per_second: f64) -> String {
    if per_second == 0.0 { "0".to_owned() } else { three_digits(per_second) }
}

fn three_digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        // Converts to the nearest there is.
        v => count(v.round() as u64),
    }
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
    fn latencies_and_rates_have_three_digits() {
        let of = |nanos: u64| latency(Duration::from_nanos(nanos));
        assert_eq!(
            [0, 1, 999, 1000, 9_996, 12_345].map(of),
            ["0.00 ns", "1.00 ns", "999 ns", "1.00 us", "10.0 us", "12.3 us"]
        );
        assert_eq!([999_499, 999_500, 1_234_000_000].map(of), ["999 us", "1.00 ms", "1.23 s"]);
        assert_eq!(latency(Duration::from_secs(12_345)), "12,345 s");
        assert_eq!([0.0, 0.25, 12.34, 99.96, 1234.5].map(rate), ["0", "0.25", "12.3", "100", "1,235"]);
    }
}
