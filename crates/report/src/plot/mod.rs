//! Pictures as SVG: lines over an axis, bars. Colours are classes, `s0` to `s7` in order of lightness, so that the page, or a
//! file, says what they are; dashes tell lines apart where there are no colours.

mod axis;
mod bars;
mod lines;

pub(crate) use axis::Axis;
pub(crate) use bars::{Bar, Bars, Histogram, Part};
pub(crate) use lines::{Line, Plot};

use std::borrow::Cow;

use serde_json::Value;

use crate::text::escaped;

/// Kinds of lines and bars that look different.
pub(crate) const STYLES: usize = 8;

/// Width of every picture.
const WIDTH: f64 = 440.0;
/// Height of a line of text.
const TEXT: f64 = 16.0;

/// A figure: one picture, or several views of the same of which one is seen.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// Its name in files, of letters and dashes.
    pub(crate) name: Cow<'static, str>,
    pub(crate) title: String,
    pub(crate) note: Option<String>,
    pub(crate) views: Vec<View>,
}

/// A picture.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Its name where there are several.
    pub(crate) label: &'static str,
    pub(crate) svg: String,
    /// Text shown when somebody points at it.
    pub(crate) points: Option<Value>,
}

/// The begin of a picture of this height; `title` is for those who cannot see it.
fn begin(height: f64, title: &str) -> String {
    format!(
        "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
         aria-label=\"{}\">",
        escaped(title)
    )
}

/// Approximate width of a text.
fn width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.8
}

/// A text cut to a width.
fn cut(text: &str, most: f64) -> String {
    let chars = (most / 6.8) as usize;
    if text.chars().count() > chars {
        text.chars().take(chars.saturating_sub(1)).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}

/// A legend, `is_line` of lines; returns its height.
fn legend(svg: &mut String, names: &[(String, usize)], is_line: bool) -> f64 {
    let (mut x, mut y) = (8.0, 4.0);
    if names.len() < 2 && names.iter().all(|(name, _)| name.is_empty()) {
        return 4.0;
    }
    for (name, style) in names {
        let name = cut(name, WIDTH - 60.0);
        let needs = 30.0 + width(&name) + 10.0;
        if x + needs > WIDTH && x > 8.0 {
            (x, y) = (8.0, y + TEXT);
        }
        let style = style % STYLES;
        *svg += &if is_line {
            format!("<path class=\"line s{style}\" d=\"M{x:.1},{0:.1}h24\"/>", y + 8.0)
        } else {
            format!(
                "<rect class=\"fill f{style}\" x=\"{:.1}\" y=\"{:.1}\" width=\"12\" height=\"10\"/>",
                x + 8.0,
                y + 3.0
            )
        };
        *svg += &format!("<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 29.0, y + 12.0, escaped(&name));
        x += needs;
    }
    y + TEXT + 4.0
}
