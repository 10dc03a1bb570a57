//! Crash tests of real file systems.
//!
//! Power fails while a guest runs a user's program, or mapping units become unreadable afterwards. A user's
//! check judges the result. [`Explorer`] runs the program once, takes snapshots of the drive at many flash
//! operations, and boots a machine with each. [`Search`] does so with random programs.

#![cfg(target_os = "linux")]

mod explore;
pub mod programs;
mod search;

pub use explore::{
    ACKNOWLEDGED, CrashReport, CutPoints, ExploreError, Explorer, FaultReport, FileCall, Found, Group, KINDS,
    Origin, Rehearsed, SavedFiles, UnderWay, Unreadable, Verdict, groups,
};
pub use search::{Broken, Search, check_program};

/// True if a kernel line reports an error.
pub fn is_alarm(line: &str) -> bool {
    let words = ["WARNING:", "BUG:", "Call Trace", "I/O error", "EXT4-fs error", "nconsisten", "orrupt"];
    words.iter().any(|word| line.contains(word)) || (line.contains("FAT-fs") && line.contains("error"))
}
