//! Synthetic workloads: endless streams of requests drawn from a distribution.
//!
//! A [`SyntheticConfig`] says what to draw, [`SyntheticConfig::build`] checks it against a drive
//! and yields a [`Synthetic`], which fills batches of requests through [`Workload`].
//!
//! # Addresses
//!
//! The workload uses the byte range `[offset_bytes, offset_bytes + size_bytes)`, cut from its
//! start into *slots* of `block_bytes`; a remainder at the end is left alone. Every request
//! covers one slot. The kinds differ in how they draw the slot:
//!
//! | kind | slot |
//! |---|---|
//! | `uniform` | all equally likely |
//! | `sequential` | one after the other, wrapping; reads and writes share the cursor |
//! | `zipf` | rank k with probability proportional to k^−theta |
//! | `hotcold` | the share `hot_fraction` of the slots gets the share `hot_write_share` |
//! | `gaussian` | normal around the middle of the range, drawn again if outside |
//!
//! `zipf` and `hotcold` rank slots by popularity. With `scatter` the ranks are spread over the
//! range one to one ([`strobe_types::scatter`]), otherwise popular slots lie at its start.
//!
//! # Random stream
//!
//! Results must be repeatable from a seed, also by another program, so the order of draws is
//! part of the interface. There are two generators, [`Prng::derive`](strobe_types::Prng::derive)
//! of the seed with the names `"workload address"` and `"workload operation"`; changing
//! `write_fraction` therefore leaves the addresses as they were. Each request takes, in order:
//!
//! 1. if `trim_fraction` > 0, one `chance(trim_fraction)` from the operation generator; if true
//!    and some slot is in use, one `below(slots in use)` from the same generator, and the
//!    request is that trim; with `trim_ranges` above 1 one more `below(slots in use)` for each further range, as long as
//!    some slot is in use;
//! 2. otherwise, if 0 < `write_fraction` < 1, one `chance(write_fraction)` from the operation
//!    generator; true writes, false reads (0 always reads, 1 always writes, without a draw);
//! 3. the slot from the address generator: `uniform` one `below(slots)`; `sequential` nothing;
//!    `hotcold` one `chance(hot_write_share)` and one `below`; `zipf` one `unit` per attempt, and
//!    with a theta of 0 what `uniform` takes; `gaussian` pairs of `unit`, each accepted pair yielding two draws.
//!
//! With `block_split` each request also takes one `unit` from a third generator, `"workload size"`: the first size of the
//! list for which the shares up to it exceed that number.
//!
//! # Trims
//!
//! With `trim_fraction` > 0 the workload keeps track of the slots in use: those not trimmed
//! since they were last written. At the start all slots count as in use, as the drive is
//! expected to be prefilled. A trim picks among the slots in use, all equally likely; if there is
//! none, the request is a write or a read instead. Writes draw from all slots, in use or not.
//! For uniform writes this is the model of Frankie et al. 2012, in which the share in use tends
//! to (1 − 2q)/(1 − q); see [`crate::oracle::trim_rho`].

mod config;
mod draw;
mod gaussian;
mod generator;
mod in_use;
mod kind;
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
/// The caller owns the batch and its size; batches of a few hundred requests hide the cost of
/// the call. The requests do not depend on how they are divided into batches.
pub trait Workload {
    /// Clears `batch` and pushes exactly `count` requests.
    fn fill(&mut self, batch: &mut Vec<Request>, count: usize);

    /// The name under which `strobe list workloads` knows this workload.
    fn name(&self) -> &'static str;
}

/// Description of one kind of workload for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadInfo {
    /// The value of `kind`.
    pub name: &'static str,
    /// One line on what it does.
    pub summary: &'static str,
    /// The configuration keys that only matter to this kind, with those of all kinds left out.
    pub keys: &'static [&'static str],
}

/// Every synthetic workload, in the order to print.
pub fn list() -> &'static [WorkloadInfo] {
    const {
        &[
            WorkloadInfo {
                name: Kind::Uniform.name(),
                summary: "every slot equally likely; the case with closed forms for write amplification",
                keys: &[],
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
