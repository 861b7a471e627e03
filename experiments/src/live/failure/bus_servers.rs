//! Kafka and the aggregators of a run, and what a fault does to them.

use std::net::TcpStream;
use std::path::Path;
use std::thread::sleep;

use tollgate_servers::{Kafka, Server, ServerError, ServerKind, free_port};

use super::faults::ServerFault;
use super::programs::Programs;
use super::settings::TOPIC_PREFIX;

const AGGREGATORS: usize = 2;

/// Aggregator in a process of its own, so that it can be killed.
pub(super) struct AggregatorKind;

pub(super) struct BusServers {
    kafka: Kafka,
    aggregators: Vec<Server<AggregatorKind>>,
}

impl ServerKind for AggregatorKind {
    const NAME: &'static str = "the aggregator";

    fn is_ready(port: u16) -> bool {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    }
}

impl BusServers {
    pub(super) fn start(programs: &Programs) -> Result<Self, ServerError> {
        let kafka = Kafka::try_start(&programs.kafka)?;
        let brokers = kafka.brokers();
        let aggregator = |number| aggregator(&programs.tollgate, &brokers, number);
        let aggregators = (0..AGGREGATORS).map(aggregator).collect::<Result<_, _>>()?;
        Ok(Self { kafka, aggregators })
    }

    pub(super) fn brokers(&self) -> String {
        self.kafka.brokers()
    }

    /// Makes a fault of the bus. Returns when the server is back.
    pub(super) fn strike(&mut self, fault: ServerFault) -> Result<(), ServerError> {
        let (kafka, aggregator, length) = (&mut self.kafka, &mut self.aggregators[0], fault.length());
        match fault {
            ServerFault::BrokerPause => {
                kafka.pause();
                sleep(length);
                kafka.resume();
            }
            ServerFault::BrokerKill => {
                kafka.kill();
                sleep(length);
                kafka.try_restart()?;
            }
            ServerFault::BrokerRestart => {
                kafka.kill();
                kafka.try_restart()?;
            }
            ServerFault::AggregatorKill => {
                aggregator.kill();
                sleep(length);
                aggregator.try_restart()?;
            }
            ServerFault::AggregatorPause => {
                aggregator.pause();
                sleep(length);
                aggregator.resume();
            }
            _ => {}
        }
        Ok(())
    }
}

fn aggregator(tollgate: &Path, brokers: &str, number: usize) -> Result<Server<AggregatorKind>, ServerError> {
    let port = free_port();
    let (http, node) = (format!("127.0.0.1:{port}"), format!("aggregator-{number}"));
    Server::launch(port, |_| {
        let program = tollgate.display().to_string();
        let command = [
            &*program,
            "aggregator",
            "--kafka",
            brokers,
            "--kafka-prefix",
            TOPIC_PREFIX,
            "--http",
            &http,
            "--node",
            &node,
        ];
        Ok(command.map(ToOwned::to_owned).to_vec())
    })
}
