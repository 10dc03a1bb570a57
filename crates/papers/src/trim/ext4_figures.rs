//! Figures 6 and 7, their sensitivity, and claims of the text.

use super::CLAIMS;
use super::RANGES;
use super::ext4::{BLOCKS_PERMILLE, Case, Results, SIZES_MAX_BYTES, Sends, TRIMS_US, UNLINKS_NS, Work};
use super::removal::{FASTER, Removal};
use crate::figure::reduced;
use crate::table::Values;
use crate::{Claim, Figure, Row, View};

pub(super) fn figures(results: &Results) -> Vec<Figure> {
    let Some(removal) = &results.removal else { return Vec::new() };
    let parts = [
        ("6", "PostMark on ext4, by ranges per TRIM command", &[Work::PmA, Work::PmB][..]),
        ("7", "deleting files on ext4, by ranges per TRIM command", &[Work::Delete][..]),
    ];
    let mut figures: Vec<Figure> = parts
        .into_iter()
        .map(|(figure, title, works)| part(results, removal.ns, figure, title, works))
        .collect();
    figures.extend([
        fit(removal),
        deletions(results),
        postmarks(results, removal.ns),
        spares(results, removal.ns),
    ]);
    figures
}

fn part(results: &Results, unlink_ns: u32, figure: &str, title: &str, works: &[Work]) -> Figure {
    let mut rows = Vec::new();
    for quantity in ["time", "TRIM commands", "TRIM ranges", "time of TRIM"] {
        // The paper deletes with 16 threads; its figure is compared with one program and with 16 programs.
        let by_16 = works.contains(&Work::Delete).then(|| Case::at_once(unlink_ns));
        let cases = works.iter().flat_map(|&work| Case::of(work, unlink_ns));
        for case in cases.chain(by_16.into_iter().flatten()) {
            let of = results.find(case);
            let (unit, value) = match quantity {
                "time" => ("s", of.map(|of| of.ns / 1e9)),
                "TRIM commands" => ("commands", of.map(|of| of.commands)),
                "TRIM ranges" => ("ranges", of.map(|of| of.ranges)),
                _ => ("s", of.map(|of| of.trim_ns / 1e9)),
            };
            let bar = match case.sends {
                Sends::AtCommit => case.ranges.to_string(),
                sends => format!("{} {}", case.ranges, sends.name()),
            };
            let at = [
                ("quantity", quantity),
                ("workload", case.work.name()),
                ("ranges", bar.as_str()),
                ("unit", unit),
            ];
            rows.push(Row::new(&at, value));
        }
    }
    Figure::new(figure, title, View::Bars { panel: &["quantity"], group: "workload", bar: "ranges" }, rows).noted(
        "plain numbers: discards batched by the patched kernel, and the commit waits for them, as in the paper; others: a \
         current kernel, which sends them in the background",
    )
}

fn fit(removal: &Removal) -> Figure {
    let row = |of: &str, (ns, faster): (u32, f64)| {
        let at = [("what", of), ("unit", "% more deletions")];
        Row::new(&at, Some(faster)).at("unlink_us", f64::from(ns) / 1e3)
    };
    let single = removal.tried.iter().map(|&of| row("one run", of));
    let rows = single.chain(removal.means().into_iter().map(|of| row("mean of three", of))).collect();
    Figure::new(
        "fit-removal",
        "deletions at 64 ranges against 1, by removal time",
        View::Curves { panel: &[], of: "what", over: "unlink_us" },
        rows,
    )
    .noted(format!("the paper: {FASTER} %; the mean of three crosses it at {} µs", removal.ns / 1000))
}

fn deletions(results: &Results) -> Figure {
    let mut rows = Vec::new();
    for trim_us in TRIMS_US {
        for unlink_ns in UNLINKS_NS {
            let name = format!("{trim_us} µs a command");
            let at = [("command", name.as_str()), ("unit", "% more deletions")];
            let faster = results.faster(Case::deletions(trim_us, unlink_ns));
            rows.push(Row::new(&at, faster).at("unlink_us", f64::from(unlink_ns) / 1e3));
        }
    }
    Figure::new(
        "grid-delete",
        "deletions at 64 ranges against 1, by removal time of the host and command time of the drive",
        View::Curves { panel: &[], of: "command", over: "unlink_us" },
        rows,
    )
    .noted("the paper: 35 %. For each command time some removal time gives it, so only one number is fitted")
}

