pub(crate) mod cmt;
pub(crate) mod entries;
pub(crate) mod lists;
pub(crate) mod sharing;
pub(crate) mod store;
pub(crate) mod translation;
