//! Figures of results, each only if the result has its data.

mod compare;
mod flash;
mod latency;
mod over_time;
mod streams;

pub(crate) use compare::headlines;
pub use compare::{NothingInCommon, have_common};

use crate::Run;
use crate::plot::Figure;

/// Maximum runs in a figure; tables show all.
pub(crate) const SHOWN_MAX: usize = 8;

pub(crate) fn all(runs: &[Run]) -> Vec<Figure> {
    let shown = &runs[..runs.len().min(SHOWN_MAX)];
    let mut figures = Vec::new();
    figures.extend(compare::figure(shown));
    figures.extend(over_time::figures(shown));
    figures.extend(latency::figures(shown));
    figures.extend(streams::figures(shown));
    figures.extend(flash::figures(shown));
    figures
}

/// Line name, without the run's name for a single run.
fn named(runs: &[Run], run: &Run, what: &str) -> String {
    match (runs.len(), what) {
        (1, _) => what.to_owned(),
        (_, "") => run.name.clone(),
        (_, _) => format!("{}, {what}", run.name),
    }
}
