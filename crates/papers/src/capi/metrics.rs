//! Results of a run, and the metrics of the figures.

use serde::{Deserialize, Serialize};
use strobe_lab::RunResult;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Host pages from the start of the fill to the first bad block.
    first_failure: Option<u64>,
    /// Host pages if all blocks wore evenly.
    ideal: Option<u64>,
    /// Host pages written after the fill, and the copies and erases since then.
    pub(super) host_pages: u64,
    copies: u64,
    erases: u64,
    waf: Option<f64>,
    /// Points of figure 5: host pages written and number of bad blocks.
    pub(super) deaths: Vec<(u64, u32)>,
}

impl Outcome {
    /// Outcome with the first bad block after `life` host pages; the rest counts from the end of the fill.
    #[cfg(test)]
    pub(super) fn counted(life: u64, host_pages: u64, copies: u64, erases: u64) -> Self {
        let (ideal, waf, deaths) = (None, None, Vec::new());
        Self { first_failure: Some(life), ideal, host_pages, copies, erases, waf, deaths }
    }

    pub(super) fn of(result: &RunResult) -> Self {
        Self {
            first_failure: result.wear.first_bad_block_host_writes,
            ideal: result.wear.ideal_host_pages,
            host_pages: result.host.pages_written,
            copies: result.gc.units_moved + result.gc.wear_units_moved,
            erases: result.nand.erase.total,
            waf: result.waf,
            deaths: result.wear.bad_block_curve.iter().map(|at| (at.host_pages, at.bad_blocks)).collect(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) of: fn(&Outcome) -> Option<f64>,
}

pub(super) const LIFETIME: Metric = Metric {
    title: "host pages written when the first block goes bad",
    unit: "M host pages",
    of: |of| of.first_failure.map(|pages| pages as f64 / 1e6),
};

pub(super) const COPIES: Metric =
    Metric { title: "pages copied per erase", unit: "pages", of: |of| ratio(of.copies, of.erases) };

pub(super) const ERASES: Metric = Metric {
    title: "erases per host page written",
    unit: "erases",
    of: |of| ratio(of.erases, of.host_pages),
};

/// Table 2 of the paper.
const COPY_US: u64 = 60 + 1500;
const ERASE_US: u64 = 5000;

/// Excludes the time of sorting.
pub(super) const GC_TIME: Metric = Metric {
    title: "time of garbage collection per host page",
    unit: "µs",
    of: |of| ratio(of.copies * COPY_US + of.erases * ERASE_US, of.host_pages),
};

pub(super) const WAF: Metric = Metric { title: "write amplification", unit: "", of: |of| of.waf };

pub(super) const IDEAL: Metric = Metric {
    title: "ideal lifetime",
    unit: "M host pages",
    of: |of| of.ideal.map(|pages| pages as f64 / 1e6),
};

pub(super) const REACHED: Metric =
    Metric { title: "share of it reached", unit: "%", of: |of| ratio(100 * of.first_failure?, of.ideal?) };

fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}
