//! `strobe files`: file workloads, as a block trace or in a real directory.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde::de::DeserializeOwned;
use strobe_cli::output::{Output, Sink};
use strobe_cli::report::{bytes, count};
use strobe_types::SECTOR_BYTES;
use strobe_workload::files::ageing::AgeingConfig;
use strobe_workload::files::camera::CameraConfig;
use strobe_workload::files::copy_tar::CopyTarConfig;
use strobe_workload::files::fat::{Class, FatFormat, FatVolume, MemoryDisk, MountOptions, SectorDevice};
use strobe_workload::files::filemicro_delete::FilemicroDeleteConfig;
use strobe_workload::files::posix::PosixFileSystem;
use strobe_workload::files::postmark::PostmarkConfig;
use strobe_workload::files::tiobench::TiobenchConfig;
use strobe_workload::files::varmail::VarmailConfig;
use strobe_workload::files::{
    FileError, FileWorkload, FileWorkloadError, Mode, Observer, Operation, Space, Tally,
};

use super::options::seed;
use super::{Failure, output};

/// Run a file workload: on FAT, to record the block trace that reaches the drive, or in a directory.
#[derive(Args)]
#[command(after_help = "Examples:\n  strobe files camera --trace camera.fio\n  \
    strobe replay camera.fio --format fio --closed-loop --drive ez-x5-32m --set drive.ftl.mapping=fast\n  \
    strobe files postmark --set files=500 --set transactions=10000 --seed 42 --directory /mnt/test")]
