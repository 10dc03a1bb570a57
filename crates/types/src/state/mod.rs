//! The state of a running drive as bytes, and back.
//!
//! [`Stored`] is for values: what is read makes a new one. [`State`] is for parts of a drive that hold more than their
//! state, sizes and choices that follow from the configuration: they are built from that first, and what is read goes
//! into them. Both are derived. Fields are written in the order of their declaration, all that are not marked:
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
//! Integers are little-endian and as long as their type, lists have their length before them, variants their position as
//! one byte. Nothing says what comes next: reader and writer agree, or a version above them says that they do not.

mod containers;
mod reader;
mod writer;

#[doc(hidden)]
pub use containers::{load_part, save_part};
pub use reader::StateReader;
pub use strobe_derive::{State, Stored};
pub use writer::StateWriter;

/// Why a state cannot be saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The drive has something that cannot be kept in a file, or is at a moment at which it cannot.
    #[error("this drive cannot be saved: {0}")]
    Unsaved(&'static str),
    /// The bytes read are not the state of a drive, or belong to another drive.
    #[error("the state is not one of this drive: {0}")]
    Unfit(&'static str),
    /// There is less than the state of a drive.
    #[error("the state ends early")]
    Short,
    /// It cannot be written or read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// A value that can be written and read again.
pub trait Stored: Sized {
    /// Writes it.
    fn store(&self, out: &mut StateWriter<'_>);

    /// Reads what [`Stored::store`] has written. Bytes that it cannot have written give an error, or any other value.
    fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError>;
}

/// A part of a drive the state of which can be written, and read into a part made from the same configuration.
pub trait State {
    /// Writes its state.
    fn save_state(&self, out: &mut StateWriter<'_>);

    /// Reads what [`State::save_state`] has written. After an error it is of no use any more.
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
