//! Priority class of an operation, by its cause.

use super::Chip;
use crate::{Cause, Class, Medium, Timing};

/// Class of a read. A host waits for its own reads, map reads and recovery.
#[inline(always)]
pub(super) fn read_class(cause: Cause) -> Class {
    match cause {
        Cause::Host | Cause::Map | Cause::Recovery => Class::HostRead,
        _ => Class::BackgroundRead,
    }
}

/// Class of a program. No host waits for relocated data.
#[inline(always)]
pub(super) fn program_class(cause: Cause) -> Class {
    match cause {
        Cause::Gc | Cause::Merge | Cause::Wear => Class::BackgroundProgram,
        _ => Class::HostProgram,
    }
}

impl<T: Timing, M: Medium> Chip<T, M> {
    #[inline(always)]
    pub(super) fn log_cause(&self, cause: Cause) {
        if T::TIMED && self.timing.log().is_on() {
            self.timing.log().set_cause(cause);
        }
    }
}
