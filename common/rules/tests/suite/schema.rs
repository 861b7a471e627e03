//! The schema of the rules file against the rules files of the repository: documents, examples, tests and experiments.

use std::fs;
use std::path::Path;

use boon::{Compiler, Schemas};

/// Collects the texts that may be rules files: YAML files, and blocks of YAML in documents.
fn collect(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect(&path, texts);
            }
        } else if name.ends_with(".yaml") {
            texts.push(fs::read_to_string(&path).unwrap());
        } else if name.ends_with(".md") {
            let page = fs::read_to_string(&path).unwrap();
            let blocks = page.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next());
            texts.extend(blocks.map(str::to_owned));
        }
    }
}

#[test]
fn every_rules_file_of_the_repository_validates() {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("rules.json", tollgate_rules::json_schema()).unwrap();
    let schema = compiler.compile("rules.json", &mut schemas).unwrap();
    let mut texts = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut texts);
    texts.retain(|text| tollgate_rules::from_yaml("rules.yaml", text, 1).is_ok());
    assert!(texts.len() > 15, "{} rules files", texts.len());
    for text in texts {
        let mut document: serde_yaml_ng::Value = serde_yaml_ng::from_str(&text).unwrap();
        document.apply_merge().unwrap();
        let document = serde_json::to_value(document).unwrap();
        schemas.validate(&document, schema).unwrap_or_else(|error| panic!("{text}\n{error:#}"));
    }
}
