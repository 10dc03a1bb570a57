//! SVG pictures: lines over an axis, bars, maps.
//!
//! Colours are classes, `s0` to `s7` in order of lightness, defined by the page or file. Dashes distinguish
//! lines without colour.

mod axis;
mod bars;
mod grouped;
mod lines;
mod map;
mod rows;
mod standing;

pub(crate) use axis::Axis;
pub(crate) use bars::{Bar, Bars, Histogram, Part};
pub(crate) use grouped::Grouped;
pub(crate) use lines::{Line, LineKind, Plot};
pub(crate) use map::Map;
pub(crate) use rows::{Row, Rows};
pub(crate) use standing::Standing;

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use crate::text::escaped;

use axis::Scale;

/// Distinct styles of lines and bars.
pub(crate) const STYLES: usize = 8;

const WIDTH: f64 = 440.0;
const TEXT: f64 = 16.0;

/// One picture, or several views, one of them visible.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// Used in file names: letters and dashes.
    pub(crate) name: Cow<'static, str>,
    pub(crate) title: String,
    pub(crate) note: Option<String>,
    pub(crate) views: Vec<View>,
}

#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) label: &'static str,
    pub(crate) svg: String,
    /// Tooltips.
    pub(crate) points: Option<Value>,
}

#[derive(Clone, Debug)]
pub(crate) struct Drawing {
    pub(crate) height: f64,
    pub(crate) body: String,
}

impl Drawing {
    pub(crate) fn svg(&self, title: &str) -> String {
        format!("{}{}</svg>", begin(self.height, title), self.body)
    }
}

/// Stacks parts, each with its heading.
pub(crate) fn stacked(title: &str, parts: &[(String, Drawing)]) -> String {
    let (mut body, mut y) = (String::new(), 4.0);
    heading(&mut body, title, " class=\"group\"", &mut y);
    for (text, part) in parts {
        y += 4.0;
        heading(&mut body, text, "", &mut y);
        let _ = write!(body, "<g transform=\"translate(0,{y:.1})\">{}</g>", part.body);
        y += part.height;
    }
    Drawing { height: y, body }.svg(title)
}

/// Writes a heading in as few lines as possible.
fn heading(body: &mut String, text: &str, class: &str, y: &mut f64) {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + width(word) + 8.0 < WIDTH - 16.0 => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    for line in lines {
        let line = escaped(&cut(&line, WIDTH - 16.0));
        let _ = write!(body, "<text{class} x=\"8\" y=\"{:.1}\">{line}</text>", *y + 12.0);
        *y += TEXT;
    }
}

/// `title` is the label for screen readers.
fn begin(height: f64, title: &str) -> String {
    format!(
        "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
         aria-label=\"{}\">",
        escaped(title)
    )
}

fn width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.8
}

fn cut(text: &str, most: f64) -> String {
    let chars = (most / 6.8) as usize;
    if text.chars().count() > chars {
        text.chars().take(chars.saturating_sub(1)).chain(['…']).collect()
    } else {
        text.to_owned()
    }
}

/// Breaks between words, or within words longer than a line.
fn wrapped(text: &str, most: f64) -> Vec<String> {
    let chars = ((most / 6.8) as usize).max(1);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.len() <= chars => {
                line.push(' ');
                line.extend(word);
                continue;
            }
            _ => {}
        }
        while word.len() > chars {
            // Break after an operator or dash in the second half, if any.
            let breaks =
                |&at: &usize| !word[at - 1].is_alphanumeric() && word[at - 1] != '_' && word[at - 1] != '(';
            let at = (chars / 2 + 1..=chars).rev().find(breaks).unwrap_or(chars);
            lines.push(word.drain(..at).collect());
        }
        lines.push(word.into_iter().collect());
    }
    lines
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Line(LineKind),
    Bar,
    /// A stroke across a bar.
    Mark,
}

/// Writes the legend and returns its height.
fn legend(svg: &mut String, names: &[(String, usize, Key)]) -> f64 {
    let (mut x, mut y) = (8.0, 4.0);
    if names.len() < 2 && names.iter().all(|(name, ..)| name.is_empty()) {
        return 4.0;
    }
    for (name, style, key) in names {
        let lines = wrapped(name, WIDTH - 60.0);
        let needs = 30.0 + lines.iter().map(|line| width(line)).fold(0.0, f64::max) + 10.0;
        // A name that does not fit starts a new line, unless the line is empty.
        if x + needs > WIDTH && x > 8.0 {
            (x, y) = (8.0, y + TEXT);
        }
        let style = style % STYLES;
        *svg += &match key {
            Key::Line(LineKind::Dots) => {
                format!(
                    "<circle class=\"dot f{style}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                    x + 12.0,
                    y + 8.0
                )
            }
            Key::Line(look) => {
                format!("<path class=\"{} s{style}\" d=\"M{x:.1},{:.1}h24\"/>", look.class(), y + 8.0)
            }
            Key::Bar => format!(
                "<rect class=\"fill f{style}\" x=\"{:.1}\" y=\"{:.1}\" width=\"12\" height=\"10\"/>",
                x + 8.0,
                y + 3.0
            ),
            Key::Mark => format!("<path class=\"stroke\" d=\"M{:.1},{:.1}h12\"/>", x + 8.0, y + 8.0),
        };
        for (at, line) in lines.iter().enumerate() {
            y += if at > 0 { TEXT } else { 0.0 };
            *svg += &format!("<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 29.0, y + 12.0, escaped(line));
        }
        x += needs;
    }
    y + TEXT + 4.0
}

/// Writes the y axis: grid lines, values, and the label at height `above`.
fn upright(body: &mut String, y: &Scale, label: &str, above: f64, (left, right): (f64, f64)) {
    let _ = write!(body, "<text class=\"axis\" x=\"4\" y=\"{above:.1}\">{}</text>", escaped(label));
    for (value, text) in y.ticks(5) {
        let at = y.place(value);
        let _ = write!(
            body,
            "<path class=\"grid\" d=\"M{left},{at:.1}H{right}\"/><text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" \
             y=\"{:.1}\">{}</text>",
            left - 5.0,
            at + 4.0,
            escaped(&text)
        );
    }
}
