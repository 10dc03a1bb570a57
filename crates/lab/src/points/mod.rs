//! Many independent points of one study: the store of finished ones, the pool of workers, the watcher.
//!
//! Sweeps, papers and fits share this module. A study that was stopped goes on from its [`Store`]. The [`Pool`] hands
//! tasks to threads, and [`in_parallel`] uses it for a list that is known from the start. A [`Watch`] shows progress and
//! stops all of them.

mod pool;
mod store;
mod watch;

pub use pool::{Pool, in_parallel, threads};
pub use store::{Store, StoreError};
pub use watch::{Stoppable, Watch};

use serde::Serialize;
use sha2::Digest as _;

/// The first 128 bits of the SHA-256 of `text`, in hexadecimal.
pub fn digest(text: &str) -> String {
    sha2::Sha256::digest(text)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Key of a point in a [`Store`]: a digest of the model, the kind of point and its parameters.
pub fn key(kind: &str, point: &impl Serialize) -> String {
    let point = serde_json::to_string(point).expect("points are plain data");
    digest(&format!("{} {kind} {point}", crate::MODEL))
}
