//! Metrics of the process: CPU time, memory, file descriptors and start, as every Prometheus client exports them, and the end of its
//! certificate.
//!
//! The first ones are read from `/proc` when they are scraped; on systems without it there are none.

use std::fmt;
#[cfg(target_os = "linux")]
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
#[cfg(target_os = "linux")]
use rustix::param::{clock_ticks_per_second, page_size};
#[cfg(target_os = "linux")]
use rustix::process::{Resource, getrlimit};
use tollgate_listen::Tls;
use tollgate_metrics::{MetricName, encode_metric};

#[derive(Debug)]
struct ProcessCollector;

#[derive(Debug)]
struct CertificateCollector {
    ends_s: u64,
}

/// Returns the metrics of a process with this TLS as OpenMetrics text.
pub(crate) fn encode(tls: Option<&Tls>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ProcessCollector));
    let ends_s = tls.and_then(Tls::ends_s).unwrap_or_default();
    registry.register_collector(Box::new(CertificateCollector { ends_s }));
    tollgate_metrics::encode(&registry)
}

impl Collector for CertificateCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Unix time at which the certificate of the process ends; 0 without one.";
        let name = MetricName("tollgate_certificate_end_timestamp_seconds", help, None);
        encode_metric(&mut encoder, name, &ConstGauge::new(self.ends_s))
    }
}

/// Numbers of `/proc/self/stat`, in the units of the kernel (`proc_pid_stat(5)`).
#[cfg(target_os = "linux")]
struct ProcessStat {
    cpu_ticks: u64,
    started_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

#[cfg(target_os = "linux")]
impl ProcessStat {
    /// Parses the file. The name of the program may contain blanks, so fields count from its closing bracket.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        // The first of these fields is number 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let cpu_ticks = field(14)? + field(15)?;
        Some(Self { cpu_ticks, started_ticks: field(22)?, virtual_bytes: field(23)?, resident_pages: field(24)? })
    }
}

#[cfg(target_os = "linux")]
impl Collector for ProcessCollector {
    #[expect(clippy::cast_precision_loss, reason = "seconds and bytes of one process are below 2^52")]
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let ticks = clock_ticks_per_second() as f64;
        let numbers = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(ProcessStat::parse);
        if let Some(numbers) = numbers {
            let cpu = MetricName("process_cpu", "CPU time of user and system.", Some(Unit::Seconds));
            encode_metric(&mut encoder, cpu, &ConstCounter::new(numbers.cpu_ticks as f64 / ticks))?;
            let resident = MetricName("process_resident_memory", "Resident memory.", Some(Unit::Bytes));
            let resident_bytes = numbers.resident_pages * page_size() as u64;
            encode_metric(&mut encoder, resident, &ConstGauge::new(resident_bytes))?;
            let virtual_memory = MetricName("process_virtual_memory", "Virtual memory.", Some(Unit::Bytes));
            encode_metric(&mut encoder, virtual_memory, &ConstGauge::new(numbers.virtual_bytes))?;
            if let Some(booted_s) = booted_s() {
                let start = MetricName("process_start_time", "Start, in Unix time.", Some(Unit::Seconds));
                let started_s = booted_s as f64 + numbers.started_ticks as f64 / ticks;
                encode_metric(&mut encoder, start, &ConstGauge::new(started_s))?;
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            let open_fds = MetricName("process_open_fds", "Open file descriptors.", None);
            // The listing has one open itself.
            encode_metric(&mut encoder, open_fds, &ConstGauge::new(open.count().saturating_sub(1) as u64))?;
        }
        if let Some(max) = getrlimit(Resource::Nofile).current {
            let max_fds = MetricName("process_max_fds", "Maximum number of open file descriptors.", None);
            encode_metric(&mut encoder, max_fds, &ConstGauge::new(max))?;
        }
        Ok(())
    }
}

/// Returns the start of the system, in seconds of Unix time.
#[cfg(target_os = "linux")]
fn booted_s() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

#[cfg(not(target_os = "linux"))]
impl Collector for ProcessCollector {
    fn encode(&self, _: DescriptorEncoder<'_>) -> fmt::Result {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn fields_count_from_the_end_of_the_name() {
        let text = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 4 0 9000 4096000 250 184467";
        let stat = ProcessStat::parse(text).expect("a file of the kernel");
        let numbers = (stat.cpu_ticks, stat.started_ticks, stat.virtual_bytes, stat.resident_pages);
        assert_eq!(numbers, (42, 9_000, 4_096_000, 250));
        assert!(ProcessStat::parse("7 (a) S 1").is_none() && ProcessStat::parse("").is_none());
    }
}