pub(crate) struct FilesArgs {
    /// Program to run
    program: Program,
    /// Setting of the program, key=value; repeatable. --help-settings lists them
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Print the settings of the program with their defaults as TOML, and exit
    #[arg(long)]
    help_settings: bool,
    /// Seed of all random decisions; 42 is PostMark's own
    #[arg(long, default_value_t = 42, allow_negative_numbers = true, value_parser = seed)]
    seed: u64,
    /// Write the requests of a FAT volume to FILE ("-": standard output): a trace without times, for `strobe
    /// replay --format fio --closed-loop`
    #[arg(long, value_name = "FILE|-", conflicts_with = "directory")]
    trace: Option<String>,
    /// Run in DIR, an empty or new directory of any file system, instead of on FAT
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Time to sleep before each call, in ns. In a guest of `strobe linux` it adds to --syscall-ns and the
    /// other costs
    #[arg(long, value_name = "NS", default_value_t = 0, requires = "directory")]
    call_ns: u64,
    /// Time to sleep before a call that removes a file, in ns, instead of --call-ns
    #[arg(long, value_name = "NS", requires = "directory")]
    unlink_ns: Option<u64>,
    /// Write when files are synced, instead of with every call
    #[arg(long)]
    buffered: bool,
    /// Discard clusters that become free
    #[arg(long, conflicts_with = "directory")]
    discard: bool,
    /// Size of the FAT volume in MiB, 3 to 2047 [default: as the program's settings need, at least 32]
    #[arg(long, value_name = "MIB", conflicts_with = "directory", value_parser = clap::value_parser!(u32).range(3..2048))]
    volume: Option<u32>,
    /// Write the result as JSON to FILE, or to standard output with "-"
    #[arg(long, value_name = "FILE|-")]
    json: Option<String>,
    /// No summary
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Program {
    /// PostMark 1.5: a mail or news server, byte for byte (Katcher 1997)
    Postmark,
    /// Camera-MS500: a phone that takes and deletes photos
    Camera,
    /// filebench varmail: a mail server that syncs every message
    Varmail,
    /// filebench filemicro_delete: removing files
    FilemicroDelete,
    /// Tiobench: several streams in large files
    Tiobench,
    /// Copy an archive and unpack it
    CopyTar,
    /// Fill a file system and update it at random, before another measurement on it
    Ageing,
}

#[derive(Serialize)]
struct FilesResult {
    program: String,
    seed: u64,
    calls: serde_json::Map<String, serde_json::Value>,
    bytes_written: u64,
    bytes_read: u64,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    requests: serde_json::Map<String, serde_json::Value>,
}

pub(crate) fn files(args: &FilesArgs) -> Result<(), Failure> {
    let json = output::json_output(&args.json, &[])?;
    let trace = args.trace.as_deref().map(|given| Output::new("--trace", given, &[])).transpose()?;
    Output::all_differ(&json.iter().chain(&trace).collect::<Vec<_>>())?;
    let outputs = Outputs { json, trace };
    match args.program {
        Program::Postmark => with::<PostmarkConfig>(args, &outputs),
        Program::Camera => with::<CameraConfig>(args, &outputs),
        Program::Varmail => with::<VarmailConfig>(args, &outputs),
        Program::FilemicroDelete => with::<FilemicroDeleteConfig>(args, &outputs),
        Program::Tiobench => with::<TiobenchConfig>(args, &outputs),
        Program::CopyTar => with::<CopyTarConfig>(args, &outputs),
        Program::Ageing => with::<AgeingConfig>(args, &outputs),
    }
}

struct Outputs {
    json: Option<Output>,
    trace: Option<Output>,
}

fn with<C: FileWorkload + Default + Serialize + DeserializeOwned>(
    args: &FilesArgs,
    outputs: &Outputs,
) -> Result<(), Failure> {
    if args.help_settings {
        let text = toml::to_string(&C::default()).map_err(|error| Failure::Run(anyhow!(error)))?;
        return output::print(text.trim_end());
    }
    let lines = args.sets.join("\n");
    let config: C = toml::from_str(&lines)
        .map_err(|error| Failure::Request(anyhow!("--set: {} (see --help-settings)", error.message())))?;
    let mode = if args.buffered { Mode::Buffered } else { Mode::Sync };
    let failed = |error: FileWorkloadError| {
        Failure::judged(matches!(error, FileWorkloadError::OutOfRange { .. }), &error)
    };
    let (tally, written) = match &args.directory {
        Some(folder) => (in_directory(&config, folder, mode, args)?, None),
        None => {
            let trace = outputs.trace.as_ref().map(Output::open).transpose()?;
            let file = trace.as_ref().map(Sink::file).transpose()?;
            let (tally, disk) = on_fat(&config, args, mode, file).map_err(failed)?;
            // `finish` flushes the log; only then is the trace complete.
            let memory = disk.finish().map_err(failed)?;
            if let Some(trace) = trace {
                trace.complete()?;
            }
            (tally, Some(memory))
        }
    };
    report(args, outputs, &tally, written.as_ref())
}

fn in_directory(
    config: &impl FileWorkload,
    folder: &Path,
    mode: Mode,
    args: &FilesArgs,
) -> Result<Tally, Failure> {
    let refuse = |what: String| Failure::Request(anyhow!("--directory {}: {what}", folder.display()));
    if !folder.exists() {
        std::fs::create_dir(folder).map_err(|error| refuse(error.to_string()))?;
    }
    let mut entries = std::fs::read_dir(folder).map_err(|error| refuse(error.to_string()))?;
    if config.begins_empty() && entries.next().is_some() {
        return Err(refuse("it is not empty".into()));
    }
    let mut fs = PosixFileSystem::new(folder, mode).map_err(|error| refuse(error.to_string()))?;
    if args.call_ns > 0 || args.unlink_ns.is_some() {
        // The default timer slack delays sleeps by up to 50 us.
        let _ = std::fs::write("/proc/self/timerslack_ns", "1");
    }
    let [call, unlink] = [args.call_ns, args.unlink_ns.unwrap_or(args.call_ns)].map(Duration::from_nanos);
    let mut paced = Paced { call, unlink };
    config.run(&mut fs, args.seed, &mut paced).map_err(|error| Failure::Run(anyhow!("{error}")))
}

/// Sleeps before each call except close.
struct Paced {
    call: Duration,
    unlink: Duration,
}

impl Observer for Paced {
    fn begins(&mut self, operation: Operation) {
        let time = match operation {
            Operation::Close => Duration::ZERO,
            Operation::Remove => self.unlink,
            _ => self.call,
        };
        if !time.is_zero() {
            std::thread::sleep(time);
        }
    }
}

/// Volume size of the studies: its root folder has 512 entries, larger volumes have 2048.
const SMALL_MIB: u32 = 32;
/// Largest FAT16 volume.
const LARGEST_MIB: u32 = 2047;
/// Largest cluster; a file wastes half a cluster on average.
const CLUSTER_BYTES: u64 = 32 << 10;

/// Smallest doubling of 32 MiB that holds `space` and a quarter more.
fn volume_for(space: &Space) -> u32 {
    let needed = space.bytes.saturating_add(space.bytes / 4);
    let topmost_min = if space.topmost > 400 { 2 * SMALL_MIB } else { SMALL_MIB };
    let fits = |&mib: &u32| {
        // Clusters grow with the volume.
        let cluster = (u64::from(mib) << 20).div_ceil(65_525).next_power_of_two().clamp(2048, CLUSTER_BYTES);
        needed.saturating_add(space.files * cluster / 2) <= u64::from(mib) << 20 && mib >= topmost_min
    };
    (0..)
        .map(|doubled| SMALL_MIB << doubled)
        .take_while(|&mib| mib <= LARGEST_MIB)
        .find(fits)
        .unwrap_or(LARGEST_MIB)
}

fn on_fat(
    config: &impl FileWorkload,
    args: &FilesArgs,
    mode: Mode,
    trace: Option<File>,
) -> Result<(Tally, TraceDisk), FileWorkloadError> {
    let volume_mib = args.volume.unwrap_or_else(|| volume_for(&config.space()));
    let volume_sectors = volume_mib * 2048;
    // FAT16 has fewer than 65,525 clusters. The study's 2 KiB clusters are used where that suffices.
    let mut cluster_sectors = 4;
    while volume_sectors / cluster_sectors >= 65_525 {
        cluster_sectors *= 2;
    }
    while volume_sectors / cluster_sectors < 4200 && cluster_sectors > 1 {
        cluster_sectors /= 2;
    }
    let root_slots = if volume_mib > SMALL_MIB { 2048 } else { 512 };
    let format = FatFormat { volume_sectors, cluster_sectors, root_slots, ..FatFormat::default() };
    let disk = TraceDisk::new(volume_sectors, trace)?;
    let mut volume = FatVolume::format(disk, &format)?;
    volume.with_device(|disk| disk.memory.reset_counts());
    let options = MountOptions { mode, discard: args.discard, ..MountOptions::default() };
    let tally = config.run(&mut volume.mount(options), args.seed, &mut ()).map_err(|error| match error {
        FileWorkloadError::File(FileError::NoSpace) => FileError::Io(format!(
            "no space left on the FAT volume of {volume_mib} MiB, whose root folder holds {root_slots} entries: use \
             a larger --volume (up to {LARGEST_MIB}), or fewer or smaller files (--set; --help-settings lists them)"
        ))
        .into(),
        other => other,
    })?;
    Ok((tally, volume.unmount()?))
}

struct TraceDisk {
    memory: MemoryDisk,
    log: Option<BufWriter<File>>,
}

const DEVICE: &str = "/dev/fat";

impl TraceDisk {
    fn new(sectors: u32, trace: Option<File>) -> Result<Self, FileError> {
        let mut disk = Self { memory: MemoryDisk::new(sectors), log: trace.map(BufWriter::new) };
        disk.line(format_args!("fio version 2 iolog\n{DEVICE} add\n{DEVICE} open"))?;
        Ok(disk)
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) -> Result<(), FileError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        writeln!(log, "{line}").map_err(cannot_write)
    }

