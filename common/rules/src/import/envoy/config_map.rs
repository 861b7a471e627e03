//! Manifests of `ConfigMap`s, in which configurations for Kubernetes are kept: each key of `data` is a file.

use crate::yaml::{YamlReader, line_of, scalar};

/// Returns true if a file is one of envoyproxy/ratelimit, or a manifest that may contain some.
#[must_use]
pub fn is_envoy(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("domain:")) || is_manifest(text)
}

/// Returns true if a file is a manifest.
pub(super) fn is_manifest(text: &str) -> bool {
    text.lines().any(|line| line.trim_end() == "kind: ConfigMap")
}

/// Returns the files of a manifest, with their names. Each key that is no file is a problem.
pub(super) fn read_manifest(reader: &mut YamlReader<'_>, text: &str) -> Option<Vec<(String, String)>> {
    let document = reader.document(text)?;
    let mut fields = reader.mapping(&document, "the manifest");
    fields.retain(|node| !matches!(scalar(node), Some("" | "null")));
    if let Some(binary) = fields.get("binaryData") {
        for (key, line) in reader.mapping(binary, "`binaryData`").names() {
            let text = format!("`{key}` is under `binaryData`, which is not read; write it as text under `data`");
            reader.refuse(line, text);
        }
    }
    let data = fields.get("data").map(|data| reader.mapping(data, "`data`"));
    let mut files = Vec::new();
    for ((key, node), (_, line)) in data.iter().flat_map(|data| data.iter().zip(data.names())) {
        if let Some(text) = scalar(node) {
            files.push((format!("{}, {key}", reader.file()), text.to_owned()));
        } else {
            let text =
                format!("`{key}` of `data` is no text; write `{key}: |`, and its lines below, as the file of a domain");
            reader.refuse(line, text);
        }
    }
    if files.is_empty() && reader.problems.is_empty() {
        let line = fields.get("data").map_or(fields.line(), line_of);
        let text = "`data` of the manifest is empty, so it limits nothing; write a configuration under it, such as `config.yaml: |`, or remove the manifest";
        reader.warn(line, text);
    }
    Some(files)
}
