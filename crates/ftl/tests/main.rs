//! Tests of the layer from outside, in one program.

mod block_cut;
mod block_maps;
mod collector;
mod dftl;
mod durable_map;
mod flash_order;
mod interrupts;
mod limits;
mod log_victims;
mod logical_copy;
mod map_pages;
mod page_map;
mod placement;
mod power_cut;
mod slc_cache;
mod torture;
mod victims;
