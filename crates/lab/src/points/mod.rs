//! Many independent points of one study: a store of finished points, a pool of workers and a watcher.
//!
//! Sweeps, papers and fits share this module. A stopped study resumes from its [`Store`].

mod pool;
mod store;
mod watch;

pub use pool::{Pool, in_parallel, threads};
pub use store::{Store, StoreError};
pub use watch::{Stoppable, Watch};

use serde::Serialize;
use sha2::Digest as _;

/// Returns the first 128 bits of the SHA-256 of `text`, in hexadecimal.
pub fn digest(text: &str) -> String {
    sha2::Sha256::digest(text)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the key of a point in a [`Store`]: a digest of the model, the kind of point and its parameters.
pub fn key(kind: &str, point: &impl Serialize) -> String {
    let point = serde_json::to_string(point).expect("points are plain data");
    digest(&format!("{} {kind} {point}", crate::MODEL))
}
