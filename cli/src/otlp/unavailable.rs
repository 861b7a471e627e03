//! Export of a binary that is built without the feature `otlp`: there is none, and the flag is refused with the remedy.

use anyhow::bail;
use tollgate::Builder;
use tollgate_command::exit::Usage;

use super::collector_url::CollectorUrl;

/// Export that no value of this type stands for.
pub(crate) enum NoExport {}

impl NoExport {
    /// Refuses the flag.
    pub(super) fn new(url: &CollectorUrl) -> anyhow::Result<Self> {
        bail!(Usage(format!(
            "--otlp {url}: this binary is built without OpenTelemetry; build one with `cargo build --release --features otlp`, or leave --otlp out"
        )))
    }

    pub(super) fn observing(self, _: Builder, _: u32, _: Option<String>) -> (Builder, Option<Self>) {
        match self {}
    }

    pub(crate) fn start(
        self,
        _: &'static str,
        _: &str,
        _: impl Fn() -> String + Send + 'static,
    ) -> anyhow::Result<Self> {
        match self {}
    }

    pub(crate) fn stop(self) {
        match self {}
    }
}
