//! The layer seen from outside. One program: what the parts share is compiled and linked once.

mod block_cut;
mod block_maps;
mod collector;
mod dftl;
mod durable_map;
mod flash_order;
mod interrupts;
mod log_victims;
mod logical_copy;
mod map_pages;
mod page_map;
mod placement;
mod power_cut;
mod slc_cache;
mod torture;
mod victims;
