//! What was counted, as metrics.

use headrace_metrics::{Collection, Unit};

use super::Counted;
use super::operation::Counters;

impl Counted {
    pub(super) fn operations(&self) -> [(&'static str, &Counters); 6] {
        [
            ("get", &self.get),
            ("put", &self.put),
            ("put_if_absent", &self.put_if_absent),
            ("head", &self.head),
            ("delete", &self.delete),
            ("list", &self.list),
        ]
    }

    pub(super) fn tell(&self, into: &mut Collection) {
        let all: Vec<_> =
            self.operations().map(|(name, counters)| (name, counters, counters.snapshot())).into();

        let help = "Requests to the store that were begun; those that are tried again count once";
        let mut family = into.counters("headrace_store_requests_total", help, Unit::None);
        for (name, _, stats) in &all {
            family.counter(&[("operation", name)], stats.requests);
        }
        let help = "From the beginning of a request to its end, with its body and with what was tried again";
        let mut family = into.durations("headrace_store_request_duration_seconds", help);
        for (name, counters, _) in &all {
            family.histogram(&[("operation", name)], counters.durations());
        }
        let help = "Requests that failed for good; an object that is not there is an answer and none of them";
        let mut family = into.counters("headrace_store_errors_total", help, Unit::None);
        for (name, counters, _) in &all {
            for (kind, count) in counters.errors().filter(|(_, count)| *count > 0) {
                family.counter(&[("operation", name), ("kind", kind.name())], count);
            }
        }
        let help = "Requests that were given up by those who made them";
        let mut family = into.counters("headrace_store_cancelled_total", help, Unit::None);
        for (name, _, stats) in &all {
            family.counter(&[("operation", name)], stats.cancelled);
        }
        let help = "Requests under way";
        let mut family = into.gauges("headrace_store_in_flight_requests", help, Unit::None);
        for (name, _, stats) in &all {
            family.gauge(&[("operation", name)], stats.in_flight as f64);
        }
        let help = "Bytes asked for or given by requests under way, where their number is known before";
        let mut family = into.gauges("headrace_store_in_flight_bytes", help, Unit::Bytes);
        for (name, counters, _) in &all {
            family.gauge(&[("operation", name)], counters.in_flight_bytes() as f64);
        }
        let help = "Bytes of objects read, each request counted when it is complete";
        into.counter("headrace_store_received_bytes_total", help, Unit::Bytes, self.get.snapshot().bytes);
        let sent = self.put.snapshot().bytes.saturating_add(self.put_if_absent.snapshot().bytes);
        let help = "Bytes of objects written, each request counted when it is complete";
        into.counter("headrace_store_sent_bytes_total", help, Unit::Bytes, sent);
        let help = "Objects that lists have named";
        into.counter("headrace_store_listed_objects_total", help, Unit::None, self.list.snapshot().objects);
        let help = "For how long all requests hold off, because the store asked for fewer";
        let paused = self.health().paused_ms as f64 / 1000.0;
        into.gauge("headrace_store_pause_seconds", help, Unit::Seconds, paused);
    }
}
