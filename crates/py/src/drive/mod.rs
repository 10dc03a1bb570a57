//! A drive, for single commands or many.

mod many;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use strobe_ssd::{
    Command, CommandError, DataTag, DriveBuilder, DriveConfig, Pacing, Range, Simulated, StateFile,
    StateHeader, StateReader, Stored, build, write_state,
};
use strobe_types::{Lba, Op, SECTOR_BYTES, SimTime};

use crate::arrays::{Requests, kind_named, op_named};
use crate::experiment::{OwnPolicies, PLACEMENT, PyExperiment, VICTIM, table_of, written};
use crate::listing::{drive_config, preset_table};
use crate::score::Trouble;
use crate::table::Table as Out;
use crate::watch::Watcher;
use crate::{counts, errors, tables};

struct Inner {
    drive: Box<dyn Simulated>,
    now: SimTime,
    tag: u64,
}

/// A drive with its own clock, in virtual nanoseconds.
///
/// Methods for a single command wait for its completion: the next command starts afterwards.
///
/// config is a preset name, the path of a file, a mapping with the keys of a table `drive`, or an
/// Experiment. timing=False only counts operations and is several times as fast. victim is the name or
/// formula of a victim policy, or a function as for strobe.run. placement is the name or formula of a
/// placement, or an object as for strobe.run.
#[pyclass(frozen, module = "strobe", name = "Drive")]
pub(crate) struct PyDrive {
    inner: Mutex<Inner>,
    config: DriveConfig,
    timing: bool,
    seed: u64,
    trouble: Trouble,
}

/// `given` is a preset or file name, the drive's keys, or an experiment.
fn config_of(given: Option<&Bound<'_, PyAny>>, sets: &[String]) -> PyResult<DriveConfig> {
    let Some(given) = given else { return drive_config(toml::Table::new(), sets) };
    if let Ok(experiment) = given.extract::<PyExperiment>() {
        return Ok(experiment.with(sets)?.experiment.drive);
    }
    match given.extract::<PathBuf>() {
        Ok(name) => drive_config(preset_table(&name.to_string_lossy())?, sets),
        Err(_) => drive_config(table_of(given)?, sets),
    }
}

/// Adds a name or formula to `sets` as the value of `key`. Returns any other policy, which the drive calls.
fn set_of<'a, 'py>(
    key: &str,
    policy: Option<&'a Bound<'py, PyAny>>,
    sets: &mut Vec<String>,
) -> Option<&'a Bound<'py, PyAny>> {
    let policy = policy?;
    let Ok(name) = policy.extract::<String>() else { return Some(policy) };
    sets.push(format!("{key}={}", toml::Value::String(name)));
    None
}

impl PyDrive {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(inner: Inner, config: DriveConfig, timing: bool, seed: u64, trouble: Trouble) -> Self {
        Self { inner: Mutex::new(inner), config, timing, seed, trouble }
    }

    /// Runs `work` without the interpreter lock, for other Python threads.
    fn work<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Inner) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| work(&mut self.lock()));
        self.trouble.raised()?;
        done
    }

    fn alone(&self, py: Python<'_>, command: &Command<'_>) -> PyResult<u64> {
        self.work(py, |inner| {
            inner.now = inner.drive.execute(inner.now, command).map_err(errors::command)?;
            Ok(inner.now.as_ns())
        })
    }
}

#[pymethods]
impl PyDrive {
    #[new]
    #[pyo3(signature = (config = None, *, timing = true, seed = 1, victim = None, placement = None))]
    fn new(
        py: Python<'_>,
        config: Option<&Bound<'_, PyAny>>,
        timing: bool,
        seed: u64,
        victim: Option<&Bound<'_, PyAny>>,
        placement: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let trouble = Trouble::default();
        let mut sets = Vec::new();
        let function = set_of(VICTIM, victim, &mut sets);
        let object = set_of(PLACEMENT, placement, &mut sets);
        let config = config_of(config, &sets)?;
        let own = OwnPolicies::of(function, object, &config)?;
        let drive = py.detach(|| {
            if own.is_any() {
                DriveBuilder::new(&config, timing, seed).and_then(|builder| own.build(builder, &trouble))
            } else {
                build(&config, timing, seed)
            }
        });
        let inner = Inner { drive: drive.map_err(errors::build)?, now: SimTime::ZERO, tag: 0 };
        Ok(Self::of(inner, config, timing, seed, trouble))
    }

