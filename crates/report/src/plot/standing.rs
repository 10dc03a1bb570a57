//! Vertical bars, side by side in groups.

use std::fmt::Write as _;

use super::axis::Scale;
use super::{Axis, Drawing, Key, STYLES, TEXT, WIDTH, cut, legend, upright, width};
use crate::text::{escaped, number};

const LEFT: f64 = 58.0;
const RIGHT: f64 = WIDTH - 12.0;
const HEIGHT: f64 = 176.0;
/// Margin on each side of a group, as a share of its width.
const MARGIN: f64 = 0.08;
/// Maximum label width.
const LABEL: f64 = 120.0;
/// Sine and cosine of slanted labels.
const SLOPE: (f64, f64) = (0.574, 0.819);

pub(crate) type Valued = (f64, Option<f64>);

#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) y: Axis,
    pub(crate) kinds: Vec<String>,
    pub(crate) mark: String,
    pub(crate) groups: Vec<(String, Vec<Option<Valued>>)>,
}

impl Standing {
    /// `None` without a bar.
    pub(crate) fn drawing(&self) -> Option<Drawing> {
        let bars = || self.groups.iter().flat_map(|group| &group.1).flatten();
        bars().next()?;
        let mut names: Vec<(String, usize, Key)> =
            self.kinds.iter().enumerate().map(|(style, kind)| (kind.clone(), style, Key::Bar)).collect();
        if bars().any(|(_, mark)| mark.is_some()) {
            names.push((self.mark.clone(), 0, Key::Mark));
        }
        let mut body = String::new();
        let top = legend(&mut body, &names) + TEXT + 6.0;
        let bottom = top + HEIGHT;
        // All bars, including negative ones, start at 0.
        let heights = bars().flat_map(|&(value, mark)| [Some(0.0), Some(value), mark]).flatten();
        let y = Scale::new(&self.y, heights, true, (bottom, top));
        upright(&mut body, &y, &self.y.label, top - 11.0, (LEFT, RIGHT));
        let each = (RIGHT - LEFT) / self.groups.len() as f64;
        for (at, (_, bars)) in self.groups.iter().enumerate() {
            self.group(&mut body, LEFT + (at as f64 + MARGIN) * each, each * (1.0 - 2.0 * MARGIN), bars, &y);
        }
        let _ = write!(body, "<path class=\"base\" d=\"M{LEFT},{:.1}H{RIGHT}\"/>", y.place(0.0));
        let below = self.labels(&mut body, each, bottom);
        Some(Drawing { height: bottom + below, body })
    }

    fn group(&self, body: &mut String, left: f64, width: f64, bars: &[Option<Valued>], y: &Scale) {
        let each = width / self.kinds.len().max(1) as f64;
        for (kind, (value, mark)) in bars.iter().enumerate().filter_map(|(at, bar)| Some((at, (*bar)?))) {
            let x = left + kind as f64 * each;
            let (zero, end) = (y.place(0.0), y.place(value));
            let name = self.kinds.get(kind).map_or("", String::as_str);
            let _ = write!(
                body,
                "<rect class=\"fill f{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{each:.1}\" height=\"{:.1}\"><title>{}: {}\
                 </title></rect>",
                kind % STYLES,
                zero.min(end),
                (zero - end).abs().max(0.3),
                escaped(name),
                number(value, self.y.unit)
            );
            if let Some(mark) = mark {
                let at = y.place(mark);
                let _ = write!(body, "<path class=\"stroke\" d=\"M{x:.1},{at:.1}h{each:.1}\"/>");
            }
        }
    }

    /// Writes the group names, horizontally if all fit, else slanted. Returns their height.
    fn labels(&self, body: &mut String, each: f64, bottom: f64) -> f64 {
        let longest = self.groups.iter().map(|(name, _)| width(name)).fold(0.0, f64::max);
        let fits = longest <= each;
        for (at, (name, _)) in self.groups.iter().enumerate() {
            let (x, y) = (LEFT + (at as f64 + 0.5) * each, bottom + 16.0);
            // The first labels end inside the picture.
            let width = LABEL.min((x - 4.0) / SLOPE.1);
            let (name, place) = if fits {
                (name.clone(), "text-anchor=\"middle\"".to_owned())
            } else {
                (cut(name, width), format!("text-anchor=\"end\" transform=\"rotate(-35 {x:.1} {y:.1})\""))
            };
            let _ = write!(
                body,
                "<text class=\"tick\" {place} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
                escaped(&name)
            );
        }
        if fits { TEXT + 10.0 } else { longest.min(LABEL) * SLOPE.0 + TEXT + 8.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Unit;

    fn rects(body: &str) -> Vec<(f64, f64)> {
        let bars = body.split("<rect class=\"fill").skip(1).filter(|part| part.contains("<title>"));
        let number = |part: &str, name: &str| {
            part.split(name).nth(1).and_then(|rest| rest.split('"').next()?.parse().ok()).expect("a number")
        };
        bars.map(|part| (number(part, " y=\""), number(part, " height=\""))).collect()
    }

    #[test]
    fn bars_go_from_zero_either_way_and_marks_lie_where_their_value_is() {
        let bars = vec![Some((2.0, Some(4.0))), Some((-1.0, None)), None];
        let standing = Standing {
            y: Axis::new("s", Unit::Plain),
            kinds: ["a", "b", "c"].map(str::to_owned).into(),
            mark: "paper".to_owned(),
            groups: vec![("one".to_owned(), bars)],
        };
        let body = standing.drawing().expect("bars").body;
        let found = rects(&body);
        assert_eq!(found.len(), 2, "{body}");
        let [up, down] = [found[0], found[1]];
        assert!((up.0 + up.1 - down.0).abs() < 0.11, "both touch zero: {found:?}");
        assert!((up.1 / down.1 - 2.0).abs() < 0.02, "{found:?}");
        let mark =
            body.rsplit("class=\"stroke\" d=\"M").next().and_then(|rest| rest.split([',', 'h']).nth(1));
        let mark: f64 = mark.and_then(|text| text.parse().ok()).expect("a place");
        assert!((up.0 - up.1 - mark).abs() < 0.2, "twice as high as the bar: {mark} {found:?}");
    }
}
