//! Loads in fio's words: job files and command-line options. A word is one of fio's options.
//!
//! A word has the same meaning as in fio, is refused with an alternative, or has no effect on the drive and
//! is named in a note ([`WORDS`]). `crates/cli/tests/cli/fio_streams.rs` compares the resulting requests with
//! fio's.

mod job;
mod job_file;
mod value;
mod words;

use toml::{Table, Value};

use self::job::Job;
use self::job_file::{Section, shown};
pub use self::words::{Meaning, WORDS, Word, find, taken_names};

/// Virtual time of a measurement without a given length.
pub const RUNTIME: &str = "10s";

/// Drive that a load runs on.
pub struct Target<'a> {
    /// Preset or file of the drive.
    pub drive: &'a str,
    /// Capacity for a host, for sizes in percent.
    pub bytes: &'a dyn Fn() -> Result<u64, String>,
    /// True if the load is a job file.
    pub is_file: bool,
}

/// Experiment made from a load.
#[derive(Debug, Default)]
pub struct Load {
    /// Tables of the experiment file.
    pub experiment: Table,
    /// Words that were left out, and assumptions.
    pub notes: Vec<String>,
    /// Keys of the experiment, each with the word that it comes from.
    pub origins: Vec<(String, String)>,
}

/// Converts the job file `name` with the content `text`.
pub fn from_job_file(text: &str, name: &str, target: &Target<'_>) -> Result<Load, String> {
    let (mut global, mut jobs, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for Section { name: section, words } in job_file::sections(text, name)? {
        let of = |word: &str| format!("{name}: [{section}] {word}");
        let mut own = Vec::new();
        for (word, value) in words {
            match known(&word, &value) {
                Ok(Some(word)) => own.push((word, value)),
                Ok(None) => push_idle(&mut idle, &word),
                Err(why) => return Err(format!("{}: {why}", of(&word))),
            }
        }
        if section == "global" {
            global.extend(own);
        } else {
            // The words of [global] come first, so a job's own words override them.
            let words = [global.clone(), own].concat();
            let job =
                Job::new(&section, &words, target).map_err(|(word, why)| format!("{}: {why}", of(word)))?;
            jobs.push(job);
        }
    }
    if jobs.is_empty() {
        return Err(format!(
            "{name}: no job found; a job begins with its name in brackets, such as [random-writes]"
        ));
    }
    let mut load = assembled(jobs, target).map_err(|why| format!("{name}: {why}"))?;
    load.notes.iter_mut().for_each(|note| *note = format!("{name}: {note}"));
    load.notes.splice(0..0, idle_note(&idle).map(|note| format!("{name}: {note}")));
    Ok(load)
}

/// Converts command-line options into a load of one job. `given` holds words and values, "" without a value.
pub fn from_options(given: &[(&str, &str)], target: &Target<'_>) -> Result<Load, String> {
    let (mut words, mut idle) = (Vec::new(), Vec::new());
    for &(word, value) in given {
        match known(word, value).map_err(|why| format!("{}: {why}", option(word, value)))? {
            Some(word) => words.push((word, value.to_owned())),
            None => push_idle(&mut idle, word),
        }
    }
    let refusal = |(word, why): (&str, String)| {
        let value = words.iter().rfind(|(name, _)| *name == word).map_or("", |(_, value)| value);
        format!("{}: {why}", option(word, value))
    };
    let rw = words.iter().rfind(|(word, _)| *word == "rw").map_or("load", |(_, rw)| rw);
    let job = Job::new(rw, &words, target).map_err(refusal)?;
    let mut load = assembled(vec![job], target)?;
    // Defaults are documented with the options and not repeated in every run.
    load.notes.retain(|note| !note.starts_with(NO_RUNTIME));
    load.notes.splice(0..0, idle_note(&idle));
    Ok(load)
}

fn option(word: &str, value: &str) -> String {
    if value.is_empty() { format!("--{word}") } else { format!("--{word} {value}") }
}

/// Main name of `word`; `None` if it has no effect with this `value`.
fn known(word: &str, value: &str) -> Result<Option<&'static str>, String> {
    let Some(found) = find(word) else {
        let names = WORDS.iter().map(|word| word.name);
        let near = strobe_ssd::schema::nearest(word, names)
            .map_or(String::new(), |near| format!("; did you mean {near}?"));
        let taken = taken_names().join(", ");
        return Err(format!("unknown option of fio{near}; supported options are {taken}"));
    };
    match found.meaning {
        Meaning::Taken { .. } => Ok(Some(found.name)),
        Meaning::NoEffect => Ok(None),
        Meaning::Refused { but, .. } if but.contains(&value) => Ok(None),
        Meaning::Refused { cure, .. } => {
            Err(format!("{} would change the load; use {cure}", shown(value_of(word, value))))
        }
    }
}

