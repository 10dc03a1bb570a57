//! Mapping schemes.

pub(crate) mod page;
mod page_check;