    /// Loads the drive saved at path, including its in-flight commands.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let file = StateFile::open(&path).map_err(errors::state_file)?;
        let header = file.header().clone();
        let mut now = SimTime::ZERO;
        let drive = py.detach(|| {
            file.load(&mut |from: &mut StateReader<'_>| {
                now = SimTime::restored(from)?;
                // A run saves more state than the drive. It is not used here.
                from.skip_rest()
            })
        });
        let drive = drive.map_err(errors::state_file)?;
        let tag = header.more["tag"].as_u64().unwrap_or(0);
        let inner = Inner { drive, now, tag };
        Ok(Self::of(inner, header.drive, header.timing, header.seed, Trouble::default()))
    }

    /// Saves the complete state. An existing file is replaced only with overwrite=True.
    #[pyo3(signature = (path, *, overwrite = false))]
    fn save(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        self.work(py, |inner| {
            let more = serde_json::json!({ "point": "end", "made_by": {}, "tag": inner.tag });
            let header = StateHeader::new(&self.config, self.timing, self.seed, more);
            written(&path, overwrite, |mut file| {
                write_state(&mut file, &header, &*inner.drive, &|out| inner.now.store(out))
                    .map_err(errors::state)?;
                Ok(((), true))
            })
        })
    }

    /// Returns an independent copy in the current state.
    fn fork(&self, py: Python<'_>) -> PyResult<Self> {
        self.work(py, |inner| {
            let inner = Inner { drive: inner.drive.freeze(), now: inner.now, tag: inner.tag };
            Ok(Self::of(inner, self.config.clone(), self.timing, self.seed, self.trouble.clone()))
        })
    }

    /// Virtual time, in ns.
    #[getter]
    fn now(&self) -> u64 {
        self.lock().now.as_ns()
    }

    /// Capacity in sectors of 512 bytes.
    #[getter]
    fn sectors(&self) -> u64 {
        self.lock().drive.sectors()
    }

    /// Sectors of a mapping unit. Aligned writes of whole units need no read-modify-write.
    #[getter]
    fn unit_sectors(&self) -> u32 {
        self.lock().drive.geometry().sectors_per_unit()
    }

    /// Seed of the drive.
    #[getter]
    fn seed(&self) -> u64 {
        self.seed
    }

    /// True if timing is simulated.
    #[getter]
    fn timing(&self) -> bool {
        self.timing
    }

    /// Submitted commands whose completion has not been returned yet.
    #[getter]
    fn outstanding(&self) -> usize {
        self.lock().drive.outstanding()
    }

    /// Time of the next event visible to a host, in ns; None if there is no event.
    #[getter]
    fn next_event(&self) -> Option<u64> {
        self.lock().drive.next_event().map(SimTime::as_ns)
    }

    /// Logical mapping units with data on flash.
    #[getter]
    fn mapped_units(&self) -> u32 {
        self.lock().drive.mapped_units()
    }

    /// Erased blocks.
    #[getter]
    fn free_blocks(&self) -> u32 {
        self.lock().drive.free_blocks()
    }

    /// Write amplification since the drive was new; None before the first write.
    #[getter]
    fn waf(&self) -> Option<f64> {
        let inner = self.lock();
        inner.drive.stats().waf(inner.drive.geometry())
    }

    fn _config_json(&self) -> String {
        serde_json::to_string(&self.config).expect("a configuration is plain data")
    }

    /// Writes sectors, or data if the drive stores data; returns the completion time, in ns.
    ///
    /// handle is a placement handle (drive.ftl.placement.handles).
    #[pyo3(signature = (lba, sectors = None, *, data = None, fua = false, handle = 0))]
    fn write(
        &self,
        py: Python<'_>,
        lba: u64,
        sectors: Option<u32>,
        data: Option<Vec<u8>>,
        fua: bool,
        handle: u16,
    ) -> PyResult<u64> {
        // Without `sectors`, the data gives the length. If both are given and differ, the drive refuses the
        // command.
        let sectors = match (&data, sectors) {
            (None, None) => return Err(PyValueError::new_err("sectors or data is required")),
            (None, Some(sectors)) => sectors,
            (Some(data), given) => {
                let whole = data.len() as u64 / SECTOR_BYTES;
                given
                    .or(u32::try_from(whole).ok())
                    .ok_or_else(|| PyValueError::new_err("too much data for one command"))?
            }
        };
        let range = Range::new(Lba::new(lba), sectors);
        let command = Command::Write { range, fua, tag: DataTag::placed(handle) };
        self.work(py, |inner| {
            // `wait` takes the next completion for that of its command, so no other command may be in flight.
            if inner.drive.outstanding() > 0 {
                return Err(errors::command(CommandError::Busy(inner.drive.outstanding())));
            }
            many::wait(inner, &command, data.as_deref())
        })
    }

    /// Reads sectors; returns their bytes if the drive stores data, else None.
    #[pyo3(signature = (lba, sectors))]
    fn read<'py>(&self, py: Python<'py>, lba: u64, sectors: u32) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let bytes = self.work(py, |inner| {
            if !inner.drive.keeps_contents() {
                let range = Range::new(Lba::new(lba), sectors);
                inner.now =
                    inner.drive.execute(inner.now, &Command::Read { range }).map_err(errors::command)?;
                return Ok(None);
            }
            let end = lba.checked_add(sectors.into()).filter(|&end| end <= inner.drive.sectors());
            // Check the range first: never allocate more than the capacity of the drive.
            let length = if end.is_some() { sectors as usize * SECTOR_BYTES as usize } else { 0 };
            let mut bytes = vec![0; length];
            let read = match end {
                Some(_) => inner.drive.read_bytes(inner.now, Lba::new(lba), &mut bytes),
                // A range beyond the end: the drive itself reports the error.
                None => inner
                    .drive
                    .execute(inner.now, &Command::Read { range: Range::new(Lba::new(lba), sectors) }),
            };
            inner.now = read.map_err(errors::command)?;
            Ok(Some(bytes))
        })?;
        Ok(bytes.map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// Deallocates sectors; returns the completion time, in ns.
    fn trim(&self, py: Python<'_>, lba: u64, sectors: u32) -> PyResult<u64> {
        self.alone(py, &Command::Deallocate(&[Range::new(Lba::new(lba), sectors)]))
    }

    /// Makes all completed writes durable; returns the completion time, in ns.
    fn flush(&self, py: Python<'_>) -> PyResult<u64> {
        self.alone(py, &Command::Flush)
    }

    /// Writes zeroes, or deallocates with deallocate=True; returns the completion time, in ns.
    #[pyo3(signature = (lba, sectors, *, deallocate = false))]
    fn write_zeroes(&self, py: Python<'_>, lba: u64, sectors: u32, deallocate: bool) -> PyResult<u64> {
        self.alone(py, &Command::WriteZeroes { range: Range::new(Lba::new(lba), sectors), deallocate })
    }

    /// Copies sectors within the drive; returns the completion time, in ns.
    fn copy(&self, py: Python<'_>, destination: u64, source: u64, sectors: u32) -> PyResult<u64> {
        let sources = [Range::new(Lba::new(source), sectors)];
        self.alone(py, &Command::Copy { destination: Lba::new(destination), sources: &sources })
    }

    /// Writes back the write buffer and makes it durable, as before power-off; returns the completion time,
    /// in ns.
    fn settle(&self, py: Python<'_>) -> PyResult<u64> {
        self.work(py, |inner| {
            inner.now = inner.drive.settle(inner.now).map_err(errors::command)?;
            Ok(inner.now.as_ns())
        })
    }

    /// Submits commands now, all at once. Returns the tag of the first; the others have consecutive tags.
    #[pyo3(signature = (op, lba, sectors))]
    fn submit(
        &self,
        py: Python<'_>,
        op: &Bound<'_, PyAny>,
        lba: &Bound<'_, PyAny>,
        sectors: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        let requests = Requests::new(op, lba, sectors, None)?;
        self.work(py, |inner| {
            let first = inner.tag + 1;
            for at in 0..requests.len {
                let request = requests.get(at).map_err(PyValueError::new_err)?;
                inner.tag += 1;
                let range = [Range::new(request.lba, request.sectors)];
                inner.drive.submit(inner.now, inner.tag, &Command::of_request(&request, &range), None);
            }
            Ok(first)
        })
    }

    /// Advances to time until, in ns, or until all commands complete. Returns the completed commands: tag,
    /// at_ns, error.
    #[pyo3(signature = (until = None))]
    fn advance(&self, py: Python<'_>, until: Option<u64>) -> PyResult<Out> {
        let done = self.work(py, |inner| many::advance(inner, until.map(SimTime::from_ns)))?;
        tables::completions(&done)
    }

    /// Runs many commands and returns the time at which all are complete, in ns.
    ///
    /// Each column is an array, or one number for all. At most queue_depth commands are in flight, and at
    /// most one starts per interval_ns. With arrivals_ns each command has an arrival time, in ns from now.
    #[pyo3(signature = (op, lba, sectors, *, arrivals_ns = None, queue_depth = 1, interval_ns = 0))]
    #[allow(clippy::too_many_arguments, reason = "they have names in Python")]
    fn run(
        &self,
        py: Python<'_>,
        op: &Bound<'_, PyAny>,
        lba: &Bound<'_, PyAny>,
        sectors: &Bound<'_, PyAny>,
        arrivals_ns: Option<&Bound<'_, PyAny>>,
        queue_depth: u32,
        interval_ns: u64,
    ) -> PyResult<u64> {
        let requests = Requests::new(op, lba, sectors, arrivals_ns)?;
        if queue_depth == 0 {
            return Err(PyValueError::new_err("queue_depth=0; the minimum is 1"));
        }
        let pacing = if requests.has_arrivals() {
            Pacing::Open
        } else {
            Pacing::Closed { depth: queue_depth, interval_ns }
        };
        let mut watcher = Watcher::new(None, self.trouble.clone());
        self.work(py, |inner| many::run(inner, &requests, pacing, &mut watcher))
    }

    /// Returns all counters since the drive was new.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.lock().drive.stats();
        counts::stats(py, &stats)
    }

    /// Returns latencies of "read", "write", "trim" or "flush" since clear_latency, in ns.
    #[pyo3(signature = (op))]
    fn latency<'py>(&self, py: Python<'py>, op: &str) -> PyResult<Bound<'py, PyDict>> {
        let op: Op = op_named(op)?;
        counts::latency(py, self.lock().drive.latency().of(op))
    }

    /// Returns latencies since clear_latency as a table: ns, exact to three digits, and count.
    #[pyo3(signature = (op))]
    fn latencies(&self, op: &str) -> PyResult<Out> {
        tables::latencies(&self.lock().drive.latency().of(op_named(op)?).counts())
    }

    /// Returns all blocks, one per row. Scans every block.
    ///
    /// Columns named like the variables of victim formulas: block, stream (-1 if unknown), u, valid, invalid,
    /// units and erase_count; only victim policies know ages. Further columns: stage ("erased", "open",
    /// "full", "emptying", "tables" or "bad"), purpose (name of the stream) and written (units programmed
    /// since the erase).
    fn blocks(&self) -> PyResult<Out> {
        tables::blocks(&self.lock().drive.blocks())
    }

    /// Returns the logical units stored on flash, one per row. Scans every logical unit.
    ///
    /// Columns: unit, block, and slot, the position in the block, counted from 0. A slot without a row is
    /// stale if it is below the block's column written. Units in the write buffer appear where they were last
    /// programmed.
    fn units(&self) -> PyResult<Out> {
        tables::units(&*self.lock().drive)
    }

    /// Clears the recorded latencies.
    fn clear_latency(&self) {
        self.lock().drive.clear_latency();
    }

    /// Returns erase counts and bad blocks.
    fn wear<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let wear = self.lock().drive.wear();
        counts::wear(py, &wear)
    }

    /// Runs the whole-state checker; raises an exception for a violation.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.work(py, |inner| {
            inner.drive.check().map_err(|error| errors::raised::StrobeError::new_err(error.to_string()))
        })
    }

    /// Returns the number of commands of a kind since the drive was new.
    fn commands(&self, kind: &str) -> PyResult<u64> {
        Ok(self.lock().drive.stats().host.commands(kind_named(kind)?))
    }

    fn __repr__(&self) -> String {
        let inner = self.lock();
        let bytes = inner.drive.sectors() * SECTOR_BYTES;
        let name = self.config.preset.as_deref().unwrap_or("drive");
        format!("<strobe.Drive {name}: {} MiB, at {} ns>", bytes >> 20, inner.now.as_ns())
    }
}
