use strobe_nand::NandOp;
use strobe_workload::files::fat::{Class, Recorded};

use super::measure::{LOG_VICTIMS, Outcome};
use super::pattern::{Pattern, is_metadata};
use super::results::{IN_PAPER, Results};
use super::{Absorbed, OFFSETS, SCHEMES, Workload, fit};
use crate::{Figure, Row, View};

pub(super) fn all(patterns: &[Pattern], results: &Results<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = patterns.iter().map(pattern).collect();
    figures.push(written(patterns));
    figures.extend(Workload::ALL.map(|workload| operations(results, workload)));
    figures.extend(Workload::ALL.map(|workload| times(results, workload)));
    figures.push(offsets(results));
    let absorbed = patterns.iter().find(|of| of.workload == Workload::Camera).map(Pattern::metadata_writes);
    figures.extend(fit::figures(results, absorbed.unwrap_or(0) as f64));
    figures.push(log_victims(results));
    figures.push(merge_cost(results));
    figures
}

/// Columns and lines of the pattern map.
const BINS: (u64, u64) = (64, 16);

/// Figure 1.
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
            rows.push(Row::new(&at, Some(count as f64)));
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

fn written(patterns: &[Pattern]) -> Figure {
    let mut rows = Vec::new();
    for pattern in patterns {
        let workload = pattern.workload.name();
        for class in Class::ALL {
            let count = pattern.writes().iter().filter(|write| write.class == class).count();
            let at = [("workload", workload), ("requests", class.name()), ("unit", "requests")];
            rows.push(Row::new(&at, Some(count as f64)));
        }
    }
    Figure::new(
        "written",
        "write requests by type",
        View::Bars { panel: &[], group: "workload", bar: "requests" },
        rows,
    )
    .noted("PostMark's bytes follow from its seed; Camera-MS500's sizes are drawn at random, as in the paper")
}

/// Figure 2.
fn operations(results: &Results<'_>, workload: Workload) -> Figure {
    let mut rows = Vec::new();
    for absorbed in [Absorbed::No, Absorbed::FileSystem] {
        for (name, op) in [("write", NandOp::Program), ("read", NandOp::Read), ("erase", NandOp::Erase)] {
            let count =
                |mapping| results.find(workload, mapping, absorbed).map(|of| of.operations(op) as f64);
            let base = count("replacement-block");
            for scheme in SCHEMES {
                let at = [
                    ("metadata", absorbed.name()),
                    ("operation", name),
                    ("scheme", scheme.label),
                    ("unit", "ratio"),
                ];
                let ratio = count(scheme.mapping).zip(base).filter(|(_, base)| *base > 0.0);
                rows.push(Row::new(&at, ratio.map(|(count, base)| count / base)));
            }
            let at =
                [("metadata", absorbed.name()), ("count of", name), ("unit", "operations of replacement")];
            rows.push(Row::new(&at, base));
        }
    }
    Figure::new(
        format!("2{}", workload.part()),
        format!("flash operations of {}, by scheme, normalised to replacement-block", workload.name()),
        View::Bars { panel: &["metadata"], group: "operation", bar: "scheme" },
        rows,
    )
    .noted("reads include out-of-band areas, through which replacement-block follows its chains")
}

/// Figure 3.
fn times(results: &Results<'_>, workload: Workload) -> Figure {
    let mut rows = Vec::new();
    for absorbed in [Absorbed::No, Absorbed::FileSystem, Absorbed::Device] {
        for scheme in SCHEMES {
            let at = [
                ("quantity", "execution time"),
                ("metadata", absorbed.name()),
                ("scheme", scheme.label),
                ("unit", "s"),
            ];
            rows.push(Row::new(&at, results.seconds(workload, scheme.mapping, absorbed)));
        }
    }
    for absorbed in [Absorbed::No, Absorbed::FileSystem, Absorbed::Device] {
        for scheme in SCHEMES {
            let at = [
                ("quantity", "of this, drive"),
                ("metadata", absorbed.name()),
                ("scheme", scheme.label),
                ("unit", "s"),
            ];
            let of = results.find(workload, scheme.mapping, absorbed);
            rows.push(Row::new(&at, of.map(Outcome::drive_seconds)));
        }
    }
    for scheme in SCHEMES {
        let at = [
            ("quantity", "times faster with metadata absorbed"),
            ("metadata", "gain"),
            ("scheme", scheme.label),
            ("unit", "times"),
        ];
        let row = Row::new(&at, results.gain(workload, scheme.mapping));
        // The paper gives gains of Camera-MS500 only.
        let paper = fit::GAINS.iter().find(|(mapping, _)| *mapping == scheme.mapping);
        rows.push(match paper.filter(|_| workload == Workload::Camera) {
            Some(&(_, gain)) => row.with_paper(gain),
            None => row,
        });
    }
    Figure::new(
        format!("3{}", workload.part()),
        format!("execution time of {}, by scheme", workload.name()),
        View::Bars { panel: &["quantity"], group: "metadata", bar: "scheme" },
        rows,
    )
    .noted(
        "before: all data goes to flash; after: the file system keeps metadata in 128 KB; by address: the drive keeps \
             the sectors before the first cluster, and every request costs host time",
    )
}

