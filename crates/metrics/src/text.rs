//! A snapshot in the text forms that Prometheus and its like read.
//!
//! Written here and not by the `prometheus-client` crate: that one encodes metrics that live in its own registry, and OpenMetrics
//! only; here the numbers are in a [`Snapshot`] already, and whoever does not ask for OpenMetrics gets the older form.

use std::fmt::Write;

use crate::{Family, HistogramSnapshot, Kind, Sample, Snapshot, Unit, Value};

/// Nanoseconds in a second.
const NANOS: f64 = 1e9;

/// A form of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// Prometheus' own, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl TextFormat {
    /// The form for a client with this `Accept` header: OpenMetrics if it names it.
    pub fn for_client(accept: Option<&str>) -> Self {
        let open =
            accept.is_some_and(|accept| accept.to_ascii_lowercase().contains("application/openmetrics-text"));
        if open { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

impl Snapshot {
    /// All of it as text. Of a histogram every fourth bucket is told, the powers of two; families without samples are left out.
    pub fn to_text(&self, format: TextFormat) -> String {
        let mut text = String::with_capacity(64 << 10);
        for family in self.families.iter().filter(|family| !family.samples.is_empty()) {
            header(&mut text, family, format);
            for sample in &family.samples {
                told(&mut text, family, sample);
            }
        }
        if format == TextFormat::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }
}

fn header(text: &mut String, family: &Family, format: TextFormat) {
    let kind = match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let unit = match family.unit {
        Unit::None => "",
        Unit::Bytes => "bytes",
        Unit::Seconds => "seconds",
    };
    // In OpenMetrics the family of a counter goes without its suffix.
    let name = match (format, family.kind) {
        (TextFormat::OpenMetrics, Kind::Counter) => {
            family.name.strip_suffix("_total").unwrap_or(&family.name)
        }
        _ => &family.name,
    };
    line(text, format_args!("# HELP {name} {}", escaped(&family.help, format == TextFormat::OpenMetrics)));
    line(text, format_args!("# TYPE {name} {kind}"));
    if format == TextFormat::OpenMetrics && !unit.is_empty() && name.ends_with(&format!("_{unit}")) {
        line(text, format_args!("# UNIT {name} {unit}"));
    }
}

fn told(text: &mut String, family: &Family, sample: &Sample) {
    let (name, labels) = (&family.name, Labels { labels: &sample.labels, bound: None });
    match &sample.value {
        Value::Counter(count) if family.unit == Unit::Seconds => {
            line(text, format_args!("{name}{labels} {}", *count as f64 / NANOS));
        }
        Value::Counter(count) => line(text, format_args!("{name}{labels} {count}")),
        Value::Gauge(value) => line(text, format_args!("{name}{labels} {value}")),
        Value::Histogram(histogram) => told_histogram(text, family, &labels, histogram),
    }
}

fn told_histogram(text: &mut String, family: &Family, labels: &Labels<'_>, histogram: &HistogramSnapshot) {
    let name = &family.name;
    let scale = if family.unit == Unit::Seconds { NANOS } else { 1.0 };
    let mut below = 0u64;
    for (bound, count) in histogram.buckets() {
        below = below.saturating_add(count);
        if let Some(bound) = bound.filter(|bound| bound.is_power_of_two()) {
            let labels = Labels { bound: Some(bound as f64 / scale), ..*labels };
            line(text, format_args!("{name}_bucket{labels} {below}"));
        }
    }
    let all = Labels { bound: Some(f64::INFINITY), ..*labels };
    line(text, format_args!("{name}_bucket{all} {below}"));
    line(text, format_args!("{name}_sum{labels} {}", histogram.sum() as f64 / scale));
    line(text, format_args!("{name}_count{labels} {below}"));
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = text.write_fmt(content);
    text.push('\n');
}

/// Labels in braces; nothing if there are none.
struct Labels<'a> {
    labels: &'a [(String, String)],
    /// The label `le` of a bucket.
    bound: Option<f64>,
}

impl std::fmt::Display for Labels<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut separator = '{';
        for (name, value) in self.labels {
            write!(f, "{separator}{name}=\"{}\"", escaped(value, true))?;
            separator = ',';
        }
        if let Some(bound) = self.bound {
            let bound = if bound.is_infinite() { "+Inf".to_owned() } else { float(bound) };
            write!(f, "{separator}le=\"{bound}\"")?;
            separator = ',';
        }
        if separator == ',' { f.write_str("}") } else { Ok(()) }
    }
}

/// A number that reads as one with a fraction, as OpenMetrics wants bounds.
fn float(value: f64) -> String {
    let text = value.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

fn escaped(text: &str, quotes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Collection, Histogram};

    fn sample() -> Snapshot {
        let histogram = Histogram::new();
        for millis in [1, 3, 2_000_000] {
            histogram.record(Duration::from_millis(millis));
        }
        let mut into = Collection::new();
        into.counters("h_sent_bytes_total", "Bytes sent", Unit::Bytes).counter(&[("to", "a\"b\\c\nd")], 7);
        into.gauge("h_waiting", "Those who \"wait\"", Unit::None, 1.5);
        into.counter("h_cpu_seconds_total", "Time", Unit::Seconds, 1_500_000_000);
        into.durations("h_duration_seconds", "How long")
            .histogram(&[("operation", "get")], histogram.snapshot());
        into.counters("h_empty_total", "Nothing", Unit::None);
        Snapshot::new(into)
    }

    #[test]
    fn the_older_form() {
        let text = sample().to_text(TextFormat::Prometheus);
        let lines: Vec<&str> = text.lines().collect();
        for expected in [
            "# HELP h_sent_bytes_total Bytes sent",
            "# TYPE h_sent_bytes_total counter",
            "h_sent_bytes_total{to=\"a\\\"b\\\\c\\nd\"} 7",
            "# HELP h_waiting Those who \"wait\"",
            "h_waiting 1.5",
            "h_cpu_seconds_total 1.5",
            "# TYPE h_duration_seconds histogram",
            "h_duration_seconds_bucket{operation=\"get\",le=\"0.001048576\"} 1",
            "h_duration_seconds_bucket{operation=\"get\",le=\"0.000001024\"} 0",
            "h_duration_seconds_bucket{operation=\"get\",le=\"1099.511627776\"} 2",
            "h_duration_seconds_bucket{operation=\"get\",le=\"+Inf\"} 3",
            "h_duration_seconds_sum{operation=\"get\"} 2000.004",
            "h_duration_seconds_count{operation=\"get\"} 3",
        ] {
            assert!(lines.contains(&expected), "{expected} is missing in\n{text}");
        }
        assert!(!text.contains("h_empty") && !text.contains("EOF") && text.ends_with('\n'));
        assert_eq!(lines.iter().filter(|line| line.contains("_bucket")).count(), 32);
    }

    #[test]
    fn open_metrics() {
        let text = sample().to_text(TextFormat::OpenMetrics);
        for expected in [
            "# TYPE h_sent_bytes counter\n# UNIT h_sent_bytes bytes\nh_sent_bytes_total{",
            "# HELP h_waiting Those who \\\"wait\\\"\n# TYPE h_waiting gauge\nh_waiting 1.5\n",
            "# UNIT h_duration_seconds seconds\n",
        ] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"));
    }

    #[test]
    fn clients_get_what_they_ask_for() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(TextFormat::for_client(Some(prometheus)), TextFormat::OpenMetrics);
        assert_eq!(TextFormat::for_client(Some("*/*")), TextFormat::Prometheus);
        assert_eq!(TextFormat::for_client(None), TextFormat::Prometheus);
    }
}
