//! Crash tests of real file systems.
//!
//! Power fails while a guest runs a user's program, or mapping units become unreadable afterwards. A user's
//! check judges the result. [`Explorer`] takes snapshots of the drive at many flash operations of the
//! program, and boots a guest with each. [`Search`] does so with random programs.

#![cfg(target_os = "linux")]

mod explore;
pub mod programs;
mod search;

pub use explore::{
    ACKNOWLEDGED, CrashReport, CutPoints, Difference, ExploreError, Explorer, Fact, FaultReport, FileCall,
    Found, Group, KINDS, Origin, Rehearsed, SavedFiles, SourceLine, TriedSync, UnderWay, UnflushedWrite,
    Unreadable, UnsentData, Verdict, groups,
};
pub use search::{Broken, Search, check_program};

/// True if a kernel line reports an error.
pub fn is_alarm(line: &str) -> bool {
    // Words without their first letter match in upper and lower case.
    let words = ["WARNING:", "BUG:", "Call Trace", "I/O error", "EXT4-fs error", "nconsisten", "orrupt"];
    words.iter().any(|word| line.contains(word)) || (line.contains("FAT-fs") && line.contains("error"))
}
