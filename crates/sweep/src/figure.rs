//! A measure over the key of the sweep that is a number, as a picture.

use std::collections::BTreeMap;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::plan::{short, shown};
use crate::{Estimate, Plan, Summary, SweepError};

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (760, 440);

/// Colours that differ in lightness, too.
const COLOURS: [RGBColor; 6] = [
    RGBColor(20, 60, 120),
    RGBColor(214, 118, 20),
    RGBColor(60, 140, 90),
    RGBColor(160, 40, 60),
    RGBColor(120, 110, 190),
    RGBColor(110, 110, 110),
];

/// A curve, or a bar: its points with their estimates.
struct Series {
    label: String,
    points: Vec<(f64, Estimate)>,
}

/// The picture of a measure (its place in [`Summary::measures`]) as SVG, with the intervals as whiskers; nothing if there
/// is nothing to draw. Curves over the first key that has several numbers, one for each combination of the others;
/// without such a key a row of points with names.
pub fn svg(plan: &Plan, summary: &Summary, measure: usize) -> Result<Option<String>, SweepError> {
    let over = (0..plan.keys.len()).find(|&at| {
        let mut values: Vec<f64> = Vec::new();
        let all = plan.configurations.iter().map(|configuration| number(configuration.values[at].as_ref()));
        all.flatten().for_each(|value| {
            if !values.contains(&value) {
                values.push(value);
            }
        });
        let is_number = |value: &Option<toml::Value>| number(value.as_ref()).is_some();
        values.len() > 1
            && plan.configurations.iter().all(|configuration| is_number(&configuration.values[at]))
    });
    let series = series(plan, summary, measure, over);
    if series.iter().all(|series| series.points.is_empty()) {
        return Ok(None);
    }
    let mut text = String::new();
    let x = over.map(|at| plan.keys[at].as_str());
    draw(&mut text, summary, measure, &series, x).map_err(|error| SweepError::Made(error.to_string()))?;
    Ok(Some(text))
}

fn number(value: Option<&toml::Value>) -> Option<f64> {
    let value = value?;
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

fn series(plan: &Plan, summary: &Summary, measure: usize, over: Option<usize>) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    for (row, found) in summary.configurations.iter().enumerate() {
        let Some(estimate) = found.measures[measure] else { continue };
        let values = &plan.configurations[found.configuration].values;
        let parts: Vec<String> = values
            .iter()
            .enumerate()
            .filter(|(at, _)| Some(*at) != over)
            .filter_map(|(at, value)| Some((at, value.as_ref()?)))
            .map(|(at, value)| match value.as_str() {
                Some(text) => text.to_owned(),
                None => format!("{} {}", short(&plan.keys[at]), shown(value)),
            })
            .collect();
        let label = parts.join(", ");
        let x = match over {
            Some(at) => number(values[at].as_ref()).unwrap_or_default(),
            None => row as f64,
        };
        let at = *places.entry(label.clone()).or_insert_with(|| {
            series.push(Series { label, points: Vec::new() });
            series.len() - 1
        });
        series[at].points.push((x, estimate));
    }
    for one in &mut series {
        one.points.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    series
}

fn ends(estimate: &Estimate) -> (f64, f64) {
    let half = estimate.half_width.unwrap_or(0.0);
    (estimate.mean - half, estimate.mean + half)
}

fn draw(text: &mut String, summary: &Summary, measure: usize, series: &[Series], x: Option<&str>) -> Drawn {
    let area: Area<'_> = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let all = || series.iter().flat_map(|series| &series.points);
    let low = all().map(|(_, estimate)| ends(estimate).0).fold(f64::MAX, f64::min);
    let high = all().map(|(_, estimate)| ends(estimate).1).fold(f64::MIN, f64::max);
    // From 0, unless that would hide what there is to see.
    let low =
        if low >= 0.0 && low < high * 0.6 { 0.0 } else { low - (high - low).max(high.abs() * 1e-3) * 0.1 };
    let high = high + (high - low).max(f64::MIN_POSITIVE) * 0.06;
    let (from, to) = all().fold((f64::MAX, f64::MIN), |(from, to), (x, _)| (from.min(*x), to.max(*x)));
    let room = if to > from { (to - from) * 0.04 } else { 0.5 };
    let is_legend = x.is_none() || series.len() > 1;
    let mut chart = ChartBuilder::on(&area)
        .margin(14)
        .margin_right(if is_legend { 190 } else { 20 })
        .x_label_area_size(if x.is_some() { 44 } else { 12 })
        .y_label_area_size(70)
        .build_cartesian_2d(from - room..to + room, low..high)?;
    let seeds = all().map(|(_, estimate)| estimate.n).max().unwrap_or(1);
    let whiskers =
        if seeds > 1 { format!(" (mean, {} % interval)", summary.confidence * 100.0) } else { String::new() };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(if x.is_some() { 10 } else { 0 })
        .x_desc(x.unwrap_or_default())
        .y_desc(format!("{}{whiskers}", summary.measures[measure]))
        .light_line_style(WHITE)
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 14))
        .draw()?;
    let cap = (to - from + 2.0 * room) * 0.006;
    for (at, series) in series.iter().enumerate() {
        let colour = COLOURS[at % COLOURS.len()];
        let line = series.points.iter().map(|(x, estimate)| (*x, estimate.mean));
        if x.is_some() {
            // A second round of colours is dashed.
            if at < COLOURS.len() {
                chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
            } else {
                chart.draw_series(DashedLineSeries::new(line, 6, 4, colour.stroke_width(2)))?;
            }
        }
        for (x, estimate) in &series.points {
            let (bottom, top) = ends(estimate);
            if top > bottom {
                let lines = [
                    vec![(*x, bottom), (*x, top)],
                    vec![(x - cap, bottom), (x + cap, bottom)],
                    vec![(x - cap, top), (x + cap, top)],
                ];
                chart.draw_series(lines.map(|line| PathElement::new(line, colour.stroke_width(1))))?;
            }
        }
        let dots = series.points.iter().map(|(x, estimate)| marker(at, (*x, estimate.mean), colour));
        let drawn = chart.draw_series(dots)?;
        if is_legend {
            drawn.label(&series.label).legend(move |(x, y)| marker(at, (x + 8, y), colour));
        }
    }
    if is_legend {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::Coordinate(SIZE.0 as i32 - 270, 6))
            .background_style(WHITE.filled())
            .label_font(("sans-serif", 13))
            .draw()?;
    }
    area.present()?;
    Ok(())
}

/// Curves are told apart by hollow and filled points as well as by colour.
fn marker<C>(at: usize, place: C, colour: RGBColor) -> Circle<C, i32> {
    let style = if at.is_multiple_of(2) { colour.filled() } else { colour.stroke_width(2) };
    Circle::new(place, 4, style)
}
