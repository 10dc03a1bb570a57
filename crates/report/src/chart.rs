//! A chart of means with their intervals: what many runs have come to.

use crate::paper::standalone;
use crate::plot::{Axis, Bar, Bars, Figure, Line, Part, Plot, View};

/// From where on a range of positive places has a logarithmic axis: largest over smallest.
const LOG_FROM: f64 = 50.0;
/// An axis of means begins at 0 unless the lowest is at least so much of the highest: then it would hide what there is
/// to see.
const ZERO_BELOW: f64 = 0.6;

/// A mean, where its interval is known with that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// Its place on the lying axis; of bars the number of the row.
    pub x: f64,
    /// The mean.
    pub mean: f64,
    /// Ends of its interval.
    pub range: Option<(f64, f64)>,
}

/// Means that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Its name; of bars the name of a bar.
    pub name: String,
    /// In the order of their places.
    pub points: Vec<Mean>,
}

/// A chart: curves over a number, or a bar for each curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Its name in files, of letters, digits and dashes.
    pub name: String,
    /// Heading above it.
    pub title: String,
    /// Caption below it.
    pub note: Option<String>,
    /// Quantity that the curves go over; `None`: each curve is a bar.
    pub over: Option<String>,
    /// Measured quantity. Its ending says the unit: `_ns`, `bw_bytes`.
    pub measure: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

impl Chart {
    /// The chart as a file, black on white; `None` if there is nothing to see.
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
        let ends =
            || points().flat_map(|point| [point.mean].into_iter().chain(low(point)).chain(high(point)));
        let (lowest, highest) = (ends().fold(f64::MAX, f64::min), ends().fold(f64::MIN, f64::max));
        let x = Axis::named(over).with(places().collect());
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
            x: if least > 0.0 && most >= LOG_FROM * least { x.log() } else { x },
            y: Axis::named(&self.measure),
            has_zero: lowest >= 0.0 && lowest < ZERO_BELOW * highest,
            mark: None,
            lines: self.curves.iter().enumerate().map(line).collect(),
        };
        plot.view("")
    }

    fn bars(&self) -> Option<View> {
        let bar = |curve: &Curve| {
            let point = curve.points.first()?;
            let part = Part { style: 1, name: self.measure.clone(), value: point.mean };
            let range = point.range.filter(|(low, high)| high > low);
            Some(Bar { name: curve.name.clone(), parts: vec![part], range })
        };
        let bars: Vec<Bar> = self.curves.iter().filter_map(bar).collect();
        let groups = if bars.is_empty() {
            Vec::new()
        } else {
            vec![(String::new(), Axis::named(&self.measure).unit, bars)]
        };
        Bars { title: self.title.clone(), legend: Vec::new(), groups, log_from: None }.view("")
    }
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

    /// Place, mean, and half of the interval.
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
            measure: "waf".to_owned(),
            curves: curves.iter().map(curve).collect(),
        }
    }

    /// The coordinates of the upright strokes of whiskers.
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
        // The axis is linear: twice the width is twice as high. Down is more.
        assert!((heights[0] / heights[1] - 2.0).abs() < 0.02, "{found:?}");
        assert!(found[0].0 < found[1].0);
        let dots: Vec<f64> =
            svg.split("cy=\"").skip(1).filter_map(|text| text.split('"').next()?.parse().ok()).collect();
        for ((_, low, high), dot) in found.iter().zip(&dots) {
            assert!(((low + high) / 2.0 - dot).abs() < 0.11, "{found:?} {dots:?}");
        }
    }

    #[test]
    fn bars_stand_for_curves_without_a_number_to_go_over() {
        let svg = chart(None, &[("greedy", &[(0.0, 2.0, 0.1)]), ("fifo", &[(1.0, 3.0, 0.0)])]).svg();
        let svg = svg.expect("something");
        assert!(svg.contains(">greedy<") && svg.contains(">fifo<"), "{svg}");
        assert_eq!(
            (svg.matches("<rect class=\"fill").count(), svg.matches("class=\"whisker").count()),
            (2, 1)
        );
        assert_eq!(chart(None, &[]).svg(), None);
        assert_eq!(chart(Some("x"), &[("a", &[])]).svg(), None);
    }
}
