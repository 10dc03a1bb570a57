//! Sweeps: an experiment for many values of its keys and many seeds.
//!
//! 1. [`SweepFile`] reads an experiment file with an additional table, `[sweep]`.
//! 2. [`Plan`] has a point for every combination and seed.
//! 3. [`Schedule`] chooses the points to run next. Points with a shared warm-up wait for the point that saves
//!    it. Further seeds wait for the spread of the first seeds.
//! 4. [`carry_out`] runs a point. It is a function from text to text, called by worker processes on this
//!    machine ([`Sweep::run`]) or by any Python executor.
//! 5. [`Store`] keeps finished points, so a killed sweep can be resumed.
//! 6. [`Rows`] sorts the results into plan order: the Parquet file has the same bytes for any number of
//!    workers.
//! 7. [`Summary`] computes means with intervals, and marks comparisons without a significant difference.

mod best;
mod best_table;
mod columns;
mod differences;
mod error;
mod figure;
mod file;
mod kept;
mod local;
mod measures;
mod names;
mod page;
mod parquet_file;
mod plan;
mod schedule;
mod seeds;
mod statistics;
mod store;
mod summary;
mod sweep;
mod task;
mod titles;
pub mod words;

pub use best_table::best_line;
pub use columns::{Column, Rows, Values};
pub use differences::Difference;
pub use error::SweepError;
pub use figure::charts;
pub use file::SweepFile;
pub use local::serve;
pub use names::Names;
pub use page::{failures, page, tables};
pub use parquet_file::write_parquet;
pub use plan::{Configuration, Plan, Point, short, shown};
pub use schedule::{Schedule, Step};
pub use seeds::Seeds;
pub use statistics::{Estimate, estimate, holm, seeds_needed, two_stage_estimate};
pub use store::{Store, has_store, open_store};
pub use summary::{ConfigurationSummary, Summary};
pub use sweep::{Outputs, Sweep};
pub use task::{Outcome, Task, carry_out, carry_out_by};
pub use titles::Naming;
