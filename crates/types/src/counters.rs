//! Structs of counters with difference and sum.

/// A count, or a structure of counts.
///
/// [`counters!`](crate::counters) implements it for a struct. A manual implementation needs only
/// [`Counters::combine`].
pub trait Counters {
    /// Combines each count of `self` with its counterpart in `other`.
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

/// Counters present in some configurations only. A missing counterpart counts as zero.
impl<C: Counters + Default> Counters for Option<C> {
    fn combine(&self, other: &Self, with: fn(u64, u64) -> u64) -> Self {
        let zero = C::default();
        self.as_ref().map(|own| own.combine(other.as_ref().unwrap_or(&zero), with))
    }
}

/// A list of counters whose length depends on the configuration. A missing counterpart counts as zero.
impl<C: Counters + Default> Counters for Vec<C> {
    fn combine(&self, other: &Self, with: fn(u64, u64) -> u64) -> Self {
        let zero = C::default();
        let own = self.iter().enumerate();
        own.map(|(at, own)| own.combine(other.get(at).unwrap_or(&zero), with)).collect()
    }
}

/// Declares structs of counters: each field is a `u64` or other [`Counters`].
///
/// Each struct is declared as written and gets two methods: `since` (difference to an earlier copy) and `and`
/// (sum). A counter that a power cut reset gives 0. Sums saturate below 2⁶⁴.
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
            /// Returns the counts since `earlier`, an older copy of the same counters.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                $crate::Counters::combine(self, earlier, u64::saturating_sub)
            }

            /// Returns the sum of both.
            #[must_use]
            pub fn and(&self, other: &Self) -> Self {
                $crate::Counters::combine(self, other, u64::saturating_add)
            }
        }
    )+};
}
