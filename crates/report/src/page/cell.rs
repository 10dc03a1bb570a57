//! Page of a run for a notebook cell: headline figures and an animated X-ray.

use std::fmt::Write as _;

use super::{begin, draw, end_of_runs, head, xray_section};
use crate::Run;
use crate::figures;

const FIGURES_MAX: usize = 2;
const STYLE: &str = "body{padding:2px;max-width:none}h1{display:none}footer{display:none}";

/// Returns a self-contained HTML page for an `iframe`: headline figures of `run`, and its animated X-ray or
/// else figures.
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
