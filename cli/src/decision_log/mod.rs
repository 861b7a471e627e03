//! `--decision-log`: denials and a sample of admitted calls as JSON lines on stderr, in a file, or on a topic.
//!
//! An agent hands events to a thread of its own and never waits for it. If the queue, the disk or the bus is full, lines
//! are lost and counted.

mod log_file;
mod sink_report;
mod kafka_sink;
mod sink;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::bail;
use tollgate::Builder;
use tollgate_command::exit::Usage;
use tollgate_command::servers::KafkaArgs;
use tollgate_engine::{DecisionSampler, DecisionSampling, SampledDenials};

use crate::sampled_part::sampled_part;
use kafka_sink::KafkaSink;
use sink::Sink;
use writer::{LogInput, LogTotals, LogWriterThread};

/// Maximum number of events that wait for the thread.
const QUEUE_LEN_MAX: usize = 8_192;

/// Flags of the decision log.
#[derive(clap::Args)]
pub(crate) struct DecisionLogArgs {
    /// Writes a JSON line for each denied call and for a sample of admitted ones: to `stderr`, to `kafka` (topic
    /// decisions), or to a file [default: none]
    #[arg(id = "decision_log", long = "decision-log", value_name = "stderr|kafka|FILE")]
    target: Option<PathBuf>,
    /// Denials that leave a line, also those of rules in shadow: all, or the first of each caller and rule in a minute
    #[arg(
        id = "decision_log_denials",
        long = "decision-log-denials",
        value_name = "WHICH",
        default_value = "all",
        requires = "decision_log"
    )]
    denials: Denials,
    /// Part of the admitted calls that leaves a line, from 0% to 100%
    #[arg(id = "decision_log_admissions", long = "decision-log-admissions", value_name = "PERCENT", default_value = "1%", requires = "decision_log", value_parser = sampled_part)]
    admissions: u32,
    /// Maximum number of lines per second; further ones are left out and counted
    #[arg(id = "decision_log_lines_max", long = "decision-log-lines-max", value_name = "N", default_value_t = 1_000, requires = "decision_log", value_parser = clap::value_parser!(u32).range(1..))]
    lines_max: u32,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Denials {
    /// Each denied call
    All,
    /// The first denied call of each caller and rule in a minute
    Once,
}

/// A running decision log.
pub(crate) struct DecisionLog {
    queue: SyncSender<LogInput>,
    thread: JoinHandle<()>,
}

impl DecisionLogArgs {
    /// Starts the log, if there is one, and lets the agent write to it.
    ///
    /// # Errors
    /// If the file cannot be written, or if `kafka` is named and there is none.
    pub(crate) fn start(&self, builder: Builder, kafka: &KafkaArgs) -> anyhow::Result<(Builder, Option<DecisionLog>)> {
        let Some(target) = &self.target else { return Ok((builder, None)) };
        let sink = match target.to_str() {
            Some("stderr") => Sink::Stderr,
            Some("kafka") => match kafka.settings() {
                Some(settings) => Sink::Kafka(KafkaSink::connect(settings)?),
                None => bail!(Usage("--decision-log kafka needs --kafka BROKERS".to_owned())),
            },
            _ => Sink::file(target)?,
        };
        let denials = match self.denials {
            Denials::All => SampledDenials::All,
            Denials::Once => SampledDenials::OncePerMinute,
        };
        let sampler = Arc::new(DecisionSampler::new(DecisionSampling {
            denials,
            admissions: self.admissions,
            lines_per_second_max: self.lines_max,
        }));
        let (queue, events) = sync_channel(QUEUE_LEN_MAX);
        let totals = Arc::new(LogTotals::new(sampler.clone()));
        let mut writer = LogWriterThread::new(sink, totals.clone());
        let thread =
            std::thread::Builder::new().name("tollgate-decisions".into()).spawn(move || writer.run(&events))?;
        let of_agent = queue.clone();
        let deliver = move |event| of_agent.try_send(LogInput::Event(Box::new(event))).is_ok();
        let builder = builder.decision_log(sampler, deliver).metrics_from(move || totals.encode());
        Ok((builder, Some(DecisionLog { queue, thread })))
    }
}

impl DecisionLog {
    /// Writes the lines that wait, and ends the log.
    pub(crate) fn stop(self) {
        // An error means that the thread has ended.
        let _ = self.queue.send(LogInput::Stop);
        let _ = self.thread.join();
    }
}