fn postmarks(results: &Results, unlink_ns: u32) -> Figure {
    let mut rows = Vec::new();
    for trim_us in TRIMS_US {
        for size in SIZES_MAX_BYTES {
            let name = format!("{trim_us} µs a command");
            let at = [("command", name.as_str()), ("unit", "% of the time saved")];
            let saved = results.saved(Case::postmarks(trim_us, size, unlink_ns));
            rows.push(Row::new(&at, saved).at("largest_file_kb", f64::from(size) / 1e3));
        }
    }
    Figure::new(
        "grid-postmark",
        "PM-A at 64 ranges against 1, by the size of the largest file",
        View::Curves { panel: &[], of: "command", over: "largest_file_kb" },
        rows,
    )
    .noted("the paper: about 10 %. Its file sizes are not legible in our copy. One seed each, thirty for the middle point")
}

fn spares(results: &Results, unlink_ns: u32) -> Figure {
    // The paper says that results depend on the spare space.
    let mut rows = Vec::new();
    for (blocks, spare) in BLOCKS_PERMILLE.into_iter().zip(["4 %", "7.4 %", "15 %"]) {
        let ([one, most], without) = (Case::spares(blocks, unlink_ns), Case::without(blocks, unlink_ns));
        let mut row = |quantity, unit, value| {
            rows.push(Row::new(&[("spare space", spare), ("quantity", quantity), ("unit", unit)], value));
        };
        row("time saved at 64 ranges", "%", results.saved([one, most]));
        row("time saved by TRIM", "%", results.saved([without, most]));
        for (quantity, case) in
            [("copies without TRIM", without), ("copies with 1 range", one), ("copies with 64 ranges", most)]
        {
            row(quantity, "mapping units", results.find(case).map(|of| of.copied));
        }
    }
    Figure::new(
        "spare",
        "PM-A on a full drive, by its spare space",
        View::Table { down: &["spare space"], across: "quantity" },
        rows,
    )
    .noted("the whole drive was written in order and overwritten once at random; mkfs does not discard it. Three runs each")
}

pub(super) fn claims(results: &Results) -> Vec<Claim> {
    let unlink_ns = results.removal.as_ref().map_or(0, |removal| removal.ns);
    let commit = |work, ranges| Case::new(work, ranges, Sends::AtCommit, unlink_ns);
    let both = |work| [commit(work, 1), commit(work, 64)];
    let (a, b) = (results.saved(both(Work::PmA)), results.saved(both(Work::PmB)));
    let scatter = [Work::PmA, Work::PmB].map(|work| results.saved_error(both(work)));
    // The runs of PM-A and PM-B are independent, so their errors add in squares.
    let of_difference = scatter[0].zip(scatter[1]).map(|(a, b)| libm::hypot(a, b));
    let steps = |work| {
        RANGES.windows(2).map(move |pair| results.trim_saved([commit(work, pair[0]), commit(work, pair[1])]))
    };
    let commands = both(Work::Delete).map(|case| results.find(case).map(|of| of.commands));
    let mut values = Values::default();
    values.text("unlink_us", (unlink_ns / 1000).to_string());
    values.add_with_error("pm-a-saved", a, scatter[0]);
    values.add_with_error("pm-a-over-pm-b", a.zip(b).map(|(a, b)| a - b), of_difference);
    for (name, work) in [("pm-a", Work::PmA), ("pm-b", Work::PmB), ("delete", Work::Delete)] {
        values.add(&format!("{name} steps"), reduced(steps(work), f64::min));
    }
    let stock = results.find(Case::new(Work::PmA, 64, Sends::Stock, unlink_ns));
    values.add("stock-ranges", stock.map(|of| of.ranges / of.commands));
    let saved = BLOCKS_PERMILLE.map(|blocks| results.saved(Case::spares(blocks, unlink_ns)));
    // If spare space decided the gain, the gains would differ by more than the tolerance.
    let (least, most) = (reduced(saved, f64::min), reduced(saved, f64::max));
    values.add("spare-decides", most.zip(least).map(|(most, least)| most - least));
    let copied = |case| results.find(case).map(|of| of.copied).filter(|&copied| copied > 0.0);
    let [_, most] = Case::spares(BLOCKS_PERMILLE[1], unlink_ns);
    let copies = copied(Case::without(BLOCKS_PERMILLE[1], unlink_ns)).zip(copied(most));
    values.add("copies-saved", copies.map(|(without, with)| 100.0 * (1.0 - with / without)));
    values.add("delete-faster", results.faster(both(Work::Delete)));
    values.add("delete-faster-by-16", results.faster(Case::at_once(unlink_ns)));
    values.add("delete-time", results.saved(both(Work::Delete)));
    values.add("delete-commands", commands[0].zip(commands[1]).map(|(one, most)| 100.0 * most / one));
    values.judged(CLAIMS, results.missing)
}
