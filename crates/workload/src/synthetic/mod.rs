//! Synthetic workloads: endless streams of requests drawn from a distribution.
//!
//! [`SyntheticConfig::build`] checks a configuration against a drive and returns a [`Synthetic`], which fills
//! batches of requests through [`Workload`].
//!
//! # Random stream
//!
//! Results must be repeatable from a seed, also by other programs, so the order of draws is part of the
//! interface. There are two generators, [`Prng::derive`](strobe_types::Prng::derive) of the seed with the
//! names `"workload address"` and `"workload operation"`. Changing `write_fraction` therefore leaves the
//! addresses unchanged. Each request draws, in order:
//!
//! 1. If `trim_fraction` > 0, one `chance(trim_fraction)` from the operation generator. If true and some slot
//!    is in use, one `below(slots in use)` from the same generator gives the slot to trim. With `trim_ranges`
//!    above 1, one more `below(slots in use)` gives each further range while slots are in use. A
//!    `trim_fraction` of 1 with one range draws nothing here: step 3 gives the slot.
//! 2. Otherwise, if 0 < `write_fraction` < 1, one `chance(write_fraction)` from the operation generator: true
//!    writes, false reads. 0 always reads and 1 always writes, without a draw.
//! 3. The slot, from the address generator:
//!    - `uniform`: one `below(slots)`; with `random_map` the next unvisited slot from that one on
//!    - `sequential`: no draw; reads, writes and trims each have their own cursor
//!    - `hotcold`: one `chance(hot_write_share)` and one `below`
//!    - `zipf`: one `unit` per attempt; a theta of 0 draws as `uniform`
//!    - `gaussian`: with `uniform_share` > 0 one `chance(uniform_share)`; if true, one `below(slots)`.
//!      Otherwise pairs of `unit`, each accepted pair yielding two positions
//!
//! With `block_split` each request also draws one `unit` from a third generator, `"workload size"`. Its size
//! is the first of the list whose cumulative share exceeds that number.

mod config;
mod draw;
mod gaussian;
mod generator;
mod in_use;
mod kind;
mod map;
mod sizes;
mod state;
mod zipf;

#[cfg(test)]
mod tests;

pub use config::{SyntheticConfig, WorkloadError};
pub use gaussian::gaussian_sigma;
pub use generator::Synthetic;
pub use kind::Kind;
pub use sizes::BlockShare;

use strobe_types::Request;

/// An endless source of requests.
///
/// The caller owns the batch and its size; a few hundred requests hide the cost of the call. The request stream
/// is independent of the batch sizes.
pub trait Workload {
    /// Clears `batch` and pushes exactly `count` requests.
    fn fill(&mut self, batch: &mut Vec<Request>, count: usize);

    /// Name in `strobe list workloads`.
    fn name(&self) -> &'static str;
}

/// User-facing description of a workload kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadInfo {
    /// Value of `kind`.
    pub name: &'static str,
    /// One-line summary.
    pub summary: &'static str,
    /// Configuration keys specific to this kind.
    pub keys: &'static [&'static str],
}

/// All synthetic workloads, in display order.
pub fn list() -> &'static [WorkloadInfo] {
    const {
        &[
            WorkloadInfo {
                name: Kind::Uniform.name(),
                summary: "every slot equally likely; the case with closed forms for write amplification",
                keys: &["random_map"],
            },
            WorkloadInfo {
                name: Kind::Sequential.name(),
                summary: "one slot after the other, from the start again at the end",
                keys: &[],
            },
            WorkloadInfo {
                name: Kind::Zipf.name(),
                summary: "the k-th most popular slot with probability proportional to 1/k^theta",
                keys: &["theta", "scatter"],
            },
            WorkloadInfo {
                name: Kind::Hotcold.name(),
                summary: "two classes of slots, each uniform: the share hot_fraction gets hot_write_share",
                keys: &["hot_fraction", "hot_write_share", "scatter"],
            },
            WorkloadInfo {
                name: Kind::Gaussian.name(),
                summary: "a bell around the middle of the range, whose far ends are hardly ever written",
                keys: &["sigma", "hot_share", "uniform_share"],
            },
        ]
    }
}
