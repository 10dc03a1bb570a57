//! Horizontal bars in groups over one axis, with intervals: means of a sweep without a numeric key.

use std::fmt::Write as _;

use super::axis::Scale;
use super::{Axis, Key, STYLES, TEXT, View, WIDTH, begin, legend, width, wrapped};
use crate::text::{aligned, escaped};

const RIGHT: f64 = WIDTH - 62.0;
const NAMES: f64 = 170.0;
const BAR: f64 = 13.0;
const GAP: f64 = 9.0;

pub(crate) type Ranged = (f64, Option<(f64, f64)>);

#[derive(Clone, Debug)]
pub(crate) struct Grouped {
    pub(crate) title: String,
    pub(crate) axis: Axis,
    /// A single empty name if groups have one bar each.
    pub(crate) kinds: Vec<String>,
    pub(crate) groups: Vec<(String, Vec<Option<Ranged>>)>,
}

impl Grouped {
    pub(crate) fn view(&self) -> Option<View> {
        let bars = || self.groups.iter().flat_map(|group| &group.1).flatten();
        bars().next()?;
        let mut body = String::new();
        let is_alone = self.kinds.len() == 1;
        let keys =
            self.kinds.iter().enumerate().map(|(at, kind)| (kind.clone(), style(at, is_alone), Key::Bar));
        let top = legend(&mut body, &keys.collect::<Vec<_>>()) + 4.0;
        let names: Vec<Vec<String>> = self.groups.iter().map(|(name, _)| wrapped(name, NAMES)).collect();
        let widest = names.iter().flatten().map(|line| width(line)).fold(0.0, f64::max);
        let left = if widest > 0.0 { 16.0 + widest } else { 8.0 };
        let ends = bars().flat_map(|&(value, range)| [Some(value), range.map(|(_, high)| high)]).flatten();
        let scale = Scale::new(&self.axis, ends, true, (left, RIGHT));
        let heights: Vec<f64> =
            names.iter().zip(&self.groups).map(|(lines, group)| height(lines, &group.1)).collect();
        let bottom = top + heights.iter().sum::<f64>();
        self.axis(&mut body, &scale, left, (top, bottom));
        let mut texts = aligned(&bars().map(|bar| bar.0).collect::<Vec<_>>(), self.axis.unit).into_iter();
        let mut y = top;
        for ((lines, (_, bars)), height) in names.iter().zip(&self.groups).zip(heights) {
            name(&mut body, lines, y + (height - lines.len() as f64 * TEXT) / 2.0);
            let mut at = y + (height - bars.iter().flatten().count() as f64 * BAR) / 2.0;
            for (kind, bar) in bars.iter().enumerate().filter_map(|(kind, bar)| Some((kind, (*bar)?))) {
                let text = texts.next().unwrap_or_default();
                self.bar(&mut body, &scale, at, (style(kind, is_alone), &self.kinds[kind]), (bar, &text));
                at += BAR;
            }
            y += height;
        }
        let _ = write!(body, "<path class=\"base\" d=\"M{0:.1},{top:.1}V{bottom:.1}\"/>", scale.place(0.0));
        Some(View { label: "", svg: begin(bottom + 38.0, &self.title) + &body + "</svg>", points: None })
    }

    fn axis(&self, body: &mut String, scale: &Scale, left: f64, (top, bottom): (f64, f64)) {
        for (value, text) in scale.ticks(4) {
            let x = scale.place(value);
            let _ = write!(
                body,
                "<path class=\"grid\" d=\"M{x:.1},{top:.1}V{bottom:.1}\"/><text class=\"tick\" text-anchor=\"middle\" \
                 x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 15.0,
                escaped(&text)
            );
        }
        let _ = write!(
            body,
            "<text class=\"axis\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            (left + RIGHT) / 2.0,
            bottom + 31.0,
            escaped(&self.axis.label)
        );
    }

    fn bar(
        &self,
        body: &mut String,
        scale: &Scale,
        y: f64,
        (style, kind): (usize, &str),
        ((value, range), text): (Ranged, &str),
    ) {
        let (zero, end) = (scale.place(0.0), scale.place(value));
        let kind = if kind.is_empty() { &self.axis.label } else { kind };
        let _ = write!(
            body,
            "<rect class=\"fill f{style}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\"><title>{}: {text}\
             </title></rect>",
            zero.min(end),
            (end - zero).abs().max(0.6),
            escaped(kind)
        );
        // The label stands right of bar and whisker.
        let mut reach = zero.max(end);
        if let Some((low, high)) = range.filter(|(low, high)| high > low) {
            let (from, to, middle) = (scale.place(low), scale.place(high), y + BAR / 2.0);
            let _ = write!(
                body,
                "<path class=\"whisker\" d=\"M{from:.1},{middle:.1}H{to:.1}M{from:.1},{0:.1}v6M{to:.1},{0:.1}v6\"/>",
                middle - 3.0
            );
            reach = reach.max(to);
        }
        let _ = write!(
            body,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            reach + 5.0,
            y + BAR - 2.5,
            escaped(text)
        );
    }
}

/// A single kind gets the second style, distinct from the axis.
fn style(kind: usize, is_alone: bool) -> usize {
    if is_alone { 1 } else { kind % STYLES }
}

fn height(lines: &[String], bars: &[Option<Ranged>]) -> f64 {
    (bars.iter().flatten().count() as f64 * BAR).max(lines.len() as f64 * TEXT) + GAP
}

fn name(body: &mut String, lines: &[String], y: f64) {
    for (at, line) in lines.iter().enumerate() {
        let _ = write!(
            body,
            "<text class=\"tick\" x=\"8\" y=\"{:.1}\">{}</text>",
            y + at as f64 * TEXT + 12.0,
            escaped(line)
        );
    }
}
