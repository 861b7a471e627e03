//! The imported rules, applied to the descriptors of a request.
//!
//! An interpretation of the text of the rules file by itself: the forms that an import writes, and no others.

use std::collections::BTreeSet;

use saphyr::{LoadableYamlNode, Yaml};
use tollgate_common::rule::import::envoy_names;

use super::oracle::Entry;

pub(crate) struct Ours {
    rules: Vec<Rule>,
}

struct Rule {
    name: String,
    matches: Vec<(String, Pattern)>,
    per: Vec<String>,
    says: String,
    replaces: Vec<String>,
}

enum Pattern {
    Glob(String),
    AnyOf(Vec<Pattern>),
    Forms(Vec<(String, Pattern)>),
}

/// A rule that applies, and the counter that it charges.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) says: String,
    /// The rule's name, and the values of `per`.
    pub(crate) counter: (String, Vec<String>),
}

impl Ours {
    pub(crate) fn new(text: &str) -> Self {
        let documents = Yaml::load_from_str(text).expect("is YAML");
        let rules = documents[0].as_mapping_get("rules").and_then(Yaml::as_vec).expect("has rules");
        Self { rules: rules.iter().map(Rule::new).collect() }
    }

    pub(crate) fn request(&self, domain: &str, descriptors: &[Vec<Entry>]) -> Vec<Option<Applied>> {
        let calls: Vec<_> = descriptors.iter().map(|descriptor| call(domain, descriptor)).collect();
        let rules: Vec<Option<&Rule>> = calls.iter().map(|call| self.rule_of(call)).collect();
        let replaced: BTreeSet<&String> = rules.iter().flatten().flat_map(|rule| &rule.replaces).collect();
        let applied = rules.iter().zip(&calls).map(|(rule, call)| {
            let rule = rule.filter(|rule| rule.says == "unlimited" || !replaced.contains(&rule.name))?;
            let value = |name: &String| call.iter().find(|(key, _)| key == name).expect("is there").1.clone();
            Some(Applied {
                says: rule.says.clone(),
                counter: (rule.name.clone(), rule.per.iter().map(value).collect()),
            })
        });
        applied.collect()
    }

    fn rule_of(&self, call: &[Entry]) -> Option<&Rule> {
        let all: Vec<_> = self.rules.iter().filter(|rule| rule.applies_to(call)).collect();
        assert!(all.len() <= 1, "one descriptor has one limit: {call:?}");
        all.first().copied()
    }
}

impl Rule {
    fn new(rule: &Yaml<'_>) -> Self {
        let texts = |field: &str| -> Vec<String> {
            let items = rule.as_mapping_get(field).and_then(Yaml::as_vec).map_or(&[][..], Vec::as_slice);
            items.iter().map(text_of).collect()
        };
        let field = |field: &str| rule.as_mapping_get(field).and_then(Yaml::as_str).unwrap_or_default().to_owned();
        let matches = rule.as_mapping_get("match").and_then(Yaml::as_mapping).expect("has a match");
        let matches = matches.iter().map(|(key, pattern)| (text_of(key), Pattern::new(pattern)));
        let mut says = field("quota");
        if let Some((units, duration)) = says.split_once('/') {
            let ms = tollgate_common::rule::parse_duration_ms(duration).expect("is a duration");
            let cost = rule.as_mapping_get("cost").and_then(Yaml::as_integer);
            let units = if cost == Some(2) && units == "1" { "0" } else { units };
            says = format!("{units}/{}s", ms / 1_000);
        }
        if rule.as_mapping_get("shadow").and_then(Yaml::as_bool) == Some(true) {
            says.push_str(" shadow");
        }
        if says != "unlimited" {
            assert_eq!((field("algorithm"), field("charge")), ("fixed_window".to_owned(), "each".to_owned()));
            assert_eq!(field("consistency"), "strict");
        }
        Self { name: field("name"), matches: matches.collect(), per: texts("per"), says, replaces: texts("replaces") }
    }

    /// The names in their order, and each value.
    fn applies_to(&self, call: &[Entry]) -> bool {
        self.matches.len() == call.len()
            && self.matches.iter().zip(call).all(|((name, pattern), (key, value))| name == key && pattern.fits(value))
    }
}

fn call(domain: &str, descriptor: &[Entry]) -> Vec<Entry> {
    let names = envoy_names(descriptor.iter().map(|(key, _)| key.as_str()));
    let entries = names.iter().zip(descriptor).map(|(name, (_, value))| (name.to_string(), value.clone()));
    [("domain".to_owned(), domain.to_owned())].into_iter().chain(entries).collect()
}

impl Pattern {
    fn new(node: &Yaml<'_>) -> Self {
        if let Some(forms) = node.as_mapping() {
            let form = |(form, text): (&Yaml<'_>, &Yaml<'_>)| (text_of(form), Self::new(text));
            return Self::Forms(forms.iter().map(form).collect());
        }
        match node.as_vec() {
            Some(items) => Self::AnyOf(items.iter().map(Self::new).collect()),
            None => Self::Glob(text_of(node)),
        }
    }

    fn fits(&self, value: &str) -> bool {
        match self {
            Self::Glob(text) => glob(text, value),
            Self::AnyOf(patterns) => patterns.iter().any(|pattern| pattern.fits(value)),
            Self::Forms(forms) => forms.iter().all(|(form, pattern)| match (form.as_str(), pattern) {
                ("not", pattern) => !pattern.fits(value),
                ("exact", Self::Glob(text)) => text == value,
                ("prefix", Self::Glob(text)) => value.starts_with(text),
                ("glob", Self::Glob(text)) => glob(text, value),
                ("regex", Self::Glob(text)) => glob(&unescaped(text), value),
                (form, _) => panic!("unknown form {form}"),
            }),
        }
    }
}

fn text_of(node: &Yaml<'_>) -> String {
    node.as_str().expect("is text").to_owned()
}

/// The regular expressions that an import writes are globs in disguise.
fn unescaped(regex: &str) -> String {
    let inner = regex.strip_prefix("(?s)^").and_then(|rest| rest.strip_suffix('$')).expect("is anchored");
    let mut out = String::new();
    let mut signs = inner.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => out.extend(signs.next()),
            '.' => assert_eq!(signs.next(), Some('*')),
            sign => out.push(sign),
        }
        if sign == '.' {
            out.push('*');
        }
    }
    out
}

fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text
            .strip_prefix(start)
            .is_some_and(|text| (0..=text.len()).any(|at| text.get(at..).is_some_and(|text| glob(rest, text)))),
    }
}
