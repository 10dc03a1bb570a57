//! fio's job files as experiments.
//!
//! A key of a job file is one of three kinds:
//!
//! 1. it describes the load, and becomes a key of the experiment (`rw`, `bs`, `iodepth`, `runtime`, …);
//! 2. it says how fio issues requests on a host, which has no part here (`ioengine`, `direct`, `filename`, …): it is
//!    left out and named on standard error;
//! 3. anything else would change the load: the job file is refused.

use std::path::Path;

use strobe_ssd::schema::nearest;
use toml::{Table, Value};

use super::load::{BLOCK_SIZE, RUNTIME, experiment};

/// Keys that keep their names and their values.
const KEPT: &[&str] = &["bssplit", "size", "offset", "random_distribution", "rw", "bs"];
/// Keys that keep their names and are numbers.
const NUMBERS: &[&str] = &["iodepth", "rwmixread", "rwmixwrite", "rate_iops", "numjobs", "thinktime_blocks"];
/// Other names of the same keys.
const ALIASES: &[(&str, &str)] =
    &[("readwrite", "rw"), ("blocksize", "bs"), ("fdatasync", "fsync"), ("start_delay", "startdelay")];
/// Keys that need more than a new name.
const OTHERS: &[&str] =
    &["runtime", "time_based", "ramp_time", "startdelay", "thinktime", "fsync", "randseed", "name"];
/// Keys that say how requests are issued, named or logged on a host.
const IGNORED: &[&str] = &[
    "ioengine",
    "direct",
    "buffered",
    "filename",
    "directory",
    "group_reporting",
    "thread",
    "invalidate",
    "norandommap",
    "randrepeat",
    "refill_buffers",
    "scramble_buffers",
    "zero_buffers",
    "cpus_allowed",
    "cpus_allowed_policy",
    "numa_cpu_nodes",
    "description",
    "clat_percentiles",
    "lat_percentiles",
    "slat_percentiles",
    "percentile_list",
    "gtod_reduce",
    "clocksource",
    "fallocate",
    "create_on_open",
    "overwrite",
    "end_fsync",
    "fsync_on_close",
    "exitall",
    "write_bw_log",
    "write_iops_log",
    "write_lat_log",
    "log_avg_msec",
    "unified_rw_reporting",
    "disable_clat",
    "disable_slat",
    "disable_lat",
    "disable_bw_measurement",
    "iodepth_batch",
    "iodepth_batch_complete_min",
    "iodepth_batch_complete_max",
    "iodepth_low",
    "hipri",
    "fixedbufs",
    "registerfiles",
    "sqthread_poll",
    "nrfiles",
    "random_generator",
    "unlink",
    "eta",
    "kb_base",
    "allow_mounted_write",
    "ioscheduler",
    "mem",
    "prio",
    "nice",
];

/// The experiment of a job file, and notes for the one who gave it.
pub(super) struct FioJob {
    pub(super) experiment: Table,
    pub(super) notes: Vec<String>,
}

/// True if `path` names a job file of fio.
pub(super) fn is_job_file(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "fio")
}

/// Reads `text`, the job file `name`, for `drive`.
pub(super) fn read(text: &str, name: &str, drive: Option<&str>) -> Result<FioJob, String> {
    let sections = sections(text, name)?;
    let (mut global, mut jobs, mut ignored) = (Table::new(), Vec::new(), Vec::new());
    for section in sections {
        let of = |key: &str| format!("{name}: [{}] {key}", section.name);
        let mut table = if section.name == "global" { Table::new() } else { global.clone() };
        for (key, value) in &section.keys {
            let key = ALIASES.iter().find(|(other, _)| other == key).map_or(key.as_str(), |(_, key)| key);
            if IGNORED.contains(&key) {
                if !ignored.iter().any(|other| other == key) {
                    ignored.push(key.to_owned());
                }
                continue;
            }
            let (key, value) =
                converted(key, value.as_deref()).map_err(|why| format!("{}: {why}", of(key)))?;
            table.insert(key.to_owned(), value);
        }
        if section.name == "global" {
            global.extend(table);
        } else {
            table.entry("name").or_insert_with(|| section.name.as_str().into());
            jobs.push(table);
        }
    }
    if jobs.is_empty() {
        return Err(format!(
            "{name}: no job in it; a job begins with its name in brackets, such as [random-writes]"
        ));
    }
    let mut notes = Vec::new();
    if !ignored.is_empty() {
        notes.push(format!(
            "{name}: left out, as it has no meaning on a simulated drive: {}",
            ignored.join(", ")
        ));
    }
    let experiment = assembled(jobs, name, drive, &mut notes)?;
    Ok(FioJob { experiment, notes })
}

struct Section {
    name: String,
    keys: Vec<(String, Option<String>)>,
}

