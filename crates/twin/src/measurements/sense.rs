//! Plausibility checks of measurements.

use std::collections::BTreeMap;

use super::{Addresses, KEEPS_UP, Load, Measurement, MeasurementError, Measurements, Offered, PERCENTILES};

/// Ratio of a read percentile to its usual value in the file that proves another unit.
const SAME_UNIT: f64 = 200.0;
/// Ratio between two read percentiles of a row that proves two units.
const UNIT: f64 = 1000.0;
/// Limits of latency in µs: shortest of any command, longest median of reads, longest of any command.
const LATENCY_US: [f64; 3] = [1.0, 1e6, 1e8];
/// Share of requests below each percentile.
const SHARES: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];
/// Least reads per second for meaningful percentiles.
const READS_MIN: u64 = 100;
/// Largest plausible throughput in requests per second, also the limit of offered rates.
const COMPLETED_MAX: f64 = 1e9;
/// Plausible write amplification. Coarse counters may give a value slightly below 1.
const WAF: std::ops::RangeInclusive<f64> = 0.95..=100.0;
/// Largest ratio of two write amplifications at the same fill level under uniform writes.
const SAME_WAF: f64 = 1.5;
/// Smallest ratio of the write amplification of a fuller drive to that at a lower fill level. Chance does not
/// explain a smaller one.
const FALLING_WAF: f64 = 0.8;
/// Ratio of a percentile to both neighbouring rates that proves another unit.
const NEIGHBOURS: f64 = 10.0;
/// Ratio as [`NEIGHBOURS`], for write tails and p99.99. Rare events decide these figures, and may occur at
/// one rate and not at the next.
const NEIGHBOURING_TAILS: f64 = 400.0;
/// Ratio of the medians of writes and reads at the lowest rate that proves two units.
const WRITES: f64 = 100.0;
/// Largest factor by which throughput may fall when more is offered.
const COLLAPSE: f64 = 2.0;

pub(super) fn check(measurements: &Measurements, path: &str) -> Result<(), MeasurementError> {
    let nonsense = |line, what| Err(MeasurementError::Nonsense { path: path.to_owned(), line, what });
    let capacity_bytes = measurements.capacity_bytes;
    let mut lines: BTreeMap<Load, u64> = BTreeMap::new();
    for row in &measurements.rows {
        let what = asked(&row.load, capacity_bytes).or_else(|| seen(row));
        if let Some(what) = what {
            return nonsense(row.line, what);
        }
        // A duplicate load could be both fitted to and held out.
        if let Some(before) = lines.insert(row.load, row.line) {
            return nonsense(
                row.line,
                format!(
                    "the same load as on line {before}: give one row for each load; remove the wrong one, or give the median \
                     of both"
                ),
            );
        }
    }
    for row in &measurements.rows {
        if let Some(what) = throughput(row, &measurements.rows) {
            return nonsense(row.line, what);
        }
    }
    let stable = || measurements.rows.iter().filter(|row| measurements.is_stable(row));
    for row in stable() {
        if let Some(what) = outstanding(row) {
            return nonsense(row.line, what);
        }
    }
    for (at, (name, _)) in PERCENTILES.iter().enumerate() {
        let mut all: Vec<f64> = stable().filter_map(|row| row.seen.read_us[at]).collect();
        all.sort_by(f64::total_cmp);
        let Some(&usual) = all.get(all.len() / 2) else { continue };
        for row in stable() {
            let Some(read) = row.seen.read_us[at] else { continue };
            if read > usual * SAME_UNIT || read * SAME_UNIT < usual {
                return nonsense(
                    row.line,
                    format!(
                        "read_{name}_us is {read}, in most other rows about {usual}: is it in another unit? Latencies are \
                         in µs"
                    ),
                );
            }
        }
    }
    let is_uniform = |row: &&Measurement| row.load.addresses == Addresses::Uniform;
    let mut by_rate: Vec<&Measurement> = stable().filter(is_uniform).collect();
    by_rate.sort_by_key(|row| row.load.offered.map_or(0, |offered| offered.requests_s()));
    let wrong =
        amplification(&measurements.rows).or_else(|| neighbours(&by_rate)).or_else(|| writes(&by_rate));
    wrong.map_or(Ok(()), |(line, what)| nonsense(line, what))
}

