//! 2R (Kang et al., PVLDB 2020) on addresses run in SSD-iq's simulator (Haas et al., PVLDB 2025).
//!
//! The simulator compacts victims in place and keeps no block erased. A drive keeps two, so it has two more
//! blocks.

use serde::Serialize;
use strobe_lab::points::Watch;
use strobe_ssd::{DriveConfig, GcMode, GcStream, SchemeName};

use super::cells::{Cell, SSD_IQ};
use super::{Counter, UNITS, Waf, unit_write};
use crate::figure::{percent_more, reduced};
use crate::table::Values;
use crate::{Figure, Options, PaperError, Row, Scale, View};

/// A scheme of the simulator. `published` is its write amplification there, by cell.
struct Scheme {
    label: &'static str,
    scheme: SchemeName,
    stream: GcStream,
    victim: &'static str,
    published: [f64; SSD_IQ.len()],
}

const fn scheme(
    label: &'static str,
    scheme: SchemeName,
    stream: GcStream,
    victim: &'static str,
    published: [f64; SSD_IQ.len()],
) -> Scheme {
    Scheme { label, scheme, stream, victim, published }
}

const SCHEMES: [Scheme; 4] = [
    scheme("greedy", SchemeName::None, GcStream::Host, "greedy", [4.136, 5.159, 5.086]),
    scheme("greedy-s2r", SchemeName::SepGc, GcStream::Own, "greedy", [4.162, 4.424, 4.683]),
    scheme("2r-greedy", SchemeName::TwoR, GcStream::Own, "2r-greedy", [4.162, 4.427, 4.384]),
    scheme("2r-fifo", SchemeName::TwoR, GcStream::Own, "2r-fifo", [4.178, 3.946, 2.549]),
];

/// Share of the simulator's flash filled by the addresses, in eighths.
const FILL: u32 = 7;
/// Erased blocks that a drive keeps.
const KEPT: u32 = 2;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    label: &'static str,
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
        let of_scheme = |scheme: &'static Scheme| {
            let cells = SSD_IQ.into_iter().zip(scheme.published);
            cells.map(move |(cell, published)| Self::new(options, scheme, cell, published))
        };
        SCHEMES.iter().flat_map(of_scheme).collect()
    }

    fn new(options: &Options, scheme: &Scheme, cell: Cell, published: f64) -> Result<Self, PaperError> {
        let (blocks, rounds) = match options.scale {
            Scale::Full | Scale::Quick => (512, 15),
            Scale::Tiny => (64, 1),
        };
        let addresses = blocks * UNITS / 8 * FILL;
        let drive = crate::drive("generic-8g", options, |drive| {
            drive.nand.blocks_per_plane = blocks + KEPT;
            drive.nand.pages_per_block = UNITS;
            drive.nand.endurance_pe = 0;
            drive.ftl.logical_pages = Some(addresses);
            drive.ftl.placement.scheme = scheme.scheme.into();
            drive.ftl.gc.mode = GcMode::StopTheWorld;
            drive.ftl.gc.stream = scheme.stream;
            drive.ftl.gc.victim = scheme.victim.to_owned();
        })?;
        let (label, source) = (scheme.label, cell);
        Ok(Self { label, cell: cell.name, addresses, rounds, drive, source, published })
    }

    /// Write amplification after the fill.
    pub(super) fn measure(&self, seed: u64, watch: &dyn Watch) -> Result<Waf, PaperError> {
        let run = || format!("{} {}", self.label, self.cell);
        let mut counter = Counter::new(&self.drive, None, seed, watch, &run)?;
        counter.write(&mut (0..self.addresses).map(unit_write))?;
        let writes = self.addresses as usize * self.rounds as usize;
        counter.write(&mut self.source.addresses(self.addresses).take(writes).map(unit_write))
    }
}

pub(super) fn figure(points: &[Point], wafs: &[Waf]) -> Figure {
    let rows = points.iter().zip(wafs).map(|(point, waf)| {
        let at = [
            ("writes", point.source.what),
            ("scheme", point.label),
            ("unit", "units programmed per unit written"),
        ];
        Row::new(&at, Some(waf.0)).with_paper(point.published)
    });
    Figure::new(
        "two-regions",
        "write amplification of 2R, with separate collection of blocks of the host and of relocation",
        View::Bars { panel: &[], group: "writes", bar: "scheme" },
        rows.collect(),
    )
    .noted("not in the paper: compared with SSD-iq's simulator, on a drive with two more blocks, which it keeps erased")
}

pub(super) fn measured(points: &[Point], wafs: &[Waf], values: &mut Values) {
    for scheme in &SCHEMES {
        let of_scheme = points.iter().zip(wafs).filter(|(point, _)| point.label == scheme.label);
        let off = of_scheme.map(|(point, waf)| Some(percent_more(waf.0, point.published).abs()));
        values.add(&format!("ssd-iq {}", scheme.label), reduced(off, f64::max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "a minute long: make test-long"]
    fn every_cell_is_as_in_the_simulator_within_half_a_percent() {
        let points = Point::all(&Options::new(Scale::Full, 1)).unwrap();
        for point in points {
            let Waf(waf) = point.measure(1, &()).unwrap();
            println!("{:10} {:6} {waf:.4} {:.3}", point.label, point.cell, point.published);
            assert!(percent_more(waf, point.published).abs() < 0.5, "{} {}: {waf}", point.label, point.cell);
        }
    }
}
