//! Charts drawn in text, at most 80 columns wide.

use std::fmt::Write as _;

use strobe_lab::numbers::duration;

pub(crate) const WIDTH: usize = 80;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One bar character per value; the largest has full height.
pub(crate) fn bars(values: impl Iterator<Item = f64> + Clone, floor: f64) -> String {
    let top = values.clone().fold(floor, f64::max);
    let height = |value: f64| {
        if top > floor { ((value - floor) / (top - floor) * 7.0).round().clamp(0.0, 7.0) as usize } else { 0 }
    };
    values.map(|value| BARS[height(value)]).collect()
}

/// Character of a bar in `row`, counted from below.
fn block(eighths: usize, row: usize) -> char {
    match eighths.saturating_sub(8 * row) {
        0 => ' ',
        some => BARS[some.min(8) - 1],
    }
}

const SERIES_ROWS: usize = 6;
const SERIES_COLUMNS: usize = 68;

/// A dashed line follows the first `split` values. The vertical axis starts at `floor`.
pub(crate) fn series(values: &[f64], split: usize, floor: f64) -> String {
    let top = values.iter().copied().fold(floor, f64::max);
    let columns = columns_of(values.len(), split);
    let eighths: Vec<Option<usize>> = columns
        .iter()
        .map(|range| {
            let range = range.clone()?;
            let mean = values[range.clone()].iter().sum::<f64>() / range.len() as f64;
            let share = if top > floor { (mean - floor) / (top - floor) } else { 0.0 };
            // A value is always visible: at least one eighth.
            Some(((share * (8 * SERIES_ROWS) as f64).round() as usize).max(1))
        })
        .collect();
    let mut out = String::new();
    for row in (0..SERIES_ROWS).rev() {
        let label = match row {
            r if r == SERIES_ROWS - 1 => format!("{top:.2}"),
            0 => format!("{floor:.2}"),
            _ => String::new(),
        };
        let line: String =
            eighths.iter().map(|column| column.map_or('┊', |eighths| block(eighths, row))).collect();
        let axis = if label.is_empty() { '│' } else { '┤' };
        let _ = writeln!(out, "{label:>8} {axis}{}", line.trim_end());
    }
    out.pop();
    out
}

/// Each column shows the mean of several values, or one value spreads over several columns. `None` is the
/// dashed line.
fn columns_of(count: usize, split: usize) -> Vec<Option<std::ops::Range<usize>>> {
    let has_line = split > 0 && split < count;
    let columns = SERIES_COLUMNS - usize::from(has_line);
    let wide = count * (columns / count.max(1)).max(1);
    let shown = wide.min(columns);
    let range = |from: usize, to: usize, columns: usize| {
        let span = to - from;
        (0..columns).map(move |column| {
            let first = from + column * span / columns;
            Some(first..(from + (column + 1) * span / columns).max(first + 1))
        })
    };
    if !has_line {
        return range(0, count, shown).collect();
    }
    let before = (shown * split / count).clamp(1, shown - 1);
    range(0, split, before).chain([None]).chain(range(split, count, shown - before)).collect()
}

/// `counts` are pairs of ns and number of requests, `marks` are percentiles.
pub(crate) struct Distribution<'a> {
    pub(crate) name: &'a str,
    pub(crate) counts: &'a [(u64, u64)],
    pub(crate) marks: Vec<(&'static str, u64)>,
}

const LATENCY_ROWS: usize = 3;
const LATENCY_COLUMNS: usize = 70;
/// Shorter latencies are shown as this value, because no drive answers sooner.
const SHORTEST_NS: u64 = 100;

