//! Mapping schemes.

pub(crate) mod page;
