//! The paper's figures, each from the same trials.

use super::device::{Measured, Shape};
use super::{JASMINE, RANGE_KIB, RANGES, SIZES_KIB};
use crate::figure::{mean, reduced};
use crate::{Figure, Row, View};

/// Every figure, in the order of the paper. `full` if as much was trimmed as in the paper.
pub(super) fn all(measured: &[Measured], full: bool) -> Vec<Figure> {
    let mut figures: Vec<Figure> = measured.iter().map(by_shape).collect();
    figures.push(commands(measured, full));
    figures.push(by_ranges(measured));
    figures
}

/// The least that counts as a difference, in percent.
const DIFFERENCE: f64 = 0.5;

fn shapes() -> impl Iterator<Item = Shape> {
    [true, false].into_iter().flat_map(|aligned| {
        [true, false]
            .into_iter()
            .flat_map(move |continuous| SIZES_KIB.map(|size_kib| Shape { size_kib, aligned, continuous }))
    })
}

/// Figures 1 and 2, and the one left out: time per command of one range.
fn by_shape(measured: &Measured) -> Figure {
    let model = measured.model;
    let mut rows = Vec::new();
    for shape in shapes() {
        let alignment = if shape.aligned { "aligned" } else { "unaligned" };
        let order = if shape.continuous { "continuous" } else { "random" };
        let size = format!("{} KB", shape.size_kib);
        let at = [("alignment", alignment), ("order", order), ("size", size.as_str()), ("unit", "µs")];
        rows.push(Row::shown(&at, measured.us(shape)));
    }
    if let Some((level, [low, high])) = model.level {
        let at = [("claim", "mean of all bars"), ("unit", "µs")];
        let mean = mean(shapes().map(|shape| measured.us(shape)));
        rows.push(Row::judged(&at, Some(level), mean, [Some(low), Some(high)]));
    }
    let order = match model.likes_continuous {
        true => "continuous against random: least time saved",
        false => "random against continuous: least time saved",
    };
    let of = |shape: Shape| measured.us(shape);
    let claims = [
        (
            "aligned against unaligned: least time saved",
            least(|shape| shape.aligned.then(|| saved(of(shape), of(Shape { aligned: false, ..shape })))),
        ),
        (
            order,
            least(|shape| {
                let other = Shape { continuous: !shape.continuous, ..shape };
                (shape.continuous == model.likes_continuous).then(|| saved(of(shape), of(other)))
            }),
        ),
        (
            "per KB, against half the size: least time saved",
            least(|shape| {
                let half = Shape { size_kib: shape.size_kib / 2, ..shape };
                let twice = of(half).map(|us| 2.0 * us);
                (shape.size_kib > SIZES_KIB[0]).then(|| saved(of(shape), twice))
            }),
        ),
    ];
    for (claim, value) in claims {
        let at = [("claim", claim), ("unit", "%")];
        rows.push(Row::judged(&at, None, value, [Some(DIFFERENCE), None]));
    }
    let note = match model.level {
        Some(_) => "level and order of the bars went into the preset; that they come out is no discovery",
        None => {
            "left out of the paper, as similar to that of the Intel drive; the order of the bars went into the \
             preset"
        }
    };
    Figure::new(
        model.figure,
        format!("time per TRIM command of one range, {} ({})", model.label, model.preset),
        View::Table { down: &["alignment", "order"], across: "size" },
        rows,
    )
    .noted(note)
}

/// The smallest of the values that `of` gives for the shapes it wants; nothing if one is missing.
fn least(of: impl Fn(Shape) -> Option<Option<f64>>) -> Option<f64> {
    reduced(shapes().filter_map(of), f64::min)
}

/// How much less `a` is than `b`, in percent.
fn saved(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(100.0 * (1.0 - a? / b?))
}

/// Table 2: how many commands there are.
fn commands(measured: &[Measured], full: bool) -> Figure {
    const PAPER: [u32; RANGES.len()] = [131_072, 8192, 4096, 2048];
    let mut rows = Vec::new();
    for (ranges, paper) in RANGES.into_iter().zip(PAPER) {
        let counted =
            |of: &Measured| of.ranges.iter().find(|(n, _)| *n == ranges).map(|(_, took)| took.commands);
        let all: Option<Vec<u64>> = measured.iter().map(counted).collect();
        // The same on every drive.
        let counted = all.filter(|all| all.windows(2).all(|pair| pair[0] == pair[1]));
        let counted = counted.and_then(|all| all.first().map(|&commands| commands as f64));
        let text = ranges.to_string();
        let at = [("ranges per command", text.as_str()), ("unit", "commands")];
        let paper = f64::from(paper);
        rows.push(match full {
            true => Row::judged(&at, Some(paper), counted, [Some(paper), Some(paper)]),
            false => Row::shown(&at, counted),
        });
    }
    Figure::new("table-2", "TRIM commands by ranges per command", View::List, rows)
        .noted(format!("ranges of {RANGE_KIB} KB, which follows from 2 GB in 131,072 commands of one"))
}

/// Figure 3: the same amount in fewer commands.
fn by_ranges(measured: &[Measured]) -> Figure {
    let mut rows = Vec::new();
    for of in measured {
        for (quantity, unit) in [("time", "s"), ("against 1 range", "%")] {
            for ranges in RANGES {
                let value = match unit {
                    "s" => of.seconds(ranges),
                    _ => change(of, ranges),
                };
                let text = ranges.to_string();
                let at = [
                    ("drive", of.model.label),
                    ("quantity", quantity),
                    ("ranges", text.as_str()),
                    ("unit", unit),
                ];
                rows.push(Row::shown(&at, value));
            }
        }
    }
    let jasmine = measured.iter().find(|of| of.model.label == JASMINE);
    for (ranges, says) in [(16, -87.9), (32, -90.8)] {
        let claim = format!("{JASMINE}, {ranges} ranges against 1; t_range = 0.0665 t_cmd gives {says:.1}");
        let at = [("claim", claim.as_str()), ("unit", "%")];
        rows.push(Row::shown(&at, jasmine.and_then(|of| change(of, ranges))));
    }
    let claim = format!("{JASMINE}, 64 ranges against 1");
    let at = [("claim", claim.as_str()), ("unit", "%")];
    let change_64 = jasmine.and_then(|of| change(of, 64));
    rows.push(Row::judged(&at, Some(-92.3), change_64, [Some(-94.0), Some(-90.0)]));
    for of in measured {
        let claim = format!("{}, more ranges per command: least time saved by a step", of.model.label);
        let at = [("claim", claim.as_str()), ("unit", "%")];
        let steps = RANGES.windows(2).map(|pair| saved(of.seconds(pair[1]), of.seconds(pair[0])));
        rows.push(Row::judged(&at, None, reduced(steps, f64::min), [Some(DIFFERENCE), None]));
    }
    Figure::new(
        "3",
        format!("time to trim everything in ranges of {RANGE_KIB} KB, by ranges per command"),
        View::Table { down: &["drive", "quantity"], across: "ranges" },
        rows,
    )
    .noted(
        "Jasmine's t_range was chosen for its gain at 64 ranges; the other drives' is assumed, and how much \
             they gain is not known",
    )
}

/// How much longer than with one range per command it takes, in percent.
fn change(of: &Measured, ranges: u32) -> Option<f64> {
    Some(100.0 * (of.seconds(ranges)? / of.seconds(1)? - 1.0))
}
