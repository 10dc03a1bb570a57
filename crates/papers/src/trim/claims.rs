//! Values of the paper's claims about drives.

use super::device::{Measured, Shape};
use super::figures::less;
use super::{CLAIMS, JASMINE, RANGES, SIZES_KIB};
use crate::Claim;
use crate::figure::{mean, reduced};
use crate::table::Values;

/// Values of all claims. `full`: as much was trimmed as in the paper.
pub(super) fn all(measured: &[Measured], full: bool) -> Vec<Claim> {
    let mut values = Values::default();
    for of in measured {
        by_shape(&mut values, of);
    }
    let level = |at: usize| mean(Shape::all().map(|shape| measured[at].us(shape)));
    values.add("samsung-over-intel", level(0).zip(level(1)).map(|(samsung, intel)| samsung / intel));
    commands(&mut values, measured, full);
    let jasmine = measured.iter().find(|of| of.model.label == JASMINE);
    values.add("jasmine-64-ranges", jasmine.and_then(|of| less(of, 64)).map(|less| -less));
    for of in measured {
        let steps = RANGES.windows(2).map(|pair| saved(of.seconds(pair[1]), of.seconds(pair[0])));
        values.add(&format!("{} ranges", of.model.label), reduced(steps, f64::min));
    }
    values.judged(CLAIMS, "")
}

fn by_shape(values: &mut Values, measured: &Measured) {
    let (model, of) = (measured.model, |shape: Shape| measured.us(shape));
    if model.level.is_some() {
        values.add(&format!("{} level", model.label), mean(Shape::all().map(of)));
    }
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
    for (what, value) in [("aligned", aligned), ("order", ordered), ("larger", larger)] {
        values.add(&format!("{} {what}", model.label), value);
    }
}

fn commands(values: &mut Values, measured: &[Measured], full: bool) {
    // Commands in the paper, for 2 GB; only their ratios are compared.
    const PAPER: [f64; RANGES.len()] = [131_072.0, 8192.0, 4096.0, 2048.0];
    let counted = |ranges| {
        let all: Option<Vec<u64>> =
            measured.iter().map(|of| of.took(ranges).map(|took| took.commands)).collect();
        // The number must be equal on every drive.
        let all = all.filter(|all| all.windows(2).all(|pair| pair[0] == pair[1]))?;
        all.first().map(|&commands| commands as f64)
    };
    // Shares are independent of the amount trimmed, so a reduced run can be judged.
    let shares = RANGES.map(|ranges| Some(100.0 * counted(ranges)? / counted(1)?));
    let paper = PAPER.map(|commands| 100.0 * commands / PAPER[0]);
    let off = shares.iter().zip(paper).map(|(share, paper)| share.map(|share| (share - paper).abs()));
    values.add("commands-share", reduced(off, f64::max));
    if full {
        values.add("commands", counted(1));
    }
}

/// Least value over all shapes; `None` if one is missing.
fn least(of: impl Fn(Shape) -> Option<Option<f64>>) -> Option<f64> {
    reduced(Shape::all().filter_map(of), f64::min)
}

/// Excess of `b` over `a`, in percent of `b`.
fn saved(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(100.0 * (1.0 - a? / b?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_is_computed() {
        let claims = all(&Measured::of(&[], &[]), true);
        #[cfg(target_os = "linux")]
        let claims = [claims, super::super::ext4_figures::claims(&Default::default())].concat();
        #[cfg(target_os = "linux")]
        crate::table::tests::assert_all_computed(CLAIMS, &claims);
        #[cfg(target_os = "linux")]
        assert_eq!(
            crate::table::tests::paper(CLAIMS, "delete-faster"),
            Some(super::super::removal::FASTER),
            "the fit is to the number of the table"
        );
        assert!(all(&Measured::of(&[], &[]), false).len() < claims.len());
    }
}
