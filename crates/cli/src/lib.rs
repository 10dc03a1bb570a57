//! Output of the `strobe` program: summaries, tables, charts, reference pages, files.
//!
//! The binary is a thin shell around this crate, [`strobe_lab`] and [`strobe_papers`].

mod chart;
pub mod output;
pub mod reference;
pub mod report;
