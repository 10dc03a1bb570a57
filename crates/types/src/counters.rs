//! Counters that can be compared and added as a whole.

/// A count, or a structure made of counts.
///
/// [`counters!`](crate::counters) implements it for a struct. A hand-written implementation needs
/// [`Counters::combine`] only.
pub trait Counters {
    /// Each number of `self` and its counterpart in `other`, put together by `with`.
    #[must_use]
    fn combine(&self, other: &Self, with: fn(u64, u64) -> u64) -> Self;
}

impl Counters for u64 {
    fn combine(&self, other: &Self, with: fn(u64, u64) -> u64) -> Self {
        with(*self, *other)
    }
}

impl<C: Counters, const N: usize> Counters for [C; N] {
    fn combine(&self, other: &Self, with: fn(u64, u64) -> u64) -> Self {
        std::array::from_fn(|at| self[at].combine(&other[at], with))
    }
}

/// Optional counters, present in some configurations only. A missing counterpart counts as zero.
impl<C: Counters + Default> Counters for Option<C> {
    fn combine(&self, other: &Self, with: fn(u64, u64) -> u64) -> Self {
        let zero = C::default();
        self.as_ref().map(|own| own.combine(other.as_ref().unwrap_or(&zero), with))
    }
}

/// A list of counters, as long as the configuration makes it. A missing counterpart counts as zero.
impl<C: Counters + Default> Counters for Vec<C> {
    fn combine(&self, other: &Self, with: fn(u64, u64) -> u64) -> Self {
        let zero = C::default();
        let own = self.iter().enumerate();
        own.map(|(at, own)| own.combine(other.get(at).unwrap_or(&zero), with)).collect()
    }
}

/// Structs of counters, written once: each field is a `u64` or other [`Counters`].
///
/// Each is declared as written, and gets two methods: what was added `since` an earlier copy, and both together (`and`).
/// A counter that has gone back, because a power cut has reset it, counts as nothing; sums stay below 2⁶⁴.
///
/// ```
/// strobe_types::counters! {
///     #[derive(Debug, PartialEq)]
///     pub struct CacheStats {
///         pub hits: u64,
///         pub misses: u64,
///     }
/// }
/// let (start, end) = (CacheStats { hits: 3, misses: 1 }, CacheStats { hits: 7, misses: 1 });
/// assert_eq!(end.since(&start), CacheStats { hits: 4, misses: 0 });
/// ```
#[macro_export]
macro_rules! counters {
    ($(
        $(#[$about:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$field_about:meta])* $field_visibility:vis $field:ident: $counted:ty,)+
        }
    )+) => {$(
        $(#[$about])*
        #[derive($crate::Stored)]
        $visibility struct $name {
            $($(#[$field_about])* $field_visibility $field: $counted,)+
        }

        impl $crate::Counters for $name {
            fn combine(&self, other: &Self, with: fn(u64, u64) -> u64) -> Self {
                Self { $($field: $crate::Counters::combine(&self.$field, &other.$field, with),)+ }
            }
        }

        impl $name {
            /// Returns the counts added since `earlier`, an older copy of the same counters.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                $crate::Counters::combine(self, earlier, u64::saturating_sub)
            }

            /// Both together.
            #[must_use]
            pub fn and(&self, other: &Self) -> Self {
                $crate::Counters::combine(self, other, u64::saturating_add)
            }
        }
    )+};
}
