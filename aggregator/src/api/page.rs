//! The page at `/`: static files in the program. It asks `/api/v1`, and shows what that answers.
//!
//! The files are served as they are written: there is no build step, and the page loads nothing from elsewhere.

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::responses::problem;

/// Content security policy: this server's own files only, in no frame of another site.
const POLICY: &str = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

const INDEX: &[u8] = include_bytes!("../../page/index.html");
/// Files by name: type and content.
const FILES: [(&str, &str, &[u8]); 5] = [
    ("style.css", CSS, include_bytes!("../../page/style.css")),
    ("app.js", JAVASCRIPT, include_bytes!("../../page/app.js")),
    ("icon.svg", "image/svg+xml", include_bytes!("../../page/icon.svg")),
    ("uPlot.js", JAVASCRIPT, include_bytes!("../../page/uPlot.js")),
    ("uPlot.css", CSS, include_bytes!("../../page/uPlot.css")),
];

/// Returns the routes of the page.
pub(super) fn page_router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/", get(|| async { file(HTML, INDEX) })).route("/page/{file}", get(named))
}

async fn named(uri: Uri) -> Response {
    let name = uri.path().trim_start_matches("/page/");
    let found = FILES.iter().find(|(of, ..)| *of == name);
    let unknown = || problem(StatusCode::NOT_FOUND, &format!("the page has no file `{name}`; open / instead"));
    found.map_or_else(unknown, |(_, content_type, content)| file(content_type, content))
}

fn file(content_type: &'static str, content: &'static [u8]) -> Response {
    let headers = [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // A newer program has other files of the same names.
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, content).into_response()
}
