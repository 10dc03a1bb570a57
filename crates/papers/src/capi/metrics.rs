//! What the figures show of each run, and what the paper says about it.

use strobe_lab::RunResult;

/// A number of a run that some figure shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    pub(super) figure: &'static str,
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) of: fn(&RunResult) -> Option<f64>,
    /// Whether the figure shows multiples of GA.
    pub(super) of_greedy: bool,
    /// What the paper says CAPi has more (or less) than each of the others, in percent, averaged
    /// over the data sets.
    pub(super) claims: [Claim; 4],
    pub(super) note: &'static str,
}

/// What the paper says about CAPi and another scheme.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) other: &'static str,
    pub(super) percent: f64,
    pub(super) band: [f64; 2],
    /// Why it is missed, where it is and the reason is known.
    pub(super) why: &'static str,
}

const fn claim(other: &'static str, percent: f64, band: [f64; 2]) -> Claim {
    Claim { other, percent, band, why: "" }
}

/// Why CAPi's lead over schemes that separate hot from cold data is small.
const GAP_CLOSES: &str = "where most data is cold, schemes that separate hot from cold data copy equally little, \
                          which draws the mean to zero";

/// Why CAPi's lead over CB in time is larger than in the paper.
const CB_COPIES_MORE: &str = "here CB copies more than GA does, not less: its age since the last invalidation favours \
                              full blocks of cold data";

/// Why FeGC lives longer than in the paper.
const STRONGER_FEGC: &str = "the paper's FeGC opened blocks anew at each collection and wasted what was left of them; \
                             this one keeps its open blocks and is the stronger for it";

pub(super) const FIRST_FAILURE: Metric = Metric {
    figure: "4",
    title: "host pages written when the first block goes bad",
    unit: "M host pages",
    of: |result| result.wear.first_bad_block_host_writes.map(|pages| pages as f64 / 1e6),
    of_greedy: false,
    claims: [
        claim("GA", 73.0, [35.0, 90.0]),
        claim("CB", 39.0, [25.0, 55.0]),
        claim("CAT", 29.0, [14.0, 35.0]),
        Claim { why: STRONGER_FEGC, ..claim("FeGC", 24.0, [-2.0, 14.0]) },
    ],
    note: "counted from the first page of the filling",
};

pub(super) const COPIES: Metric = Metric {
    figure: "6",
    title: "pages copied per erase",
    unit: "pages",
    of: |result| ratio(copies(result), result.nand.erase.total),
    of_greedy: false,
    claims: [
        claim("GA", -18.0, [-30.0, -10.0]),
        claim("CB", -14.0, [-25.0, -5.0]),
        claim("CAT", -11.0, [-25.0, -5.0]),
        claim("FeGC", -12.0, [-25.0, -5.0]),
    ],
    note: "counted from the end of the filling to the first bad block",
};

pub(super) const ERASES: Metric = Metric {
    figure: "7",
    title: "erases per host page written",
    unit: "erases",
    of: |result| ratio(result.nand.erase.total, result.host.pages_written),
    of_greedy: false,
    claims: [
        claim("GA", -38.0, [-40.0, -12.0]),
        claim("CB", -30.0, [-40.0, -12.0]),
        Claim { why: GAP_CLOSES, ..claim("CAT", -22.0, [-40.0, -12.0]) },
        Claim { why: GAP_CLOSES, ..claim("FeGC", -22.0, [-40.0, -12.0]) },
    ],
    note: "counted from the end of the filling to the first bad block",
};

pub(super) const GC_TIME: Metric = Metric {
    figure: "8",
    title: "time of garbage collection per host page, GA = 1",
    unit: "of GA",
    of: |result| {
        let (copy_ns, erase_ns) = (60_000 + 1_500_000, 5_000_000);
        ratio(copies(result) * copy_ns + result.nand.erase.total * erase_ns, result.host.pages_written)
    },
    of_greedy: true,
    claims: [
        claim("GA", -31.0, [-52.0, -15.0]),
        Claim { why: CB_COPIES_MORE, ..claim("CB", -20.0, [-42.0, -8.0]) },
        claim("CAT", -11.0, [-30.0, -2.0]),
        claim("FeGC", -11.0, [-30.0, -2.0]),
    ],
    note: "copies × (60 + 1500 µs) + erases × 5 ms; the time that CAPi takes to sort, which the paper \
           includes, is processor time and not counted. The paper's own figures 6 and 7 together, \
           fewer copies at fewer erases, give -49 % against GA and -40 % against CB: the bands reach so far",
};

fn copies(result: &RunResult) -> u64 {
    result.gc.units_moved + result.gc.wear_units_moved
}

pub(super) fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}
