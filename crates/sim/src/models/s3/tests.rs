use super::*;
use headrace_flow::reading::FileId;

const MIB: u64 = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

fn get(fetch: u64, file: u64, length: u64) -> Get {
    Get { endpoint: 0, fetch: FetchId(fetch), file: FileId(file), range: 0..length }
}

fn exact(latency: f64, rate: u64) -> Endpoint {
    let mut endpoint = Endpoint::plain(latency, rate);
    endpoint.first_byte.sigma = 0.0;
    endpoint
}

/// All that happens until nothing happens any more, with its times.
fn run(service: &mut Service) -> Vec<(Duration, Report)> {
    let mut all = Vec::new();
    let mut reports = Vec::new();
    while let Some(at) = service.next_at() {
        service.advance(at, &mut reports);
        all.extend(reports.drain(..).map(|report| (at, report)));
    }
    all
}

fn bytes(reports: &[(Duration, Report)]) -> u64 {
    let of = |report: &Report| if let Progress::Bytes(bytes) = report.progress { bytes } else { 0 };
    reports.iter().map(|(_, report)| of(report)).sum()
}

#[track_caller]
fn ended(reports: &[(Duration, Report)], how: Progress, seconds: f64) {
    let (at, last) = reports.last().expect("something happened");
    assert_eq!(last.progress, how);
    assert!((at.as_secs_f64() / seconds - 1.0).abs() < 1e-3, "ended at {at:?}, not after {seconds} s");
}

#[test]
fn a_get_takes_its_latency_and_its_length_over_its_rate() {
    let mut service = Service::new(vec![exact(0.1, 4 * MIB)], &[100 * MIB], &[], MIB, 1);
    service.submit(Duration::ZERO, get(1, 1, 8 * MIB));
    let reports = run(&mut service);
    assert_eq!(bytes(&reports), 8 * MIB);
    ended(&reports, Progress::Finished, 2.1);
    // The first piece is small: it says when the first byte came.
    assert_eq!(reports[0].1.progress, Progress::Bytes(FIRST_PIECE));
    assert!(reports[0].0.as_secs_f64() < 0.105, "{:?}", reports[0]);
    assert_eq!(service.in_flight(), 0);
}

#[test]
fn an_empty_bucket_answers_503_and_fills_again() {
    let mut endpoint = exact(0.01, 100 * MIB);
    endpoint.throttle = Some(Throttle { rate: 10.0, burst: 5.0, prefixes: 2 });
    let mut service = Service::new(vec![endpoint], &[1000 * MIB], &[], MIB, 1);
    let mut refused = [0, 0];
    let mut reports = Vec::new();
    for fetch in 0..40 {
        // Files 0, 2, 4 ... share a prefix: 10 of them; the other prefix gets 30 requests.
        service.submit(Duration::ZERO, get(fetch, u64::from(fetch >= 10), MIB));
    }
    service.advance(SECOND, &mut reports);
    for report in &reports {
        if report.progress == Progress::Failed(Failure::Throttled) {
            refused[usize::from(report.fetch.0 >= 10)] += 1;
        }
    }
    assert_eq!(refused, [5, 25]);
    service.submit(SECOND, get(99, 1, MIB));
    ended(&run(&mut service), Progress::Finished, 1.02);
}

#[test]
fn a_cut_body_fails_after_some_of_its_bytes() {
    let mut endpoint = exact(0.01, 100 * MIB);
    endpoint.faults =
        vec![Fault { from: Duration::ZERO, until: SECOND, probability: 1.0, kind: FaultKind::Cut }];
    let mut service = Service::new(vec![endpoint], &[1000 * MIB], &[], MIB, 1);
    service.submit(Duration::ZERO, get(1, 1, 64 * MIB));
    let reports = run(&mut service);
    assert!((1..64 * MIB).contains(&bytes(&reports)));
    assert_eq!(reports.last().map(|(_, r)| r.progress), Some(Progress::Failed(Failure::Transient)));
    // Outside of its window the fault is gone.
    service.submit(2 * SECOND, get(2, 1, MIB));
    assert_eq!(run(&mut service).last().map(|(_, r)| r.progress), Some(Progress::Finished));
}

#[test]
fn a_stall_ends_after_its_time_and_a_hang_by_the_idle_timeout() {
    let stall = |length| {
        let mut endpoint = exact(0.1, 10 * MIB);
        endpoint.faults = vec![Fault {
            from: Duration::ZERO,
            until: SECOND,
            probability: 1.0,
            kind: FaultKind::Stall(length),
        }];
        let mut service = Service::new(vec![endpoint], &[1000 * MIB], &[], MIB, 1);
        service.submit(Duration::ZERO, get(1, 1, 10 * MIB));
        run(&mut service)
    };
    let resumed = stall(Some(5 * SECOND));
    assert_eq!(bytes(&resumed), 10 * MIB);
    ended(&resumed, Progress::Finished, 6.1);
    let hung = stall(None);
    let last_byte = hung[hung.len() - 2].0.as_secs_f64();
    ended(&hung, Progress::Failed(Failure::Transient), last_byte + 10.0);
}

#[test]
fn a_cancelled_get_says_what_came_and_is_never_heard_of_again() {
    let mut service = Service::new(vec![exact(0.1, 10 * MIB)], &[1000 * MIB], &[], 4 * MIB, 1);
    service.submit(Duration::ZERO, get(1, 1, 100 * MIB));
    let mut reports = Vec::new();
    let at = Duration::from_millis(1_100);
    service.advance(at, &mut reports);
    let reported: u64 = reports.iter().map(|r| if let Progress::Bytes(b) = r.progress { b } else { 0 }).sum();
    let rest = service.cancel(at, 0, FetchId(1));
    assert!((reported + rest).abs_diff(10 * MIB) <= 2, "{reported} + {rest}");
    assert!(run(&mut service).is_empty());
}

#[test]
fn latency_steps_hold_from_their_time_on() {
    let mut endpoint = exact(0.1, 100 * MIB);
    endpoint.latency_steps =
        vec![LatencyStep { at: SECOND, factor: 10.0 }, LatencyStep { at: 3 * SECOND, factor: 1.0 }];
    let factors = [0.5, 1.0, 2.9, 3.0].map(|at| endpoint.latency_factor(Duration::from_secs_f64(at)));
    assert_eq!(factors, [1.0, 10.0, 10.0, 1.0]);
}

#[test]
fn the_tail_is_as_heavy_as_said() {
    let first = FirstByte { median: 0.02, sigma: 0.3, tail: 0.01, tail_from: 0.2, tail_alpha: 1.5 };
    let mut random = Random::new(5);
    let mut draws: Vec<f64> = (0..400_000).map(|_| first.draw(&mut random)).collect();
    draws.sort_by(f64::total_cmp);
    let above = |limit: f64| draws.iter().filter(|&&d| d > limit).count() as f64 / draws.len() as f64;
    assert!((above(0.2) / 0.01 - 1.0).abs() < 0.05, "{}", above(0.2));
    // Four times as far in a tail of exponent 1.5: an eighth of it.
    assert!((above(0.8) / 0.00125 - 1.0).abs() < 0.15, "{}", above(0.8));
    let mean = draws.iter().sum::<f64>() / draws.len() as f64;
    assert!((mean / first.mean() - 1.0).abs() < 0.05, "{mean} is not {}", first.mean());
}
