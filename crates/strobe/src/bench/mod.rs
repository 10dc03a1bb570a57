//! Fixed speed cells beside the machine's own memory floor.

mod floor;

pub use floor::{Floor, FloorShape};
