//! Body of a response: the server's own with the slots of its call, or a denial.
//!
//! It is an enum, because a boxed body costs an allocation for each response.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use pin_project_lite::pin_project;
use tollgate::Permit;

pin_project! {
    /// Body of a response of [`RateLimit`](crate::RateLimit). Its end, or its drop, releases the slots of the call.
    pub struct ResponseBody<B> {
        #[pin]
        content: Content<B>,
    }
}

pin_project! {
    #[project = ContentProjection]
    enum Content<B> {
        Admitted { #[pin] body: B, permit: Option<Permit> },
        Denied { #[pin] body: Full<Bytes> },
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn admitted(body: B, permit: Option<Permit>) -> Self {
        Self { content: Content::Admitted { body, permit } }
    }

    pub(crate) fn denied(body: Full<Bytes>) -> Self {
        Self { content: Content::Denied { body } }
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.project().content.project() {
            ContentProjection::Admitted { body, permit } => {
                let frame = ready!(body.poll_frame(context));
                if !matches!(frame, Some(Ok(_))) {
                    *permit = None;
                }
                Poll::Ready(frame)
            }
            ContentProjection::Denied { body } => {
                body.poll_frame(context).map(|frame| frame.map(|frame| frame.map_err(|never| match never {})))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Admitted { body, .. } => body.is_end_stream(),
            Content::Denied { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Admitted { body, .. } => body.size_hint(),
            Content::Denied { body } => body.size_hint(),
        }
    }
}
