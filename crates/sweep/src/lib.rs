//! Sweeps: the same experiment for many values of its keys and many seeds.
//!
//! [`SweepFile`] is an experiment file with one more table, `[sweep]`. A [`Plan`] has a point for every combination and
//! seed; [`Schedule`] says which can be run now: points that share a warm-up wait for the one that saves it, further
//! seeds for the interval of those before. Who runs them does not matter: [`carry_out`] is a pure function from text to
//! text, called by processes of this machine ([`Sweep::run`]) or by any executor of Python. [`Store`] keeps what is done, so
//! that a sweep that was killed goes on; [`Rows`] brings it in the order of the plan, so that the Parquet file has the
//! same bytes whoever ran the points and in whatever order they came. [`Summary`] has the means with their intervals, and
//! says where no difference was shown.

mod columns;
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
pub mod words;

pub use columns::{Column, Rows, Values};
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
pub use statistics::{Estimate, estimate, holm};
pub use store::{Store, has_store, open_store};
pub use summary::{ConfigurationSummary, Difference, Summary};
pub use sweep::{Outputs, Sweep};
pub use task::{Outcome, Task, carry_out, carry_out_by};
