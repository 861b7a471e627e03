//! Modules of a crate, the imports between their files, and the circles of these imports.
//!
//! An import leads to the file that defines the item, and to each file that passes the item on by a re-export, except those around
//! the importing module. If all imports go to modules before, in the order of `mod` lines, a circle can only close in a file that
//! declares modules: it imports one of them, and is imported by it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::slice::from_ref;

use super::source::{ItemPath, Source};

/// Names of the modules from the root of a crate down to one module.
type ModulePath = Vec<String>;

/// Modules of a crate that have files of their own.
pub(super) struct Modules(BTreeMap<ModulePath, Module>);

struct Module {
    file: PathBuf,
    source: Source,
}

/// Import of an item that another file defines or passes on.
struct Import<'m> {
    from: &'m [String],
    to: &'m [String],
    path: &'m ItemPath,
}

impl Modules {
    /// Reads a crate from its root file. `read` returns the text of a file, if there is one.
    pub(super) fn read(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Self {
        let mut modules = Self(BTreeMap::new());
        let text = read(root).unwrap_or_else(|| panic!("{} is no file", root.display()));
        modules.add(Vec::new(), root, &text, read);
        modules
    }

    fn add(&mut self, path: ModulePath, file: &Path, text: &str, read: &dyn Fn(&Path) -> Option<String>) {
        let source = Source::read(text);
        let is_folder = path.is_empty() || file.ends_with("mod.rs");
        let folder =
            if is_folder { file.parent().expect("a file is in a folder").to_owned() } else { file.with_extension("") };
        for name in &source.modules {
            let files = [folder.join(name).with_extension("rs"), folder.join(name).join("mod.rs")];
            let found = files.iter().find_map(|file| Some((file, read(file)?)));
            let (file, text) = found.unwrap_or_else(|| panic!("{}: module {name} has no file", file.display()));
            self.add([&path[..], from_ref(name)].concat(), file, &text, read);
        }
        self.0.insert(path, Module { file: file.to_owned(), source });
    }

    /// Returns a sentence for each import of a module that stands later, and for each circle.
    pub(super) fn faults(&self) -> Vec<String> {
        let imports = self.imports();
        let fault = |import: &Import<'_>| self.against_order(import).or_else(|| self.circle(import, &imports));
        // Several imports by one path are one fault.
        let faults: BTreeSet<String> = imports.iter().filter_map(fault).collect();
        faults.into_iter().collect()
    }

    /// Returns the imports of all files, one for each two files.
    fn imports(&self) -> Vec<Import<'_>> {
        let mut imports: BTreeMap<[&[String]; 2], &ItemPath> = BTreeMap::new();
        let mut passed = Vec::new();
        for (from, Module { source, .. }) in &self.0 {
            for path in source.imports.iter().map(|(_, path)| path).chain(&source.paths) {
                let defining = self.defining(from, path, &mut passed);
                // The files around a module pass items on to it. They do not count as their imports.
                let passed = passed.drain(..).filter(|module| !from.starts_with(module));
                for to in passed.chain(defining).filter(|to| to != from) {
                    imports.entry([from, to]).or_insert(path);
                }
            }
        }
        imports.into_iter().map(|([from, to], path)| Import { from, to, path }).collect()
    }

    /// Returns the module that defines the item of a path in a file; nothing for an item of another crate. The modules that
    /// import the item and pass it on are added to a list.
    fn defining<'m>(
        &'m self,
        from: &'m [String],
        path: &[String],
        passed: &mut Vec<&'m [String]>,
    ) -> Option<&'m [String]> {
        let (first, rest) = path.split_first()?;
        match &**first {
            "crate" => self.defining_in(&[], rest, passed),
            "self" => self.defining_in(from, rest, passed),
            "super" => self.defining_in(from, path, passed),
            name => {
                let source = &self.0[from].source;
                let is_renamed = source.import(name).is_some_and(|import| import.first() != Some(first));
                let is_known = source.modules.contains(first) || is_renamed;
                if is_known { self.defining_in(from, path, passed) } else { None }
            }
        }
    }

    /// Returns the module that defines an item which is named by its path from another module.
    fn defining_in<'m>(
        &'m self,
        module: &[String],
        path: &[String],
        passed: &mut Vec<&'m [String]>,
    ) -> Option<&'m [String]> {
        let (module, Module { source, .. }) = self.0.get_key_value(module)?;
        let Some((first, rest)) = path.split_first() else { return Some(module) };
        if first == "super" {
            let (_, parent) = module.split_last()?;
            return self.defining_in(parent, rest, passed);
        }
        if source.modules.contains(first) {
            return self.defining_in(&[module, from_ref(first)].concat(), rest, passed);
        }
        match source.import(first) {
            Some(import) => {
                passed.push(module);
                self.defining(module, &[import, rest].concat(), passed)
            }
            None => Some(module),
        }
    }

    fn against_order(&self, Import { from, to, path }: &Import<'_>) -> Option<String> {
        let common = from.iter().zip(*to).take_while(|(a, b)| a == b).count();
        let (earlier, later) = (from.get(common)?, to.get(common)?);
        let declaring = &self.0[&from[..common]];
        let place = |name| declaring.source.modules.iter().position(|known| known == name);
        let fault = || {
            let (file, order) = (self.file(from), declaring.file.display());
            format!("{file}: `{}`, but {later} stands after {earlier} in {order}", path.join("::"))
        };
        (place(later) > place(earlier)).then(fault)
    }

    /// Returns the circle that an import closes, if it is an import of the file that declares the module or one around it.
    fn circle(&self, Import { from, to, path }: &Import<'_>, imports: &[Import<'_>]) -> Option<String> {
        let way = from.starts_with(to).then(|| way(imports, to, from))??;
        let files: Vec<String> = way.into_iter().map(|module| self.file(module)).collect();
        Some(format!("{}: `{}`, but this circle leads back: {}", self.file(from), path.join("::"), files.join(" -> ")))
    }

    fn file(&self, module: &[String]) -> String {
        self.0[module].file.display().to_string()
    }
}

