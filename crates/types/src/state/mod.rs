//! Save and load of the state of a running drive.
//!
//! [`Stored`] is for values: reading makes a new value. [`State`] is for parts of a drive that also have
//! sizes and choices from the configuration. Such a part is built from the configuration first, and then its
//! state is loaded. Both traits can be derived. Fields are written in declaration order; attributes mark
//! exceptions:
//!
//! ```
//! use strobe_types::{State, Stored};
//!
//! #[derive(Stored)]
//! enum Step {
//!     Idle,
//!     Reading(u32),
//!     Moving { from: u64, to: u64 },
//! }
//!
//! #[derive(State)]
//! struct Queue {
//!     #[state(skip)] // follows from the configuration
//!     depth: u32,
//!     steps: Vec<Step>,
//!     #[state(table)] // its length follows from the configuration
//!     busy: Vec<bool>,
//!     #[state(part)] // `Some` or `None` by the configuration
//!     cache: Option<Vec<u64>>,
//! }
//! ```
//!
//! Integers are little-endian with the size of their type. Lists start with their length, enums with the
//! position of the variant as one byte. The format has no type tags, so reader and writer must agree. The
//! format version of the state file detects a mismatch.

mod containers;
mod reader;
mod writer;

#[doc(hidden)]
pub use containers::{load_part, save_part};
pub use reader::StateReader;
pub use strobe_derive::{State, Stored};
pub use writer::StateWriter;

/// Errors of saving or loading a state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The drive cannot be saved, or not at this moment.
    #[error("this drive cannot be saved: {0}")]
    Unsaved(&'static str),
    /// The bytes are not the state of a drive, or belong to another drive.
    #[error("the state does not fit this drive: {0}")]
    Unfit(&'static str),
    /// The input ends before the state does.
    #[error("the state ends early")]
    Short,
    /// An I/O error.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A value that can be written and read.
pub trait Stored: Sized {
    /// Writes the value.
    fn store(&self, out: &mut StateWriter<'_>);

    /// Reads a value written by [`Stored::store`]. Other bytes give an error or an arbitrary value.
    fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError>;
}

/// A part of a drive whose state can be written, and loaded into a part made from the same configuration.
pub trait State {
    /// Writes the state.
    fn save_state(&self, out: &mut StateWriter<'_>);

    /// Loads a state written by [`State::save_state`]. After an error the part is unusable.
    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError>;
}

impl<T: Stored> State for T {
    #[inline]
    fn save_state(&self, out: &mut StateWriter<'_>) {
        self.store(out);
    }

    #[inline]
    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        *self = T::restored(from)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
