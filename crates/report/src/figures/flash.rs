use super::named;
use crate::Run;
use crate::plot::{Axis, Bar, Bars, Figure, Histogram, Line, Part, Plot, STYLES};
use crate::run::number;
use crate::text::Unit;

pub(super) fn figures(runs: &[Run]) -> Vec<Figure> {
    [by_cause(runs), dies(runs), wear(runs)].into_iter().flatten().collect()
}

fn parts<'a>(run: &'a Run, path: &str) -> Vec<(&'a str, f64)> {
    let object = run.at(path).as_object().into_iter().flatten();
    object.filter_map(|(name, value)| Some((name.as_str(), number(value)?.max(0.0)))).take(32).collect()
}

/// Stacked bars, without parts that are 0 in all runs.
fn stacked(runs: &[Run], title: &str, unit: Unit, paths: &[(&str, &str)]) -> Option<Bars> {
    let mut names: Vec<&str> = Vec::new();
    for (name, value) in runs.iter().flat_map(|run| paths.iter().flat_map(|(_, path)| parts(run, path))) {
        if value > 0.0 && !names.contains(&name) {
            names.push(name);
        }
    }
    let style = |wanted: &str| names.iter().position(|name| *name == wanted).unwrap_or(0) % STYLES;
    let bar = |run: &Run, path: &str| {
        let part = |(name, value)| Part { style: style(name), name: words(name), value };
        let parts: Vec<Part> = parts(run, path).into_iter().map(part).collect();
        Some(Bar { name: named(runs, run, ""), parts })
            .filter(|bar| bar.parts.iter().any(|part| part.value > 0.0))
    };
    let group = |&(name, path): &(&str, &str)| {
        let bars: Vec<Bar> = runs.iter().filter_map(|run| bar(run, path)).collect();
        (!bars.is_empty()).then(|| (name.to_owned(), unit, bars))
    };
    let legend = names.iter().map(|name| (words(name), style(name))).collect();
    let groups: Vec<_> = paths.iter().filter_map(group).collect();
    (!groups.is_empty()).then(|| Bars { title: title.to_owned(), legend, groups, log_from: None })
}

fn words(key: &str) -> String {
    key.replace(['_', '-'], " ")
}

fn by_cause(runs: &[Run]) -> Option<Figure> {
    let title = "Flash operations by cause";
    let paths = [
        ("programs", "nand/program/by_cause"),
        ("reads", "nand/read/by_cause"),
        ("erases", "nand/erase/by_cause"),
    ];
    let views = vec![stacked(runs, title, Unit::Plain, &paths)?.view("")?];
    let note = Some("Each kind has a separate axis.".to_owned());
    Some(Figure { name: "operations".into(), title: title.to_owned(), note, views })
}

fn dies(runs: &[Run]) -> Option<Figure> {
    let title = "Time of the dies by operation";
    let views =
        vec![stacked(runs, title, Unit::Ns, &[("time summed over all dies", "dies/by_class")])?.view("")?];
    Some(Figure { name: "dies".into(), title: title.to_owned(), note: None, views })
}

fn wear(runs: &[Run]) -> Option<Figure> {
    let title = "Wear at the end";
    let bins = |run: &Run| -> Option<(f64, f64, Vec<f64>)> {
        let counts: Vec<f64> =
            run.list("wear/histogram").iter().take(256).map(|count| number(count).unwrap_or(0.0)).collect();
        let (min, max) = (run.number("wear/erase_min")?, run.number("wear/erase_max")?);
        // The result omits the bin width: the smallest whole number for which 16 bins cover all erase counts.
        let width = libm::ceil((max - min + 1.0) / 16.0).max(1.0);
        (!counts.is_empty()).then_some((min, width, counts))
    };
    let (x, y) = (Axis::new("erases of a block", Unit::Plain), Axis::new("blocks", Unit::Plain));
    let view = match runs {
        [run] => {
            let (first, bin, counts) = bins(run)?;
            Histogram { title: title.to_owned(), x, y, first, bin, counts }.view()?
        }
        _ => {
            let line = |(style, run): (usize, &Run)| {
                let (min, width, counts) = bins(run)?;
                // Runs have different bin widths, so counts are divided by the width.
                let mut points: Vec<(f64, Option<f64>)> = vec![(min, Some(0.0))];
                points.extend(
                    counts
                        .iter()
                        .enumerate()
                        .map(|(at, &count)| (min + at as f64 * width, Some(count / width))),
                );
                points.push((min + counts.len() as f64 * width, Some(0.0)));
                Some(Line::new(&run.name, style, points).stepped())
            };
            let lines: Vec<Line> = runs.iter().enumerate().filter_map(line).collect();
            let y = Axis::new("blocks per count of erases", Unit::Plain);
            Plot { title: title.to_owned(), x, y, has_zero: true, mark: None, lines }.view("")?
        }
    };
    let bad: f64 = runs.iter().filter_map(|run| run.number("wear/bad_blocks")).sum();
    let note = (bad > 0.0 && runs.len() == 1).then(|| format!("Excludes {bad:.0} bad blocks."));
    Some(Figure { name: "wear".into(), title: title.to_owned(), note, views: vec![view] })
}
