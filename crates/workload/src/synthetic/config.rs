use super::draw::{HotCold, Scattered, Sequential, Uniform};
use super::gaussian::{Gaussian, HOT_SHARE_MAX, gaussian_sigma};
use super::generator::{Distribution, Layout, Mix, Synthetic};
use super::in_use::InUse;
use super::kind::Kind;
use super::map::RandomMap;
use super::sizes::{BlockShare, Sizes};
use super::zipf::Zipf;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{Op, SECTOR_BYTES, defaults, is_default, is_one};

defaults! {
    /// A synthetic workload: distribution of addresses and mix of operations.
    ///
    /// Keys of another `kind` have no effect but must be in range; experiments refuse them if set by hand. The
    /// seed is separate.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct SyntheticConfig {
        /// Distribution of addresses. Default "uniform". fio: `rw`, `random_distribution`.
        pub kind: Kind = Kind::Uniform;
        /// Share of writes among the requests that are not trims; the rest are reads. 0 to 1, default 1. fio:
        /// `rwmixwrite` / 100.
        #[schemars(range(min = 0.0, max = 1.0))]
        pub write_fraction: f64 = 1.0;
        /// Share of requests that trim a random slot in use. 0 to 1, default 0.
        ///
        /// Expects a prefilled drive. From 0.5 on uniform writes cannot keep up, and nearly no slot stays in
        /// use. Costs 8 bytes of memory per slot. With 1 and trim_ranges = 1 every request trims a slot drawn
        /// by `kind` (fio `rw=trim`, `randtrim`).
        #[schemars(range(min = 0.0, max = 1.0))]
        pub trim_fraction: f64 = 0.0;
        /// Number of random slots in use that one trim takes as its ranges; fewer if fewer are in use. 1 to
        /// 256, default 1.
        #[serde(skip_serializing_if = "is_one")]
        #[schemars(range(min = 1, max = 256))]
        #[schemars(extend("x-needs" = {"trim_fraction": "above 0"}))]
        pub trim_ranges: u32 = 1;
        /// Request size in bytes, also the alignment of addresses within the range. A multiple of 512, at least
        /// 512, default 4096. fio: `bs`.
        #[schemars(range(min = 512), extend("multipleOf" = 512))]
        #[schemars(extend("x-needs" = {
            "block_split": "left out",
            "because": "block_split and bssplit set the sizes, too"
        }))]
        pub block_bytes: u32 = 4096;
        /// Several request sizes: a list of sizes with their shares. Default none. fio: `bssplit`, `bsrange`.
        ///
        /// Replaces `block_bytes`; not allowed with trims. Slots have the smallest size, and requests begin at
        /// a slot. A request that would cross the end of the range begins earlier, to end with
        /// it; a sequential one is shortened.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub block_split: Vec<BlockShare> = Vec::new();
        /// Start of the range used, in bytes from the start of the drive. A multiple of 512, default 0. fio:
        /// `offset`.
        #[schemars(extend("multipleOf" = 512))]
        pub offset_bytes: u64 = 0;
        /// Size of the range used, in bytes. At least `block_bytes`; default the rest of the drive. A remainder
        /// smaller than `block_bytes` is unused. fio: `size`.
        #[schemars(range(min = 512))]
        pub size_bytes: Option<u64> = None;
        /// True for "uniform" without repetition: each pass visits every slot once, in a new random order.
        /// Default false. fio: its default; false is `norandommap`.
        ///
        /// With block_split a request ends at the next slot already visited in the pass. Costs 1/8 byte of
        /// memory per slot.
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(extend("x-needs" = {"kind": ["uniform"]}))]
        pub random_map: bool = false;
        /// Exponent of "zipf": 0 equals "uniform", larger values are more skewed. 0 to 100, default 1.1. fio:
        /// `random_distribution=zipf:theta`.
        #[schemars(range(min = 0.0, max = 100.0))]
        #[schemars(extend("x-needs" = {"kind": ["zipf"]}))]
        pub theta: f64 = 1.1;
        /// Share of slots that are hot under "hotcold", rounded to whole slots. Between 0 and 1, both excluded,
        /// default 0.2. fio: the second number of a `zoned` pair / 100.
        #[schemars(extend("exclusiveMinimum" = 0.0, "exclusiveMaximum" = 1.0))]
        #[schemars(extend("x-needs" = {"kind": ["hotcold"]}))]
        pub hot_fraction: f64 = 0.2;
        /// Share of the requests, reads and writes, to the hot slots of "hotcold". 0 to 1, default 0.8. fio:
        /// the first number of a `zoned` pair / 100.
        #[schemars(range(min = 0.0, max = 1.0))]
        #[schemars(extend("x-needs" = {"kind": ["hotcold"]}))]
        pub hot_write_share: f64 = 0.8;
        /// Standard deviation of "gaussian" as a share of the range. Greater than 0, at most 1. Excludes
        /// `hot_share`. fio: `random_distribution=normal:deviation`, in per cent.
        #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0.0))]
        #[schemars(extend("x-needs" = {"kind": ["gaussian"]}))]
        pub sigma: Option<f64> = None;
        /// Width of "gaussian" by its effect: the share of slots requested more often than the average slot.
        /// Greater than 0, at most 0.48. Default 0.2 unless `sigma` is given.
        #[schemars(range(max = 0.48), extend("exclusiveMinimum" = 0.0))]
        #[schemars(extend("x-needs" = {"kind": ["gaussian"]}))]
        pub hot_share: Option<f64> = None;
        /// Share of "gaussian" requests that are uniform over all slots. It reduces the skew but not the set of
        /// slots above the average. 0 to 1, default 0.
        #[schemars(range(min = 0.0, max = 1.0))]
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(extend("x-needs" = {"kind": ["gaussian"]}))]
        pub uniform_share: f64 = 0.0;
        /// True to scatter the popular slots of "zipf" and "hotcold" evenly over the range. If false, they lie
        /// at its start, the most popular first. Default true. fio scatters `zipf`, but never `zoned`.
        #[schemars(extend("x-needs" = {"kind": ["zipf", "hotcold"]}))]
        pub scatter: bool = true;
    }
}

