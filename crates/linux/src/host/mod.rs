//! The host's files for the guest, read only: a file system (virtio-fs) whose answers take no time.
//!
//! The guest asks for names and contents as it needs them, so that every program runs without a list of what it needs.
//! Nothing of the host but names, attributes and contents shows: folders are sorted, numbers are given out in the order
//! of the guest's questions, and every answer comes at the time of the question. Nothing can be changed, because there
//! is no request for it.

mod device;
mod fuse;
mod tree;

pub use device::HostFiles;
pub(crate) use device::TAG;
pub use tree::{HostUse, can_be_shown, hidden_by};
