//! The paper's figures, all from the same runs.

use strobe_nand::NandOp;
use strobe_workload::files::fat::{Class, Recorded};

use super::measure::Measured;
use super::pattern::{Pattern, is_metadata};
use super::{Absorbed, OFFSETS, SCHEMES, Workload};
use crate::{Figure, Row, View};

pub(super) fn all(patterns: &[Pattern], measured: &[Measured]) -> Vec<Figure> {
    let results = Results { measured };
    let mut figures: Vec<Figure> = patterns.iter().map(pattern).collect();
    figures.push(written(patterns));
    figures.extend(Workload::ALL.map(|workload| operations(&results, workload)));
    figures.extend(Workload::ALL.map(|workload| times(&results, workload)));
    figures.push(offsets(&results));
    figures
}

struct Results<'a> {
    measured: &'a [Measured],
}

impl Results<'_> {
    /// The run without a partition offset.
    fn find(&self, workload: Workload, mapping: &str, absorbed: Absorbed) -> Option<&Measured> {
        self.at(workload, mapping, absorbed, 0)
    }

    fn at(&self, workload: Workload, mapping: &str, absorbed: Absorbed, offset: u32) -> Option<&Measured> {
        self.measured.iter().find(|of| {
            let cell = &of.cell;
            cell.workload == workload
                && cell.scheme.mapping == mapping
                && cell.absorbed == absorbed
                && cell.offset == offset
        })
    }

    fn seconds(&self, workload: Workload, mapping: &str, absorbed: Absorbed) -> Option<f64> {
        self.find(workload, mapping, absorbed).map(Measured::seconds)
    }

    /// How many times faster the workload is once metadata is absorbed.
    fn gain(&self, workload: Workload, mapping: &str) -> Option<f64> {
        Some(
            self.seconds(workload, mapping, Absorbed::No)?
                / self.seconds(workload, mapping, Absorbed::FileSystem)?,
        )
    }

    /// The longest time of the paper's schemes over the shortest.
    fn spread(&self, workload: Workload, absorbed: Absorbed) -> Option<f64> {
        let of_paper = SCHEMES.iter().filter(|scheme| scheme.in_paper);
        let times: Vec<f64> =
            of_paper.map(|scheme| self.seconds(workload, scheme.mapping, absorbed)).collect::<Option<_>>()?;
        Some(times.iter().copied().reduce(f64::max)? / times.iter().copied().reduce(f64::min)?)
    }
}

/// Columns and lines of the picture of a pattern.
const BINS: (u64, u64) = (64, 16);

/// Figure 1: which logical blocks are written when.
fn pattern(pattern: &Pattern) -> Figure {
    let mut rows = Vec::new();
    for absorbed in [Absorbed::No, Absorbed::FileSystem] {
        let writes: Vec<&Recorded> =
            pattern.writes().iter().filter(|write| absorbed == Absorbed::No || !is_metadata(write)).collect();
        let (columns, lines) = BINS;
        let (total, blocks) = (writes.len() as u64, 65_536 / u64::from(OFFSETS));
        let mut counts = vec![0u64; (columns * lines) as usize];
        for (at, write) in (0..).zip(&writes) {
            let block = write.sector / u64::from(OFFSETS);
            let (x, y) = (at * columns / total.max(1), block * lines / blocks);
            counts[(y.min(lines - 1) * columns + x.min(columns - 1)) as usize] += 1;
        }
        for (at, &count) in (0..).zip(&counts) {
            let request = (at % columns * total / columns).to_string();
            let block = (at / columns * blocks / lines).to_string();
            let at = [
                ("metadata", absorbed.name()),
                ("request", request.as_str()),
                ("logical_block", block.as_str()),
                ("unit", "writes"),
            ];
            rows.push(Row::shown(&at, Some(count as f64)));
        }
    }
    Figure::new(
        format!("1{}", pattern.workload.part()),
        format!("write references of {}, before and after metadata is absorbed", pattern.workload.name()),
        View::Map { of: "metadata", across: "request", up: "logical_block" },
        rows,
    )
    .noted("writes by request number (across) and logical block of 16 KB (up)")
}