fn amplification(rows: &[Measurement]) -> Option<(u64, String)> {
    rows.iter().enumerate().find_map(|(at, row)| {
        let waf = row.seen.waf?;
        rows[..at].iter().find_map(|other| {
            let before = other.seen.waf?;
            if row.load.addresses != other.load.addresses {
                return None;
            }
            let (used, used_before) = (row.load.used_bytes, other.load.used_bytes);
            // `more` is the write amplification of the fuller drive.
            let (less, more) = if used < used_before { (waf, before) } else { (before, waf) };
            let is_wrong = if used == used_before { waf.max(before) > SAME_WAF * waf.min(before) } else { more < FALLING_WAF * less };
            let line = other.line;
            is_wrong.then(|| {
                let what = format!(
                    "waf is {waf} with {used} bytes in use, but on line {line} it is {before} with {used_before}: a fuller \
                     drive has a higher waf, an equally full one the same; remove the wrong row"
                );
                (row.line, what)
            })
        })
    })
}

/// First percentile that is far above, or far below, its values at both neighbouring rates.
fn neighbours(by_rate: &[&Measurement]) -> Option<(u64, String)> {
    let of = |kind: &'static str, sure: usize| {
        (0..4).map(move |at| (kind, at, if at < sure { NEIGHBOURS } else { NEIGHBOURING_TAILS }))
    };
    let mut figures = of("read", 3).chain(of("write", 1));
    figures.find_map(|(kind, at, most)| {
        let of = |row: &&Measurement| {
            let us = if kind == "read" { &row.seen.read_us } else { &row.seen.write_us };
            Some((row.line, us[at]?))
        };
        let known: Vec<(u64, f64)> = by_rate.iter().filter_map(of).collect();
        known.windows(3).find_map(|of| {
            let [(_, before), (line, us), (_, after)] = *of else { return None };
            let is_off = us > most * before.max(after) || us * most < before.min(after);
            is_off.then(|| {
                let name = PERCENTILES[at].0;
                let what = format!(
                    "{kind}_{name}_us is {us}, but {before} and {after} at the rates next to it: is it in another unit? \
                     Latencies are in µs; leave the cell empty if it cannot be corrected"
                );
                (line, what)
            })
        })
    })
}

fn writes(by_rate: &[&Measurement]) -> Option<(u64, String)> {
    let row = by_rate.first()?;
    let (read, write) = (row.seen.read_us[0]?, row.seen.write_us[0]?);
    (write > WRITES * read).then(|| {
        let what = format!(
            "write_p50_us is {write}, more than {WRITES} times read_p50_us, {read}, at the lowest rate: is it in ns? \
             Latencies are in µs; leave the write latencies empty if the value is right"
        );
        (row.line, what)
    })
}

fn asked(load: &Load, capacity_bytes: u64) -> Option<String> {
    let &Load { used_bytes, jobs, offered, .. } = load;
    if used_bytes > capacity_bytes {
        return Some(format!("used_bytes is {used_bytes}, more than capacity_bytes, {capacity_bytes}"));
    }
    if used_bytes < capacity_bytes / 100 {
        return Some(format!(
            "used_bytes is {used_bytes}, less than a hundredth of capacity_bytes, {capacity_bytes}: is it in another unit? \
             Leave it empty if all is in use"
        ));
    }
    // The other checks concern open loops.
    let Offered { writes_s, reads_s } = offered?;
    if writes_s == 0 && reads_s == 0 {
        return Some(
            "offered_writes_s and offered_reads_s are 0: leave both empty if jobs write as fast as they can, else remove \
             the row"
                .into(),
        );
    }
    if writes_s < reads_s {
        return Some(format!(
            "offered_writes_s is {writes_s}, less than offered_reads_s, {reads_s}: the measured job writes as much as it \
             reads, and its writes are included"
        ));
    }
    if jobs == 1 && writes_s > reads_s {
        return Some(format!(
            "jobs is 1, and this job writes as much as it reads, {reads_s} a second, but offered_writes_s is {writes_s}: \
             include the jobs that write the rest"
        ));
    }
    (1..READS_MIN).contains(&reads_s).then(|| {
        format!(
            "offered_reads_s is {reads_s}: with less than {READS_MIN} reads a second high percentiles are random; is it in \
             thousands?"
        )
    })
}