/// Error of a [`SyntheticConfig`] for a drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// A value outside its range.
    #[error("{key} is {value}, it must be {allowed}")]
    OutOfRange {
        /// Configuration key.
        key: &'static str,
        /// Given value.
        value: String,
        /// Allowed values.
        allowed: String,
    },
    /// Two mutually exclusive keys are given.
    #[error("{first} and {second} are both given, but each determines the other; give one of them")]
    Both {
        /// First configuration key.
        first: &'static str,
        /// Second configuration key.
        second: &'static str,
    },
    /// Not enough memory for tracking slots.
    #[error(
        "{key}, which needs {bytes} bytes of memory for {slots} slots, and the system has too little; use a \
         smaller size_bytes or larger block_bytes"
    )]
    Memory {
        /// Configuration key with the value that needs the memory.
        key: &'static str,
        /// Bytes needed.
        bytes: u64,
        /// Slots of the range.
        slots: u32,
    },
}

const THETA_MAX: f64 = 100.0;
const TRIM_RANGES_MAX: u32 = 256;
const HOT_SHARE_DEFAULT: f64 = 0.2;

impl SyntheticConfig {
    /// Checks the configuration for a drive of `drive_bytes` and returns the workload. Equal arguments give
    /// equal requests on every machine.
    pub fn build(&self, drive_bytes: u64, seed: u64) -> Result<Synthetic, WorkloadError> {
        self.check_split()?;
        let layout = self.layout(drive_bytes)?;
        let distribution = self.distribution(layout.slots)?;
        let mix = self.mix(layout.slots)?;
        let sizes = self.sizes(drive_bytes, seed)?;
        Ok(Synthetic::new(self.kind, layout, distribution, mix, sizes, seed))
    }

    /// Slot size in bytes: the size of every request, or the smallest.
    pub fn slot_bytes(&self) -> u32 {
        self.block_split.iter().map(|share| share.block_bytes).min().unwrap_or(self.block_bytes)
    }

    /// Bytes of the largest request.
    pub fn largest_bytes(&self) -> u32 {
        self.block_split.iter().map(|share| share.block_bytes).max().unwrap_or(self.block_bytes)
    }

    /// True if some requests are writes.
    pub fn writes(&self) -> bool {
        self.write_fraction > 0.0 && self.trim_fraction < 1.0
    }

