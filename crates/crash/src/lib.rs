//! Crash tests of real file systems: power fails while a guest runs a program of the user's, or places cannot be read
//! afterwards, and a check of theirs says what is left.
//!
//! [`Explorer`] lets the program run once, takes a snapshot of the drive at many flash operations, and boots a machine
//! with each. [`Search`] does so with programs made at random.

#![cfg(target_os = "linux")]

mod explore;
pub mod programs;
mod search;

pub use explore::{
    ACKNOWLEDGED, CrashReport, ExploreError, Explorer, FaultReport, FileCall, Found, Group, KINDS, Kept,
    Origin, Places, Rehearsed, UnderWay, Unreadable, Verdict, groups,
};
pub use search::{Broken, Search, check_program};

/// True if a kernel line reports trouble.
pub fn is_alarm(line: &str) -> bool {
    let words = ["WARNING:", "BUG:", "Call Trace", "I/O error", "EXT4-fs error", "nconsisten", "orrupt"];
    words.iter().any(|word| line.contains(word)) || (line.contains("FAT-fs") && line.contains("error"))
}
