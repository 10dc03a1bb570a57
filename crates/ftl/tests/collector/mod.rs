//! Effects of a collection, seen from outside.
//!
//! All that the page map tells its flash and its victim policy is written down in one log (`watched.rs`). A naive
//! [`Ledger`](ledger::Ledger) replays it, and the rules of migration, allocation and wear levelling are held
//! against what was done, round by round.

mod allocation;
mod bench;
mod ledger;
mod leveling;
mod migration;
mod watched;
