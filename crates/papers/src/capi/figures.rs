use super::census::Census;
use super::metrics::{COPIES, ERASES, GC_TIME, IDEAL, LIFETIME, Metric, Outcome, REACHED, WAF};
use super::schemes::CAPI;
use super::{Curves, DATA_SETS, Group, Results};
use crate::figure::{mean, percent_more, reduced};
use crate::{Figure, Row, View};

pub(super) fn all(results: &Results) -> Vec<Figure> {
    let Results { paper, fair, beyond, parts, .. } = results;
    let behind = "counted from the end of the fill to the first bad block";
    vec![
        data_sets(&results.censuses),
        bars("4", &LIFETIME, paper).noted("counted from the first page of the fill"),
        deaths(&results.curves),
        bars("6", &COPIES, paper).noted(behind),
        bars("7", &ERASES, paper).noted(behind),
        of_greedy(paper),
        life_by_wear(paper),
        cold_blocks(&results.censuses),
        bars("fair", &LIFETIME, fair).noted(
            "not in the paper: every victim policy with its best migration and stream, opening the least worn block",
        ),
        bars("parts", &COPIES, parts).noted(
            "CAPi without each of the paper's two reasons for fewer copies: pages unsorted; victims by CB's score",
        ),
        combinations(beyond),
    ]
}

fn data_sets(censuses: &[Census]) -> Figure {
    let row = |(set, census): (&super::DataSet, &Census)| {
        let at = [("cold_hot", set.name), ("of", "pages hot"), ("unit", "% of pages")];
        Row::new(&at, Some(100.0 * census.hot_share)).with_paper(100.0 * set.hot_share)
    };
    Figure::new(
        "3",
        "data sets: pages written more often than the average page",
        View::Bars { panel: &[], group: "cold_hot", bar: "of" },
        DATA_SETS.iter().zip(censuses).map(row).collect(),
    )
}

fn bars(figure: &str, metric: &Metric, group: &Group) -> Figure {
    let mut rows = Vec::new();
    for (place, set) in group.sets.iter().enumerate() {
        for (scheme, outcomes) in &group.schemes {
            let at = [("cold_hot", set.name), ("policy", scheme.label), ("unit", metric.unit)];
            rows.push(Row::new(&at, (metric.of)(&outcomes[place])));
        }
    }
    Figure::new(figure, metric.title, View::Bars { panel: &[], group: "cold_hot", bar: "policy" }, rows)
}

fn of_greedy(paper: &Group) -> Figure {
    // Figure 8, without the time of sorting.
    let mut rows = Vec::new();
    for (place, set) in DATA_SETS.iter().enumerate() {
        let greedy = paper.of("GA").and_then(|of| (GC_TIME.of)(&of[place]));
        for (scheme, outcomes) in &paper.schemes {
            let at = [("cold_hot", set.name), ("policy", scheme.label), ("unit", "of GA")];
            let us = (GC_TIME.of)(&outcomes[place]);
            rows.push(Row::new(&at, us.zip(greedy).map(|(us, greedy)| us / greedy)));
        }
    }
    Figure::new(
        "8",
        "time of garbage collection per host page, GA = 1",
        View::Bars { panel: &[], group: "cold_hot", bar: "policy" },
        rows,
    )
    .noted(
        "copies × (60 + 1500 µs) + erases × 5 ms. The paper's bars include CAPi's sorting, whose time it does not give; \
         these bars do not",
    )
}

fn life_by_wear(paper: &Group) -> Figure {
    // The averages are those of figures 4 and 7. The ratio is 1 if the other scheme wears as evenly as CAPi.
    let lead = |metric: &Metric, other: &str| gain(metric, paper.of(CAPI)?, paper.of(other)?);
    let said = [("GA", 73.0, -38.0), ("CB", 39.0, -30.0), ("CAT", 29.0, -22.0), ("FeGC", 24.0, -22.0)];
    let row = |(other, life, erases): (&str, f64, f64)| {
        let at = [("against", other), ("quantity", "life gain over erase gain"), ("unit", "times")];
        let ours = lead(&LIFETIME, other).zip(lead(&ERASES, other));
        Row::new(&at, ours.map(|(life, erases)| over_erases(life, erases)))
            .with_paper(over_erases(life, erases))
    };
    Figure::new(
        "wear",
        "CAPi's gain in lifetime over its gain in erases per write",
        View::Bars { panel: &[], group: "against", bar: "quantity" },
        said.map(row).into(),
    )
    .noted("1: the other scheme lives shorter only because it erases more; above 1: its blocks also wear less evenly")
}

/// Ratio of the lead in lifetime to the lead in erases; both leads are in percent.
pub(super) fn over_erases(life: f64, erases: f64) -> f64 {
    (1.0 + life / 100.0) * (1.0 + erases / 100.0)
}

