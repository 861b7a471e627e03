//! Manifests of `ConfigMap`s, in which configurations for Kubernetes are kept: each key of `data` is a file.

use crate::import::findings::Foreign;
use crate::yaml::{YamlReader, scalar};

/// Returns true if a file is one of envoyproxy/ratelimit, or a manifest that may contain some.
#[must_use]
pub fn is_envoy(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("domain:") || line.trim_end() == "kind: ConfigMap")
}

/// Returns the files of a manifest, with their names; none if the file is no manifest.
pub(super) fn files_of(file: &Foreign<'_>) -> Option<Vec<(String, String)>> {
    if !file.text.lines().any(|line| line.trim_end() == "kind: ConfigMap") {
        return None;
    }
    let mut reader = YamlReader::new(file.name);
    let document = reader.document(file.text)?;
    let fields = reader.mapping(&document, "the manifest");
    let data = reader.mapping(fields.get("data")?, "`data`");
    let part = |(key, node)| Some((format!("{}, {key}", file.name), scalar(node)?.to_owned()));
    reader.problems.is_empty().then(|| data.iter().filter_map(part).collect())
}
