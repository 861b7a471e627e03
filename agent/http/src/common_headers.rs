//! Headers of all responses.

use axum::response::Response;
use http::header::{CONNECTION, HeaderValue};
use tollgate::Agent;
use tollgate::http_response::NODE;
use tollgate::store::ChargeStore;

/// Returns a function that adds `X-Gateway-Node` to a response, so that a client can report which node responded. While the agent
/// drains, the connection ends with the response; HTTP/2 has no such header, and its server leaves it out.
pub(crate) fn add_to<S: ChargeStore>(agent: Agent<S>) -> impl Fn(Response) -> Response + Clone {
    let node = HeaderValue::from_str(agent.node()).ok();
    move |mut response| {
        let headers = response.headers_mut();
        if let Some(node) = node.as_ref().filter(|_| !headers.contains_key(NODE)) {
            headers.insert(NODE, node.clone());
        }
        if agent.is_draining() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
