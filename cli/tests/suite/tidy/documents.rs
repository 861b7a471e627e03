//! Paths, links and the glossary of the documents.

use super::*;

/// Folders of the documents.
const FOLDERS: [&str; 3] = ["", "docs", "docs/internals"];

/// Returns the documents, with their paths relative to the workspace.
fn documents() -> Vec<SourceFile> {
    let root = root();
    let in_folder = |folder: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(root.join(folder)).unwrap();
        let names = entries.map(|entry| PathBuf::from(entry.unwrap().file_name()));
        names
            .filter(|name| name.extension().is_some_and(|ext| ext == "md"))
            .map(|name| Path::new(folder).join(name))
            .collect()
    };
    let mut paths: Vec<PathBuf> = FOLDERS.into_iter().flat_map(in_folder).collect();
    paths.sort();
    assert!(paths.len() > 4, "only {paths:?} were found");
    let read = |path: PathBuf| SourceFile { text: fs::read_to_string(root.join(&path)).unwrap(), path };
    paths.into_iter().map(read).collect()
}

/// Returns the anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if is_code || heading == line || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        anchors.insert(kept.collect::<String>().to_lowercase().replace(' ', "-"));
    }
    anchors
}

/// Paths between backticks lead somewhere, from the workspace's folder.
#[test]
fn the_documents_name_files_that_exist() {
    let root = root();
    let folders: Vec<String> = fs::read_dir(&root)
        .unwrap()
        .filter_map(|entry| entry.ok().filter(|entry| entry.path().is_dir())?.file_name().into_string().ok())
        .filter(|folder| folder != "target")
        .collect();
    let mut offenders = Vec::new();
    for document in documents() {
        for (number, line) in document.text.lines().enumerate() {
            let quoted = line.split('`').skip(1).step_by(2);
            let missing = quoted.filter(|path| {
                let is_path = path.split_once('/').is_some_and(|(first, _)| folders.iter().any(|known| known == first));
                is_path && !path.contains([' ', '*', '{', '<']) && !root.join(path).exists()
            });
            offenders.extend(missing.map(|path| format!("{}: {path}", document.at(number))));
        }
    }
    assert_none(&offenders, "correct the path");
}

/// Links between documents lead to files, and to headings in them.
#[test]
fn the_documents_link_to_files_and_headings_that_exist() {
    let mut offenders = Vec::new();
    for document in documents() {
        let folder = root().join(document.path.parent().unwrap());
        for (number, line) in document.text.lines().enumerate() {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            for (target, _) in targets.filter(|(target, _)| !target.contains("://")) {
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                let text = match path {
                    "" => Ok(document.text.clone()),
                    path => fs::read_to_string(folder.join(path)),
                };
                if !text.is_ok_and(|text| anchor.is_empty() || anchors(&text).contains(anchor)) {
                    offenders.push(format!("{}: {target}", document.at(number)));
                }
            }
        }
    }
    assert_none(&offenders, "correct the link");
}

/// Each row of the glossary names types and the file that defines them.
#[test]
fn the_glossary_names_types_where_they_are() {
    let root = root();
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, glossary) = text.split_once("## Glossary").expect("a glossary");
    let (glossary, _) = glossary.split_once("\n## ").expect("a section after the glossary");
    let mut offenders = Vec::new();
    for row in glossary.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, _, types, file, ..] = cells[..] else { panic!("{row}") };
        let Some(file) = file.strip_prefix('`').and_then(|file| file.strip_suffix('`')) else { continue };
        let source = fs::read_to_string(root.join(file)).unwrap_or_default();
        for name in types.split('`').skip(1).step_by(2).filter_map(|path| path.rsplit("::").next()) {
            if !source.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name) {
                offenders.push(format!("ARCHITECTURE.md: `{name}` is not in {file}"));
            }
        }
    }
    assert_none(&offenders, "correct the glossary");
}

/// Each row of "Where to find it" names files and, in brackets, the functions, types, constants and fields that they define.
#[test]
fn the_places_are_where_the_table_says() {
    const DEFINED_BY: [&str; 10] =
        ["fn", "const", "static", "struct", "enum", "trait", "type", "pub", "crate", "super"];
    let root = root();
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, places) = text.split_once("## Where to find it").expect("a table of places");
    let (places, _) = places.split_once("\n## ").expect("a section after the places");
    let mut offenders = Vec::new();
    for row in places.lines().filter(|line| line.starts_with('|')) {
        let mut rest = row;
        while let Some((_, after)) = rest.split_once('`') {
            let Some((file, after)) = after.split_once('`') else { break };
            rest = after;
            let Some(names) =
                after.strip_prefix(" (").filter(|_| Path::new(file).extension().is_some_and(|end| end == "rs"))
            else {
                continue;
            };
            let source = fs::read_to_string(root.join(file)).unwrap_or_default();
            let (names, _) = names.split_once(')').unwrap_or((names, ""));
            for name in names.split('`').skip(1).step_by(2).filter_map(|path| path.rsplit("::").next()) {
                let words: Vec<&str> = source.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
                if !words.windows(2).any(|pair| pair[1] == name && DEFINED_BY.contains(&pair[0])) {
                    offenders.push(format!("ARCHITECTURE.md: {file} does not define `{name}`"));
                }
            }
        }
    }
    assert_none(&offenders, "correct the table of places");
}
