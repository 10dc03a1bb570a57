//! Stored forms of numbers, addresses and containers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;

use super::{State, StateError, StateReader, StateWriter, Stored};

/// Maximum number of list elements allocated before they are read.
const AHEAD: usize = 1 << 16;

/// Maximum length of a list whose elements take no bytes, such as units read from a drive without data.
const EMPTY_MAX: usize = 1 << 24;

macro_rules! numbers {
    ($($number:ty)+) => {$(
        impl Stored for $number {
            #[inline(always)]
            fn store(&self, out: &mut StateWriter<'_>) {
                out.put(&self.to_le_bytes());
            }

            #[inline(always)]
            fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
                let mut bytes = [0; size_of::<$number>()];
                from.take(&mut bytes)?;
                Ok(Self::from_le_bytes(bytes))
            }
        }
    )+};
}

numbers!(u8 u16 u32 u64 u128 f64);

impl Stored for usize {
    fn store(&self, out: &mut StateWriter<'_>) {
        (*self as u64).store(out);
    }

    fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        usize::try_from(u64::restored(from)?).map_err(|_| StateError::Unfit("a number is too large"))
    }
}

impl Stored for bool {
    #[inline]
    fn store(&self, out: &mut StateWriter<'_>) {
        u8::from(*self).store(out);
    }

    #[inline]
    fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        match u8::restored(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(StateError::Unfit("an invalid boolean")),
        }
    }
}

impl Stored for () {
    #[inline(always)]
    fn store(&self, _out: &mut StateWriter<'_>) {}

    #[inline(always)]
    fn restored(_from: &mut StateReader<'_>) -> Result<Self, StateError> {
        Ok(())
    }
}

impl<T: Stored> Stored for Option<T> {
    #[inline]
    fn store(&self, out: &mut StateWriter<'_>) {
        self.is_some().store(out);
        if let Some(value) = self {
            value.store(out);
        }
    }

    #[inline]
    fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        Ok(if bool::restored(from)? { Some(T::restored(from)?) } else { None })
    }
}

/// Saves an optional part of a drive. The configuration decides if the part exists.
pub fn save_part<T: State + ?Sized>(part: Option<&T>, out: &mut StateWriter<'_>) {
    part.is_some().store(out);
    if let Some(part) = part {
        part.save_state(out);
    }
}

/// Loads a part saved by [`save_part`].
pub fn load_part<T: State + ?Sized>(
    part: Option<&mut T>,
    from: &mut StateReader<'_>,
) -> Result<(), StateError> {
    match (bool::restored(from)?, part) {
        (true, Some(part)) => part.load_state(from),
        (false, None) => Ok(()),
        _ => Err(StateError::Unfit("an optional part is present in only one of them")),
    }
}

impl<T: Stored> Stored for Reverse<T> {
    #[inline]
    fn store(&self, out: &mut StateWriter<'_>) {
        self.0.store(out);
    }

    #[inline]
    fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        T::restored(from).map(Reverse)
    }
}

macro_rules! tuples {
    ($(($($kind:ident $at:tt)+))+) => {$(
        impl<$($kind: Stored),+> Stored for ($($kind,)+) {
            #[inline]
            fn store(&self, out: &mut StateWriter<'_>) {
                $(self.$at.store(out);)+
            }

            #[inline]
            fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
                Ok(($($kind::restored(from)?,)+))
            }
        }
    )+};
}

tuples!((A 0 B 1) (A 0 B 1 C 2));

impl<T: Stored, const N: usize> Stored for [T; N] {
    #[inline]
    fn store(&self, out: &mut StateWriter<'_>) {
        self.iter().for_each(|value| value.store(out));
    }

    #[inline]
    fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        // Exactly N values, or an error before that.
        let values = (0..N).map(|_| T::restored(from)).collect::<Result<Vec<T>, _>>()?;
        values.try_into().map_err(|_| StateError::Unfit("a list of the wrong length"))
    }
}

fn store_all<'a, T: Stored + 'a>(values: impl ExactSizeIterator<Item = &'a T>, out: &mut StateWriter<'_>) {
    values.len().store(out);
    values.for_each(|value| value.store(out));
}

fn all_restored<T: Stored>(from: &mut StateReader<'_>) -> Result<Vec<T>, StateError> {
    // Elements without bytes take no input, so a constant limits the length.
    let has_bytes = size_of::<T>() > 0;
    let length = from.length(u64::from(has_bytes))?;
    if !has_bytes && length > EMPTY_MAX {
        return Err(StateError::Unfit("a list is too long"));
    }
    let mut values = Vec::with_capacity(length.min(AHEAD));
    for _ in 0..length {
        values.push(T::restored(from)?);
    }
    Ok(values)
}

macro_rules! lists {
    ($($list:ident: $($bound:ident)?;)+) => {$(
        impl<T: Stored $(+ $bound)?> Stored for $list<T> {
            fn store(&self, out: &mut StateWriter<'_>) {
                store_all(self.iter(), out);
            }

            fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
                all_restored(from).map(Self::from_iter)
            }
        }
    )+};
}

// A heap is stored in its internal order. Building a heap from this order moves no element.
lists!(Vec: ; VecDeque: ; BTreeSet: Ord; BinaryHeap: Ord;);

impl<K: Stored + Ord, V: Stored> Stored for BTreeMap<K, V> {
    fn store(&self, out: &mut StateWriter<'_>) {
        self.len().store(out);
        for (key, value) in self {
            key.store(out);
            value.store(out);
        }
    }

    fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        all_restored::<(K, V)>(from).map(Self::from_iter)
    }
}

impl<T: Stored> Stored for Box<T> {
    fn store(&self, out: &mut StateWriter<'_>) {
        self.as_ref().store(out);
    }

    fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        T::restored(from).map(Box::new)
    }
}

impl Stored for Arc<[u8]> {
    fn store(&self, out: &mut StateWriter<'_>) {
        self.len().store(out);
        out.put(self);
    }

    fn restored(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        let mut bytes = vec![0; from.length(1)?];
        from.take(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// A table whose length follows from the configuration.
impl<T: State> State for [T] {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        self.len().store(out);
        self.iter().for_each(|value| value.save_state(out));
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        if u64::restored(from)? != self.len() as u64 {
            return Err(StateError::Unfit("a table of the wrong length"));
        }
        self.iter_mut().try_for_each(|value| value.load_state(from))
    }
}
