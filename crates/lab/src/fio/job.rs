//! One job in fio's words, as a table of the experiment.

use toml::{Table, Value};

use super::Target;
use super::value::{range, size, size_or_share, switch, time, whole};
use crate::experiment::Time;

/// Engines with one request outstanding, whatever iodepth is.
const ONE_AT_A_TIME: &[&str] = &["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap", "splice"];
const SEVERAL: &[&str] = &[
    "libaio",
    "io_uring",
    "io_uring_cmd",
    "posixaio",
    "windowsaio",
    "nbd",
    "rbd",
    "xnvme",
    "libblkio",
    "sg",
];
const BLOCK_SIZE: &str = "4k";

type Wrong = (&'static str, String);

#[derive(Debug, Default)]
pub(super) struct Job {
    pub(super) name: String,
    table: Table,
    pub(super) origins: Vec<(String, String)>,
    pub(super) notes: Vec<String>,
    pub(super) runtime: Option<String>,
    pub(super) ramp: Option<String>,
    pub(super) seed: Option<i64>,
    io_bytes: Option<u64>,
    copies: i64,
    /// Offset of the first copy.
    offset: u64,
    /// Distance between the offsets of successive copies.
    offset_increment: u64,
}

struct Given<'a>(&'a [(&'static str, String)]);

impl<'a> Given<'a> {
    /// Last value given for `word`.
    fn get(&self, word: &'static str) -> Option<&'a str> {
        self.0.iter().rfind(|(name, _)| *name == word).map(|(_, value)| value.as_str())
    }

    fn last_of(&self, words: &[&'static str]) -> Option<(&'static str, &'a str)> {
        let found = self.0.iter().rfind(|(name, _)| words.contains(name));
        found.map(|(name, value)| (*name, value.as_str()))
    }

    fn read<T>(
        &self,
        word: &'static str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Wrong> {
        self.get(word).map(read).transpose().map_err(|why| (word, why))
    }

    fn is_on(&self, word: &'static str) -> Result<bool, Wrong> {
        Ok(self.read(word, switch)?.unwrap_or(false))
    }
}

impl Job {
    pub(super) fn new(
        name: &str,
        words: &[(&'static str, String)],
        target: &Target<'_>,
    ) -> Result<Self, Wrong> {
        let given = Given(words);
        let mut job = Self { name: name.to_owned(), copies: 1, ..Self::default() };
        if let Some(name) = given.get("name") {
            job.name = name.to_owned();
        }
        let rw = given.get("rw").unwrap_or("read");
        job.put("rw", "rw", rw.into());
        let block = job.read_sizes(&given)?;
        job.read_order(&given, rw, block)?;
        job.read_place(&given, rw, block, target)?;
        job.read_pace(&given, rw, block, target)?;
        job.read_times(&given)?;
        Ok(job)
    }

    fn read_sizes(&mut self, given: &Given<'_>) -> Result<Block, Wrong> {
        // As in fio, bssplit overrides bsrange, and bsrange overrides bs, in any order of the words.
        let of = |word| given.get(word).map(|value| (word, value));
        let (word, value) = of("bssplit").or(of("bsrange")).or(of("bs")).unwrap_or(("bs", BLOCK_SIZE));
        let refusal = |why| (word, why);
        if value.contains(',') {
            let cure = "has a size for each direction; make a job for each, or give one size for all";
            return Err(refusal(format!("\"{value}\" {cure}")));
        }
        if word == "bssplit" {
            self.put("bssplit", word, value.into());
            let sizes = value.split(':').filter_map(|part| size(part.split('/').next()?).ok());
            let sizes: Vec<u64> = sizes.collect();
            let least = sizes.iter().copied().min().unwrap_or(512).max(1);
            return Ok(Block { least, all: None, is_even: sizes.iter().all(|size| size % least == 0) });
        }
        if value.contains('-') && word == "bs" {
            return Err(refusal(format!(
                "fio takes the first size of \"{value}\" only; write bsrange={value}"
            )));
        }
        if word == "bsrange" {
            let split = range(value).map_err(refusal)?;
            let sizes =
                split.as_array().into_iter().flatten().filter_map(|share| share["block_bytes"].as_integer());
            let sizes: Vec<u64> = sizes.map(|size| size as u64).collect();
            let least = sizes.first().copied().unwrap_or(512);
            let is_even = sizes.iter().all(|size| size % least == 0);
            self.put("block_split", word, split);
            return Ok(Block { least, all: None, is_even });
        }
        let bytes = size(value).map_err(refusal)?;
        self.put("bs", word, value.into());
        Ok(Block { least: bytes.max(1), all: Some(bytes.max(1)), is_even: true })
    }

    fn read_place(
        &mut self,
        given: &Given<'_>,
        rw: &str,
        block: Block,
        target: &Target<'_>,
    ) -> Result<(), Wrong> {
        let share = |text: &str| size_or_share(text, block.least, target.bytes);
        // A percentage starts at the next whole block, as in fio.
        let start = |text: &str| {
            let bytes = size_or_share(text, 1, target.bytes)?;
            let is_share = text.ends_with('%');
            Ok(if is_share { bytes.div_ceil(block.least).saturating_mul(block.least) } else { bytes })
        };
        self.offset = given.read("offset", start)?.unwrap_or(0);
        self.offset_increment = given.read("offset_increment", start)?.unwrap_or(0);
        self.copies = given.read("numjobs", whole)?.unwrap_or(1);
        if self.offset > 0 {
            self.put("offset", "offset", integer(self.offset));
        }
        if self.copies != 1 {
            self.put("numjobs", "numjobs", self.copies.into());
        }
        // With a random map a pass ends with the last whole block. Without a map fio continues while a byte
        // is left, so a sequential job ends beyond its size.
        let is_mapped = self.table.contains_key("random_map");
        let whole_blocks = |bytes: u64| match block.all {
            Some(block) if is_mapped => bytes / block * block,
            Some(block) => bytes.div_ceil(block).saturating_mul(block),
            None => bytes,
        };
        let rest = |text: &str| {
            let bytes = share(text)?;
            let rest =
                if text.ends_with('%') { (target.bytes)()?.saturating_sub(self.offset) } else { bytes };
            Ok(bytes.min(rest))
        };
        let region = given.read("size", rest)?;
        if let Some(region) = region {
            let bytes = if rw.starts_with("rand") { region } else { whole_blocks(region) };
            let text = given.get("size").filter(|text| !text.ends_with('%') && bytes == region);
            self.put("size", "size", text.map_or(integer(bytes), Value::from));
        }
        let loops = given.read("loops", whole)?.filter(|&loops| loops > 1);
        let requests = given.read("number_ios", whole)?.filter(|&requests| requests > 0);
        for word in ["io_size", "number_ios", "end_fsync"] {
            if loops.is_some() && given.get(word).is_some_and(|value| value != "0") {
                return Err((
                    "loops",
                    format!("with {word}, which fio applies to each pass; give io_size alone"),
                ));
            }
        }
        let io_size = given.read("io_size", |text| {
            if text.ends_with('%') {
                return Err("in bytes, please: size=…% has the share of the drive".to_owned());
            }
            size(text)
        })?;
        // The runtime ends a time-based job. Its size only gives the region.
        if given.is_on("time_based")? {
            if given.get("runtime").is_none() {
                return Err(("time_based", "without a runtime it would never end; add runtime=…".to_owned()));
            }
            return Ok(());
        }
        // Without a size, loops and number_ios refer to the rest of the drive.
        let one = match (io_size.or(region), loops, requests) {
            (None, None, None) => None,
            (None, ..) => Some((target.bytes)().map_err(|why| ("size", why))?.saturating_sub(self.offset)),
            (one, ..) => one,
        };
        // With a random map each pass covers whole blocks. Without a map only the sum of all passes is
        // rounded.
        let times = loops.unwrap_or(1) as u64;
        let all = one.map(|one| {
            if io_size.is_some() {
                one
            } else if is_mapped {
                whole_blocks(one).saturating_mul(times)
            } else {
                whole_blocks(one.saturating_mul(times))
            }
        });
        let counted = match (requests, block.all) {
            (None, _) => None,
            (Some(requests), Some(block)) => Some((requests as u64).saturating_mul(block)),
            (Some(_), None) => {
                return Err(("number_ios", "with one block size only; use io_size".to_owned()));
            }
        };
        // The job ends at the first limit that it reaches.
        self.io_bytes = match (all, counted) {
            (Some(all), Some(counted)) => Some(all.min(counted)),
            (all, counted) => all.or(counted),
        };
        Ok(())
    }

    fn read_order(&mut self, given: &Given<'_>, rw: &str, block: Block) -> Result<(), Wrong> {
        if let Some((word, _)) = given.last_of(&["rwmixread", "rwmixwrite"]) {
            let percent = given.read(word, |text| {
                let percent = whole(text)?;
                if percent <= 100 { Ok(percent) } else { Err("must be from 0 to 100".to_owned()) }
            })?;
            if let Some(percent) = percent.filter(|_| is_mixed(rw)) {
                self.put(word, word, percent.into());
            }
        }
        if let Some(distribution) = given.get("random_distribution") {
            if let Some(other) =
                ["pareto", "zoned_abs"].iter().find(|other| distribution.starts_with(**other))
            {
                let cure = "random_distribution=zipf:1.2, or zoned:80/20:20/80 for two zones";
                return Err(("random_distribution", format!("{other} is not supported; use {cure}")));
            }
            self.put("random_distribution", "random_distribution", distribution.into());
        }
        if let Some(zones) = given.get("random_distribution").and_then(|text| text.strip_prefix("zoned:"))
            && zones.split(':').count() != 2
        {
            let why = "exactly two zones are supported, whose shares add up to 100 %: zoned:80/20:20/80";
            return Err(("random_distribution", why.to_owned()));
        }
        // fio visits each block once per pass by default; only norandommap draws independently.
        let is_uniform = given.get("random_distribution").is_none_or(|distribution| distribution == "random");
        if rw.starts_with("rand") && is_uniform && !given.is_on("norandommap")? {
            if !block.is_even {
                let why = "is required if sizes are not multiples of the smallest: a random map has blocks \
                           of one size";
                return Err(("norandommap", why.to_owned()));
            }
            self.put("random_map", "norandommap", true.into());
        }
        if let Some(writes) = given.read("fsync", whole)?.filter(|&writes| writes > 0) {
            // fsync counts writes, flush_every all requests: they agree only for a job of writes.
            if !matches!(rw, "write" | "randwrite") {
                let why = format!(
                    "it counts writes only, and rw={rw} has other requests: leave it out, or use a separate \
                     job for the writes"
                );
                return Err(("fsync", why));
            }
            self.put("flush_every", "fsync", writes.into());
        }
        if given.is_on("end_fsync")? {
            self.put("end_flush", "end_fsync", true.into());
        }
        if let Some(handle) = given.read("plids", whole)? {
            self.put("placement_handle", "plids", handle.into());
        }
        Ok(())
    }

    fn read_pace(
        &mut self,
        given: &Given<'_>,
        rw: &str,
        block: Block,
        target: &Target<'_>,
    ) -> Result<(), Wrong> {
        if let Some(engine) = given.get("ioengine")
            && ![ONE_AT_A_TIME, SEVERAL].concat().contains(&engine)
        {
            let why = format!("\"{engine}\" is not supported; use libaio or psync");
            return Err(("ioengine", why));
        }
        if let Some(depth) = given.read("iodepth", whole)? {
            // In a job file the default engine is psync, as in fio. On the command line iodepth counts as
            // given.
            let engine = given.get("ioengine").or(target.is_file.then_some("psync"));
            match engine.filter(|engine| depth > 1 && ONE_AT_A_TIME.contains(engine)) {
                Some(engine) => self.notes.push(format!(
                    "[{}] ioengine={engine}{} has one request outstanding: iodepth={depth} is 1, as in fio; \
                     ioengine=libaio has several",
                    self.name,
                    if given.get("ioengine").is_some() { "" } else { ", the default," },
                )),
                None => self.put("iodepth", "iodepth", depth.into()),
            }
        }
        let rate = given.last_of(&["rate", "rate_iops"]);
        if let Some((word, value)) = rate {
            if is_mixed(rw) {
                let cure = "make a job of the reads and one of the writes";
                return Err((word, format!("fio applies this rate to reads and writes separately: {cure}")));
            }
            let iops = match (word, block.all) {
                ("rate_iops", _) => whole(value).map_err(|why| (word, why))?,
                (_, None) => return Err((word, "with one block size only; use rate_iops".to_owned())),
                (_, Some(block)) => {
                    let bytes = size(value).map_err(|why| (word, why))?;
                    if bytes < block || bytes % block > 0 {
                        let why = format!(
                            "\"{value}\" is not a whole number of {block} bytes a second; use rate_iops"
                        );
                        return Err((word, why));
                    }
                    (bytes / block) as i64
                }
            };
            self.put("rate_iops", word, iops.into());
        }
        if let Some(process) = given.get("rate_process") {
            self.put("rate_process", "rate_process", process.into());
        }
        if let Some(pause) = given.read("thinktime", |text| time(text, "us"))? {
            self.put("thinktime", "thinktime", pause.into());
        }
        if let Some(blocks) = given.read("thinktime_blocks", whole)? {
            self.put("thinktime_blocks", "thinktime_blocks", blocks.into());
        }
        Ok(())
    }

    fn read_times(&mut self, given: &Given<'_>) -> Result<(), Wrong> {
        let seconds = |text: &str| time(text, "s");
        self.runtime = given.read("runtime", seconds)?;
        self.ramp = given.read("ramp_time", seconds)?;
        self.seed = given.read("randseed", whole)?;
        if let Some(delay) = given.read("startdelay", seconds)? {
            self.put("startdelay", "startdelay", delay.into());
        }
        if given.is_on("stonewall")? {
            self.put("stonewall", "stonewall", true.into());
        }
        Ok(())
    }

    fn put(&mut self, key: &str, word: &str, value: Value) {
        self.origins.push((key.to_owned(), word.to_owned()));
        self.table.insert(key.to_owned(), value);
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub(super) fn has_end(&self) -> bool {
        self.io_bytes.is_some()
    }

    /// True if the job ends or starts at another time than the run.
    pub(super) fn ends_alone(&self) -> bool {
        let keys = ["end_flush", "stonewall", "startdelay"];
        self.has_end() || keys.iter().any(|key| self.table.contains_key(*key))
    }

    pub(super) fn needs_table(&self) -> bool {
        self.ends_alone() || self.table.contains_key("numjobs")
    }

    /// Adds io_bytes and runtime. fio counts the runtime from the end of the warm-up, so the length of the
    /// warm-up is added.
    pub(super) fn put_ends(&mut self, warmup: Option<&str>) -> Result<(), String> {
        if let Some(bytes) = self.io_bytes {
            self.put("io_bytes", "size", integer(bytes));
        }
        let Some(runtime) = self.runtime.take() else { return Ok(()) };
        let ns = |text: &str| Time::parse(text).map_or(0, Time::as_ns);
        let sum = ns(&runtime).checked_add(warmup.map_or(0, ns));
        let sum = sum.ok_or_else(|| format!("[{}] runtime={runtime} exceeds 584 years", self.name))?;
        self.put("runtime", "runtime", Time::from_ns(sum).to_string().into());
        Ok(())
    }

    /// Table of the job, or one per copy if the copies have different offsets.
    pub(super) fn copies(mut self, is_named: bool) -> Vec<Table> {
        let apart = if self.offset_increment > 0 { self.copies.clamp(1, 1024) } else { 1 };
        if apart > 1 {
            self.table.remove("numjobs");
        }
        let copy = |number: i64| {
            let mut table = self.table.clone();
            if is_named {
                let name = if apart > 1 { format!("{}-{number}", self.name) } else { self.name.clone() };
                table.insert("name".to_owned(), name.into());
            }
            if number > 0 {
                let offset = self.offset.saturating_add(self.offset_increment.saturating_mul(number as u64));
                table.insert("offset".to_owned(), integer(offset));
            }
            table
        };
        (0..apart).map(copy).collect()
    }
}

fn integer(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn is_mixed(rw: &str) -> bool {
    matches!(rw, "rw" | "readwrite" | "randrw")
}

#[derive(Clone, Copy)]
struct Block {
    least: u64,
    /// Size of all blocks, if there is only one.
    all: Option<u64>,
    /// True if all sizes are multiples of the smallest.
    is_even: bool,
}
