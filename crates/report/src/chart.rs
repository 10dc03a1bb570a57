//! Charts of means with their intervals, over many runs.

use crate::paper::standalone;
use crate::plot::{Axis, Figure, Grouped, Line, Plot, View};

/// Minimum ratio of the largest to the smallest value for a logarithmic axis.
const LOG_FROM: f64 = 50.0;
/// An axis of means starts at 0 if the lowest value is below this share of the highest. Otherwise, an axis
/// from 0 would hide the differences.
const ZERO_BELOW: f64 = 0.6;

/// A mean, with its interval if known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// Position on the x axis; for bars, the index of the group.
    pub x: f64,
    /// Mean of the measured values.
    pub mean: f64,
    /// Ends of the interval.
    pub range: Option<(f64, f64)>,
}

/// Related means.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Name in the legend; for bars, the name of one bar of each group.
    pub name: String,
    /// Points in order of x.
    pub points: Vec<Mean>,
}

/// A chart: curves over a number, or groups of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Name in files, of letters, digits and dashes.
    pub name: String,
    /// Heading above the chart.
    pub title: String,
    /// Caption below the chart.
    pub note: Option<String>,
    /// Quantity of the x axis. If `None`, each point is a bar.
    pub over: Option<String>,
    /// Names of the groups of bars.
    pub groups: Vec<String>,
    /// Measured quantity. The suffix gives the unit: `_ns`, `bw_bytes`.
    pub measure: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

impl Chart {
    /// The chart as a standalone SVG file, black on white; `None` without a point.
    pub fn svg(&self) -> Option<String> {
        self.view().map(|view| standalone(&view.svg))
    }

    pub(crate) fn figure(&self) -> Option<Figure> {
        let views = vec![self.view()?];
        Some(Figure {
            name: self.name.clone().into(),
            title: self.title.clone(),
            note: self.note.clone(),
            views,
        })
    }

    fn view(&self) -> Option<View> {
        match &self.over {
            Some(over) => self.lines(over),
            None => self.bars(),
        }
    }

    fn lines(&self, over: &str) -> Option<View> {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let places = || points().map(|point| point.x);
        let (least, most) = (places().fold(f64::MAX, f64::min), places().fold(f64::MIN, f64::max));
        // The range of the axis includes whiskers as well as means.
        let ends =
            || points().flat_map(|point| [point.mean].into_iter().chain(low(point)).chain(high(point)));
        let (lowest, highest) = (ends().fold(f64::MAX, f64::min), ends().fold(f64::MIN, f64::max));
        let (x, y) = (Axis::named(over).with(places().collect()), Axis::named(&self.measure));
        let line = |(style, curve): (usize, &Curve)| {
            let ranges = curve.points.iter().filter_map(|point| {
                let (low, high) = point.range.filter(|(low, high)| high > low)?;
                Some((point.x, low, high))
            });
            let points = curve.points.iter().map(|point| (point.x, Some(point.mean)));
            Line::new(&curve.name, style, points.collect()).with_ranges(ranges.collect())
        };
        let plot = Plot {
            title: self.title.clone(),
            x: if is_wide(least, most) { x.log() } else { x },
            y: if is_wide(lowest, highest) { y.log() } else { y },
            has_zero: lowest >= 0.0 && lowest < ZERO_BELOW * highest,
            mark: None,
            lines: self.curves.iter().enumerate().map(line).collect(),
        };
        plot.view("")
    }

    fn bars(&self) -> Option<View> {
        let bar = |curve: &Curve, group: usize| {
            let point = curve.points.iter().find(|point| point.x == group as f64)?;
            Some((point.mean, point.range))
        };
        let group = |(at, name): (usize, &String)| {
            (name.clone(), self.curves.iter().map(|curve| bar(curve, at)).collect())
        };
        let grouped = Grouped {
            title: self.title.clone(),
            axis: Axis::named(&self.measure),
            kinds: self.curves.iter().map(|curve| curve.name.clone()).collect(),
            groups: self.groups.iter().enumerate().map(group).collect(),
        };
        grouped.view()
    }
}

/// True if a linear axis from `least` to `most` would hide the small values.
fn is_wide(least: f64, most: f64) -> bool {
    least > 0.0 && most >= LOG_FROM * least
}

fn low(point: &Mean) -> Option<f64> {
    point.range.map(|(low, _)| low)
}

