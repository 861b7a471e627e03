//! Modules and paths of a source file, found by its words alone: no parser of Rust is needed.
//!
//! Comments, texts and items of tests are left out. A path in code counts as an import, because it needs none. An
//! inline module counts as a part of its file.

/// Segments of a path, such as `crate`, `view` and `Lease`.
pub(super) type ItemPath = Vec<String>;

/// Declarations and names of a source file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    /// Modules with files of their own, in their order.
    pub(super) modules: Vec<String>,
    /// Names that the file imports, with their paths.
    pub(super) imports: Vec<(String, ItemPath)>,
    /// Paths in its code.
    pub(super) paths: Vec<ItemPath>,
}

impl Source {
    pub(super) fn read(text: &str) -> Self {
        let (mut source, tokens, mut at) = (Self::default(), tokens(text), 0);
        while at < tokens.len() {
            at = match tokens[at..] {
                ["#", "[", "cfg", "(", "test", ..] | ["#", "[", "cfg", "(", "all", "(", "test", ..] => {
                    end_of_item(&tokens, end_of_group(&tokens, at + 1))
                }
                // The path of a visibility is no import.
                ["pub", "(", ..] => end_of_group(&tokens, at + 1),
                ["mod", name, ";", ..] => {
                    source.modules.push(name.to_owned());
                    at + 3
                }
                // `use<..>` states the lifetimes of a type.
                ["use", "<", ..] => at + 1,
                ["use", ..] => source.read_use(&tokens, at + 1, &[]),
                [first, "::", ..] if is_word(first) => source.read_path(&tokens, at),
                _ => at + 1,
            };
        }
        source
    }

    /// Reads the imports below a prefix, and returns the place behind them.
    fn read_use(&mut self, tokens: &[&str], mut at: usize, prefix: &[String]) -> usize {
        let mut path = prefix.to_vec();
        loop {
            match tokens[at] {
                "::" => at += 1,
                "{" => {
                    at += 1;
                    while tokens[at] != "}" {
                        at = self.read_use(tokens, at, &path);
                        at += usize::from(tokens[at] == ",");
                    }
                    return at + 1;
                }
                word => {
                    path.push(word.to_owned());
                    at += 1;
                    if tokens[at] != "::" {
                        break;
                    }
                }
            }
        }
        path.pop_if(|last| last == "self");
        if tokens[at] == "as" {
            self.imports.push((tokens[at + 1].to_owned(), path));
            return at + 2;
        }
        self.imports.push((path.last().cloned().unwrap_or_default(), path));
        at
    }

    /// Reads a path in code, and returns the place behind it.
    fn read_path(&mut self, tokens: &[&str], mut at: usize) -> usize {
        let mut path = vec![tokens[at].to_owned()];
        at += 1;
        while let ["::", word, ..] = tokens[at..]
            && is_word(word)
        {
            path.push(word.to_owned());
            at += 2;
        }
        self.paths.push(path);
        at
    }
}

/// Returns the words of a source, its `::` and its other characters, without comments, texts and spaces.
fn tokens(mut rest: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' => text_len(rest),
            '\'' => character_len(rest),
            'r' if rest[1..].trim_start_matches('#').starts_with('"') => raw_text_len(rest),
            // The prefix of a raw identifier.
            'r' if rest.starts_with("r#") => 2,
            _ if first.is_whitespace() => first.len_utf8(),
            _ => {
                let word = rest.find(|c| !is_word_character(c)).unwrap_or(rest.len());
                let len = if rest.starts_with("::") { 2 } else { word.max(first.len_utf8()) };
                tokens.push(&rest[..len]);
                len
            }
        };
        rest = &rest[len..];
    }
    tokens
}

fn is_word_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_word(token: &str) -> bool {
    token.starts_with(is_word_character)
}