/// What is written, beside what the paper says.
fn written(patterns: &[Pattern]) -> Figure {
    let mut rows = Vec::new();
    for pattern in patterns {
        let workload = pattern.workload.name();
        for class in Class::ALL {
            let count = pattern.writes().iter().filter(|write| write.class == class).count();
            let at = [("workload", workload), ("requests", class.name()), ("unit", "requests")];
            rows.push(Row::shown(&at, Some(count as f64)));
        }
    }
    for pattern in patterns {
        let (paper, workload) = (pattern.workload.paper_mb(), pattern.workload.name());
        let (unit, name) = match pattern.workload {
            Workload::Camera => (1e6, "MB"),
            Workload::PostMark => (f64::from(1 << 20), "MiB"),
        };
        let claim = format!("{workload}: bytes written to files");
        let at = [("claim", claim.as_str()), ("unit", name)];
        let band = match pattern.workload {
            Workload::Camera => [Some(paper * 0.97), Some(paper * 1.03)],
            Workload::PostMark => [Some(paper - 0.005), Some(paper + 0.005)],
        };
        rows.push(Row::judged(&at, Some(paper), Some(pattern.bytes as f64 / unit), band));
        let share = 100.0 * pattern.metadata_writes() as f64 / pattern.writes().len() as f64;
        let claim = format!("{workload}: requests that absorption saves");
        let at = [("claim", claim.as_str()), ("unit", "%")];
        rows.push(match pattern.workload {
            Workload::Camera => Row::judged(&at, None, Some(share), [Some(55.0), Some(65.0)]),
            Workload::PostMark => Row::shown(&at, Some(share)),
        });
    }
    Figure::new(
        "written",
        "write requests by what the file system writes",
        View::Table { down: &["workload"], across: "requests" },
        rows,
    )
    .noted("PostMark's bytes are those of its seed; Camera-MS500's sizes are drawn, as the paper's were")
}

/// Figure 2: flash operations, normalised to replacement-block.
fn operations(results: &Results<'_>, workload: Workload) -> Figure {
    let mut rows = Vec::new();
    for absorbed in [Absorbed::No, Absorbed::FileSystem] {
        for (name, op) in [("write", NandOp::Program), ("read", NandOp::Read), ("erase", NandOp::Erase)] {
            let count =
                |mapping| results.find(workload, mapping, absorbed).map(|of| of.stats.nand.total(op) as f64);
            let base = count("replacement-block");
            for scheme in SCHEMES {
                let at = [
                    ("metadata", absorbed.name()),
                    ("operation", name),
                    ("scheme", scheme.label),
                    ("unit", "ratio"),
                ];
                let ratio = count(scheme.mapping).zip(base).filter(|(_, base)| *base > 0.0);
                rows.push(Row::shown(&at, ratio.map(|(count, base)| count / base)));
            }
            let at = [
                ("metadata", absorbed.name()),
                ("operation", name),
                ("scheme", "replacement, count"),
                ("unit", "ratio"),
            ];
            rows.push(Row::shown(&at, base));
        }
    }
    Figure::new(
        format!("2{}", workload.part()),
        format!("flash operations of {}, by scheme, normalised to replacement-block", workload.name()),
        View::Table { down: &["metadata", "operation"], across: "scheme" },
        rows,
    )
    .noted("reads are of pages and of out-of-band areas, which replacement-block follows its chains by")
}

/// A time of a run.
type Seconds = fn(&Measured) -> f64;

/// Figure 3: execution times.
fn times(results: &Results<'_>, workload: Workload) -> Figure {
    let mut rows = Vec::new();
    for absorbed in [Absorbed::No, Absorbed::FileSystem, Absorbed::Device] {
        for (quantity, of) in
            [("time", Measured::seconds as Seconds), ("of this, drive", Measured::drive_seconds)]
        {
            for scheme in SCHEMES {
                let at = [
                    ("metadata", absorbed.name()),
                    ("quantity", quantity),
                    ("scheme", scheme.label),
                    ("unit", "s"),
                ];
                rows.push(Row::shown(&at, results.find(workload, scheme.mapping, absorbed).map(of)));
            }
        }
    }
    for scheme in SCHEMES {
        let at = [("metadata", "gain"), ("quantity", "time"), ("scheme", scheme.label), ("unit", "times")];
        rows.push(Row::shown(&at, results.gain(workload, scheme.mapping)));
    }
    rows.extend(match workload {
        Workload::Camera => camera_claims(results),
        Workload::PostMark => postmark_claims(results),
    });
    Figure::new(
        format!("3{}", workload.part()),
        format!("execution time of {}, by scheme", workload.name()),
        View::Table { down: &["metadata", "quantity"], across: "scheme" },
        rows,
    )
    .noted(
        "before: everything goes to flash; after: metadata stays in 128 KB of the file system's; by address: \
             the drive keeps what lies before the first cluster, and the host pays for every request",
    )
}

fn camera_claims(results: &Results<'_>) -> Vec<Row> {
    let workload = Workload::Camera;
    let gain = |mapping: &str, paper: f64, band: [f64; 2], why: &str| {
        let claim = format!("{mapping}: times faster with metadata absorbed");
        let at = [("claim", claim.as_str()), ("unit", "times")];
        let measured = results.gain(workload, mapping);
        Row::judged(&at, Some(paper), measured, [Some(band[0]), Some(band[1])]).because(why)
    };
    let spread = results.spread(workload, Absorbed::FileSystem);
    let at = [("claim", "after absorption: slowest of the three over fastest"), ("unit", "times")];
    let log_first = results
        .seconds(workload, "fast", Absorbed::No)
        .zip(results.seconds(workload, "log-block", Absorbed::No))
        .map(|(fast, log)| fast / log);
    let order = [("claim", "before: FAST over log-block, which the paper finds faster"), ("unit", "times")];
    vec![
        gain("replacement-block", 30.0, [20.0, 70.0], ""),
        gain("log-block", 3.2, [3.0, 4.5], ""),
        gain("fast", 6.6, [2.5, 7.0], ""),
        Row::judged(&at, None, spread, [Some(1.0), Some(1.2)]),
        Row::judged(&order, None, log_first, [Some(1.0), None]).because(
            "it depends on where the hot sectors lie in their erase blocks; see the figure on partition offsets",
        ),
    ]
}

