//! Counters in the text format of Prometheus. An exporter crate would pull in a runtime.

use std::fmt::Write as _;

use crate::result::ServeResult;

struct Metric<'a> {
    name: &'a str,
    kind: &'a str,
    help: &'a str,
    values: Vec<(String, f64)>,
}

pub(crate) fn text(result: &ServeResult) -> String {
    let mut out = String::new();
    for Metric { name, kind, help, values } in metrics(result) {
        let _ = writeln!(out, "# HELP strobe_{name} {help}\n# TYPE strobe_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(out, "strobe_{name}{labels} {value}");
        }
    }
    out
}

fn metrics(result: &ServeResult) -> Vec<Metric<'_>> {
    let (requests, job) = (&result.requests, &result.jobs[0]);
    let op = |name: &str, value: f64| (format!("{{op=\"{name}\"}}"), value);
    let plain = |value: f64| vec![(String::new(), value)];
    let causes = |by: &[(&'static str, u64)]| {
        by.iter().map(|&(cause, count)| (format!("{{cause=\"{cause}\"}}"), count as f64)).collect()
    };
    let latency = |name: &str, clat: &strobe_lab::result::Clat| {
        let quantile = |percent: &str, quantile: &str| {
            // Prometheus has no null: an unknown value is NaN.
            let value = clat.percentile(percent).map_or(f64::NAN, |ns| ns as f64 / 1e9);
            (format!("{{op=\"{name}\",quantile=\"{quantile}\"}}"), value)
        };
        [quantile("50.000000", "0.5"), quantile("99.000000", "0.99"), quantile("99.900000", "0.999")]
    };
    let metric = |name, kind, help, values| Metric { name, kind, help, values };
    vec![
        metric(
            "requests_total",
            "counter",
            "Requests of clients.",
            vec![
                op("read", requests.read as f64),
                op("write", requests.write as f64),
                op("flush", requests.flush as f64),
                op("trim", requests.discard as f64),
                op("write_zeroes", requests.write_zeroes as f64),
            ],
        ),
        metric(
            "requests_failed_total",
            "counter",
            "Requests refused or failed.",
            plain(requests.failed as f64),
        ),
        metric(
            "bytes_total",
            "counter",
            "Bytes read and written by clients.",
            vec![op("read", job.read.io_bytes as f64), op("write", job.write.io_bytes as f64)],
        ),
        metric(
            "latency_seconds",
            "summary",
            "Latency in the model since the server started.",
            [latency("read", &job.read.clat_ns), latency("write", &job.write.clat_ns)].concat(),
        ),
        metric(
            "flash_programs_total",
            "counter",
            "Pages programmed, by cause.",
            causes(&result.nand.program.by_cause.named()),
        ),
        metric(
            "flash_reads_total",
            "counter",
            "Pages read, by cause.",
            causes(&result.nand.read.by_cause.named()),
        ),
        metric(
            "flash_erases_total",
            "counter",
            "Blocks erased, by cause.",
            causes(&result.nand.erase.by_cause.named()),
        ),
        metric(
            "write_amplification",
            "gauge",
            "Write amplification: units programmed per unit written.",
            plain(result.waf.unwrap_or(f64::NAN)),
        ),
        metric("free_blocks", "gauge", "Erased blocks.", plain(result.space.free_blocks.into())),
        metric(
            "mapped_units",
            "gauge",
            "Mapping units that hold data on flash.",
            plain(result.space.mapped_units.into()),
        ),
        metric("erase_count_max", "gauge", "Maximum erases of a block.", plain(result.wear.erase_max.into())),
        metric("erase_count_mean", "gauge", "Mean erases of a block.", plain(result.wear.erase_mean)),
        metric(
            "virtual_seconds_total",
            "counter",
            "Virtual time of the drive.",
            plain(result.time.virtual_ns as f64 / 1e9),
        ),
        metric(
            "connections_total",
            "counter",
            "Accepted connections.",
            plain(result.server.connections as f64),
        ),
    ]
}
