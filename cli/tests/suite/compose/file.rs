//! Reader of docker-compose.yml: resolves aliases and merge keys, and turns `$$` into a dollar sign, as Docker does.
//!
//! It supports only the forms that the file uses. Any other form fails the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Value};

pub(crate) struct Compose {
    root: PathBuf,
    whole: Value,
}

#[derive(Clone, Copy)]
pub(crate) struct Service<'c> {
    pub(crate) name: &'c str,
    root: &'c Path,
    value: &'c Value,
}

/// `SOURCE:TARGET[:ro]`
pub(crate) struct Volume {
    pub(crate) source: String,
    pub(crate) target: String,
    /// Path on this machine; `None` for a volume that Docker manages.
    pub(crate) file: Option<PathBuf>,
    pub(crate) is_read_only: bool,
}

/// `ADDRESS:PUBLISHED:INSIDE`
pub(crate) struct Port {
    pub(crate) address: String,
    pub(crate) published: u16,
    pub(crate) inside: u16,
}

impl Compose {
    pub(crate) fn read(root: &Path) -> Self {
        let text = std::fs::read_to_string(root.join("docker-compose.yml")).unwrap();
        let documents = Yaml::load_from_str(&text).unwrap();
        let [document] = &documents[..] else { panic!("one document") };
        Self { root: root.to_owned(), whole: plain(document) }
    }

    pub(crate) fn services(&self) -> Vec<Service<'_>> {
        let services = self.whole["services"].as_object().unwrap();
        services.iter().map(|(name, value)| Service { name, root: &self.root, value }).collect()
    }

    pub(crate) fn service(&self, name: &str) -> Service<'_> {
        self.services().into_iter().find(|service| service.name == name).unwrap_or_else(|| panic!("no service {name}"))
    }

    pub(crate) fn declares_volume(&self, name: &str) -> bool {
        self.whole["volumes"].as_object().unwrap().contains_key(name)
    }

    /// Services in start order, each one after its dependencies. Services in a cycle are left out.
    pub(crate) fn start_order(&self) -> Vec<Service<'_>> {
        let mut order: Vec<Service<'_>> = Vec::new();
        let mut started = BTreeSet::new();
        loop {
            let next = self.services().into_iter().find(|service| {
                let ready = service.depends_on().iter().all(|(other, _)| started.contains(other));
                ready && !started.contains(service.name)
            });
            let Some(next) = next else { return order };
            started.insert(next.name.to_owned());
            order.push(next);
        }
    }

    /// Returns what `docker compose up` starts for these services: each one after its dependencies.
    pub(crate) fn with_dependencies(&self, names: &[&str]) -> Vec<Service<'_>> {
        let mut wanted: BTreeSet<String> = names.iter().map(ToString::to_string).collect();
        let mut order = self.start_order();
        for service in order.iter().rev() {
            if wanted.contains(service.name) {
                wanted.extend(service.depends_on().into_iter().map(|(other, _)| other));
            }
        }
        order.retain(|service| wanted.contains(service.name));
        order
    }
}

