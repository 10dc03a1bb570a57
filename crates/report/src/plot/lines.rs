use std::fmt::Write as _;

use serde_json::{Value, json};

use super::axis::Scale;
use super::{Axis, Drawing, Key, TEXT, View, WIDTH, legend, upright};
use crate::text::{escaped, number};

/// Maximum points; a picture cannot show more.
const POINTS_MAX: usize = 600;
/// Left end, right end and height of the plot.
const LEFT: f64 = 58.0;
const RIGHT: f64 = WIDTH - 12.0;
const HEIGHT: f64 = 176.0;
const MARKED_MAX: usize = 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// A line; few points get markers.
    #[default]
    Line,
    /// A thin line without markers, for references.
    Thin,
    /// Points without a line.
    Dots,
}

impl LineKind {
    pub(super) fn class(self) -> &'static str {
        if self == Self::Thin { "line thin" } else { "line" }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) style: usize,
    pub(crate) look: LineKind,
    /// In order of x; y is `None` in a gap.
    pub(crate) points: Vec<(f64, Option<f64>)>,
    /// True if the line stays level until the next point.
    pub(crate) is_stepped: bool,
    /// Whiskers: x, lowest and highest value.
    pub(crate) ranges: Vec<(f64, f64, f64)>,
    /// True if merged points show their maximum instead of their mean.
    pub(crate) shows_largest: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) has_zero: bool,
    /// Vertical line at the start of the measurement, if inside.
    pub(crate) mark: Option<f64>,
    pub(crate) lines: Vec<Line>,
}

impl Line {
    pub(crate) fn new(name: &str, style: usize, points: Vec<(f64, Option<f64>)>) -> Self {
        Self {
            name: name.to_owned(),
            style,
            look: LineKind::default(),
            points,
            is_stepped: false,
            ranges: Vec::new(),
            shows_largest: false,
        }
    }

    pub(crate) fn stepped(self) -> Self {
        Self { is_stepped: true, ..self }
    }

    pub(crate) fn looking(self, look: LineKind) -> Self {
        Self { look, ..self }
    }

    pub(crate) fn largest(self) -> Self {
        Self { shows_largest: true, ..self }
    }

    pub(crate) fn with_ranges(self, ranges: Vec<(f64, f64, f64)>) -> Self {
        Self { ranges, ..self }
    }

    /// Merges neighbouring points to at most [`POINTS_MAX`].
    fn thinned(&self) -> Vec<(f64, Option<f64>)> {
        let per_place = self.points.len().div_ceil(POINTS_MAX).max(1);
        if per_place == 1 {
            return self.points.clone();
        }
        let of = |points: &[(f64, Option<f64>)]| {
            let there = || points.iter().filter_map(|(_, y)| *y);
            let y = if self.shows_largest {
                there().reduce(f64::max)
            } else {
                Some(there().count()).filter(|&n| n > 0).map(|n| there().sum::<f64>() / n as f64)
            };
            (points[0].0, y)
        };
        self.points.chunks(per_place).map(of).collect()
    }
}

impl Plot {
    pub(crate) fn view(&self, label: &'static str) -> Option<View> {
        let (drawing, points) = self.drawing()?;
        Some(View { label, svg: drawing.svg(&self.title), points: Some(points) })
    }

    /// Returns the drawing and the values for tooltips; `None` without a point.
    pub(crate) fn drawing(&self) -> Option<(Drawing, Value)> {
        let lines: Vec<Vec<(f64, Option<f64>)>> = self.lines.iter().map(Line::thinned).collect();
        let drawn = |y: &f64| !self.y.is_log || *y > 0.0;
        let points = || lines.iter().flatten().filter_map(|&(x, y)| Some((x, y.filter(drawn)?)));
        points().next()?;
        let mut body = String::new();
        let name = |line: &Line| (line.name.clone(), line.style, Key::Line(line.look));
        let names: Vec<_> = self.lines.iter().map(name).collect();
        let top = legend(&mut body, &names) + TEXT + 6.0;
        let bottom = top + HEIGHT;
        let x = Scale::new(&self.x, lines.iter().flatten().map(|point| point.0), false, (LEFT, RIGHT));
        let reach = self.lines.iter().flat_map(|line| &line.ranges).flat_map(|&(_, low, high)| [low, high]);
        let heights = points().map(|(_, y)| y).chain(reach);
        let y = Scale::new(&self.y, heights, self.has_zero, (bottom, top));
        self.frame(&mut body, &x, &y, (top, bottom));
        for (line, points) in self.lines.iter().zip(&lines) {
            draw(&mut body, line, points, &x, &y, drawn);
        }
        let height = bottom + 2.0 * TEXT + 6.0;
        let values = self.values(&lines, &x, height, (top, bottom));
        Some((Drawing { height, body }, values))
    }

