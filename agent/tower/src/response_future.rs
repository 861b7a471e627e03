//! Future of a response: waiting for the agent, or for the server.
//!
//! Most requests are decided before their future exists. The state of a request that waits is boxed, because others would have
//! room for it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tollgate::{Admission, http_response};
use tower_service::Service;

use crate::denied_response::DeniedResponse;
use crate::request_limits::RequestLimits;
use crate::response_body::ResponseBody;

const POLLED_AGAIN: &str = "a future is not polled after its end";

/// Wait for the admission or the denial of a request.
pub(crate) type Admitting = Pin<Box<dyn Future<Output = Result<Admission, DeniedResponse>> + Send>>;

pin_project! {
    /// Future of the response of [`RateLimit`](crate::RateLimit).
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        limits: Arc<RequestLimits>,
        #[pin]
        progress: RequestProgress<S, B>,
    }
}

pin_project! {
    #[project = ProgressProjection]
    enum RequestProgress<S, B>
    where
        S: Service<Request<B>>,
    {
        Waiting { admitting: Admitting, next: Option<(S, Request<B>)> },
        Admitted { #[pin] response: S::Future, admission: Option<Admission> },
        Denied { response: Option<DeniedResponse> },
    }
}

impl<S: Service<Request<B>>, B> ResponseFuture<S, B> {
    pub(crate) fn waiting(limits: Arc<RequestLimits>, admitting: Admitting, next: (S, Request<B>)) -> Self {
        Self { limits, progress: RequestProgress::Waiting { admitting, next: Some(next) } }
    }

    pub(crate) fn admitted(limits: Arc<RequestLimits>, response: S::Future, admission: Admission) -> Self {
        Self { limits, progress: RequestProgress::Admitted { response, admission: Some(admission) } }
    }

    pub(crate) fn denied(limits: Arc<RequestLimits>, response: DeniedResponse) -> Self {
        Self { limits, progress: RequestProgress::Denied { response: Some(response) } }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<ResponseBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut future = self.project();
        loop {
            let progress = match future.progress.as_mut().project() {
                ProgressProjection::Waiting { admitting, next } => match ready!(admitting.as_mut().poll(context)) {
                    Ok(admission) => {
                        let (mut inner, request) = next.take().expect(POLLED_AGAIN);
                        RequestProgress::Admitted { response: inner.call(request), admission: Some(admission) }
                    }
                    Err(response) => RequestProgress::Denied { response: Some(response) },
                },
                ProgressProjection::Admitted { response, admission } => {
                    let mut response = ready!(response.poll(context))?;
                    let Admission { decision, permit, .. } = admission.take().expect(POLLED_AGAIN);
                    response.headers_mut().extend(http_response::headers(&decision, future.limits.agent.node()));
                    return Poll::Ready(Ok(response.map(|body| ResponseBody::admitted(body, permit))));
                }
                ProgressProjection::Denied { response } => {
                    let response = response.take().expect(POLLED_AGAIN);
                    return Poll::Ready(Ok(response.map(ResponseBody::denied)));
                }
            };
            future.progress.set(progress);
        }
    }
}
