//! The page of a run for a cell of a notebook: headline figures, and the X-ray, which plays.

use std::fmt::Write as _;

use super::{begin, draw, end_of_runs, head, xray_section};
use crate::Run;
use crate::figures;

/// Figures of a run without an X-ray.
const FIGURES_MAX: usize = 2;
/// A cell has no margins of a page.
const STYLE: &str = "body{padding:2px;max-width:none}h1{display:none}footer{display:none}";

/// The headline figures of `run` and its X-ray, which plays; figures if it has none. It is a page of HTML that needs nothing
/// else, for an `iframe`.
pub fn cell(run: &Run) -> String {
    let runs = std::slice::from_ref(run);
    let mut out = begin(&run.name);
    let _ = writeln!(out, "<style>{STYLE}</style>");
    head(&mut out, runs);
    let has_xray = xray_section(&mut out, runs, true);
    if !has_xray {
        let _ = writeln!(out, "<section class=\"figures\">");
        figures::all(runs).iter().take(FIGURES_MAX).for_each(|figure| draw(&mut out, figure));
        let _ = writeln!(out, "</section>");
    }
    end_of_runs(out, runs, has_xray)
}
