//! Whether measurements can be true.

use super::{Measurement, MeasurementError, Measurements, PERCENTILES};

/// Factor by which rows with the same load may differ.
const SAME_LOAD: f64 = 1.5;
/// Factor between medians of one file beyond which a row has another unit than the others.
const SAME_UNIT: f64 = 200.0;
/// What a read of flash takes, in µs, at least and at most, in any drive.
const READ_US: (f64, f64) = (1.0, 1_000_000.0);

pub(super) fn check(measurements: &Measurements, path: &str) -> Result<(), MeasurementError> {
    let nonsense = |line, what| Err(MeasurementError::Nonsense { path: path.to_owned(), line, what });
    for row in &measurements.rows {
        if let Some(what) = alone(row, measurements.capacity_bytes) {
            return nonsense(row.line, what);
        }
    }
    let mut medians: Vec<f64> = measurements.rows.iter().filter_map(|row| row.seen.read_us[0]).collect();
    medians.sort_by(f64::total_cmp);
    if let Some(&usual) = medians.get(medians.len() / 2) {
        for row in &measurements.rows {
            let Some(read) = row.seen.read_us[0] else { continue };
            if measurements.is_stable(row) && (read > usual * SAME_UNIT || read * SAME_UNIT < usual) {
                let what = format!(
                    "the median of reads is {read} µs, in most other rows about {usual}: is it in another unit? \
                     Latencies are in µs"
                );
                return nonsense(row.line, what);
            }
        }
    }
    for (at, row) in measurements.rows.iter().enumerate() {
        for before in measurements.rows[..at].iter().filter(|before| before.load == row.load) {
            if let Some(what) = contradiction(before, row) {
                return nonsense(row.line, what);
            }
        }
    }
    Ok(())
}

/// What is wrong with a row alone.
fn alone(row: &Measurement, capacity_bytes: u64) -> Option<String> {
    let seen = &row.seen;
    if row.load.used_bytes > capacity_bytes {
        let used = row.load.used_bytes;
        return Some(format!("used_bytes is {used}, more than capacity_bytes, {capacity_bytes}"));
    }
    if let Some(offered) = row.load.offered {
        if offered.writes_s < offered.reads_s {
            return Some(format!(
                "offered_writes_s is {}, less than offered_reads_s, {}: the job that is looked at writes as much as it \
                 reads, and its writes count among them",
                offered.writes_s, offered.reads_s
            ));
        }
        if offered.reads_s == 0 && seen.read_us.iter().any(Option::is_some) {
            return Some("latencies of reads, but offered_reads_s is 0".into());
        }
        let requests = offered.requests_s() as f64;
        if let Some(done) = seen.completed_s.filter(|done| *done > 1.05 * requests) {
            return Some(format!("completed_s is {done}, but only {requests} were offered in a second"));
        }
    }
    for (name, us) in [("read", &seen.read_us), ("write", &seen.write_us)] {
        let known: Vec<(&str, f64)> =
            PERCENTILES.iter().zip(us).filter_map(|((name, _), us)| Some((*name, (*us)?))).collect();
        for pair in known.windows(2) {
            let ((low, less), (high, more)) = (pair[0], pair[1]);
            if less > more {
                return Some(format!(
                    "{name}_{low}_us is {less}, more than {name}_{high}_us, {more}: a higher percentile is no shorter"
                ));
            }
        }
    }
    match seen.read_us[0] {
        Some(read) if read < READ_US.0 => {
            Some(format!("read_p50_us is {read}: no drive reads flash in that; latencies are in µs"))
        }
        Some(read) if read > READ_US.1 => {
            Some(format!("read_p50_us is {read}, more than a second: latencies are in µs, is this in ns?"))
        }
        _ if seen.waf.is_some_and(|waf| !(0.05..=100.0).contains(&waf)) => Some(format!(
            "waf is {}: it is bytes programmed per byte written, about 1 to 20",
            seen.waf.unwrap_or_default()
        )),
        _ => None,
    }
}

/// How two rows with the same load contradict each other.
fn contradiction(before: &Measurement, row: &Measurement) -> Option<String> {
    let pairs = [
        ("read_p50_us", before.seen.read_us[0], row.seen.read_us[0]),
        ("waf", before.seen.waf, row.seen.waf),
    ];
    pairs.into_iter().find_map(|(name, a, b)| {
        let (a, b) = (a?, b?);
        (a > b * SAME_LOAD || b > a * SAME_LOAD).then(|| {
            format!(
                "{name} is {b}, on line {} with the same load it is {a}: leave out the row that is wrong, or both",
                before.line
            )
        })
    })
}