impl Service<'_> {
    pub(crate) fn text(&self, field: &str) -> String {
        text(&self.value[field])
    }

    pub(crate) fn command(&self) -> Vec<String> {
        self.list("command")
    }

    /// Returns the entry point by which the service replaces that of the image; empty if it keeps it.
    pub(crate) fn entrypoint(&self) -> Vec<String> {
        self.list("entrypoint")
    }

    pub(crate) fn is_of_this_image(&self) -> bool {
        self.text("image").starts_with("tollgate:")
    }

    /// Dockerfile of a service that builds its image from this folder.
    pub(crate) fn dockerfile(&self) -> Option<String> {
        let build = self.value["build"].as_object()?;
        assert_eq!(build["context"], ".", "{}", self.name);
        Some(text(&build["dockerfile"]))
    }

    /// Returns true if the service ends after its work.
    pub(crate) fn ends(&self) -> bool {
        self.tries().is_some()
    }

    /// Maximum number of attempts of a service that ends after its work.
    pub(crate) fn tries(&self) -> Option<u32> {
        match self.value["restart"].as_str() {
            None => Some(1),
            Some("unless-stopped") => None,
            Some(other) => {
                let again =
                    other.strip_prefix("on-failure:").unwrap_or_else(|| panic!("{}: restart {other}", self.name));
                Some(1 + again.parse::<u32>().expect("a number"))
            }
        }
    }

    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let environment = self.value["environment"].as_object().into_iter().flatten();
        environment.map(|(name, value)| (name.clone(), text(value))).collect()
    }

    pub(crate) fn depends_on(&self) -> Vec<(String, String)> {
        let others = self.value["depends_on"].as_object().into_iter().flatten();
        others.map(|(name, how)| (name.clone(), text(&how["condition"]))).collect()
    }

    /// Health check command.
    pub(crate) fn health(&self) -> Option<Vec<String>> {
        let words: Vec<String> = self.value["healthcheck"]["test"].as_array()?.iter().map(text).collect();
        assert_eq!(words[0], "CMD", "{}", self.name);
        Some(words[1..].to_vec())
    }

    pub(crate) fn volumes(&self) -> Vec<Volume> {
        let volumes = self.list("volumes").into_iter().map(|volume| {
            let mut parts = volume.split(':').map(str::to_owned);
            let (source, target) = (parts.next().unwrap(), parts.next().unwrap());
            let file = source.strip_prefix("./").map(|path| self.root.join(path));
            Volume { source, target, file, is_read_only: parts.next().is_some_and(|mode| mode == "ro") }
        });
        volumes.collect()
    }

    pub(crate) fn ports(&self) -> Vec<Port> {
        let ports = self.list("ports").into_iter().map(|port| {
            let parts: Vec<&str> = port.split(':').collect();
            let [address, published, inside] = parts[..] else { panic!("{}: {port}", self.name) };
            let (published, inside) = (published.parse().unwrap(), inside.parse().unwrap());
            Port { address: address.to_owned(), published, inside }
        });
        ports.collect()
    }

    /// Returns the port on which the service listens, by a variable or an argument.
    pub(crate) fn listens_on(&self) -> Option<u16> {
        let (environment, command) = (self.environment(), self.command());
        let variable = ["TOLLGATE_HTTP", "GF_SERVER_HTTP_PORT"].into_iter().find_map(|name| environment.get(name));
        let argument = || command.iter().find_map(|word| word.strip_prefix("--web.listen-address="));
        let address = variable.map(String::as_str).or_else(argument)?;
        Some(address.rsplit(':').next().unwrap().parse().unwrap())
    }

    /// Returns the profiles with which the service starts; none if it always starts.
    pub(crate) fn profiles(&self) -> Vec<String> {
        self.list("profiles")
    }

    fn list(&self, field: &str) -> Vec<String> {
        self.value[field].as_array().into_iter().flatten().map(text).collect()
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn plain(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(flag)) => (*flag).into(),
        Yaml::Value(Scalar::Integer(number)) => (*number).into(),
        Yaml::Value(Scalar::String(text)) => interpolated(text).into(),
        Yaml::Sequence(items) => items.iter().map(plain).collect(),
        Yaml::Mapping(mapping) => {
            let (mut merged, mut own) = (Map::new(), Map::new());
            for (key, value) in mapping {
                match (key.as_str().expect("a key is a word"), plain(value)) {
                    ("<<", Value::Object(more)) => merged.extend(more),
                    (key, value) => assert!(own.insert(key.to_owned(), value).is_none(), "duplicate key `{key}`"),
                }
            }
            merged.extend(own);
            merged.into()
        }
        other => panic!("unsupported YAML value: {other:?}"),
    }
}

/// Replaces `$$` by a dollar sign. Panics at a variable of the caller's environment: the file must not depend on any.
fn interpolated(text: &str) -> String {
    let parts: Vec<&str> = text.split("$$").collect();
    assert!(parts.iter().all(|part| !part.contains('$')), "a single dollar: {text}");
    parts.join("$")
}
