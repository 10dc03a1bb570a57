//! The vocabulary of Strobe: addresses, geometry and time.
//!
//! - Addresses are newtypes around private integers ([`Lba`], [`Lpn`], [`Ppa`], [`Ppn`], [`BlockId`],
//!   [`DieId`], [`ChannelId`]), so a logical number cannot be used as a physical one.
//! - Only [`Geometry`] converts one kind of address to another.
//! - [`SimTime`] is virtual time in nanoseconds; the engine never reads a clock.
//! - [`Prng`] is the only source of randomness, always seeded.

// The derive macros refer to this crate by name.
extern crate self as strobe_types;

mod addr;
mod cells;
mod counters;
mod defaults;
mod divide;
mod geometry;
mod named;
mod packed;
mod prefetch;
mod prng;
mod request;
mod state;
mod stop;
mod table;
mod time;

pub use addr::{BlockId, ChannelId, DieId, Lba, Lpn, Ppa, Ppn, SECTOR_BYTES};
pub use cells::CellMode;
pub use counters::Counters;
pub use defaults::{is_default, is_one};
pub use divide::Divisor;
pub use geometry::{Geometry, GeometryError, GeometrySpec, Place};
pub use packed::PackedPpa;
pub use prefetch::prefetch_write;
pub use prng::{Prng, scatter};
pub use request::{Op, Range, Request};
pub use state::{State, StateError, StateReader, StateWriter, Stored};
#[doc(hidden)]
pub use state::{load_part, save_part};
pub use stop::StopFlag;
pub use table::{Table, nonzero};
pub use time::SimTime;