fn sections(text: &str, name: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    for (at, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(title) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if title.trim().is_empty() {
                return Err(format!(
                    "{name}, line {}: a job without a name; write one between the brackets",
                    at + 1
                ));
            }
            sections.push(Section { name: title.trim().to_owned(), keys: Vec::new() });
            continue;
        }
        let Some(section) = sections.last_mut() else {
            return Err(format!("{name}, line {}: \"{}\" is before the first [job]", at + 1, shown(line)));
        };
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim().to_owned())),
            None => (line, None),
        };
        section.keys.push((key.to_owned(), value));
    }
    Ok(sections)
}

/// As much of `text` as a message quotes.
fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}

/// The key and the value of an experiment that a key of a job file stands for.
fn converted<'a>(key: &'a str, value: Option<&str>) -> Result<(&'a str, Value), String> {
    let given = || value.filter(|value| !value.is_empty()).ok_or_else(|| "it has no value".to_owned());
    let number = || {
        let given = given()?;
        let number: Option<i64> = given.parse().ok().filter(|&number| number >= 0);
        number.map(Value::Integer).ok_or_else(|| format!("\"{}\" is not a whole number", shown(given)))
    };
    let time = |unit: &str| -> Result<Value, String> {
        let given = given()?;
        let is_bare = given.chars().all(|c| c.is_ascii_digit());
        Ok(if is_bare { format!("{given}{unit}") } else { given.to_owned() }.into())
    };
    Ok(match key {
        "time_based" => (key, true.into()),
        "runtime" | "ramp_time" | "startdelay" => (key, time("s")?),
        "thinktime" => (key, time("us")?),
        "fsync" => ("flush_every", number()?),
        "randseed" => ("seed", number()?),
        "name" => (key, given()?.into()),
        _ if NUMBERS.contains(&key) => (key, number()?),
        _ if KEPT.contains(&key) => (key, given()?.into()),
        _ => {
            let known = || KEPT.iter().chain(NUMBERS).chain(OTHERS).chain(IGNORED).copied();
            let near = nearest(key, known()).map_or(String::new(), |near| format!("; did you mean {near}?"));
            let names: Vec<&str> = KEPT.iter().chain(NUMBERS).chain(OTHERS).copied().collect();
            return Err(format!(
                "no key of a job file that is known here{near}; known are {}",
                names.join(", ")
            ));
        }
    })
}

/// The experiment of `jobs`: a workload if one is all, else [[jobs]].
fn assembled(
    mut jobs: Vec<Table>,
    name: &str,
    drive: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<Table, String> {
    let mut runtimes = Vec::new();
    let (mut warmup, mut seed) = (None, None);
    for job in &mut jobs {
        job.remove("time_based");
        runtimes.push(job.get("runtime").and_then(Value::as_str).map(str::to_owned));
        warmup = job.remove("ramp_time").or(warmup);
        seed = job.remove("seed").or(seed);
        if !job.contains_key("rw") {
            job.insert("rw".to_owned(), "read".into());
        }
        if !job.contains_key("bs") && !job.contains_key("bssplit") {
            job.insert("bs".to_owned(), BLOCK_SIZE.into());
        }
        let writes_only = matches!(job["rw"].as_str(), Some("write" | "randwrite"));
        if job.contains_key("flush_every") && !writes_only {
            return Err(format!(
                "{name}: fsync counts writes only, and rw={} has reads: take fsync out, or make a job of the writes",
                job["rw"]
            ));
        }
    }
    let is_alone = jobs.len() == 1 && ["numjobs", "startdelay"].iter().all(|key| !jobs[0].contains_key(*key));
    let runtime = if runtimes.iter().all(Option::is_none) {
        notes.push(format!("{name}: no runtime in it: {RUNTIME} of virtual time are measured (runtime=…)"));
        RUNTIME.to_owned()
    } else if runtimes.windows(2).all(|two| two[0] == two[1]) {
        runtimes[0].clone().unwrap_or_else(|| RUNTIME.to_owned())
    } else {
        // Jobs of different lengths: each ends by itself, and the run with the last of them.
        String::new()
    };
    for job in &mut jobs {
        if !runtime.is_empty() {
            job.remove("runtime");
        } else if !job.contains_key("runtime") {
            return Err(format!(
                "{name}: [{}] has no runtime and others have one: give each one",
                job["name"]
            ));
        }
        if is_alone {
            job.remove("name");
        }
    }
    let load = if is_alone {
        ("workload", Value::Table(jobs.remove(0)))
    } else {
        ("jobs", Value::Array(jobs.into_iter().map(Value::Table).collect()))
    };
    let mut experiment = experiment(drive, [load], &runtime);
    if let Some(Value::Table(run)) = experiment.get_mut("run") {
        if runtime.is_empty() {
            run.remove("measure");
        }
        run.extend(warmup.map(|warmup| ("warmup".to_owned(), warmup)));
    }
    experiment.extend(seed.map(|seed| ("seed".to_owned(), seed)));
    Ok(experiment)
}
