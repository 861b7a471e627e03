//! Apache Kafka's `MirrorMaker` 2, which copies topics from one Kafka to another, as a process of its own (dedicated mode).
//!
//! It has no port. It has started once it copies, which its readers see.

use std::fs;
use std::path::Path;

use crate::kafka::{DISTRIBUTION, jars, java};
use crate::server::{Server, ServerError, ServerKind};

/// Beginning of the name of the jar that holds `MirrorMaker`. Its version follows.
const JAR: &str = "connect-mirror-";
const CLASS: &str = "org.apache.kafka.connect.mirror.MirrorMaker";
const HEAP: &str = "160m";

/// Apache Kafka's `MirrorMaker`.
pub struct MirrorMakerKind;

impl ServerKind for MirrorMakerKind {
    const NAME: &'static str = "MirrorMaker";

    fn is_ready(_: u16) -> bool {
        true
    }
}

impl Server<MirrorMakerKind> {
    /// Starts `MirrorMaker` with this properties file.
    ///
    /// # Panics
    /// Panics if Java or `MirrorMaker` is not installed.
    #[must_use]
    pub fn start(properties: &str) -> Self {
        launch(properties).unwrap_or_else(|error| panic!("{error}"))
    }
}

fn launch(properties: &str) -> Result<Server<MirrorMakerKind>, ServerError> {
    let jars = jars(Path::new(DISTRIBUTION))?;
    let mut names = fs::read_dir(&jars)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    if !names.any(|name| is_mirror_maker(&name)) {
        let text =
            format!("Apache Kafka's MirrorMaker is missing: {} has no {JAR}*.jar; run scripts/servers", jars.display());
        return Err(ServerError::Missing(text));
    }
    Server::launch(0, |folder| {
        let file = folder.join("mirror-maker.properties");
        fs::write(&file, properties)?;
        Ok(java(&jars, HEAP, &[CLASS, &file.display().to_string()]))
    })
}

/// Returns true for the name of the jar, but not for that of its client, `connect-mirror-client`.
fn is_mirror_maker(name: &str) -> bool {
    name.strip_prefix(JAR).is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jar_is_told_from_that_of_its_client() {
        let names = ["connect-mirror-4.1.0.jar", "connect-mirror-client-4.1.0.jar", "connect-runtime-4.1.0.jar"];
        assert_eq!(names.map(is_mirror_maker), [true, false, false]);
    }
}
