//! What the paper's text says of drives, sentence by sentence.

use super::device::{Measured, Shape};
use super::figures::less;
use super::{JASMINE, RANGES, SIZES_KIB};
use crate::figure::{mean, reduced};
use crate::{Band, Claim};

/// The least that counts as a difference, in percent.
const DIFFERENCE: f64 = 0.5;

const FITTED: &str = "the preset's times of a TRIM are chosen for it";

/// `full` if as much was trimmed as in the paper.
pub(super) fn all(measured: &[Measured], full: bool) -> Vec<Claim> {
    let mut claims: Vec<Claim> = measured.iter().flat_map(by_shape).collect();
    let level = |at: usize| mean(Shape::all().map(|shape| measured[at].us(shape)));
    claims.push(
        Claim::new(
            "2",
            "Samsung 840's mean over Intel 320's, which is faster",
            "times",
            None,
            level(0).zip(level(1)).map(|(samsung, intel)| samsung / intel),
            Band::at_least(1.0, "a direction"),
        )
        .by_construction(FITTED),
    );
    claims.extend(commands(measured, full));
    let jasmine = measured.iter().find(|of| of.model.label == JASMINE);
    let change = jasmine.and_then(|of| less(of, 64)).map(|less| -less);
    claims.push(
        Claim::new(
            "3",
            format!("{JASMINE}: time of 64 ranges a command against 1"),
            "%",
            Some(-92.3),
            change,
            Band::around(-92.3, 0.5, "half a point: it is fitted").was("-94 to -90"),
        )
        .by_construction("the time of a range is chosen for it"),
    );
    for of in measured {
        let text = format!("{}: least time saved by more ranges a command", of.model.label);
        let steps = RANGES.windows(2).map(|pair| saved(of.seconds(pair[1]), of.seconds(pair[0])));
        let band = Band::at_least(DIFFERENCE, "half a percent is a difference");
        let why = "commands that cost anything save it when there are fewer";
        claims.push(Claim::new("3", text, "%", None, reduced(steps, f64::min), band).by_construction(why));
    }
    claims
}

fn by_shape(measured: &Measured) -> Vec<Claim> {
    let (model, of) = (measured.model, |shape: Shape| measured.us(shape));
    let mut claims = Vec::new();
    if let Some((level, [low, high])) = model.level {
        let mean = mean(Shape::all().map(of));
        let text = format!("{}: mean time of a command", model.label);
        let band = Band::range(low, high, [None, None], "\"about\" such a time");
        claims.push(Claim::new(model.figure, text, "µs", Some(level), mean, band).by_construction(FITTED));
    }
    let order = if model.likes_continuous { "continuous" } else { "random" };
    let aligned =
        least(|shape| shape.aligned.then(|| saved(of(shape), of(Shape { aligned: false, ..shape }))));
    let ordered = least(|shape| {
        let other = Shape { continuous: !shape.continuous, ..shape };
        (shape.continuous == model.likes_continuous).then(|| saved(of(shape), of(other)))
    });
    let larger = least(|shape| {
        let half = Shape { size_kib: shape.size_kib / 2, ..shape };
        (shape.size_kib > SIZES_KIB[0]).then(|| saved(of(shape), of(half).map(|us| 2.0 * us)))
    });
    for (what, value) in [("aligned", aligned), (order, ordered), ("larger, per KB", larger)] {
        let text = format!("{}: least time saved by ranges that are {what}", model.label);
        let band = Band::at_least(DIFFERENCE, "half a percent is a difference");
        claims.push(Claim::new(model.figure, text, "%", None, value, band).by_construction(FITTED));
    }
    claims
}

/// Table 2: how many commands there are.
fn commands(measured: &[Measured], full: bool) -> Vec<Claim> {
    // Of 2 GB; the share of that which is trimmed counts for less.
    const PAPER: [f64; RANGES.len()] = [131_072.0, 8192.0, 4096.0, 2048.0];
    let counted = |ranges| {
        let all: Option<Vec<u64>> =
            measured.iter().map(|of| of.took(ranges).map(|took| took.commands)).collect();
        // The same on every drive.
        let all = all.filter(|all| all.windows(2).all(|pair| pair[0] == pair[1]))?;
        all.first().map(|&commands| commands as f64)
    };
    let shares = RANGES.map(|ranges| Some(100.0 * counted(ranges)? / counted(1)?));
    let paper = PAPER.map(|commands| 100.0 * commands / PAPER[0]);
    let off = shares.iter().zip(paper).map(|(share, paper)| share.map(|share| (share - paper).abs()));
    let why = "ranges of 16 KB follow from 2 GB in 131,072 commands";
    let mut claims = vec![
        Claim::new(
            "T2",
            "commands at 16, 32, 64 ranges in % of those at 1: largest deviation",
            "points",
            Some(0.0),
            reduced(off, f64::max),
            Band::level(0.0, 0.0, "counts are exact"),
        )
        .by_construction(why),
    ];
    if full {
        let band = Band::level(PAPER[0], 0.0, "counts are exact");
        claims.push(
            Claim::new("T2", "commands of one range for 2 GB", "commands", Some(PAPER[0]), counted(1), band)
                .by_construction(why),
        );
    }
    claims
}

/// The smallest of the values that `of` gives for the shapes it wants; nothing if one is missing.
fn least(of: impl Fn(Shape) -> Option<Option<f64>>) -> Option<f64> {
    reduced(Shape::all().filter_map(of), f64::min)
}

/// How much less `a` is than `b`, in percent.
fn saved(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(100.0 * (1.0 - a? / b?))
}
