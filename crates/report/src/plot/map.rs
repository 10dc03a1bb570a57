//! Heat maps: darker cells have higher values.

use std::fmt::Write as _;

use super::{Drawing, TEXT, WIDTH, cut};
use crate::text::escaped;

const LEFT: f64 = 24.0;
const RIGHT: f64 = WIDTH - 12.0;
const HEIGHT: f64 = 200.0;

/// Lines from the top; cells have a darkness from 0 to 1.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) lines: Vec<Vec<f64>>,
}

impl Map {
    /// `None` without a cell.
    pub(crate) fn drawing(&self) -> Option<Drawing> {
        let columns = self.lines.iter().map(Vec::len).max().filter(|&columns| columns > 0)?;
        let (across, down) = ((RIGHT - LEFT) / columns as f64, HEIGHT / self.lines.len() as f64);
        let (top, mut body) = (4.0, String::new());
        for (at, line) in self.lines.iter().enumerate() {
            for (column, darkness) in line.iter().enumerate().filter(|(_, darkness)| **darkness > 0.0) {
                let _ = write!(
                    body,
                    "<rect class=\"cell\" x=\"{:.1}\" y=\"{:.1}\" width=\"{across:.2}\" height=\"{down:.2}\" \
                     fill-opacity=\"{:.2}\"/>",
                    LEFT + column as f64 * across,
                    top + at as f64 * down,
                    darkness.min(1.0)
                );
            }
        }
        let bottom = top + HEIGHT;
        let _ = write!(
            body,
            "<path class=\"base\" d=\"M{LEFT},{top}V{bottom}H{RIGHT}\"/><text class=\"axis\" text-anchor=\"end\" \
             x=\"{RIGHT}\" y=\"{}\">{}</text><text class=\"axis\" text-anchor=\"middle\" x=\"14\" y=\"{middle}\" \
             transform=\"rotate(-90 14 {middle})\">{}</text>",
            bottom + 16.0,
            escaped(&cut(&self.x, RIGHT - LEFT)),
            escaped(&cut(&self.y, HEIGHT)),
            middle = top + HEIGHT / 2.0
        );
        Some(Drawing { height: bottom + TEXT + 8.0, body })
    }
}