fn cold_blocks(censuses: &[Census]) -> Figure {
    let row = |(set, census): (&super::DataSet, &Census)| {
        let at = [("cold_hot", set.name), ("of", "blocks without a written page"), ("unit", "% of blocks")];
        Row::new(&at, Some(100.0 * census.cold_blocks))
    };
    Figure::new(
        "cold-blocks",
        "blocks of the initial fill without an overwritten page, after the writes of figure 3",
        View::Bars { panel: &[], group: "cold_hot", bar: "of" },
        DATA_SETS.iter().zip(censuses).map(row).collect(),
    )
    .noted("the paper has many at 8.5:1.5 and 9:1")
}

fn deaths(curves: &Curves) -> Figure {
    let mut rows = Vec::new();
    for (scheme, outcome) in curves {
        for &(pages, bad) in &outcome.deaths {
            let at = [("policy", scheme.label), ("unit", "bad blocks")];
            rows.push(Row::new(&at, Some(f64::from(bad))).at("million_host_pages", pages as f64 / 1e6));
        }
    }
    Figure::new(
        "5",
        "bad blocks over host pages written, at 7:3, until the drive cannot hold its data",
        View::Curves { panel: &[], of: "policy", over: "million_host_pages" },
        rows,
    )
}

/// Writes from the first bad block to end of life, in % of the writes before.
pub(super) fn span(curves: &Curves, label: &str) -> Option<f64> {
    let (_, outcome) = curves.iter().find(|(scheme, _)| scheme.label == label)?;
    let ((first, _), (last, _)) = (outcome.deaths.first()?, outcome.deaths.last()?);
    Some(100.0 * (last - first) as f64 / *first as f64)
}

fn combinations(beyond: &Group) -> Figure {
    let mut rows = Vec::new();
    for (place, set) in beyond.sets.iter().enumerate() {
        for metric in [LIFETIME, WAF, IDEAL, REACHED] {
            for (scheme, outcomes) in &beyond.schemes {
                let at = [
                    ("quantity", metric.title),
                    ("unit", metric.unit),
                    ("cold_hot", set.name),
                    ("policy", scheme.label),
                ];
                rows.push(Row::new(&at, (metric.of)(&outcomes[place])));
            }
        }
    }
    let lifetime = |label: &str, set: usize| beyond.of(label).and_then(|of| (LIFETIME.of)(&of[set]));
    // The least gain reveals a combination that helps only on average.
    for (scheme, _) in beyond.schemes.iter().filter(|(scheme, _)| scheme.label != CAPI) {
        let gain = |set| Some(percent_more(lifetime(scheme.label, set)?, lifetime(CAPI, set)?));
        let sets = || (0..beyond.sets.len()).map(gain);
        for (which, gain) in [("mean", mean(sets())), ("least", reduced(sets(), f64::min))] {
            let at = [
                ("quantity", "gain over CAPi"),
                ("unit", "%"),
                ("cold_hot", which),
                ("policy", scheme.label),
            ];
            rows.push(Row::new(&at, gain));
        }
    }
    Figure::new(
        "beyond",
        "combinations that the paper does not consider",
        View::Bars { panel: &["quantity", "unit"], group: "cold_hot", bar: "policy" },
        rows,
    )
    .noted(
        "CAPi+: CAPi with net_blocks = 4 and adaptive allocation. Ideal lifetime: all blocks wear alike at \
             this write amplification, (endurance + 1) × pages / write amplification",
    )
}

/// Mean excess of `ours` over `theirs`, in percent; `None` if a value is missing.
pub(super) fn gain(metric: &Metric, ours: &[Outcome], theirs: &[Outcome]) -> Option<f64> {
    mean(
        ours.iter()
            .zip(theirs)
            .map(|(ours, theirs)| Some(percent_more((metric.of)(ours)?, (metric.of)(theirs)?))),
    )
}

/// Copies per erase of a scheme, implied by another scheme's excess in copies per erase and erases per write
/// (both in %).
///
/// Exact for a single data set, an estimate for means. `None` if the two contradict each other.
pub(super) fn implied_copies(copies: f64, erases: f64) -> Option<f64> {
    let [copies, erases] = [copies, erases].map(|percent| 1.0 + percent / 100.0);
    // With c copies of 256 pages a write costs 1/(256 − c) erases.
    let level = 256.0 * (1.0 - erases) / (1.0 - copies * erases);
    (0.0..256.0).contains(&level).then_some(level)
}

/// Largest change of any scheme in `labels` from data set `from` to the last one, in percent.
pub(super) fn largest_change(group: &Group, labels: &[&str], metric: &Metric, from: usize) -> Option<f64> {
    let last = group.sets.len().checked_sub(1)?;
    let change = |label: &&str| {
        let of = group.of(label)?;
        Some(percent_more((metric.of)(&of[last])?, (metric.of)(&of[from])?))
    };
    reduced(labels.iter().map(change), f64::max)
}