    fn frame(&self, body: &mut String, x: &Scale, y: &Scale, (top, bottom): (f64, f64)) {
        upright(body, y, &self.y.label, top - 11.0, (LEFT, RIGHT));
        for (value, text) in x.ticks_of(&self.x, 6) {
            let at = x.place(value);
            // Keep the last label inside the picture.
            let anchor = if at > RIGHT - 14.0 { "end" } else { "middle" };
            let place = if at > RIGHT - 14.0 { RIGHT + 8.0 } else { at };
            let _ = write!(
                body,
                "<path class=\"grid\" d=\"M{at:.1},{bottom:.1}v4\"/><text class=\"tick\" text-anchor=\"{anchor}\" \
                 x=\"{place:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 16.0,
                escaped(&text)
            );
        }
        let _ = write!(
            body,
            "<path class=\"base\" d=\"M{LEFT},{bottom:.1}H{RIGHT}\"/><text class=\"axis\" text-anchor=\"end\" x=\"{RIGHT}\" \
             y=\"{:.1}\">{}</text>",
            bottom + 32.0,
            escaped(&self.x.label)
        );
        if let Some(mark) = self.mark.filter(|&mark| x.place(mark) > LEFT + 1.0) {
            let at = x.place(mark);
            let _ = write!(body, "<path class=\"mark\" d=\"M{at:.1},{top:.1}V{bottom:.1}\"/>");
        }
    }

    fn values(
        &self,
        lines: &[Vec<(f64, Option<f64>)>],
        x: &Scale,
        height: f64,
        (top, bottom): (f64, f64),
    ) -> Value {
        let of = |line: &Line, points: &[(f64, Option<f64>)]| {
            let places: Vec<Value> = points.iter().map(|(at, _)| json!(rounded(x.place(*at)))).collect();
            let texts: Vec<String> =
                points.iter().map(|(_, y)| y.map_or("–".to_owned(), |y| number(y, self.y.unit))).collect();
            json!({ "name": line.name, "style": line.style % super::STYLES, "at": places, "text": texts })
        };
        let lines: Vec<Value> = self.lines.iter().zip(lines).map(|(line, points)| of(line, points)).collect();
        json!({ "width": WIDTH, "height": height, "top": top, "bottom": bottom, "lines": lines })
    }
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn draw(
    body: &mut String,
    line: &Line,
    points: &[(f64, Option<f64>)],
    x: &Scale,
    y: &Scale,
    drawn: impl Fn(&f64) -> bool,
) {
    let style = line.style % super::STYLES;
    let (mut path, mut marks) = (String::new(), String::new());
    let mut is_down = false;
    let mut alone = 0;
    for &(at, value) in points {
        let Some(value) = value.filter(|value| drawn(value)) else {
            is_down = false;
            continue;
        };
        let (at, value) = (x.place(at), y.place(value));
        match (is_down, line.is_stepped) {
            (false, _) => {
                let _ = write!(path, "M{at:.1},{value:.1}");
                alone += 1;
            }
            (true, true) => {
                let _ = write!(path, "H{at:.1}V{value:.1}");
            }
            (true, false) => {
                let _ = write!(path, "L{at:.1},{value:.1}");
            }
        }
        is_down = true;
        // A point between two gaps draws no line. Mark the points if most are isolated.
        let is_marked = points.len() <= MARKED_MAX || alone * 2 > points.len();
        if line.look == LineKind::Dots || line.look == LineKind::Line && is_marked {
            let _ =
                write!(marks, "<circle class=\"dot f{style}\" cx=\"{at:.1}\" cy=\"{value:.1}\" r=\"2.2\"/>");
        }
    }
    if line.look != LineKind::Dots {
        let _ = write!(body, "<path class=\"{} s{style}\" d=\"{path}\"/>", line.look.class());
    }
    *body += &marks;
    for &(at, low, high) in &line.ranges {
        let (at, low, high) = (x.place(at), y.place(low), y.place(high));
        let _ = write!(
            body,
            "<path class=\"whisker s{style}\" d=\"M{at:.1},{low:.1}V{high:.1}M{0:.1},{low:.1}h6M{0:.1},{high:.1}h6\"/>",
            at - 3.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::width;
    use crate::text::Unit;

    /// A label that is too wide would lose its first digits: "000 GB/s".
    #[test]
    fn labels_of_the_upright_axis_have_room() {
        let units = [Unit::Plain, Unit::Ns, Unit::BytesPerSecond, Unit::Bytes, Unit::Share];
        for exponent in 0..15 {
            for digit in [1.0, 1.5, 2.0, 2.5, 5.0] {
                let value = digit * libm::pow(10.0, f64::from(exponent));
                // Shares are at most a hundred.
                let is_drawn = |unit: &Unit| value <= 100.0 || !matches!(unit, Unit::Share);
                for text in units.into_iter().filter(is_drawn).map(|unit| number(value, unit)) {
                    // Tick labels are slightly smaller than other text.
                    assert!(width(&text) * 11.5 / 12.0 <= LEFT - 5.0, "{text}");
                }
            }
        }
    }
}