fn high(point: &Mean) -> Option<f64> {
    point.range.map(|(_, high)| high)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Point = (f64, f64, f64);

    fn chart(over: Option<&str>, curves: &[(&str, &[Point])]) -> Chart {
        let curve = |(name, points): &(&str, &[Point])| {
            let mean = |&(x, mean, half): &Point| Mean {
                x,
                mean,
                range: (half > 0.0).then_some((mean - half, mean + half)),
            };
            Curve { name: (*name).to_owned(), points: points.iter().map(mean).collect() }
        };
        Chart {
            name: "waf".to_owned(),
            title: "waf".to_owned(),
            note: None,
            over: over.map(str::to_owned),
            groups: Vec::new(),
            measure: "waf".to_owned(),
            curves: curves.iter().map(curve).collect(),
        }
    }

    fn whiskers(svg: &str) -> Vec<(f64, f64, f64)> {
        let strokes = svg.split("class=\"whisker").skip(1);
        let of = |text: &str| {
            let path = text.split("d=\"M").nth(1)?.split('M').next()?;
            let (place, rest) = path.split_once(',')?;
            let (from, to) = rest.split_once('V')?;
            Some((place.parse().ok()?, from.parse().ok()?, to.parse().ok()?))
        };
        strokes.filter_map(of).collect()
    }

    #[test]
    fn intervals_are_drawn_where_there_are_some_and_around_their_means() {
        let points: [Point; 3] = [(0.1, 4.0, 0.5), (0.2, 2.0, 0.25), (0.3, 1.0, 0.0)];
        let svg = chart(Some("over-provisioning"), &[("greedy", &points)]).svg().expect("something");
        let found = whiskers(&svg);
        assert_eq!(found.len(), 2, "{svg}");
        let heights: Vec<f64> = found.iter().map(|(_, low, high)| low - high).collect();
        // The axis is linear: twice the width is twice as high. y grows downwards.
        assert!((heights[0] / heights[1] - 2.0).abs() < 0.02, "{found:?}");
        assert!(found[0].0 < found[1].0);
        let dots: Vec<f64> =
            svg.split("cy=\"").skip(1).filter_map(|text| text.split('"').next()?.parse().ok()).collect();
        for ((_, low, high), dot) in found.iter().zip(&dots) {
            assert!(((low + high) / 2.0 - dot).abs() < 0.11, "{found:?} {dots:?}");
        }
    }

    #[test]
    fn axes_are_logarithmic_if_the_values_need_it() {
        let ends = |most: f64| {
            let points: [Point; 3] =
                [(1.0, 2.0, 0.0), (2.0, 2.0 * libm::sqrt(most), 0.0), (3.0, 2.0 * most, 0.0)];
            let svg = chart(Some("queue_depth"), &[("a", &points)]).svg().expect("something");
            let dots = svg.split("cy=\"").skip(1).filter_map(|text| text.split('"').next()?.parse().ok());
            let dots: Vec<f64> = dots.collect();
            (dots[0] - dots[1]) / (dots[1] - dots[2])
        };
        // The middle is the geometric mean.
        assert!((ends(10_000.0) - 1.0).abs() < 0.02, "{}", ends(10_000.0));
        assert!(ends(49.0) < 0.2, "{}", ends(49.0));
    }

    fn bars(groups: &[&str], kinds: &[(&str, &[Point])]) -> String {
        let chart =
            Chart { groups: groups.iter().map(|&name| name.to_owned()).collect(), ..chart(None, kinds) };
        chart.svg().expect("something")
    }

    fn texts(svg: &str) -> Vec<&str> {
        svg.split("<text").skip(1).filter_map(|part| part.split(['>', '<']).nth(1)).collect()
    }

    #[test]
    fn groups_have_a_bar_and_a_colour_for_each_kind_over_an_axis_with_a_title() {
        let svg = bars(
            &["greedy", "fifo"],
            &[("none", &[(0.0, 3.7, 0.1), (1.0, 3.0, 0.0)]), ("sepbit", &[(0.0, 3.07, 0.0)])],
        );
        let texts = texts(&svg);
        for text in ["greedy", "fifo", "none", "sepbit", "3.70", "3.07", "3.00", "Write amplification", "0"] {
            assert_eq!(texts.iter().filter(|other| **other == text).count(), 1, "{text}: {texts:?}");
        }
        // Three bars, and two legend entries.
        let count = |text: &str| svg.matches(text).count();
        assert_eq!((count("<rect class=\"fill f0"), count("<rect class=\"fill f1")), (3, 2), "{svg}");
        assert_eq!(count("class=\"whisker"), 1);
        assert_eq!(chart(None, &[]).svg(), None);
        assert_eq!(chart(Some("x"), &[("a", &[])]).svg(), None);
    }

    #[test]
    fn long_names_of_groups_and_kinds_are_whole() {
        let formula = "age*(1-u)/(1+u)^2+min(writes/4,2)*sqrt(age_closed)/max(erase_count,1)+valid/64";
        let point: &[Point] = &[(0.0, 2.0, 0.0)];
        for svg in [bars(&[formula], &[("", point)]), bars(&["a"], &[(formula, point), ("b", point)])] {
            assert!(texts(&svg).concat().contains(formula) && !svg.contains('…'), "{svg}");
        }
        let alone = bars(&["cost-benefit, sepbit with words"], &[("", point)]);
        assert!(alone.contains(">cost-benefit, sepbit with<") && alone.contains(">words<"), "{alone}");
    }
}
