//! Requests of gRPC in front of a service: others are refused, and each one must arrive soon.
//!
//! The gRPC library takes any method and any content type. A page in a browser could thus send calls in the body of a form, so the
//! two are checked here. The library also waits for the end of a request without limit, and reserves the length that its frame
//! announces: a client with few bytes could hold much memory for as long as it likes. So a request that has not arrived after
//! [`REQUEST_WAIT`] is refused. A service whose requests are streams without end is served without this.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use futures_util::future::Either;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tower_service::Service;

/// Maximum time from the first look for the body of a request to its end.
const REQUEST_WAIT: Duration = Duration::from_secs(5);
/// Answer to clients that do not speak gRPC.
pub(crate) const NO_GRPC: &str = "this address speaks gRPC; HTTP is on the address of --http\n";

/// Service behind the check.
#[derive(Clone)]
pub(crate) struct GrpcOnly<S>(pub(crate) S);

/// Body that fails if it has not arrived in time.
pub(crate) struct TimedBody {
    body: Body,
    /// Timer, once the body was waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

/// Returns true for requests with a content type of gRPC. The form of `grpc-web` is another one.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.as_bytes().strip_prefix(b"application/grpc"));
    kind.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

impl<S> Service<Request> for GrpcOnly<S>
where
    S: Service<http::Request<TimedBody>, Response = Response<tonic::body::Body>, Error = Infallible>,
{
    type Response = S::Response;
    type Error = Infallible;
    type Future = Either<Ready<Result<Self::Response, Infallible>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        if request.method() != Method::POST {
            let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED);
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            return Either::Left(ready(Ok(response)));
        }
        if !is_grpc(request.headers()) {
            return Either::Left(ready(Ok(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE))));
        }
        Either::Right(self.0.call(request.map(|body| TimedBody { body, timer: None })))
    }
}

fn refusal(status: StatusCode) -> Response<tonic::body::Body> {
    let mut response = Response::new(tonic::body::Body::new(Body::from(NO_GRPC)));
    *response.status_mut() = status;
    response
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame.map(|frame| frame.map_err(|error| Status::from_error(error.into()))));
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(REQUEST_WAIT)));
        timer.as_mut().poll(cx).map(|()| {
            let wait_s = REQUEST_WAIT.as_secs();
            let detail = format!("the request did not arrive within {wait_s} s; send it without delay");
            Some(Err(Status::deadline_exceeded(detail)))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