fn value_of<'a>(word: &'a str, value: &'a str) -> &'a str {
    if value.is_empty() { word } else { value }
}

fn push_idle(idle: &mut Vec<String>, word: &str) {
    if !idle.iter().any(|other| other == word) {
        idle.push(word.to_owned());
    }
}

fn idle_note(idle: &[String]) -> Option<String> {
    (!idle.is_empty())
        .then(|| format!("ignored, because the drive gets the same commands without it: {}", idle.join(", ")))
}

const NO_RUNTIME: &str = "no runtime";

/// Makes the experiment: [workload] for options of a single job that ends with the run, else [[jobs]].
fn assembled(mut jobs: Vec<Job>, target: &Target<'_>) -> Result<Load, String> {
    let mut load = Load::default();
    let (mut warmup, mut seed) = (None, None);
    // A warm-up belongs to the run and ends for all jobs together.
    let ramp = |job: &Job| job.ramp.clone();
    if let Some(job) = jobs.iter().find(|job| {
        let begins_late = ["stonewall", "startdelay"].iter().any(|key| job.has(key));
        jobs.iter().any(|other| other.ramp.is_some()) && (ramp(job) != ramp(&jobs[0]) || begins_late)
    }) {
        let why = "begins later, or has another ramp_time: all jobs share one warm-up and begin together";
        return Err(format!("[{}] {why}; leave ramp_time out, or run the jobs one by one", job.name));
    }
    for job in &mut jobs {
        load.notes.append(&mut job.notes);
        warmup = job.ramp.take().or(warmup);
        seed = job.seed.take().or(seed);
    }
    let has_ends = jobs.iter().any(Job::ends_alone);
    let runtimes: Vec<Option<String>> = jobs.iter().map(|job| job.runtime.clone()).collect();
    let measure = if has_ends {
        None
    } else if runtimes.iter().all(Option::is_none) {
        load.notes.push(format!(
            "{NO_RUNTIME} and no size given: {RUNTIME} of virtual time are measured (runtime=…)"
        ));
        Some(RUNTIME.to_owned())
    } else if runtimes.windows(2).all(|two| two[0] == two[1]) {
        runtimes[0].clone()
    } else {
        // With different runtimes each job ends separately, and the run ends with the last job.
        None
    };
    // A job of a file keeps its name, which only [[jobs]] have. Options name no job.
    let is_alone = jobs.len() == 1 && measure.is_some() && !jobs[0].needs_table() && !target.is_file;
    let mut tables = Vec::new();
    for (at, mut job) in jobs.into_iter().enumerate() {
        if measure.is_none() {
            if !job.has_end() && job.runtime.is_none() {
                return Err(format!(
                    "[{}] has no runtime and no size: it would never end; give it one",
                    job.name
                ));
            }
            job.put_ends(warmup.as_deref())?;
        }
        let path = if is_alone { "workload".to_owned() } else { format!("jobs[{at}]") };
        let origins = job.origins.iter().map(|(key, word)| (format!("{path}.{key}"), word.clone()));
        load.origins.extend(origins);
        tables.extend(job.copies(!is_alone));
    }
    let table = |key: &str, value: Value| Value::Table(Table::from_iter([(key.to_owned(), value)]));
    let (key, value) = if is_alone {
        ("workload", Value::Table(tables.remove(0)))
    } else {
        ("jobs", Value::Array(tables.into_iter().map(Value::Table).collect()))
    };
    load.experiment.insert("seed".to_owned(), seed.unwrap_or(1).into());
    load.experiment.insert("drive".to_owned(), table("preset", target.drive.into()));
    load.experiment.insert(key.to_owned(), value);
    let mut run = Table::new();
    if let Some(measure) = measure {
        load.origins.push(("run.measure".to_owned(), "runtime".to_owned()));
        run.insert("measure".to_owned(), measure.into());
    }
    if let Some(warmup) = warmup {
        load.origins.push(("run.warmup".to_owned(), "ramp_time".to_owned()));
        run.insert("warmup".to_owned(), warmup.into());
    }
    if !run.is_empty() {
        load.experiment.insert("run".to_owned(), run.into());
    }
    Ok(load)
}