/// Returns the length of the text in quotation marks that begins here.
fn text_len(rest: &str) -> usize {
    let mut is_escaped = true;
    let end = rest.find(|c| {
        let is_end = c == '"' && !is_escaped;
        // The first quotation mark begins the text.
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    end.map_or(rest.len(), |end| end + 1)
}

/// Returns the length of the text that begins here with `r"` or `r#`.
fn raw_text_len(rest: &str) -> usize {
    let marks = rest[1..].len() - rest[1..].trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(marks));
    let begin = marks + 2;
    rest[begin..].find(&end).map_or(rest.len(), |place| begin + place + end.len())
}

/// Returns the length of the character that begins here, or 1 for the mark of a lifetime.
fn character_len(rest: &str) -> usize {
    let mut inside = rest[1..].chars();
    match (inside.next(), inside.next()) {
        (Some('\\'), Some(escaped)) => {
            let begin = 2 + escaped.len_utf8();
            rest[begin..].find('\'').map_or(rest.len(), |end| begin + end + 1)
        }
        (Some(character), Some('\'')) => 2 + character.len_utf8(),
        _ => 1,
    }
}

/// Returns the place behind the item that begins here: behind its braces or its semicolon.
fn end_of_item(tokens: &[&str], mut at: usize) -> usize {
    while at < tokens.len() {
        match tokens[at] {
            ";" => return at + 1,
            // The braces of an import have a semicolon behind them.
            "{" => {
                let end = end_of_group(tokens, at);
                return end + usize::from(tokens.get(end) == Some(&";"));
            }
            "}" => return at,
            "(" | "[" => at = end_of_group(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// Returns the place behind the group that begins with a bracket here.
fn end_of_group(tokens: &[&str], begin: usize) -> usize {
    let mut depth = 0;
    for (place, token) in tokens.iter().enumerate().skip(begin) {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return place + 1;
        }
    }
    tokens.len()
}

#[test]
fn each_form_of_an_import_is_read() {
    // Text; imported names with their paths; paths in code.
    type Case = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);
    let cases: [Case; 11] = [
        ("use crate::a::b::C;", &[("C", "crate::a::b::C")], &[]),
        ("pub(in crate::x) use super::super::a;", &[("a", "super::super::a")], &[]),
        (
            "use super::{\n    a,\n    b::{self, C as D},\n};",
            &[("a", "super::a"), ("b", "super::b"), ("D", "super::b::C")],
            &[],
        ),
        ("use a::*;", &[("*", "a::*")], &[]),
        (
            "fn f() -> impl Fn() + use<> { super::a::<u8>::g(self::b::C { d: e::F }) }",
            &[],
            &["super::a", "self::b::C", "e::F"],
        ),
        ("// super::a\n/* super::b */ /// super::c\nx::y", &[], &["x::y"]),
        ("f(\"super::a \\\" super::b\", r#\"super::c\"#, '\"', '\\'', b'\\u{7f}'); x::y", &[], &["x::y"]),
        ("impl<'a> A<'a> for x::Y<'a> {}", &[], &["x::Y"]),
        ("#[cfg(test)]\nmod tests { use super::*; } use a::b;", &[("b", "a::b")], &[]),
        ("#[cfg(all(test, unix))]\nmod tests { use super::*; } x::y", &[], &["x::y"]),
        ("#[cfg(test)]\nuse super::{a, b};\n#[cfg(test)] fn f(_: [u8; 2]) { a::b } x::y", &[], &["x::y"]),
    ];
    for (text, imports, paths) in cases {
        let source = Source::read(text);
        let found: Vec<_> = source.imports.iter().map(|(name, path)| (name.as_str(), path.join("::"))).collect();
        let expected: Vec<_> = imports.iter().map(|(name, path)| (*name, (*path).to_owned())).collect();
        assert_eq!(found, expected, "{text}");
        assert_eq!(source.paths.iter().map(|path| path.join("::")).collect::<Vec<_>>(), paths, "{text}");
    }
    let source = Source::read(
        "mod a;\n#[cfg(test)]\nmod tests;\n#[cfg(feature = \"b\")]\npub(crate) mod b;\nmod c { mod d {} }",
    );
    assert_eq!(source.modules, ["a", "b"]);
}
