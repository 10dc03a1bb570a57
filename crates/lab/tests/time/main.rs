//! Correctness of time: timed drives checked against closed forms and bounds.
//!
//! Long tests are ignored: `cargo test --release -p strobe-lab --test time -- --ignored --nocapture` prints
//! the tables that docs/TIME.md quotes.

mod amplification;
mod batches;
mod collecting_reads;
mod conservation;
mod drives;
mod host;
#[path = "../oracle_support/mod.rs"]
mod oracle_support;
mod paced;
mod page_types;
mod planes;
mod queueing;
mod retries;
mod suspended;
mod throughput;

#[track_caller]
fn assert_near(what: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{what}: {found}, expected {expected}");
}
