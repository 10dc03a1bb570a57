//! Effects of a collection: one log records all calls to the flash and the victim policy. A naive
//! [`Ledger`](ledger::Ledger) replays it, and the rules are checked round by round.

mod allocation;
mod bench;
mod ledger;
mod leveling;
mod migration;
mod watched;