    /// Mean request size in bytes, including all ranges of a trim.
    pub fn mean_bytes(&self) -> f64 {
        match self.block_split[..] {
            [] => {
                let more = self.trim_fraction * f64::from(self.trim_ranges.saturating_sub(1));
                f64::from(self.block_bytes) * (1.0 + more)
            }
            ref split => split.iter().map(|s| f64::from(s.block_bytes) * s.percent / 100.0).sum(),
        }
    }

    fn check_split(&self) -> Result<(), WorkloadError> {
        let shares = &self.block_split;
        if shares.is_empty() {
            return Ok(());
        }
        let is_sector = |share: &&BlockShare| u64::from(share.block_bytes).is_multiple_of(SECTOR_BYTES);
        if let Some(share) = shares.iter().find(|share| share.block_bytes == 0 || !is_sector(share)) {
            return Err(out_of_range(
                "block_split.block_bytes",
                share.block_bytes,
                "a multiple of 512, at least 512",
            ));
        }
        // Written as a negation, so that NaN is refused.
        if let Some(share) = shares.iter().find(|share| !(share.percent > 0.0 && share.percent <= 100.0)) {
            return Err(out_of_range("block_split.percent", share.percent, above_zero_text(100.0)));
        }
        let sum: f64 = shares.iter().map(|share| share.percent).sum();
        if (sum - 100.0).abs() > 1e-6 {
            let allowed = "100 for all sizes together";
            return Err(out_of_range("block_split.percent", format!("a sum of {sum}"), allowed));
        }
        if self.trim_fraction > 0.0 {
            let allowed = "0 with block_split: a trim covers a slot, and slots have one size";
            return Err(out_of_range("trim_fraction", self.trim_fraction, allowed));
        }
        Ok(())
    }

    fn sizes(&self, drive_bytes: u64, seed: u64) -> Result<Option<Sizes>, WorkloadError> {
        let Some(largest) = self.block_split.iter().map(|share| share.block_bytes).max() else {
            return Ok(None);
        };
        let rest = drive_bytes - self.offset_bytes;
        let size = self.size_bytes.unwrap_or(rest) / SECTOR_BYTES * SECTOR_BYTES;
        if u64::from(largest) > size {
            let allowed = format!("at most the {size} bytes of the range");
            return Err(out_of_range("block_split.block_bytes", largest, allowed));
        }
        let first = self.offset_bytes / SECTOR_BYTES;
        let range = (first, first + size / SECTOR_BYTES);
        Ok(Some(Sizes::new(&self.block_split, range, self.kind == Kind::Sequential, seed)))
    }

