//! Marks on a time line, one row per kind.

use std::fmt::Write as _;

use super::{Axis, Drawing, STYLES, TEXT, View, WIDTH, cut};
use crate::plot::axis::Scale;
use crate::text::escaped;

const LEFT: f64 = 118.0;
const ROW: f64 = 26.0;
/// Marks closer than this look like one.
const COVERED: f64 = 4.0;
/// Width of a count.
const NUMBER: f64 = 26.0;
const RIGHT: f64 = WIDTH - 8.0 - NUMBER;

pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) style: usize,
    pub(crate) places: Vec<f64>,
}

pub(crate) struct Rows {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) ends: (f64, f64),
    pub(crate) rows: Vec<Row>,
}

impl Rows {
    pub(crate) fn view(&self) -> View {
        let bottom = 6.0 + ROW * self.rows.len() as f64;
        let x = Scale::new(&self.x, [self.ends.0, self.ends.1].into_iter(), false, (LEFT, RIGHT));
        let mut body = String::new();
        for (value, text) in x.ticks(6) {
            let at = x.place(value);
            let _ = write!(
                body,
                "<path class=\"grid\" d=\"M{at:.1},4V{:.1}\"/><text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" \
                 y=\"{:.1}\">{}</text>",
                bottom + 4.0,
                bottom + 17.0,
                escaped(if value == 0.0 { "0" } else { &text })
            );
        }
        for (at, row) in self.rows.iter().enumerate() {
            let (middle, style) = (6.0 + ROW * (at as f64 + 0.5), row.style % STYLES);
            let name = cut(&row.name, LEFT - 8.0);
            let _ = write!(body, "<text x=\"4\" y=\"{:.1}\">{}</text>", middle + 4.0, escaped(&name));
            let places: Vec<f64> = row.places.iter().map(|&place| x.place(place)).collect();
            for at in &places {
                let _ = write!(
                    body,
                    "<circle class=\"dot f{style}\" cx=\"{at:.1}\" cy=\"{middle:.1}\" r=\"4\"/>"
                );
            }
            // Marks that cover each other are counted; otherwise a pile would look like one cut.
            for (at, count) in piles(places) {
                let _ = write!(
                    body,
                    "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">×{count}</text>",
                    at + 6.0,
                    middle - 3.0
                );
            }
        }
        let _ = write!(
            body,
            "<path class=\"base\" d=\"M{LEFT},{bottom:.1}H{RIGHT}\"/><text class=\"axis\" text-anchor=\"end\" x=\"{RIGHT}\" \
             y=\"{:.1}\">{}</text>",
            bottom + 17.0 + TEXT,
            escaped(&self.x.label)
        );
        let drawing = Drawing { height: bottom + 2.0 * TEXT + 8.0, body };
        View { label: "", svg: drawing.svg(&self.title), points: None }
    }
}

/// Overlapping marks with their count, where the count fits.
fn piles(mut places: Vec<f64>) -> Vec<(f64, usize)> {
    places.sort_by(f64::total_cmp);
    let mut piles: Vec<(f64, f64, usize)> = Vec::new();
    for at in places {
        match piles.last_mut() {
            Some((_, last, count)) if at - *last < COVERED => (*last, *count) = (at, *count + 1),
            _ => piles.push((at, at, 1)),
        }
    }
    let next = piles.iter().skip(1).map(|pile| pile.0).chain([f64::INFINITY]);
    let shown = piles.iter().zip(next).filter(|((_, last, count), next)| *count > 1 && next - last > NUMBER);
    shown.map(|(&(_, last, count), _)| (last, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_that_cover_each_other_have_their_number() {
        assert_eq!(piles(vec![300.0, 100.0, 101.0, 200.0, 100.0]), [(101.0, 3)]);
        assert_eq!(piles(vec![100.0, 100.0, 110.0, 110.0]), [(110.0, 2)], "no room for the first");
    }
}