fn postmark_claims(results: &Results<'_>) -> Vec<Row> {
    let workload = Workload::PostMark;
    let (before, after) =
        (results.spread(workload, Absorbed::No), results.spread(workload, Absorbed::FileSystem));
    let shrinks = before.zip(after).map(|(before, after)| before / after);
    let over = |absorbed, scheme: &str, others: [&str; 2]| {
        let time = |mapping: &str| results.seconds(workload, mapping, absorbed);
        let other = others.map(time).into_iter().collect::<Option<Vec<f64>>>()?;
        Some(other.into_iter().reduce(f64::min)? / time(scheme)?)
    };
    let row = |claim: &str, measured, band, why: &str| {
        Row::judged(&[("claim", claim), ("unit", "times")], None, measured, band).because(why)
    };
    let others = ["replacement-block", "log-block"];
    vec![
        row("slowest of the three over fastest: before against after", shrinks, [Some(1.0), None], ""),
        row(
            "before: best of the others over FAST, which the paper finds fastest",
            over(Absorbed::No, "fast", others),
            [Some(1.0), None],
            "",
        ),
        row(
            "after: best of the others over FAST, which the paper finds fastest",
            over(Absorbed::FileSystem, "fast", others),
            [Some(1.0), None],
            "after absorption the schemes differ by little",
        ),
        row(
            "before: log-block over replacement-block, which the paper finds faster",
            results
                .seconds(workload, "log-block", Absorbed::No)
                .zip(results.seconds(workload, "replacement-block", Absorbed::No))
                .map(|(log, replacement)| log / replacement),
            [Some(1.0), None],
            "a hot sector costs replacement-block an erase per write, log-block two in 32 writes; what made the \
             paper's log-block thrash is not known",
        ),
    ]
}

/// Camera-MS500 at all partition offsets.
fn offsets(results: &Results<'_>) -> Figure {
    let workload = Workload::Camera;
    let mut rows = Vec::new();
    let seconds =
        |mapping, absorbed, offset| results.at(workload, mapping, absorbed, offset).map(Measured::seconds);
    let (mut slower, mut all) = (0, 0);
    let mut gains: Vec<(&str, Vec<f64>)> =
        SCHEMES.iter().filter(|scheme| scheme.in_paper).map(|scheme| (scheme.mapping, Vec::new())).collect();
    for offset in 0..OFFSETS {
        let text = offset.to_string();
        for scheme in SCHEMES.into_iter().filter(|scheme| scheme.in_paper) {
            let before = seconds(scheme.mapping, Absorbed::No, offset);
            let after = seconds(scheme.mapping, Absorbed::FileSystem, offset);
            let Some((before, after)) = before.zip(after) else { continue };
            if let Some((_, gains)) = gains.iter_mut().find(|(mapping, _)| *mapping == scheme.mapping) {
                gains.push(before / after);
            }
            for (metadata, value) in [("before", before), ("after", after)] {
                let column = format!("{}, {metadata}", scheme.label);
                let at = [("offset", text.as_str()), ("run", column.as_str()), ("unit", "s")];
                rows.push(Row::shown(&at, Some(value)));
            }
        }
        let pair = seconds("fast", Absorbed::No, offset).zip(seconds("log-block", Absorbed::No, offset));
        if let Some((fast, log)) = pair {
            all += 1;
            slower += u32::from(fast > log);
        }
    }
    let share = (all > 0).then(|| 100.0 * f64::from(slower) / f64::from(all));
    let at = [("claim", "offsets at which FAST is slower than log-block before absorption"), ("unit", "%")];
    rows.push(Row::shown(&at, share));
    for (mapping, gains) in gains {
        for (name, pick) in [("least", f64::min as fn(f64, f64) -> f64), ("most", f64::max)] {
            let claim = format!("{mapping}: {name} gain over the offsets");
            let at = [("claim", claim.as_str()), ("unit", "times")];
            rows.push(Row::shown(&at, gains.iter().copied().reduce(pick)));
        }
    }
    Figure::new(
        "offsets",
        "execution time of Camera-MS500 by the partition's offset in an erase block, in sectors",
        View::Table { down: &["offset"], across: "run" },
        rows,
    )
    .noted(
        "FAST closes its sequential log with every write to the first sector of a block: where a hot sector \
             lies there, it merges for nothing",
    )
}