fn log_victims(results: &Results<'_>) -> Figure {
    let mut rows = Vec::new();
    for workload in Workload::ALL {
        for absorbed in [Absorbed::No, Absorbed::FileSystem] {
            let panel = format!("{}, {}", workload.name(), absorbed.name());
            let mut row = |scheme: &str, seconds| {
                let at = [("run", panel.as_str()), ("time of", "scheme"), ("scheme", scheme), ("unit", "s")];
                rows.push(Row::new(&at, seconds));
            };
            row("replacement", results.seconds(workload, "replacement-block", absorbed));
            for (name, victim) in LOG_VICTIMS {
                row(&format!("log-block, {name}"), results.with_victim(workload, victim, absorbed));
            }
            row("FAST", results.seconds(workload, "fast", absorbed));
        }
    }
    Figure::new(
        "log-victim",
        "execution time by the rule that picks the log block to merge",
        View::Bars { panel: &["run"], group: "time of", bar: "scheme" },
        rows,
    )
    .noted("the paper finds log-block slowest in PostMark before absorption, and fastest in Camera-MS500")
}

const MERGE_US: [f64; 6] = [0.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0];

fn merge_cost(results: &Results<'_>) -> Figure {
    let workload = Workload::Camera;
    let mut rows = Vec::new();
    for mapping in IN_PAPER {
        for us in MERGE_US {
            let of = results.find(workload, mapping, Absorbed::FileSystem);
            let merges = of.map(|of| of.merges.iter().sum::<u64>() as f64);
            let seconds =
                of.zip(merges).map(|(of, merges)| of.seconds(results.host_ns()) + merges * us / 1e6);
            rows.push(Row::new(&[("scheme", mapping), ("unit", "s")], seconds).at("merge_us", us));
        }
    }
    let after = |mapping| results.find(workload, mapping, Absorbed::FileSystem);
    // Time per request that would make log-block as slow as replacement-block.
    let table = after("replacement-block").zip(after("log-block")).map(|(replacement, log)| {
        let ahead = replacement.seconds(results.host_ns()) - log.seconds(results.host_ns());
        format!(
            ". The table: {:.0} µs more for each of log-block's requests would make both equally fast",
            1e6 * ahead / log.requests()
        )
    });
    Figure::new(
        "merge-cost",
        "Camera-MS500 after absorption, by the processor's time for a merge in µs",
        View::Curves { panel: &[], of: "scheme", over: "merge_us" },
        rows,
    )
    .noted(
        "the paper explains replacement-block's lead by the cost of log-block's table and of its second erase. Here a merge \
         of any scheme costs the same time; the number of merges decides"
            .to_owned()
            + table.as_deref().unwrap_or_default(),
    )
}

fn offsets(results: &Results<'_>) -> Figure {
    let workload = Workload::Camera;
    let mut rows = Vec::new();
    let seconds = |mapping, absorbed, offset| {
        results.at(workload, mapping, absorbed, offset).map(|of| of.seconds(results.host_ns()))
    };
    for offset in 0..OFFSETS {
        for scheme in SCHEMES.into_iter().filter(|scheme| scheme.in_paper) {
            for (metadata, absorbed) in [("before", Absorbed::No), ("after", Absorbed::FileSystem)] {
                // Smaller scales run some offsets only.
                let Some(value) = seconds(scheme.mapping, absorbed, offset) else { continue };
                let at = [("metadata", metadata), ("scheme", scheme.label), ("unit", "s")];
                rows.push(Row::new(&at, Some(value)).at("offset", f64::from(offset)));
            }
        }
    }
    Figure::new(
        "offsets",
        "execution time of Camera-MS500 by the partition's offset in an erase block, in sectors",
        View::Curves { panel: &["metadata"], of: "scheme", over: "offset" },
        rows,
    )
    .noted(
        "FAST closes its sequential log at every write to the first sector of a block: if a hot sector lies there, these \
             merges are wasted",
    )
}