    fn request(&mut self, action: &str, sector: u64, bytes: u64) -> Result<(), FileError> {
        self.line(format_args!("{DEVICE} {action} {} {bytes}", sector * SECTOR_BYTES))
    }

    fn finish(mut self) -> Result<MemoryDisk, FileWorkloadError> {
        self.line(format_args!("{DEVICE} close"))?;
        if let Some(mut log) = self.log.take() {
            log.flush().map_err(cannot_write)?;
        }
        Ok(self.memory)
    }
}

fn cannot_write(error: std::io::Error) -> FileError {
    FileError::Io(format!("cannot write the trace: {error}"))
}

impl SectorDevice for TraceDisk {
    fn sectors(&self) -> u64 {
        self.memory.sectors()
    }

    fn read(&mut self, sector: u64, buffer: &mut [u8]) -> Result<(), FileError> {
        self.request("read", sector, buffer.len() as u64)?;
        self.memory.read(sector, buffer)
    }

    fn write(&mut self, sector: u64, bytes: &[u8], class: Class) -> Result<(), FileError> {
        self.request("write", sector, bytes.len() as u64)?;
        self.memory.write(sector, bytes, class)
    }

    fn trim(&mut self, sector: u64, count: u64) -> Result<(), FileError> {
        self.request("trim", sector, count * SECTOR_BYTES)?;
        self.memory.trim(sector, count)
    }

    fn flush(&mut self) -> Result<(), FileError> {
        self.request("sync", 0, 0)?;
        self.memory.flush()
    }
}

fn report(
    args: &FilesArgs,
    outputs: &Outputs,
    tally: &Tally,
    disk: Option<&MemoryDisk>,
) -> Result<(), Failure> {
    let name = args.program.to_possible_value().map(|value| value.get_name().to_owned());
    let result = FilesResult {
        program: name.unwrap_or_default(),
        seed: args.seed,
        calls: Operation::ALL
            .iter()
            .map(|&call| (call.name().to_owned(), tally.calls(call).into()))
            .collect(),
        bytes_written: tally.bytes_written,
        bytes_read: tally.bytes_read,
        requests: disk
            .iter()
            .flat_map(|disk| {
                Class::ALL.map(|class| (class.name().to_owned(), disk.written(class).requests.into()))
            })
            .collect(),
    };
    if !args.quiet && !output::takes_stdout([&outputs.json, &outputs.trace]) {
        output::print(&summary(&result))?;
    }
    output::json(&result, outputs.json.as_ref())
}

fn summary(result: &FilesResult) -> String {
    let list = |of: &serde_json::Map<String, serde_json::Value>| {
        let number = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
        let some = of.iter().filter(|(_, value)| number(value) > 0);
        some.map(|(name, value)| format!("{} {}", count(number(value)), name.replace('_', " ")))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut text = format!(
        "{}: {} written to files, {} read\ncalls: {}",
        result.program,
        bytes(result.bytes_written as f64),
        bytes(result.bytes_read as f64),
        list(&result.calls)
    );
    if !result.requests.is_empty() {
        let total: u64 = result.requests.values().filter_map(serde_json::Value::as_u64).sum();
        let _ = write!(text, "\nwrite requests to the drive: {}: {}", count(total), list(&result.requests));
    }
    text
}
