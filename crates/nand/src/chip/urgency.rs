//! How urgent operations are, by what they are for.

use crate::{Cause, Class};

/// How urgent a read is: somebody waits for those of the host, and for those that find where its data is.
#[inline(always)]
pub(super) fn read_class(cause: Cause) -> Class {
    match cause {
        Cause::Host | Cause::Map | Cause::Recovery => Class::HostRead,
        _ => Class::BackgroundRead,
    }
}

/// How urgent a program is: nobody waits for moved data.
#[inline(always)]
pub(super) fn program_class(cause: Cause) -> Class {
    match cause {
        Cause::Gc | Cause::Merge | Cause::Wear => Class::BackgroundProgram,
        _ => Class::HostProgram,
    }
}
