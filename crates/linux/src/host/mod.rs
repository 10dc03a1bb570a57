//! Host files for the guest, read only: a virtio-fs file system whose answers take no virtual time.
//!
//! The guest requests names and contents on demand, so programs run without a list of their files. Only
//! names, attributes and contents of the host are visible. Folders are sorted, and inode numbers follow the
//! order of the guest's lookups.

mod device;
mod fuse;
mod tree;

pub use device::HostFiles;
pub(crate) use device::TAG;
pub use tree::{HostUse, can_be_shown, hidden_by};
