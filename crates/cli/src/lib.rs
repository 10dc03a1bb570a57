//! Output of the `strobe` program: summaries, tables, pictures, pages of keys, files.
//!
//! The program itself is the thin shell around this, [`strobe_lab`] and [`strobe_papers`].

mod chart;
pub mod output;
pub mod reference;
pub mod report;
