//! Headline figures of one run, or of several side by side.

use crate::Run;
use crate::plot::{Bar, Bars, Figure, Part};
use crate::text::{Unit, count, number};

pub(crate) struct Headline {
    pub(crate) name: &'static str,
    /// Formatted value; a dash if the run has none.
    pub(crate) text: String,
    value: Option<f64>,
    unit: Unit,
}

fn headline(name: &'static str, unit: Unit, value: Option<f64>) -> Headline {
    Headline { name, text: value.map_or("–".to_owned(), |value| number(value, unit)), value, unit }
}

fn counted(name: &'static str, value: Option<f64>) -> Headline {
    let text = value.map_or("–".to_owned(), |value| count(value.max(0.0) as u64));
    Headline { name, text, value, unit: Unit::Plain }
}

pub(crate) fn headlines(run: &Run) -> Vec<Headline> {
    let job = if run.at("total").is_object() { "total" } else { "jobs/0" };
    let of = |path: &str| run.number(&format!("{job}/{path}"));
    let has = |op: &str| of(&format!("{op}/total_ios")).is_some_and(|requests| requests > 0.0);
    let is_timed = run.number("time/virtual_ns").is_some_and(|ns| ns > 0.0);
    let iops = ["read", "write", "trim"].iter().filter_map(|op| of(&format!("{op}/iops"))).sum::<f64>();
    let percentile = |op: &str, percent: &str| {
        of(&format!("{op}/clat_ns/percentile/{percent}")).filter(|_| is_timed && has(op))
    };
    vec![
        headline("write amplification", Unit::Plain, run.number("waf")),
        headline("requests per second", Unit::Plain, Some(iops).filter(|_| is_timed)),
        headline("read p50", Unit::Ns, percentile("read", "50.000000")),
        headline("read p99", Unit::Ns, percentile("read", "99.000000")),
        headline("read p99.9", Unit::Ns, percentile("read", "99.900000")),
        headline("write p50", Unit::Ns, percentile("write", "50.000000")),
        headline("write p99", Unit::Ns, percentile("write", "99.000000")),
        headline("write p99.9", Unit::Ns, percentile("write", "99.900000")),
        counted("erases", run.number("nand/erase/total")),
        counted("host pages written", run.number("host/pages_written")),
        headline("virtual time", Unit::Ns, run.number("time/virtual_ns").filter(|_| is_timed)),
    ]
}

/// Bars of each headline; `None` for a single run.
pub(super) fn figure(runs: &[Run]) -> Option<Figure> {
    if runs.len() < 2 {
        return None;
    }
    let all: Vec<Vec<Headline>> = runs.iter().map(headlines).collect();
    let group = |at: usize| {
        let first = &all[0][at];
        let bar = |(run, headlines): (&Run, &Vec<Headline>)| {
            let headline = &headlines[at];
            let part = Part { style: 1, name: headline.name.to_owned(), value: headline.value? };
            Some(Bar { name: run.name.clone(), parts: vec![part] })
        };
        let bars: Vec<Bar> = runs.iter().zip(&all).filter_map(bar).collect();
        (!bars.is_empty()).then(|| (first.name.to_owned(), first.unit, bars))
    };
    // The last two headlines, pages written and virtual time, describe the run and not its performance.
    let groups: Vec<_> = (0..all[0].len() - 2).filter_map(group).collect();
    let title = "Runs side by side".to_owned();
    let views = vec![Bars { title: title.clone(), legend: Vec::new(), groups, log_from: None }.view("")?];
    Some(Figure { name: "comparison".into(), title, note: None, views })
}

/// Runs without a common figure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{one} and {other} have no figure in common (write amplification, rates, latencies): there is nothing to compare; make a \
     page of each"
)]
pub struct NothingInCommon {
    one: String,
    other: String,
}

/// Fails if a run shares no figure with the first.
pub fn have_common(runs: &[Run]) -> Result<(), NothingInCommon> {
    let of = |run: &Run| -> Vec<bool> {
        let is_measure =
            |headline: &Headline| !matches!(headline.name, "virtual time" | "erases" | "host pages written");
        headlines(run)
            .iter()
            .filter(|headline| is_measure(headline))
            .map(|headline| headline.value.is_some())
            .collect()
    };
    let Some(first) = runs.first() else { return Ok(()) };
    let has = of(first);
    let shares = |run: &&Run| of(run).iter().zip(&has).any(|(one, other)| *one && *other);
    match runs[1..].iter().find(|run| !shares(run)) {
        Some(run) => Err(NothingInCommon { one: first.name.clone(), other: run.name.clone() }),
        None => Ok(()),
    }
}
