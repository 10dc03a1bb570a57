//! MiDAS (Oh et al., FAST 2024) on addresses run in its authors' simulator.
//!
//! The simulator keeps four segments erased and collects after a write. A drive with its streams keeps three
//! and collects before a write, so it has two blocks fewer. Simulator numbers are single runs: the search for
//! groups runs in a separate thread, and no two runs are equal.

use serde::Serialize;
use strobe_lab::points::Watch;
use strobe_ssd::{DriveConfig, GcMode, SchemeName};

use super::cells::{Cell, MIDAS};
use super::{Counter, Waf, unit_write};
use crate::figure::percent_more;
use crate::table::Values;
use crate::{Figure, Options, PaperError, Row, Scale, View};

/// Total write amplification in the simulator, by cell.
const PUBLISHED: [f64; MIDAS.len()] = [4.359, 5.116];

const UNITS: u32 = 1024;
/// Nine groups, the most in the simulator, and the four streams of its initial chain.
const STREAMS: u8 = 13;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    cell: &'static str,
    addresses: u32,
    rounds: u32,
    drive: DriveConfig,
    #[serde(skip)]
    source: Cell,
    #[serde(skip)]
    published: f64,
}

impl Point {
    pub(super) fn all(options: &Options) -> Result<Vec<Self>, PaperError> {
        let cells = MIDAS.into_iter().zip(PUBLISHED);
        cells.map(|(cell, published)| Self::new(options, cell, published)).collect()
    }

    fn new(options: &Options, cell: Cell, published: f64) -> Result<Self, PaperError> {
        let (blocks, rounds) = match options.scale {
            Scale::Full | Scale::Quick => (512, 27),
            Scale::Tiny => (256, 1),
        };
        // The flash has binary gigabytes, the addresses the same number of decimal ones.
        let addresses = u64::from(blocks * UNITS) * 1_000_000_000 / (1 << 30);
        let addresses = addresses as u32;
        let drive = crate::drive("generic-8g", options, |drive| {
            drive.nand.blocks_per_plane = blocks - 2;
            drive.nand.pages_per_block = UNITS;
            drive.nand.endurance_pe = 0;
            drive.ftl.logical_pages = Some(addresses);
            drive.ftl.placement.scheme = SchemeName::Midas.into();
            drive.ftl.placement.streams = STREAMS;
            drive.ftl.gc.mode = GcMode::StopTheWorld;
            drive.ftl.gc.victim = "midas".to_owned();
        })?;
        Ok(Self { cell: cell.name, addresses, rounds, drive, source: cell, published })
    }

    /// Write amplification including the fill.
    pub(super) fn measure(&self, seed: u64, watch: &dyn Watch) -> Result<Waf, PaperError> {
        let run = || format!("MiDAS {}", self.cell);
        let mut counter = Counter::new(&self.drive, None, seed, watch, &run)?;
        let writes = self.addresses as usize * self.rounds as usize;
        let fill = 0..self.addresses;
        counter.write(&mut fill.chain(self.source.addresses(self.addresses).take(writes)).map(unit_write))
    }
}

pub(super) fn figure(points: &[Point], wafs: &[Waf]) -> Figure {
    let rows = points.iter().zip(wafs).map(|(point, waf)| {
        let at = [
            ("writes", point.source.what),
            ("scheme", "MiDAS"),
            ("unit", "units programmed per unit written"),
        ];
        Row::new(&at, Some(waf.0)).with_paper(point.published)
    });
    Figure::new(
        "groups",
        "write amplification of MiDAS, whose groups adapt to the writes in number and size",
        View::Bars { panel: &[], group: "writes", bar: "scheme" },
        rows.collect(),
    )
    .noted("not in the paper: compared with its authors' simulator, one run each")
}

pub(super) fn measured(points: &[Point], wafs: &[Waf], values: &mut Values) {
    for (point, waf) in points.iter().zip(wafs) {
        values.add(point.cell, Some(percent_more(waf.0, point.published).abs()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "a minute long: make test-long"]
    fn both_cells_are_as_in_the_simulator_within_three_percent() {
        for point in Point::all(&Options::new(Scale::Full, 1)).unwrap() {
            let Waf(waf) = point.measure(1, &()).unwrap();
            println!("{:10} {waf:.4} {:.3}", point.cell, point.published);
            assert!(percent_more(waf, point.published).abs() < 3.0, "{}: {waf}", point.cell);
        }
    }
}
