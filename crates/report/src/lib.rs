//! Results as pictures: one page of HTML that needs nothing else, or each figure as an SVG file.
//!
//! [`Run::read`] takes what `strobe run --json` has written, [`page`] makes the page of one or several of them, [`pictures`]
//! the files. Nothing here reads or writes files, and nothing of a result is trusted: texts are escaped, numbers that are
//! none are left out, what is too long is cut.
//!
//! [`collection`] makes the page of many runs that belong together, from tables and [`Chart`]s of their means.
//! [`Panels`] are figures of anything else that is compared: bars, curves, rows, maps.
//!
//! `figures/` says what is shown, `plot/` draws it, `page/` puts it together; `xray.rs` is the drive, block by block.

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
pub use pdf::{PaperError, pdf, sized};
pub use run::{ReadError, Run};

use plot::Figure;

/// A figure as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Its name, of letters, digits and dashes; a file adds ".svg".
    pub name: String,
    /// The whole file.
    pub svg: String,
}

/// Every figure of `runs`, each a file of its own, black on white; of X-rays the first, the middle and the last frame.
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
