//! The drive layer against naive models and closed forms.
//!
//! `door` compares the ways in, `target` what a server makes of them; `byte_model` compares every byte with a plain disk; `batches` compares the ways of running the
//! same requests; `commands` goes to the limits of the command set; `virtual_time` and `buffer_time`
//! check completion times against arithmetic; `nvram` and `nvram_cut` are about the non-volatile cache.

mod aged;
mod banks;
mod batches;
mod buffer_time;
mod byte_model;
mod commands;
mod configuration;
mod cut_in_time;
mod door;
mod end_of_life;
mod freeze;
mod image;
mod map_pages;
mod misuse;
mod net_blocks;
mod nvram;
mod nvram_cut;
mod nvram_fat;
mod own_policies;
mod placement;
mod power_cut;
mod read_errors;
mod regressions;
mod setup;
mod slc_cache;
mod state;
mod stop;
mod target;
mod variation;
mod virtual_time;
mod word_lines;
