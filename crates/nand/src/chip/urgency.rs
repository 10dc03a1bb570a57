//! Priority class of an operation, by its cause.

use crate::{Cause, Class};

/// Class of a read. A host waits for its own reads, and for map reads that locate its data.
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
