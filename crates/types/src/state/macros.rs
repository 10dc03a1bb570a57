//! States from lists of fields.

/// [`Stored`](crate::Stored) for structs and enums, from the names of their fields and variants: each named once, in the
/// order in which they are written; none may be left out. Bounds of generic types come first, in brackets.
///
/// ```
/// # use strobe_types::stored;
/// struct Lane { plane: u32, next: u32 }
/// stored! { struct Lane { plane, next } }
///
/// struct Slot<P>(P, bool);
/// stored! { [P: strobe_types::Stored] struct Slot<P>(payload, is_used) }
///
/// enum Step { Idle, Reading(u32), Moving { from: u64, to: u64 } }
/// stored! { enum Step { 0 Idle, 1 Reading(page), 2 Moving { from, to } } }
/// ```
#[macro_export]
macro_rules! stored {
    ($([$($bounds:tt)*])? struct $type:ty { $($field:ident),* $(,)? }) => { const _: () = {
        use $crate::{StateError, StateReader, StateWriter, Stored};
        impl<$($($bounds)*)?> Stored for $type {
            #[inline]
            fn store(&self, out: &mut StateWriter<'_>) {
                let Self { $($field),* } = self;
                $(Stored::store($field, out);)*
            }

            #[inline]
            fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
                $(let $field = Stored::restored(from)?;)*
                Ok(Self { $($field),* })
            }
        }
    }; };
    ($([$($bounds:tt)*])? struct $name:ident $(<$($generic:ident),*>)? ($($field:ident),* $(,)?)) => { const _: () = {
        use $crate::{StateError, StateReader, StateWriter, Stored};
        impl<$($($bounds)*)?> Stored for $name $(<$($generic),*>)? {
            #[inline]
            fn store(&self, out: &mut StateWriter<'_>) {
                let Self($($field),*) = self;
                $(Stored::store($field, out);)*
            }

            #[inline]
            fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
                $(let $field = Stored::restored(from)?;)*
                Ok(Self($($field),*))
            }
        }
    }; };
    ($([$($bounds:tt)*])? enum $type:ty {
        $($number:literal $variant:ident $({ $($field:ident),* $(,)? })? $(( $($part:ident),* $(,)? ))?),* $(,)?
    }) => { const _: () = {
        use $crate::{StateError, StateReader, StateWriter, Stored};
        impl<$($($bounds)*)?> Stored for $type {
            #[inline]
            fn store(&self, out: &mut StateWriter<'_>) {
                match self {
                    $(Self::$variant $({ $($field),* })? $(( $($part),* ))? => {
                        Stored::store(&($number as u8), out);
                        $($(Stored::store($field, out);)*)?
                        $($(Stored::store($part, out);)*)?
                    })*
                }
            }

            #[inline]
            fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
                Ok(match <u8 as Stored>::restored(from)? {
                    $($number => {
                        $($(let $field = Stored::restored(from)?;)*)?
                        $($(let $part = Stored::restored(from)?;)*)?
                        Self::$variant $({ $($field),* })? $(( $($part),* ))?
                    })*
                    _ => return Err(StateError::Unfit("a variant that there is not")),
                })
            }
        }
    }; };
}

/// [`State`](crate::State) for a struct, from the names of its fields: first those that are state, in the order in which
/// they are written; then tables, the length of which follows from the configuration; parts that are there or not by the
/// configuration (`Option`, or `Option<Box>`: boxes); and those that the configuration makes, of which nothing is written. None may be left out.
///
/// ```
/// # use strobe_types::state;
/// struct Queue { depth: u32, waiting: Vec<u64>, busy: Vec<bool> }
/// state! { Queue { waiting } tables { busy } made { depth } }
/// ```
#[macro_export]
macro_rules! state {
    (
        $([$($bounds:tt)*])? $name:ident $(<$($generic:ident),*>)? { $($field:ident),* $(,)? }
        $(tables { $($table:ident),* $(,)? })?
        $(parts { $($part:ident),* $(,)? })?
        $(boxes { $($boxed:ident),* $(,)? })?
        $(made { $($made:ident),* $(,)? })?
    ) => { const _: () = {
        use $crate::{State, StateError, StateReader, StateWriter};
        impl<$($($bounds)*)?> State for $name $(<$($generic),*>)? {
            fn save_state(&self, out: &mut StateWriter<'_>) {
                let Self { $($field,)* $($($table,)*)? $($($part,)*)? $($($boxed,)*)? $($($made: _,)*)? } = self;
                let _ = &out;
                $(State::save_state($field, out);)*
                $($(State::save_state(&$table[..], out);)*)?
                $($($crate::save_part($part.as_ref(), out);)*)?
                $($($crate::save_part($boxed.as_deref(), out);)*)?
            }

            fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
                let Self { $($field,)* $($($table,)*)? $($($part,)*)? $($($boxed,)*)? $($($made: _,)*)? } = self;
                let _ = &from;
                $(State::load_state($field, from)?;)*
                $($(State::load_state(&mut $table[..], from)?;)*)?
                $($($crate::load_part($part.as_mut(), from)?;)*)?
                $($($crate::load_part($boxed.as_deref_mut(), from)?;)*)?
                Ok(())
            }
        }
    }; };
}
