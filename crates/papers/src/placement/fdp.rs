//! Placement handles under the loads of two published measurements: CacheLib's two engines (Allen et al.,
//! EuroSys 2025) and the three streams of WARP's archive.
//!
//! CacheLib was measured on a real drive; its spare space and the split of writes between engines are not
//! published. WARP was measured on an emulator, with its traffic in the archive. In this module every drive
//! has a tenth of spare space, and CacheLib's split is fitted to one of its four numbers.

use serde::Serialize;
use strobe_lab::points::Watch;
use strobe_ssd::{DriveConfig, GcMode, Isolation, SchemeName};
use strobe_types::Request;

use super::cells::SplitMix;
use super::{Counter, UNITS, Waf, unit_write};
use crate::table::Values;
use crate::{Figure, Options, PaperError, Row, Scale, View};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Draw {
    /// Sequential, wrapping.
    Log,
    Uniform,
    /// Zones: share of the writes and share of the range, in percent.
    Zones(&'static [(u32, u32)]),
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Share of all writes, in percent.
    share: u32,
    /// Start and end of the address range, in percent of all addresses.
    range: (u32, u32),
    draw: Draw,
    handle: u16,
}

#[derive(Clone, Copy, Debug)]
struct Load {
    name: &'static str,
    what: &'static str,
    streams: &'static [Stream],
}

/// Share of small-object writes in percent, fitted to the drive without FDP at 4 %.
const SMALL: u32 = 30;

const LOADS: [Load; 3] = [
    Load {
        name: "cachelib 4",
        what: "CacheLib, small objects on 4 %",
        streams: &[
            Stream { share: SMALL, range: (0, 4), draw: Draw::Uniform, handle: 1 },
            Stream { share: 100 - SMALL, range: (4, 100), draw: Draw::Log, handle: 0 },
        ],
    },
    Load {
        name: "cachelib 20",
        what: "CacheLib, small objects on 20 %",
        streams: &[
            Stream { share: SMALL, range: (0, 20), draw: Draw::Uniform, handle: 1 },
            Stream { share: 100 - SMALL, range: (20, 100), draw: Draw::Log, handle: 0 },
        ],
    },
    Load {
        name: "warp",
        what: "WARP, three streams",
        streams: &[
            Stream { share: 61, range: (0, 90), draw: Draw::Log, handle: 0 },
            Stream { share: 20, range: (90, 100), draw: Draw::Uniform, handle: 1 },
            Stream {
                share: 19,
                range: (0, 90),
                draw: Draw::Zones(&[(80, 20), (10, 20), (10, 60)]),
                handle: 2,
            },
        ],
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
enum Naming {
    /// A handle per stream.
    Own,
    /// The third stream shares the handle of the first.
    Shared,
    Without,
}

impl Naming {
    fn of(self, handle: u16) -> u16 {
        match self {
            Self::Own => handle,
            Self::Shared => handle % 2,
            Self::Without => 0,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Own => "own handles",
            Self::Shared => "two share one",
            Self::Without => "without FDP",
        }
    }
}

/// Write amplification measured on real drives (CacheLib) or an emulator (WARP), over the last quarter.
const PUBLISHED: [(&str, Naming, f64); 7] = [
    ("cachelib 4", Naming::Own, 1.02),
    ("cachelib 4", Naming::Without, 3.54),
    ("cachelib 20", Naming::Own, 1.18),
    ("cachelib 20", Naming::Without, 2.72),
    ("warp", Naming::Own, 2.26),
    ("warp", Naming::Shared, 3.71),
    ("warp", Naming::Without, 4.14),
];

/// Spare space as a share of the addresses.
const SPARE: f64 = 0.1;

#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    load: &'static str,
    naming: Naming,
    small: u32,
    addresses: u32,
    rounds: u32,
    drive: DriveConfig,
    #[serde(skip)]
    streams: &'static [Stream],
}

impl Point {
    pub(super) fn all(options: &Options) -> Result<Vec<Self>, PaperError> {
        let published = PUBLISHED.iter();
        published.map(|&(load, naming, _)| Self::new(options, load, naming)).collect()
    }

    fn new(options: &Options, load: &str, naming: Naming) -> Result<Self, PaperError> {
        let load = LOADS.iter().find(|known| known.name == load).expect("a load of the table");
        let (addresses, rounds) = match options.scale {
            Scale::Full | Scale::Quick => (1 << 18, 16),
            Scale::Tiny => (1 << 15, 2),
        };
        let drive = crate::drive("generic-8g", options, |drive| {
            let blocks = addresses / UNITS;
            drive.nand.blocks_per_plane = ((f64::from(blocks) * (1.0 + SPARE)) as u32).max(blocks + 8);
            drive.nand.pages_per_block = UNITS;
            drive.nand.endurance_pe = 0;
            drive.ftl.logical_pages = Some(addresses);
            drive.ftl.placement.scheme = SchemeName::Handles.into();
            drive.ftl.placement.handles = load.streams.len() as u8;
            drive.ftl.placement.isolation = Isolation::Initial;
            drive.ftl.gc.mode = GcMode::StopTheWorld;
        })?;
        let (name, streams) = (load.name, load.streams);
        Ok(Self { load: name, naming, small: SMALL, addresses, rounds, drive, streams })
    }

    /// Write amplification over the last quarter of the writes.
    pub(super) fn measure(&self, seed: u64, watch: &dyn Watch) -> Result<Waf, PaperError> {
        let run = || format!("{} {}", self.load, self.naming.name());
        let mut counter = Counter::new(&self.drive, None, seed, watch, &run)?;
        let mut writes = Writes::new(self, seed);
        let quarter = self.addresses as usize * self.rounds as usize / 4;
        counter.write(&mut writes.by_ref().take(3 * quarter))?;
        counter.write(&mut writes.by_ref().take(quarter))
    }
}

/// Writes of all streams, interleaved at random.
struct Writes {
    streams: &'static [Stream],
    naming: Naming,
    addresses: u32,
    random: SplitMix,
    /// Next offset of each sequential stream in its range.
    next: Vec<u32>,
}

impl Writes {
    fn new(point: &Point, seed: u64) -> Self {
        let &Point { streams, naming, addresses, .. } = point;
        Self { streams, naming, addresses, random: SplitMix::new(seed), next: vec![0; streams.len()] }
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.random.below(bound as usize) as u32
    }
}

impl Iterator for Writes {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let mut drawn = self.below(100);
        // Draw the stream by its share of the writes.
        let at = self.streams.iter().position(|stream| {
            let is_it = drawn < stream.share;
            drawn = drawn.saturating_sub(stream.share);
            is_it
        })?;
        let stream = self.streams[at];
        let percent = |share: u32| (u64::from(self.addresses) * u64::from(share) / 100) as u32;
        let (first, end) = (percent(stream.range.0), percent(stream.range.1));
        let units = end - first;
        let place = match stream.draw {
            Draw::Log => {
                let place = self.next[at];
                self.next[at] = (place + 1) % units;
                place
            }
            Draw::Uniform => self.below(units),
            Draw::Zones(zones) => {
                // Draw the zone by its share of the writes, then an address within it.
                let (mut drawn, mut zone_first) = (self.below(100), 0);
                let mut zone_units = 0;
                for &(writes, range) in zones {
                    zone_first += zone_units;
                    zone_units = (u64::from(units) * u64::from(range) / 100) as u32;
                    if drawn < writes {
                        break;
                    }
                    drawn -= writes;
                }
                zone_first + self.below(zone_units)
            }
        };
        Some(unit_write(first + place).placed(self.naming.of(stream.handle)))
    }
}

pub(super) fn figure(points: &[Point], wafs: &[Waf]) -> Figure {
    let rows = points.iter().zip(wafs).zip(PUBLISHED).map(|((point, waf), (.., published))| {
        let load = LOADS.iter().find(|load| load.name == point.load).map_or("", |load| load.what);
        let at =
            [("load", load), ("handles", point.naming.name()), ("unit", "units programmed per unit written")];
        Row::new(&at, Some(waf.0)).with_paper(published)
    });
    Figure::new(
        "fdp",
        "write amplification with placement handles (FDP) and without",
        View::Bars { panel: &[], group: "load", bar: "handles" },
        rows.collect(),
    )
    .noted("not in the paper: CacheLib's and WARP's loads, on a drive with a tenth of spare space")
}

pub(super) fn measured(points: &[Point], wafs: &[Waf], values: &mut Values) {
    for (point, waf) in points.iter().zip(wafs) {
        values.add(&format!("{} {}", point.load, point.naming.name()), Some(waf.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_hit_their_ranges_as_often_as_they_say() {
        let options = Options::new(Scale::Tiny, 1);
        let point = Point::new(&options, "warp", Naming::Own).unwrap();
        let mut counts = [0_u32; 3];
        let mut hottest = 0;
        for request in Writes::new(&point, 1).take(100_000) {
            let handle = usize::from(request.handle);
            counts[handle] += 1;
            let unit = request.lba.get() / 8;
            let is_last_tenth = unit >= u64::from(point.addresses) * 9 / 10;
            assert_eq!(is_last_tenth, handle == 1, "unit {unit} of handle {handle}");
            hottest += u32::from(handle == 2 && unit < u64::from(point.addresses) * 18 / 100);
        }
        let shares = counts.map(|count| (count + 500) / 1000);
        assert_eq!(shares, [61, 20, 19]);
        let zone = f64::from(hottest) / f64::from(counts[2]);
        assert!((zone - 0.8).abs() < 0.01, "{zone} of the zoned writes to a fifth of the range");
    }
}
