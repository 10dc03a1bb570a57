use super::device::{Measured, Shape};
use super::{RANGE_KIB, RANGES};
use crate::{Figure, Row, View};

pub(super) fn all(measured: &[Measured]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = measured.iter().map(by_shape).collect();
    figures.push(by_ranges(measured));
    figures
}

/// Figures 1 and 2, and the one that the paper omits.
fn by_shape(measured: &Measured) -> Figure {
    let model = measured.model;
    let mut rows = Vec::new();
    for shape in Shape::all() {
        let alignment = if shape.aligned { "aligned" } else { "unaligned" };
        let order = if shape.continuous { "continuous" } else { "random" };
        let (bar, size) = (format!("{alignment}, {order}"), format!("{} KB", shape.size_kib));
        let at = [("ranges", bar.as_str()), ("size", size.as_str()), ("unit", "µs")];
        rows.push(Row::new(&at, measured.us(shape)));
    }
    let note = match model.level {
        Some(_) => "the preset was fitted to level and order of the bars, so their agreement is no evidence",
        None => {
            "omitted by the paper as similar to the Intel drive's; the preset was fitted to the order of the \
             bars"
        }
    };
    Figure::new(
        model.figure,
        format!("time per TRIM command of one range, {} ({})", model.label, model.preset),
        View::Bars { panel: &[], group: "size", bar: "ranges" },
        rows,
    )
    .noted(note)
}

/// Table 2 and figure 3.
fn by_ranges(measured: &[Measured]) -> Figure {
    let mut rows = Vec::new();
    for quantity in ["time", "time, % less than with 1 range", "commands"] {
        for of in measured {
            for ranges in RANGES {
                let (value, unit) = match quantity {
                    "time" => (of.seconds(ranges), "s"),
                    "commands" => (of.took(ranges).map(|took| took.commands as f64), "commands"),
                    _ => (less(of, ranges), "%"),
                };
                let text = ranges.to_string();
                let at = [
                    ("quantity", quantity),
                    ("ranges", text.as_str()),
                    ("drive", of.model.label),
                    ("unit", unit),
                ];
                rows.push(Row::new(&at, value));
            }
        }
    }
    Figure::new(
        "3",
        format!("time to trim everything in ranges of {RANGE_KIB} KB, and table 2: by ranges per command"),
        View::Bars { panel: &["quantity"], group: "ranges", bar: "drive" },
        rows,
    )
    .noted(
        "Jasmine's t_range is fitted to its gain at 64 ranges; its gains at 16 and 32 ranges follow (-87.9 and -90.8 %). \
             The t_range of the other drives is assumed; the paper does not give their gains. Ranges of 16 KB follow from 2 GB \
             in 131,072 commands of one range",
    )
}

/// Time saved compared with one range per command, in percent.
pub(super) fn less(of: &Measured, ranges: u32) -> Option<f64> {
    Some(100.0 * (1.0 - of.seconds(ranges)? / of.seconds(1)?))
}
