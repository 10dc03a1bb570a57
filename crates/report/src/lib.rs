//! Results as figures: a self-contained HTML page, or one SVG file per figure.
//!
//! [`Run::read`] reads the output of `strobe run --json`. [`page`] makes the page of one or several results,
//! [`pictures`] a file per figure. This crate does no file I/O. It does not trust results: texts are escaped,
//! invalid numbers left out, long texts cut.
//!
//! [`collection`] makes the page of many related runs, from tables and [`Chart`]s of their means.
//! [`Panels`] are figures of other comparisons: bars, curves, rows, maps.
//!
//! `figures/` chooses the data, `plot/` draws it, `page/` assembles the page; `xray.rs` shows the drive block
//! by block. `scripts/report_browser.py` opens a page in a browser and checks it.

mod chart;
mod figures;
mod page;
mod panels;
mod paper;
mod pdf;
mod plot;
mod run;
mod text;
mod xray;
mod xray_picture;

pub use chart::{Chart, Curve, Mean};
pub use figures::{NothingInCommon, have_common};
pub use page::{Collection, Table, cell, collection, crash_page, page};
pub use panels::{Compared, Panel, Panels, Series, Shape};
pub use pdf::{PaperError, grey, pdf, sized};
pub use run::{ReadError, Run};

use plot::Figure;

/// A figure as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// File name without ".svg", of letters, digits and dashes.
    pub name: String,
    /// Content of the file.
    pub svg: String,
}

/// All figures of `runs` as files, black on white. X-rays show the first, middle and last frame.
pub fn pictures(runs: &[Run]) -> Vec<Picture> {
    let files = |figure: Figure| {
        let name = figure.name;
        figure.views.into_iter().enumerate().map(move |(at, view)| Picture {
            name: if at == 0 { name.to_string() } else { format!("{name}-{}", view.label.replace(' ', "-")) },
            svg: paper::standalone(&view.svg),
        })
    };
    let mut pictures: Vec<Picture> = figures::all(runs).into_iter().flat_map(files).collect();
    pictures.extend(xray_picture::pictures(runs));
    pictures
}