impl Source {
    /// Returns the path of the item that the file imports by this name.
    fn import(&self, name: &str) -> Option<&[String]> {
        self.imports.iter().find(|(known, _)| known == name && name != "*").map(|(_, path)| &path[..])
    }
}

/// Returns the shortest way from one module to another along the imports.
fn way<'m>(imports: &[Import<'m>], from: &'m [String], to: &[String]) -> Option<Vec<&'m [String]>> {
    let (mut ways, mut next) = (vec![vec![from]], 0);
    while let Some(known) = ways.get(next).cloned() {
        let last = known.last().copied()?;
        if last == to {
            return Some(known);
        }
        for import in imports.iter().filter(|import| import.from == last) {
            if ways.iter().all(|way| way.last() != Some(&import.to)) {
                ways.push([&known[..], &[import.to]].concat());
            }
        }
        next += 1;
    }
    None
}

#[test]
fn each_kind_of_circle_is_found() {
    // Name, files with their texts, and the fault; none where imports go one way.
    type Case = (&'static str, &'static [(&'static str, &'static str)], Option<&'static str>);
    let cases: [Case; 9] = [
        (
            "modules in order",
            &[
                ("lib.rs", "mod a; mod b; pub use b::B;"),
                ("a.rs", "pub struct A;"),
                ("b/mod.rs", "mod c; mod d; pub use d::B;"),
                ("b/c.rs", "use crate::a::A;"),
                ("b/d.rs", "use super::c; use tokio::time; pub struct B;"),
            ],
            None,
        ),
        (
            "a later module of the crate",
            &[("lib.rs", "mod a; mod b;"), ("a/mod.rs", "mod c;"), ("a/c.rs", "use crate::b::B;"), ("b.rs", "")],
            Some("a/c.rs: `crate::b::B`, but b stands after a in lib.rs"),
        ),
        (
            "a later module of the folder",
            &[
                ("lib.rs", "mod a;"),
                ("a/mod.rs", "mod b; mod c;"),
                ("a/b.rs", "fn f() { super::c::g() }"),
                ("a/c.rs", "use super::b::{B, C};"),
            ],
            Some("a/b.rs: `super::c::g`, but c stands after b in a/mod.rs"),
        ),
        (
            "a later module of a folder beside a file",
            &[
                ("lib.rs", "mod a;"),
                ("a.rs", "mod b; mod c;"),
                ("a/b/mod.rs", "mod d;"),
                ("a/b/d.rs", "use super::super::{c::C};"),
                ("a/c.rs", ""),
            ],
            Some("a/b/d.rs: `super::super::c::C`, but c stands after b in a.rs"),
        ),
        (
            "a later module behind a re-export",
            &[("lib.rs", "mod a; mod b; pub use b::B;"), ("a.rs", "use crate::B;"), ("b.rs", "")],
            Some("a.rs: `crate::B`, but b stands after a in lib.rs"),
        ),
        (
            "a later module that only passes an item on",
            &[
                ("lib.rs", "mod a; mod b; mod c;"),
                ("a.rs", ""),
                ("b.rs", "use crate::c::A;"),
                ("c.rs", "pub use crate::a::A; use super::b::B;"),
            ],
            Some("b.rs: `crate::c::A`, but c stands after b in lib.rs"),
        ),
        (
            "a parent that uses its child",
            &[("lib.rs", "mod a;"), ("a/mod.rs", "mod b; struct A(b::B);"), ("a/b.rs", "use super::A;")],
            Some("a/b.rs: `super::A`, but this circle leads back: a/mod.rs -> a/b.rs"),
        ),
        (
            "a parent that uses its child by way of another",
            &[
                ("lib.rs", "mod a;"),
                ("a/mod.rs", "mod b; mod c; pub use c::C; pub struct A;"),
                ("a/b.rs", "use crate::a::A;"),
                ("a/c.rs", "use super::b;"),
            ],
            Some("a/b.rs: `crate::a::A`, but this circle leads back: a/mod.rs -> a/c.rs -> a/b.rs"),
        ),
        (
            "a parent that only declares its child",
            &[("lib.rs", "mod a;"), ("a/mod.rs", "mod b; pub struct A;"), ("a/b.rs", "impl super::A {}")],
            None,
        ),
    ];
    for (name, files, fault) in cases {
        let read =
            |path: &Path| files.iter().find(|(file, _)| path == Path::new(file)).map(|(_, text)| (*text).to_owned());
        assert_eq!(Modules::read(Path::new("lib.rs"), &read).faults(), Vec::from_iter(fault), "{name}");
    }
}