fn seen(row: &Measurement) -> Option<String> {
    let seen = &row.seen;
    let has_reads = seen.read_us.iter().any(Option::is_some);
    match row.load.offered {
        None if has_reads => {
            return Some("read latencies, but both offered rates are empty, so jobs only write".into());
        }
        Some(Offered { reads_s: 0, .. }) if has_reads => {
            return Some("read latencies, but offered_reads_s is 0".into());
        }
        Some(offered) => {
            let requests = offered.requests_s() as f64;
            if let Some(done) = seen.completed_s.filter(|done| *done > 1.05 * requests) {
                return Some(format!("completed_s is {done}, but only {requests} were offered in a second"));
            }
        }
        None => {}
    }
    if let Some(done) = seen.completed_s.filter(|done| *done > COMPLETED_MAX) {
        return Some(format!(
            "completed_s is {done}: no drive completes more than {COMPLETED_MAX} in a second"
        ));
    }
    if let Some(waf) = seen.waf.filter(|waf| !WAF.contains(waf)) {
        return Some(format!("waf is {waf}: it is bytes programmed per byte written, about 1 to 20"));
    }
    for (name, us) in [("read", &seen.read_us), ("write", &seen.write_us)] {
        if let Some(what) = latencies(name, us) {
            return Some(what);
        }
    }
    // A row without any figure could neither be fitted to nor judged.
    let has_any = has_reads
        || seen.write_us.iter().any(Option::is_some)
        || seen.completed_s.is_some()
        || seen.waf.is_some();
    (!has_any).then(|| "the row has no measurement: remove it".into())
}

fn latencies(kind: &str, us: &[Option<f64>; 4]) -> Option<String> {
    let known = || PERCENTILES.iter().zip(us).filter_map(|((name, _), us)| Some((*name, (*us)?)));
    let [least, most_median, most] = LATENCY_US;
    for (name, us) in known() {
        if us < least {
            return Some(format!("{kind}_{name}_us is {us}: no drive is that fast; latencies are in µs"));
        }
        if us > most || (kind == "read" && name == "p50" && us > most_median) {
            let most = if us > most { "100 seconds" } else { "a second" };
            return Some(format!(
                "{kind}_{name}_us is {us}, more than {most}: latencies are in µs, is this in ns?"
            ));
        }
    }
    for ((low, less), (high, more)) in known().zip(known().skip(1)) {
        if less > more {
            return Some(format!(
                "{kind}_{low}_us is {less}, more than {kind}_{high}_us, {more}: a higher percentile cannot be shorter"
            ));
        }
        // Only reads: a stalled write may be that much slower than a cached one.
        if kind == "read" && more >= UNIT * less {
            return Some(format!(
                "read_{high}_us is {more}, more than {UNIT} times read_{low}_us, {less}: is one of them in another unit? \
                 Latencies are in µs"
            ));
        }
    }
    None
}

fn throughput(row: &Measurement, rows: &[Measurement]) -> Option<String> {
    let (offered, done) = (row.load.offered?, row.seen.completed_s?);
    if row.keeps_up() {
        return None;
    }
    let reads_s = offered.reads_s;
    rows.iter().find_map(|other| {
        let (most, carried) = (other.load.offered?, other.seen.completed_s?);
        let rates = Some(Offered { reads_s, ..most });
        if other.load != (Load { offered: rates, ..row.load }) {
            return None;
        }
        // Beyond saturation a drive may complete less than its best, but only by a bounded factor.
        let is_less = if most.writes_s > offered.writes_s { done < KEEPS_UP * carried && other.keeps_up() } else { COLLAPSE * done < carried };
        is_less.then(|| {
            format!(
                "completed_s is {done} of {} offered, but on line {} it is {carried}, so the drive can complete that: correct \
                 the unit, or remove the wrong row",
                offered.requests_s(),
                other.line
            )
        })
    })
}

fn outstanding(row: &Measurement) -> Option<String> {
    let reads_s = row.load.offered?.reads_s;
    // Lower bound of the mean latency from its percentiles, in µs.
    let mean = |us: &[Option<f64>; 4]| {
        let known: Vec<(f64, f64)> =
            SHARES.iter().zip(us).filter_map(|(&share, us)| Some((share, (*us)?))).collect();
        // Requests between two percentiles take at least the lower one.
        let ends = known.iter().skip(1).map(|(share, _)| *share).chain([1.0]);
        known.iter().zip(ends).map(|((share, us), end)| (end - share) * us).sum::<f64>()
    };
    let (reads, writes) = (mean(&row.seen.read_us), mean(&row.seen.write_us));
    // Little's law: mean requests in flight = arrivals per second × mean latency in seconds.
    let least = reads_s as f64 * (reads + writes) / 1e6;
    let depth = row.load.queue_depth;
    (least > 1.1 * f64::from(depth)).then(|| {
        format!(
            "{reads_s} reads a second with a mean of at least {reads:.0} µs, and the same number of writes with {writes:.0} \
             µs, keep {least:.0} requests outstanding, but queue_depth is {depth}: latencies are in µs, are these in ns?"
        )
    })
}
