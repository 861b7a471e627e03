//! Metrics of the process: CPU time, memory, file descriptors and start, as every Prometheus client exports them.
//!
//! They are read from `/proc` when they are scraped; on systems without it there are none.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tollgate_metrics::{MetricName, encode_metric};

#[derive(Debug)]
struct ProcessCollector;

/// Returns the metrics of the process as OpenMetrics text.
pub(crate) fn encode() -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ProcessCollector));
    tollgate_metrics::encode(&registry)
}

#[cfg(target_os = "linux")]
impl Collector for ProcessCollector {
    #[expect(clippy::cast_precision_loss, reason = "seconds and bytes of one process are below 2^52")]
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(process) = procfs::process::Process::myself() else { return Ok(()) };
        let ticks = procfs::ticks_per_second() as f64;
        if let Ok(stat) = process.stat() {
            let cpu = MetricName("process_cpu", "CPU time of user and system.", Some(Unit::Seconds));
            encode_metric(&mut encoder, cpu, &ConstCounter::new((stat.utime + stat.stime) as f64 / ticks))?;
            let resident = MetricName("process_resident_memory", "Resident memory.", Some(Unit::Bytes));
            encode_metric(&mut encoder, resident, &ConstGauge::new(stat.rss * procfs::page_size()))?;
            let virtual_memory = MetricName("process_virtual_memory", "Virtual memory.", Some(Unit::Bytes));
            encode_metric(&mut encoder, virtual_memory, &ConstGauge::new(stat.vsize))?;
            if let Ok(boot) = procfs::boot_time_secs() {
                let start = MetricName("process_start_time", "Start, in Unix time.", Some(Unit::Seconds));
                encode_metric(&mut encoder, start, &ConstGauge::new(boot as f64 + stat.starttime as f64 / ticks))?;
            }
        }
        if let Ok(open) = process.fd_count() {
            let open_fds = MetricName("process_open_fds", "Open file descriptors.", None);
            encode_metric(&mut encoder, open_fds, &ConstGauge::new(open as u64))?;
        }
        if let Ok(limits) = process.limits()
            && let procfs::process::LimitValue::Value(max) = limits.max_open_files.soft_limit
        {
            let max_fds = MetricName("process_max_fds", "Maximum number of open file descriptors.", None);
            encode_metric(&mut encoder, max_fds, &ConstGauge::new(max))?;
        }
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
impl Collector for ProcessCollector {
    fn encode(&self, _: DescriptorEncoder<'_>) -> fmt::Result {
        Ok(())
    }
}