    fn layout(&self, drive_bytes: u64) -> Result<Layout, WorkloadError> {
        let block = u64::from(self.slot_bytes());
        if block == 0 || !block.is_multiple_of(SECTOR_BYTES) {
            return Err(out_of_range("block_bytes", block, "a multiple of 512, at least 512"));
        }
        if !self.offset_bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(out_of_range("offset_bytes", self.offset_bytes, "a multiple of 512"));
        }
        let Some(rest) = drive_bytes.checked_sub(self.offset_bytes).filter(|&rest| rest >= block) else {
            let allowed = if block > drive_bytes {
                return Err(out_of_range(
                    "block_bytes",
                    block,
                    format!("at most the {drive_bytes} bytes of the drive"),
                ));
            } else {
                format!(
                    "at most {}, so that one block of {block} bytes fits on the drive of {drive_bytes} bytes",
                    drive_bytes - block
                )
            };
            return Err(out_of_range("offset_bytes", self.offset_bytes, allowed));
        };
        let size = self.size_bytes.unwrap_or(rest);
        if !(block..=rest).contains(&size) {
            return Err(out_of_range(
                "size_bytes",
                size,
                format!("from block_bytes = {block} to {rest}, the rest of the drive after offset_bytes"),
            ));
        }
        // Slot numbers have 32 bits.
        let slots = size / block;
        let Ok(slots) = u32::try_from(slots) else {
            return Err(out_of_range(
                "block_bytes",
                block,
                format!(
                    "larger: the range of {size} bytes has {slots} blocks, at most {} are possible",
                    u32::MAX
                ),
            ));
        };
        let sectors = (block / SECTOR_BYTES) as u32;
        Ok(Layout { first_sector: self.offset_bytes / SECTOR_BYTES, sectors, slots })
    }

    fn distribution(&self, slots: u32) -> Result<Distribution, WorkloadError> {
        let theta = self.theta;
        if !(0.0..=THETA_MAX).contains(&theta) {
            return Err(out_of_range("theta", theta, format!("from 0 to {THETA_MAX}")));
        }
        let hot_fraction = self.hot_fraction;
        if !(hot_fraction > 0.0 && hot_fraction < 1.0) {
            return Err(out_of_range("hot_fraction", hot_fraction, "greater than 0 and less than 1"));
        }
        let hot_write_share = share("hot_write_share", self.hot_write_share)?;
        let sigma = self.resolve_sigma()?;
        let uniform_share = share("uniform_share", self.uniform_share)?;
        Ok(match self.kind {
            Kind::Uniform if self.random_map => {
                let bytes = RandomMap::bytes(slots);
                let refused = |_| WorkloadError::Memory { key: "random_map is true", bytes, slots };
                Distribution::Mapped(RandomMap::new(slots).map_err(refused)?)
            }
            Kind::Uniform => Distribution::Uniform(Uniform { slots }),
            Kind::Sequential => Distribution::Sequential(Sequential::new(slots)),
            // A theta of 0 is uniform; avoid the rounding errors of the Zipf sampler.
            Kind::Zipf if theta == 0.0 => Distribution::Uniform(Uniform { slots }),
            Kind::Zipf => {
                let zipf = Zipf::new(slots, theta);
                if self.scatter {
                    Distribution::ScatteredZipf(Scattered::new(zipf, slots))
                } else {
                    Distribution::Zipf(zipf)
                }
            }
            Kind::Hotcold => {
                let hot_cold = HotCold::new(slots, hot_fraction, hot_write_share);
                if self.scatter {
                    Distribution::ScatteredHotCold(Scattered::new(hot_cold, slots))
                } else {
                    Distribution::HotCold(hot_cold)
                }
            }
            Kind::Gaussian => Distribution::Gaussian(Gaussian::new(slots, sigma, uniform_share)),
        })
    }

    fn resolve_sigma(&self) -> Result<f64, WorkloadError> {
        if let Some(sigma) = self.sigma {
            if self.hot_share.is_some() {
                return Err(WorkloadError::Both { first: "sigma", second: "hot_share" });
            }
            return above_zero("sigma", sigma, 1.0);
        }
        let hot_share = self.hot_share.unwrap_or(HOT_SHARE_DEFAULT);
        gaussian_sigma(hot_share)
            .ok_or_else(|| out_of_range("hot_share", hot_share, above_zero_text(HOT_SHARE_MAX)))
    }

    fn mix(&self, slots: u32) -> Result<Mix, WorkloadError> {
        let write = share("write_fraction", self.write_fraction)?;
        let trim = share("trim_fraction", self.trim_fraction)?;
        let ranges = self.trim_ranges;
        if !(1..=TRIM_RANGES_MAX).contains(&ranges) {
            return Err(out_of_range("trim_ranges", ranges, format!("from 1 to {TRIM_RANGES_MAX}")));
        }
        // Every request trims a slot drawn by `kind`; slots in use are not tracked.
        if trim >= 1.0 && ranges == 1 {
            Ok(Mix::Only(Op::Trim))
        } else if trim > 0.0 {
            let bytes = u64::from(slots) * InUse::BYTES_PER_SLOT;
            let in_use = InUse::all(slots).map_err(|_| WorkloadError::Memory {
                key: "trim_fraction is not 0",
                bytes,
                slots,
            })?;
            Ok(Mix::Trim { trim, ranges, write, in_use })
        } else if write >= 1.0 {
            Ok(Mix::Only(Op::Write))
        } else if write <= 0.0 {
            Ok(Mix::Only(Op::Read))
        } else {
            Ok(Mix::Write(write))
        }
    }
}

fn out_of_range(key: &'static str, value: impl ToString, allowed: impl Into<String>) -> WorkloadError {
    WorkloadError::OutOfRange { key, value: value.to_string(), allowed: allowed.into() }
}

fn share(key: &'static str, value: f64) -> Result<f64, WorkloadError> {
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err(out_of_range(key, value, "from 0 to 1")) }
}

fn above_zero(key: &'static str, value: f64, max: f64) -> Result<f64, WorkloadError> {
    if value > 0.0 && value <= max { Ok(value) } else { Err(out_of_range(key, value, above_zero_text(max))) }
}

fn above_zero_text(max: f64) -> String {
    format!("greater than 0 and at most {max}")
}
