//! Report on a paper: a screen with one line per claim, all tables, or a page with figures.

mod html;
mod map;
mod picture;
mod table;

use std::fmt::Write as _;

use strobe_papers::{Band, Claim, PaperResult, Quote, Verdict};

use super::broken;
use crate::chart::WIDTH;

pub use html::page;
pub use picture::svg;

const MORE: &str = "--full prints all tables; --out DIR writes a page with figures, and CSV";

/// Claims and tally, for one screen. A reason is printed once, below the consecutive claims it applies to.
/// Three or more claims not run for the same reason share one line.
pub fn screen(result: &PaperResult) -> String {
    let is_left_out =
        |a: &Claim, b: &Claim| a.verdict == Verdict::NotRun && (&b.verdict, &b.why) == (&a.verdict, &a.why);
    let groups = result.claims.chunk_by(is_left_out);
    let lines = groups.flat_map(|group| match group {
        [_, _, _, ..] => vec![left_out(group)],
        few => few.iter().map(line).collect(),
    });
    format!("{}\n{MORE}", listed(result, &lines.collect::<Vec<_>>()))
}

fn listed(result: &PaperResult, lines: &[[String; 5]]) -> String {
    let mut out = scale(result);
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let [verdicts, papers, ours] = [width(0), width(2).max(5), width(3).max(4)];
    let claims = WIDTH.saturating_sub(verdicts + papers + ours + 6).max(20);
    let mut put = |cells: [&str; 4]| {
        let [verdict, claim, paper, our] = cells;
        let mut parts = broken(claim, claims - 2).into_iter();
        let first = parts.next().unwrap_or_default();
        let text = format!("{verdict:verdicts$}  {first:claims$}  {paper:>papers$}  {our:>ours$}");
        let _ = writeln!(out, "{}", text.trim_end());
        for part in parts {
            let _ = writeln!(out, "{:verdicts$}    {part}", "");
        }
    };
    put(["", "", "paper", "ours"]);
    for (at, [verdict, claim, paper, our, why]) in lines.iter().enumerate() {
        put([verdict, claim, paper, our]);
        // The reason follows the last of consecutive claims that share it.
        let is_last = lines.get(at + 1).is_none_or(|next| (&next[0], &next[4]) != (verdict, why));
        if is_last && !why.is_empty() {
            for part in broken(why, WIDTH - verdicts - 4) {
                put([&format!("{:verdicts$}    {part}", ""), "", "", ""]);
            }
        }
    }
    let _ = write!(out, "\n{}", tally(result));
    out
}

fn scale(result: &PaperResult) -> String {
    let said = result
        .notes
        .iter()
        .filter(|note| ["QUICK", "TINY", "NOT THE PAPER'S"].iter().any(|word| note.starts_with(word)));
    let mut out: String = said.map(|note| format!("{note}\n")).collect();
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

fn line(claim: &Claim) -> [String; 5] {
    let same = band(&claim.band);
    let why = match claim.why.as_str() {
        "" if same.is_empty() => String::new(),
        "" => format!("band: {same}"),
        why => why.to_owned(),
    };
    let name = format!("{} {}", claim.place, claim.claim);
    let unit = if claim.unit.is_empty() { String::new() } else { format!(" {}", claim.unit) };
    let paper = claim.paper.map_or_else(|| "-".to_owned(), |value| number(Some(value)));
    let error = claim.error.map(|error| format!(" ± {}", number(Some(error)))).unwrap_or_default();
    let our = match claim.measured {
        Some(_) => format!("{}{error}{unit}", number(claim.measured)),
        None => "-".to_owned(),
    };
    [claim.verdict.name().to_owned(), name, paper, our, why]
}

fn left_out(claims: &[Claim]) -> [String; 5] {
    let mut places: Vec<&str> = claims.iter().map(|claim| &*claim.place).collect();
    places.dedup();
    let text = format!("{} claims of {} (--full names them)", claims.len(), places.join(", "));
    let why = claims.first().map(|claim| claim.why.clone()).unwrap_or_default();
    [Verdict::NotRun.name().to_owned(), text, String::new(), String::new(), why]
}

fn tally(result: &PaperResult) -> String {
    let counted = |counts: bool, are_numbers: &[bool]| {
        let of = |verdict: Verdict| {
            let count: usize = are_numbers.iter().map(|&are| result.tally(verdict, are)).sum();
            (count, format!("{count} {}", verdict.name()))
        };
        let (counts, texts): (Vec<usize>, Vec<String>) = Verdict::ALL
            .iter()
            .filter(|verdict| verdict.counts() == counts)
            .map(|&verdict| of(verdict))
            .unzip();
        (counts.iter().sum::<usize>(), texts.join(", "))
    };
    let [(numbers, of_numbers), (directions, of_directions)] = [true, false].map(|are| counted(true, &[are]));
    format!(
        "{} claims: seed {}, strobe {}\n  {numbers} numbers: {of_numbers}\n  {directions} directions: {of_directions}\n  \
         not counted: {}",
        numbers + directions,
        result.seed,
        result.strobe_version,
        counted(false, &[true, false]).1
    )
}

/// Everything: notes, claims with their bands, and all figures as tables.
pub fn full(result: &PaperResult) -> String {
    let mut out = String::new();
    for note in &result.notes {
        let _ = writeln!(out, "- {note}");
    }
    let lines: Vec<_> = result.claims.iter().map(line).collect();
    let _ = write!(out, "\n{}\n", listed(result, &lines));
    let _ = writeln!(out, "\nAccepted bands:");
    for claim in &result.claims {
        let was = claim.band.was.as_deref().map(|was| format!(" (was {was})")).unwrap_or_default();
        let _ = writeln!(
            out,
            "  {} {}: {} {}{was}; {}",
            claim.place,
            claim.claim,
            band(&claim.band),
            claim.unit,
            claim.band.reason
        );
        if let Some(Quote { section, original, translation }) = &claim.quote {
            let _ = writeln!(out, "    section {section}: {original}\n    ({translation})");
        }
    }
    for figure in &result.figures {
        let _ = write!(out, "\n{}", table::figure(figure));
    }
    out.trim_end().to_owned()
}

fn band(band: &Band) -> String {
    match (band.low, band.high) {
        (Some(low), Some(high)) if low == high => number(Some(low)),
        (Some(low), Some(high)) => format!("{} to {}", number(Some(low)), number(Some(high))),
        (Some(low), None) => format!("from {}", number(Some(low))),
        (None, Some(high)) => format!("up to {}", number(Some(high))),
        (None, None) => String::new(),
    }
}

fn name(figure: &str) -> String {
    if figure.starts_with(|c: char| c.is_ascii_digit()) {
        format!("Figure {figure}")
    } else {
        figure.to_owned()
    }
}

/// Three or four digits: all before the point, and at least two after it below 1000.
fn number(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    match value.abs() {
        _ if value == value.trunc() => format!("{value:.0}"),
        size if size >= 999.5 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.2}"),
        size if size >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

#[cfg(test)]
mod tests;
