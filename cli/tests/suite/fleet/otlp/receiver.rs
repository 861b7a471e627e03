//! Receiver of OTLP over HTTP, which decodes what it gets by the messages of OpenTelemetry.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use prost::Message;
use tollgate_servers::free_port;

use super::proto::opentelemetry::proto::collector::metrics::v1::ExportMetricsServiceRequest;
use super::proto::opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
use super::proto::opentelemetry::proto::common::v1::KeyValue;
use super::proto::opentelemetry::proto::common::v1::any_value::Value;
use super::proto::opentelemetry::proto::metrics::v1::Metric;
use super::proto::opentelemetry::proto::resource::v1::Resource;
use super::proto::opentelemetry::proto::trace::v1::Span;

/// Running receiver.
pub(super) struct Receiver {
    pub(super) port: u16,
    telemetry: Arc<Mutex<Telemetry>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// All that a receiver has got.
#[derive(Clone, Default)]
pub(super) struct Telemetry {
    pub(super) spans: Vec<Span>,
    /// Metrics of each request.
    pub(super) metrics: Vec<Vec<Metric>>,
    pub(super) resources: Vec<Resource>,
}

impl Receiver {
    pub(super) fn start() -> Self {
        let mut receiver = Self { port: free_port(), telemetry: Arc::default(), stop: Arc::default(), thread: None };
        receiver.restart();
        receiver
    }

    /// Receives again, at the same port.
    pub(super) fn restart(&mut self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).expect("the port is free");
        let (telemetry, stop) = (self.telemetry.clone(), self.stop.clone());
        stop.store(false, Ordering::Relaxed);
        self.thread = Some(std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                telemetry.lock().receive(stream.expect("a connection"));
            }
        }));
    }

    /// Closes the port.
    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        self.thread.take().expect("it runs").join().expect("it has understood all requests");
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn telemetry(&self) -> Telemetry {
        self.telemetry.lock().clone()
    }
}

impl Telemetry {
    /// Takes one request and answers it.
    fn receive(&mut self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).expect("a head");
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_ascii_lowercase()),
            }
        }
        // A caller that stops leaves a connection without a request.
        let Some(first) = head.first() else { return };
        let header = |name: &str| head.iter().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        assert_eq!(header("content-type:"), "application/x-protobuf");
        let mut body = vec![0; header("content-length:").parse().expect("a length")];
        stream.read_exact(&mut body).expect("a body");
        match &**first {
            "post /v1/traces http/1.1" => {
                let request = ExportTraceServiceRequest::decode(&*body).expect("spans");
                for of_resource in request.resource_spans {
                    self.resources.extend(of_resource.resource);
                    self.spans.extend(of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans));
                }
            }
            "post /v1/metrics http/1.1" => {
                let request = ExportMetricsServiceRequest::decode(&*body).expect("metrics");
                for of_resource in request.resource_metrics {
                    self.resources.extend(of_resource.resource);
                    let metrics = of_resource.scope_metrics.into_iter().flat_map(|of_scope| of_scope.metrics);
                    self.metrics.push(metrics.collect());
                }
            }
            other => panic!("{other}"),
        }
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        stream.get_mut().write_all(answer.as_bytes()).expect("it waits for the answer");
    }
}

/// Returns the value of an attribute that is a text; empty if there is none.
pub(super) fn text<'a>(attributes: &'a [KeyValue], key: &str) -> &'a str {
    let value = attributes.iter().find(|attribute| attribute.key == key).and_then(|found| found.value.as_ref());
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text,
        _ => "",
    }
}
