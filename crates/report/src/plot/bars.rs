//! Bars: stacked, side by side, and as a histogram.

use std::fmt::Write as _;

use super::axis::Scale;
use super::{Axis, Drawing, Key, View, WIDTH, begin, cut, heading, legend, upright, width};
use crate::text::{Unit, escaped, number};

const RIGHT: f64 = WIDTH - 58.0;
const BAR: f64 = 15.0;

#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) style: usize,
    /// Tooltip.
    pub(crate) name: String,
    pub(crate) value: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) parts: Vec<Part>,
}

/// Horizontal bars. Each group has an axis, unless all share a logarithmic one.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    /// Empty if bars have a single part.
    pub(crate) legend: Vec<(String, usize)>,
    pub(crate) groups: Vec<(String, Unit, Vec<Bar>)>,
    /// Start of a shared logarithmic axis; for bars of one part.
    pub(crate) log_from: Option<f64>,
}

impl Bars {
    pub(crate) fn view(&self, label: &'static str) -> Option<View> {
        Some(View { label, svg: self.drawing()?.svg(&self.title), points: None })
    }

    /// `None` without a bar.
    pub(crate) fn drawing(&self) -> Option<Drawing> {
        let bars = || self.groups.iter().flat_map(|group| &group.2);
        bars().next()?;
        let mut body = String::new();
        let names: Vec<_> =
            self.legend.iter().map(|(name, style)| (name.clone(), *style, Key::Bar)).collect();
        let mut y = legend(&mut body, &names) + 4.0;
        let names = bars().map(|bar| width(&bar.name)).fold(0.0, f64::max);
        let left = 8.0 + names.min(130.0) + if names > 0.0 { 8.0 } else { 0.0 };
        for (title, unit, bars) in &self.groups {
            // Without a shared axis each group has its own scale, up to its longest bar.
            let most = match self.log_from {
                Some(_) => most(self.groups.iter().flat_map(|group| &group.2)),
                None => most(bars),
            };
            if !title.is_empty() {
                heading(&mut body, title, " class=\"group\"", &mut y);
                y += 2.0;
            }
            for bar in bars {
                let name = cut(&bar.name, 130.0);
                let _ = write!(
                    body,
                    "<text class=\"tick\" x=\"8\" y=\"{:.1}\">{}</text>",
                    y + 12.0,
                    escaped(&name)
                );
                let mut x = left;
                for part in bar.parts.iter().filter(|part| part.value > 0.0) {
                    let length = (RIGHT - left) * self.share(part.value, most);
                    let _ = write!(
                        body,
                        "<rect class=\"fill f{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\"><title>{}: {}\
                         </title></rect>",
                        part.style % super::STYLES,
                        length.max(0.6),
                        escaped(&part.name),
                        number(part.value, *unit)
                    );
                    x += length;
                }
                let text = number(total(bar), *unit);
                let _ = write!(
                    body,
                    "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                    x + 5.0,
                    y + 12.0
                );
                y += BAR + 4.0;
            }
            y += 8.0;
        }
        Some(Drawing { height: y, body })
    }

    fn share(&self, value: f64, most: f64) -> f64 {
        match self.log_from {
            Some(from) if most > from => (libm::log(value / from) / libm::log(most / from)).max(0.0),
            Some(_) => 0.0,
            None => value / most,
        }
    }
}

fn total(bar: &Bar) -> f64 {
    bar.parts.iter().map(|part| part.value).sum()
}

fn most<'a>(bars: impl IntoIterator<Item = &'a Bar>) -> f64 {
    bars.into_iter().map(total).fold(0.0, f64::max)
}

/// Histogram with bins of equal width.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// Start of the first bin.
    pub(crate) first: f64,
    /// Width of a bin.
    pub(crate) bin: f64,
    pub(crate) counts: Vec<f64>,
}

impl Histogram {
    /// `None` if all bins are empty.
    pub(crate) fn view(&self) -> Option<View> {
        if self.counts.iter().all(|&count| count <= 0.0) {
            return None;
        }
        let (left, right, top, bottom) = (58.0, WIDTH - 12.0, 22.0, 198.0);
        let y = Scale::new(&self.y, self.counts.iter().copied(), true, (bottom, top));
        let mut body = String::new();
        upright(&mut body, &y, &self.y.label, 14.0, (left, right));
        let each = ((right - left) / self.counts.len() as f64).min(72.0);
        // At most eight labels are drawn.
        let every = self.counts.len().div_ceil(8);
        for (at, &count) in self.counts.iter().enumerate() {
            let (x, low) = (left + at as f64 * each, self.first + at as f64 * self.bin);
            let name = match self.bin {
                1.0 => format!("{low:.0}"),
                bin => format!("{low:.0}–{:.0}", low + bin - 1.0),
            };
            let _ = write!(
                body,
                "<rect class=\"fill f1\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{name}: {count:.0}\
                 </title></rect>",
                x + 1.0,
                y.place(count),
                (each - 2.0).max(0.5),
                bottom - y.place(count)
            );
            if at.is_multiple_of(every) {
                let middle = x + each / 2.0;
                let _ = write!(
                    body,
                    "<text class=\"tick\" text-anchor=\"middle\" x=\"{middle:.1}\" y=\"{}\">{low:.0}</text>",
                    bottom + 16.0
                );
            }
        }
        let _ = write!(
            body,
            "<path class=\"base\" d=\"M{left},{bottom}H{right}\"/><text class=\"axis\" text-anchor=\"end\" x=\"{right}\" \
             y=\"{}\">{}</text>",
            bottom + 32.0,
            escaped(&self.x.label)
        );
        Some(View { label: "", svg: begin(238.0, &self.title) + &body + "</svg>", points: None })
    }
}
