//! Figures of several panels, for comparisons with papers and real drives.

use crate::paper::standalone;
use crate::plot::{Axis, Bar, Bars, Drawing, Line, LineKind, Map, Part, Plot, Standing, stacked};
use crate::text::Unit;

/// Panels below each other, each with a heading.
#[derive(Clone, Debug, PartialEq)]
pub struct Panels {
    /// Heading of the figure.
    pub title: String,
    /// Headings and panels.
    pub panels: Vec<(String, Panel)>,
}

/// A value and its reference value.
pub type Compared = (f64, Option<f64>);

/// A panel of a figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Panel {
    /// Vertical bars in groups.
    Bars {
        /// Measured quantity.
        measure: String,
        /// Names of the bars of each group.
        kinds: Vec<String>,
        /// Name of the reference values.
        mark: String,
        /// Groups, each with a value per kind.
        groups: Vec<(String, Vec<Option<Compared>>)>,
    },
    /// Lines over a number.
    Curves {
        /// Quantity of the x axis.
        over: String,
        /// Quantity of the y axis.
        measure: String,
        /// True if values are nanoseconds on a logarithmic axis; others start at 0.
        is_latency: bool,
        /// The lines.
        series: Vec<Series>,
    },
    /// Horizontal bars in groups over one logarithmic axis from 1.
    Rows {
        /// Names of the bars of each group.
        kinds: Vec<String>,
        /// Groups, each with a value per kind.
        groups: Vec<(String, Vec<Option<f64>>)>,
    },
    /// Cells; darker is more.
    Map {
        /// Label of the x axis.
        across: String,
        /// Label of the y axis.
        up: String,
        /// Lines from the top: darkness of each cell, 0 to 1.
        lines: Vec<Vec<f64>>,
    },
}

/// Related points of a panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name.
    pub name: String,
    /// Index of the colour; related series share it.
    pub colour: usize,
    /// Style of the points.
    pub shape: Shape,
    /// Positions and values, in order of position.
    pub points: Vec<(f64, f64)>,
}

/// Style of the points of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Joined by a line.
    Line,
    /// Joined by a thin line, for references.
    Thin,
    /// Separate dots.
    Dots,
}

impl Panels {
    /// The figure as a standalone SVG file, black on white; `None` if all panels are empty.
    pub fn svg(&self) -> Option<String> {
        let drawn = |(heading, panel): &(String, Panel)| Some((heading.clone(), panel.drawing()?));
        let parts: Vec<(String, Drawing)> = self.panels.iter().filter_map(drawn).collect();
        if parts.is_empty() { None } else { Some(standalone(&stacked(&self.title, &parts))) }
    }
}

impl Panel {
    fn drawing(&self) -> Option<Drawing> {
        match self {
            Self::Bars { measure, kinds, mark, groups } => Standing {
                y: Axis::new(measure, Unit::Plain),
                kinds: kinds.clone(),
                mark: mark.clone(),
                groups: groups.clone(),
            }
            .drawing(),
            Self::Curves { over, measure, is_latency, series } => {
                let y = if *is_latency {
                    Axis::new(measure, Unit::Ns).log()
                } else {
                    Axis::new(measure, Unit::Plain)
                };
                let plot = Plot {
                    title: String::new(),
                    x: Axis::new(over, Unit::Plain),
                    y,
                    has_zero: true,
                    mark: None,
                    lines: series.iter().map(Series::line).collect(),
                };
                plot.drawing().map(|(drawing, _)| drawing)
            }
            Self::Rows { kinds, groups } => rows(kinds, groups).drawing(),
            Self::Map { across, up, lines } => {
                Map { x: across.clone(), y: up.clone(), lines: lines.clone() }.drawing()
            }
        }
    }
}

fn rows(kinds: &[String], groups: &[(String, Vec<Option<f64>>)]) -> Bars {
    let group = |(name, values): &(String, Vec<Option<f64>>)| {
        let bars = kinds.iter().zip(values).enumerate().filter_map(|(style, (kind, value))| {
            let part = Part { style, name: kind.clone(), value: (*value)? };
            Some(Bar { name: kind.clone(), parts: vec![part] })
        });
        (name.clone(), Unit::Plain, bars.collect())
    };
    Bars {
        title: String::new(),
        legend: Vec::new(),
        groups: groups.iter().map(group).collect(),
        log_from: Some(1.0),
    }
}

impl Series {
    fn line(&self) -> Line {
        let points = self.points.iter().map(|&(x, y)| (x, Some(y))).collect();
        Line::new(&self.name, self.colour, points).looking(match self.shape {
            Shape::Line => LineKind::Line,
            Shape::Thin => LineKind::Thin,
            Shape::Dots => LineKind::Dots,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(panel: Panel) -> Option<String> {
        Panels { title: "t < u".to_owned(), panels: vec![("heading".to_owned(), panel)] }.svg()
    }

    fn curves(shape: Shape) -> Panel {
        let points = vec![(1.0, 1000.0), (2.0, 5000.0)];
        let series = vec![Series { name: "p50".to_owned(), colour: 2, shape, points }];
        Panel::Curves { over: "rate".to_owned(), measure: "latency".to_owned(), is_latency: true, series }
    }

    #[test]
    fn series_are_lines_thin_lines_or_dots_of_their_colour() {
        let drawn = |shape| {
            let svg = figure(curves(shape)).expect("a curve");
            assert!(svg.contains("t &lt; u") && svg.contains(">heading<") && !svg.contains("var("), "{svg}");
            // The legend contains one of each as well.
            let classes = ["class=\"line s2\"", "class=\"line thin s2\"", "class=\"dot f2\""];
            classes.map(|class| svg.matches(class).count())
        };
        assert_eq!(drawn(Shape::Line), [2, 0, 2]);
        assert_eq!(drawn(Shape::Thin), [0, 2, 0]);
        assert_eq!(drawn(Shape::Dots), [0, 0, 3]);
    }

    #[test]
    fn rows_share_a_logarithmic_axis() {
        let groups = vec![
            ("all".to_owned(), vec![Some(10.0)]),
            ("none".to_owned(), vec![Some(100.0)]),
            ("less".to_owned(), vec![Some(0.5)]),
        ];
        let svg = figure(Panel::Rows { kinds: vec!["p50".to_owned()], groups }).expect("bars");
        let bars = svg.split("<rect class=\"fill").skip(1);
        let widths: Vec<f64> =
            bars.filter_map(|bar| bar.split("width=\"").nth(1)?.split('"').next()?.parse().ok()).collect();
        assert_eq!(widths.len(), 3, "{svg}");
        assert!((widths[1] / widths[0] - 2.0).abs() < 0.01 && widths[2] < 1.0, "{widths:?}");
    }

    #[test]
    fn panels_without_a_value_are_no_figure() {
        let groups = vec![("a".to_owned(), vec![None])];
        let (measure, mark) = (String::new(), String::new());
        assert_eq!(figure(Panel::Bars { measure, kinds: vec!["k".to_owned()], mark, groups }), None);
        assert_eq!(figure(Panel::Map { across: String::new(), up: String::new(), lines: Vec::new() }), None);
    }
}
