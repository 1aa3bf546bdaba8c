//! Numbers and times as people read them.

use std::time::Duration;

pub use headrace_bench::report::human::{bytes, count, duration, plural};

/// `1.23 ms`: three digits, from `1 ns` to seconds.
pub fn latency(d: Duration) -> String {
    let mut value = d.as_secs_f64() * 1e9;
    let mut unit = "ns";
    for larger in ["µs", "ms", "s"] {
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
    fn latencies_and_rates_have_three_digits() {
        let of = |nanos: u64| latency(Duration::from_nanos(nanos));
        assert_eq!(
            [0, 1, 999, 1000, 9_996, 12_345].map(of),
            ["0.00 ns", "1.00 ns", "999 ns", "1.00 µs", "10.0 µs", "12.3 µs"]
        );
        assert_eq!([999_499, 999_500, 1_234_000_000].map(of), ["999 µs", "1.00 ms", "1.23 s"]);
        assert_eq!(latency(Duration::from_secs(12_345)), "12,345 s");
        assert_eq!([0.0, 0.25, 12.34, 99.96, 1234.5].map(rate), ["0", "0.25", "12.3", "100", "1,235"]);
    }
}
