//! What is answered to an HTTP request: decided without any I/O.

use headrace_metrics::{Snapshot, TextFormat};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

const PLAIN: &str = "text/plain; charset=utf-8";

/// Answers `request`. The figures are taken down only if they are asked for.
pub fn answer<B>(request: &Request<B>, gather: impl FnOnce() -> Snapshot) -> Response<String> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/metrics" => {
            let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
            let format = TextFormat::for_client(accept);
            let mut response = with(StatusCode::OK, gather().to_text(format), format.content_type());
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        "/" => plain(StatusCode::OK, "headrace: the metrics of this mount are at /metrics\n"),
        _ => plain(StatusCode::NOT_FOUND, "there is only /metrics here\n"),
    }
}

/// The answer to a request for which there is no time.
pub fn too_late() -> Response<String> {
    plain(StatusCode::SERVICE_UNAVAILABLE, "the figures could not be taken down in time\n")
}

fn plain(status: StatusCode, text: &str) -> Response<String> {
    with(status, text.to_owned(), PLAIN)
}

fn with(status: StatusCode, body: String, content_type: &'static str) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use headrace_metrics::{Collection, Unit};

    use super::*;

    fn ask(method: &str, path: &str, accept: Option<&str>) -> Response<String> {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(accept) = accept {
            request = request.header(ACCEPT, accept);
        }
        answer(&request.body(()).unwrap(), || {
            let mut into = Collection::new();
            into.gauge("headrace_orphans", "Some", Unit::None, 3.0);
            Snapshot::new(into)
        })
    }

    #[test]
    fn metrics_come_in_the_form_asked_for() {
        let response = ask("GET", "/metrics?x=1", None);
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[CONTENT_TYPE], TextFormat::Prometheus.content_type());
        assert!(response.body().ends_with("\nheadrace_orphans 3\n"));
        let response = ask("GET", "/metrics", Some("application/openmetrics-text;version=1.0.0"));
        assert_eq!(response.headers()[CONTENT_TYPE], TextFormat::OpenMetrics.content_type());
        assert!(response.body().ends_with("# EOF\n"));
    }

    #[test]
    fn nothing_else_is_here() {
        assert_eq!(ask("GET", "/etc/passwd", None).status(), StatusCode::NOT_FOUND);
        assert_eq!(ask("GET", "/", None).status(), StatusCode::OK);
        for method in ["POST", "PUT", "DELETE", "CONNECT"] {
            assert_eq!(ask(method, "/metrics", None).status(), StatusCode::METHOD_NOT_ALLOWED);
        }
    }
}
