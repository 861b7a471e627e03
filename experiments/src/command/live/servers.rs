//! Servers and programs of the measurements, by the command line.

use std::path::{Path, PathBuf};

use anyhow::bail;
use tollgate::KafkaSettings;
use tollgate::store::RedisSettings;
use tollgate_command::exit::Usage;
use tollgate_command::servers::{KafkaArgs, RedisArgs};

use crate::live::failure::Programs;

/// Folder in which `scripts/servers` installs Kafka.
pub(super) const KAFKA_DIR: &str = "target/servers/kafka";

pub(in crate::command) fn servers(
    redis: &RedisArgs,
    kafka: &KafkaArgs,
) -> anyhow::Result<(RedisSettings, KafkaSettings)> {
    let Some(settings) = redis.settings().zip(kafka.settings()) else {
        bail!(Usage("this is measured on real servers: name them with --redis URL and --kafka BROKERS".to_owned()));
    };
    Ok(settings)
}

pub(super) fn programs(redis_server: &str, kafka: &Path, tollgate: Option<&Path>) -> anyhow::Result<Programs> {
    let tollgate = program_tollgate(tollgate)?;
    Ok(Programs { redis_server: redis_server.to_owned(), kafka: kafka.to_owned(), tollgate })
}

/// Returns the program `tollgate`, by default the one beside this program.
pub(super) fn program_tollgate(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let tollgate = match named {
        Some(tollgate) => tollgate.to_owned(),
        None => std::env::current_exe()?.with_file_name("tollgate"),
    };
    if !tollgate.is_file() {
        let path = tollgate.display();
        bail!(Usage(format!(
            "there is no program {path}, which the experiment starts; build it with `cargo build --release`, or name it with --tollgate"
        )));
    }
    Ok(tollgate)
}