/// Histogram of latencies. Both axes are logarithmic: one slow request in a million is visible.
pub(crate) fn latencies(of: &[Distribution<'_>]) -> Option<String> {
    let times = || of.iter().flat_map(|one| one.counts).map(|&(ns, _)| ns.max(SHORTEST_NS));
    let (low, high) = (times().min()?, times().max()?);
    let first = libm::floor(libm::log10(low as f64));
    let last = libm::ceil(libm::log10(high as f64 + 1.0)).max(first + 1.0);
    let per_decade = ((LATENCY_COLUMNS as f64 / (last - first)).floor()).min(24.0);
    let column = |ns: u64| {
        let place = (libm::log10(ns.max(SHORTEST_NS) as f64) - first) * per_decade;
        (place as usize).min(LATENCY_COLUMNS - 1)
    };
    let mut axis = String::new();
    let mut decade = first;
    while decade < last {
        let label = duration(libm::pow(10.0, decade)).replace(".0 ", " ").replace(".00 ", " ");
        let _ = write!(axis, "{:width$}", format!("│{label}"), width = per_decade as usize);
        decade += 1.0;
    }
    let mut out = format!("{:8} {}", "latency", axis.trim_end());
    for one in of {
        let mut counts = [0u64; LATENCY_COLUMNS];
        for &(ns, count) in one.counts {
            counts[column(ns)] += count;
        }
        let most = libm::log10(counts.iter().copied().max()? as f64 + 1.0);
        let eighths = counts.map(|count| match count {
            0 => 0,
            n => ((libm::log10(n as f64 + 1.0) / most * (8 * LATENCY_ROWS) as f64).round() as usize).max(1),
        });
        for row in (0..LATENCY_ROWS).rev() {
            let name = if row == 0 { one.name } else { "" };
            let line: String = eighths.iter().map(|&eighths| block(eighths, row)).collect();
            let _ = write!(out, "\n{name:8} {}", line.trim_end());
        }
        let mut marks = String::new();
        for &(name, ns) in &one.marks {
            let (place, written) = (column(ns), marks.chars().count());
            // A mark that would overlap the previous one is left out.
            if place >= written {
                marks.extend(std::iter::repeat_n(' ', place - written));
                marks.push('↑');
                marks.push_str(name);
            }
        }
        let _ = write!(out, "\n{:8} {marks}", "");
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_reach_from_floor_to_top() {
        assert_eq!(bars([0.0, 3.5, 7.0].into_iter(), 0.0), "▁▅█");
        assert_eq!(bars([2.0, 2.0].into_iter(), 2.0), "▁▁");
    }

    #[test]
    fn every_value_of_a_series_is_shown_in_order_and_fits() {
        for count in 1..300usize {
            for split in [0, 1, count / 2, count] {
                let columns = columns_of(count, split.min(count));
                assert!(columns.len() <= SERIES_COLUMNS, "{count} {split}");
                let ranges: Vec<_> = columns.iter().flatten().cloned().collect();
                assert_eq!((ranges[0].start, ranges[ranges.len() - 1].end), (0, count));
                assert!(ranges.windows(2).all(|two| two[1].start <= two[0].end), "{count} {split}: a gap");
                let line = columns.iter().position(Option::is_none);
                let has_line = split > 0 && split < count;
                assert_eq!(line.is_some(), has_line);
                if let Some(at) = line {
                    assert!(columns[..at].iter().flatten().all(|range| range.end <= split));
                    assert!(columns[at + 1..].iter().flatten().all(|range| range.start >= split));
                }
            }
        }
        let picture = series(&[1.0, 2.0, 4.0, 4.0], 1, 1.0);
        let lines: Vec<&str> = picture.lines().collect();
        assert!(lines[0].starts_with("    4.00 ┤") && lines[5].starts_with("    1.00 ┤"), "{picture}");
        assert!(lines.iter().all(|line| line.contains('┊') && line.chars().count() <= WIDTH), "{picture}");
    }

    #[test]
    fn a_single_slow_request_in_a_million_is_seen() {
        let counts = [(100_000, 1_000_000), (40_000_000, 1)];
        let marks = vec![("p50", 100_000), ("p99", 101_000), ("max", 40_000_000)];
        let picture =
            latencies(&[Distribution { name: "read", counts: &counts, marks }]).expect("two latencies");
        let lines: Vec<&str> = picture.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH + 4), "{picture}");
        assert!(lines[0].contains("│100 µs") && lines[0].contains("│10 ms"), "{picture}");
        let columns: Vec<usize> = lines[3]
            .chars()
            .enumerate()
            .skip(9)
            .filter(|(_, c)| BARS.contains(c))
            .map(|(at, _)| at)
            .collect();
        // Both are two and a half decades apart.
        assert_eq!(columns.len(), 2, "{picture}");
        assert!((57..=63).contains(&(columns[1] - columns[0])), "{columns:?}");
        assert!(
            lines[4].contains("↑p50") && !lines[4].contains("p99") && lines[4].contains("↑max"),
            "{picture}"
        );
    }
}
