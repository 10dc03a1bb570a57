//! The paper's figures, each from the same runs.

use super::metrics::{COPIES, Claim, ERASES, FIRST_FAILURE, GC_TIME, Metric, ratio};
use super::schemes::CAPI;
use super::{DATA_SETS, Group, Scheme};
use crate::figure::{mean, reduced};
use crate::{Figure, Row, View};
use strobe_lab::RunResult;

/// Every figure, in the order of the paper.
pub(super) fn all(
    shares: &[f64],
    paper: &Group<'_>,
    fair: &Group<'_>,
    beyond: &Group<'_>,
    curves: &[(&'static Scheme, &RunResult)],
) -> Vec<Figure> {
    let bars = |metric: &Metric| bars(metric, paper, fair);
    vec![
        data_sets(shares),
        with_orders(bars(&FIRST_FAILURE), paper),
        deaths(curves),
        with_trend(bars(&COPIES), paper),
        bars(&ERASES),
        bars(&GC_TIME),
        combinations(beyond),
    ]
}

fn data_sets(shares: &[f64]) -> Figure {
    let row = |(set, share): (&super::DataSet, &f64)| {
        let nominal = 100.0 * set.hot_share;
        let at = [("cold_hot", set.name), ("unit", "% of pages hot")];
        Row::judged(&at, Some(nominal), Some(100.0 * share), [Some(nominal - 1.0), Some(nominal + 1.0)])
    };
    Figure::new(
        "3",
        "data sets: pages written more often than the average page",
        View::List,
        DATA_SETS.iter().zip(shares).map(row).collect(),
    )
}

/// A figure of bars: a group of them for each data set, one for each scheme.
fn bars(metric: &Metric, paper: &Group<'_>, fair: &Group<'_>) -> Figure {
    let mut rows = Vec::new();
    for group in [paper, fair] {
        for (place, set) in DATA_SETS.iter().enumerate() {
            for (scheme, results) in &group.schemes {
                let at = [
                    ("mode", group.mode),
                    ("cold_hot", set.name),
                    ("policy", scheme.label),
                    ("unit", metric.unit),
                ];
                rows.push(Row::shown(&at, bar(metric, group, results, place)));
            }
        }
    }
    for group in [paper, fair] {
        rows.extend(metric.claims.iter().map(|claim| average(metric, group, claim)));
    }
    Figure::new(
        metric.figure,
        metric.title,
        View::Table { down: &["mode", "cold_hot"], across: "policy" },
        rows,
    )
    .noted(metric.note)
}

fn bar(metric: &Metric, group: &Group<'_>, results: &[&RunResult], place: usize) -> Option<f64> {
    let value = (metric.of)(results[place])?;
    match metric.of_greedy {
        true => group.of("GA").and_then(|greedy| (metric.of)(greedy[place])).map(|greedy| value / greedy),
        false => Some(value),
    }
}

/// How much more CAPi has than another scheme, averaged over the data sets.
fn average(metric: &Metric, group: &Group<'_>, claim: &Claim) -> Row {
    let &Claim { other, percent, band: [low, high], why } = claim;
    let text = format!("{CAPI} against {other}, mean of the data sets");
    let at = [("mode", group.mode), ("claim", text.as_str()), ("unit", "%")];
    let gains = |ours: &[&RunResult; DATA_SETS.len()], theirs: &[&RunResult; DATA_SETS.len()]| {
        let gain = |(ours, theirs): (&&RunResult, &&RunResult)| {
            Some(percent_more((metric.of)(ours)?, (metric.of)(theirs)?))
        };
        ours.iter().zip(theirs).map(gain).collect::<Option<Vec<f64>>>()
    };
    let gains = group.of(CAPI).zip(group.of(other)).and_then(|(ours, theirs)| gains(ours, theirs));
    let mean = gains.as_ref().map(|gains| gains.iter().sum::<f64>() / gains.len() as f64);
    let why = match gains.as_deref() {
        Some([first, .., last]) if !why.is_empty() => {
            let ([hottest, .., coldest], why) = (DATA_SETS, why);
            format!("{why} ({first:+.1} % at {}, {last:+.1} % at {})", hottest.name, coldest.name)
        }
        _ => why.to_owned(),
    };
    match group.mode {
        "paper" => Row::judged(&at, Some(percent), mean, [Some(low), Some(high)]).because(&why),
        _ => Row::shown(&at, mean),
    }
}

fn percent_more(a: f64, b: f64) -> f64 {
    100.0 * (a / b - 1.0)
}

/// Figure 4 also ranks the schemes, and says that all live shorter where most data is cold.
fn with_orders(mut figure: Figure, paper: &Group<'_>) -> Figure {
    let ranking = [CAPI, "CAT", "CB", "GA"];
    let lifetime = |label: &str, set: usize| paper.of(label).and_then(|of| (FIRST_FAILURE.of)(of[set]));
    for (place, set) in DATA_SETS.iter().enumerate() {
        let leads = ranking.windows(2).map(|pair| {
            lifetime(pair[0], place).zip(lifetime(pair[1], place)).map(|(a, b)| percent_more(a, b))
        });
        let smallest = reduced(leads, f64::min);
        let text = format!("{}: smallest lead over the next", ranking.join(" > "));
        let at = [("mode", "paper"), ("cold_hot", set.name), ("claim", text.as_str()), ("unit", "%")];
        figure.rows.push(match set.hot_share >= 0.3 {
            true => Row::judged(&at, None, smallest, [Some(0.0), None]),
            false => Row::shown(&at, smallest),
        });
    }
    let shorter = largest_change(paper, &FIRST_FAILURE, 3);
    let at = [("mode", "paper"), ("claim", "9:1 against 8:2, the scheme that loses least"), ("unit", "%")];
    figure.rows.push(Row::judged(&at, None, shorter, [None, Some(0.0)]));
    figure
}

/// Figure 6: the more data is cold, the less there is to copy.
fn with_trend(mut figure: Figure, paper: &Group<'_>) -> Figure {
    let fewer = largest_change(paper, &COPIES, 0);
    let at =
        [("mode", "paper"), ("claim", "9:1 against 6.5:3.5, the scheme that saves least"), ("unit", "%")];
    figure.rows.push(Row::judged(&at, None, fewer, [None, Some(0.0)]));
    figure
}

/// The largest change of any scheme from data set `from` to the last one, in percent.
fn largest_change(group: &Group<'_>, metric: &Metric, from: usize) -> Option<f64> {
    let change = |(_, of): &(&Scheme, [&RunResult; DATA_SETS.len()])| {
        Some(percent_more((metric.of)(of[DATA_SETS.len() - 1])?, (metric.of)(of[from])?))
    };
    reduced(group.schemes.iter().map(change), f64::max)
}

/// Figure 5: how the blocks die.
fn deaths(curves: &[(&'static Scheme, &RunResult)]) -> Figure {
    let mut rows = Vec::new();
    for (scheme, result) in curves {
        for point in &result.wear.bad_block_curve {
            let mut row = Row::shown(&[("policy", scheme.label)], Some(f64::from(point.bad_blocks)));
            row.at.insert("million_host_pages".to_owned(), (point.host_pages as f64 / 1e6).into());
            row.at.insert("unit".to_owned(), "bad blocks".into());
            rows.push(row);
        }
    }
    let span = |label: &str| {
        let (_, result) = curves.iter().find(|(scheme, _)| scheme.label == label)?;
        let (first, last) = (result.wear.bad_block_curve.first()?, result.wear.bad_block_curve.last()?);
        Some(100.0 * (last.host_pages - first.host_pages) as f64 / first.host_pages as f64)
    };
    for (scheme, _) in curves {
        let claim = format!("{}: first bad block to end of drive", scheme.label);
        let at = [("claim", claim.as_str()), ("unit", "% of time to first")];
        // The paper: with FeGC and CAPi the blocks die at almost the same time, with the others not.
        rows.push(match (scheme.label, span("GA")) {
            ("FeGC" | CAPI, Some(greedy)) => Row::judged(&at, None, span(scheme.label), [None, Some(greedy)]),
            _ => Row::shown(&at, span(scheme.label)),
        });
    }
    Figure::new(
        "5",
        "bad blocks over host pages written, at 7:3, until the drive cannot hold its data",
        View::Curves { of: "policy", over: "million_host_pages" },
        rows,
    )
}

/// Which combination lives longest.
fn combinations(beyond: &Group<'_>) -> Figure {
    type Quantity = (&'static str, &'static str, fn(&RunResult) -> Option<f64>);
    const QUANTITIES: [Quantity; 4] = [
        ("lifetime", "M host pages", FIRST_FAILURE.of),
        ("write amplification", "", |result| result.waf),
        ("ideal lifetime", "M host pages", |result| {
            result.wear.ideal_host_pages.map(|pages| pages as f64 / 1e6)
        }),
        ("share of it reached", "%", |result| {
            let (first, ideal) = (result.wear.first_bad_block_host_writes?, result.wear.ideal_host_pages?);
            ratio(100 * first, ideal)
        }),
    ];
    let mut rows = Vec::new();
    for (place, set) in DATA_SETS.iter().enumerate() {
        for (quantity, unit, of) in QUANTITIES {
            for (scheme, results) in &beyond.schemes {
                let at = [
                    ("cold_hot", set.name),
                    ("quantity", quantity),
                    ("policy", scheme.label),
                    ("unit", unit),
                ];
                rows.push(Row::shown(&at, of(results[place])));
            }
        }
    }
    rows.extend(gains_over_capi(beyond));
    Figure::new(
        "beyond",
        "combinations that the paper does not consider",
        View::Table { down: &["cold_hot", "quantity"], across: "policy" },
        rows,
    )
    .noted(
        "CAPi+: CAPi with net_blocks = 4 and adaptive allocation. Ideal lifetime: all blocks wear alike at \
             this write amplification, (endurance + 1) × pages / write amplification",
    )
}

/// How much longer than CAPi the combinations live: on average, and where each gains least. One of
/// them should gain everywhere.
fn gains_over_capi(beyond: &Group<'_>) -> Vec<Row> {
    let lifetime = |label: &str, set: usize| beyond.of(label).and_then(|of| (FIRST_FAILURE.of)(of[set]));
    let row_of = |claim: String, gain| Row::shown(&[("claim", &claim), ("unit", "%")], gain);
    let mut rows = Vec::new();
    let mut best: Option<(f64, &str)> = None;
    for label in beyond.schemes.iter().map(|(scheme, _)| scheme.label).filter(|&label| label != CAPI) {
        let gain = |set| Some(percent_more(lifetime(label, set)?, lifetime(CAPI, set)?));
        let (mean, least) =
            (mean((0..DATA_SETS.len()).map(gain)), reduced((0..DATA_SETS.len()).map(gain), f64::min));
        rows.push(row_of(format!("lifetime of {label} against {CAPI}, mean of the data sets"), mean));
        rows.push(row_of(format!("lifetime of {label} against {CAPI}, where it gains least"), least));
        if let Some(least) = least.filter(|&least| best.is_none_or(|(most, _)| least > most)) {
            best = Some((least, label));
        }
    }
    let claim = match best {
        Some((_, label)) => format!("lives longer than {CAPI} on every data set: {label}, its least gain"),
        None => format!("lives longer than {CAPI} on every data set"),
    };
    let at = [("claim", claim.as_str()), ("unit", "%")];
    rows.push(Row::judged(&at, None, best.map(|(least, _)| least), [Some(0.0), None]));
    rows
}
