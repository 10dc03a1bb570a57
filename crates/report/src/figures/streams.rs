//! Streams of a placement: their write amplification, and the age of their blocks at collection.

use serde_json::Value;

use super::over_time::{Written, written};
use crate::Run;
use crate::plot::{Axis, Figure, Line, Map, Plot, STYLES, View};
use crate::run::{at, number};
use crate::text::Unit;

/// Figures of a single run. Streams of two placements are not comparable.
pub(super) fn figures(runs: &[Run]) -> Vec<Figure> {
    let [run] = runs else { return Vec::new() };
    [waf(run), ages(run)].into_iter().flatten().collect()
}

fn waf(run: &Run) -> Option<Figure> {
    let Written { samples, axis, begin, unit, mark } = written(run);
    let streams = samples.iter().map(|sample| of(sample).len()).max().filter(|&streams| streams > 0)?;
    let line = |stream: usize| {
        let point = |sample: &Value| {
            let pages = number(at(sample, "host_pages"))?;
            Some(((pages - begin) / unit, of(sample).get(stream).and_then(number)))
        };
        let points: Vec<_> = samples.iter().filter_map(point).collect();
        // An unused stream has no line instead of one at 0.
        let is_used = points.iter().any(|(_, waf)| waf.is_some_and(|waf| waf > 0.0));
        is_used.then(|| Line::new(&format!("stream {stream}"), stream % STYLES, points))
    };
    let title = "Write amplification by stream";
    let plot = Plot {
        title: title.to_owned(),
        x: Axis::new(axis, Unit::Plain),
        y: Axis::new("units programmed per unit written", Unit::Plain),
        has_zero: true,
        mark,
        lines: (0..streams).filter_map(line).collect(),
    };
    let note = Some("Their sum is the write amplification.".to_owned());
    Some(Figure {
        name: "waf-streams".into(),
        title: title.to_owned(),
        note,
        views: vec![plot.view("linear")?],
    })
}

fn of(sample: &Value) -> &[Value] {
    at(sample, "streams").as_array().map_or(&[], Vec::as_slice)
}

/// Heat map of ages: darker cells have more victims.
fn ages(run: &Run) -> Option<Figure> {
    let blocks = |stream: &Value| -> Vec<f64> {
        let bins = at(stream, "ages_at_collection").as_array().map_or(&[][..], Vec::as_slice);
        bins.iter().take(64).map(|blocks| number(blocks).unwrap_or(0.0)).collect()
    };
    let bins: Vec<Vec<f64>> = run.list("streams").iter().take(256).map(blocks).collect();
    let is_used = |bin: usize| bins.iter().any(|stream| stream.get(bin).is_some_and(|&blocks| blocks > 0.0));
    let last = (0..64).rev().find(|&bin| is_used(bin))?;
    let first = (0..last).find(|&bin| is_used(bin)).unwrap_or(last);
    // Each stream is scaled to its most common age, so small streams are visible.
    let share = |stream: &Vec<f64>| {
        let most = stream.iter().copied().fold(0.0, f64::max);
        (first..=last).map(|bin| stream.get(bin).map_or(0.0, |blocks| blocks / f64::max(most, 1.0))).collect()
    };
    let map = Map {
        x: format!("age at collection: 2^{first} to 2^{last} units written"),
        y: format!("stream 0 (top) to {}", bins.len() - 1),
        lines: bins.iter().map(share).collect(),
    };
    let title = "Age of blocks at collection";
    let svg = map.drawing()?.svg(title);
    let note = "Age is the number of units that the host has written since the block was full. The darkest cell is \
                the most common age of the stream. Well separated streams are dark at different ages.";
    Some(Figure {
        name: "ages-streams".into(),
        title: title.to_owned(),
        note: Some(note.to_owned()),
        views: vec![View { label: "", svg, points: None }],
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn streams_have_figures_where_a_run_has_a_placement() {
        let mut result = json!({
            "schema_version": 1, "config": {}, "host": {}, "nand": {}, "wear": {},
            "series": [
                { "host_pages": 10, "measured": false, "waf": 1.0, "streams": [1.0, 0.0, 0.0] },
                { "host_pages": 20, "measured": true, "waf": 1.5, "streams": [1.0, 0.5, 0.0] },
                { "host_pages": 30, "measured": true, "waf": 1.4, "streams": [1.0, 0.4, 0.0] },
            ],
            "streams": [{ "ages_at_collection": [0, 0, 4, 1] }, { "ages_at_collection": [0, 0, 0, 2] }, {}],
        });
        let run = |result: &Value| Run::new("one", result.clone()).expect("a result");
        let one = run(&result);
        let [waf, ages] = &figures(std::slice::from_ref(&one))[..] else { panic!("two figures") };
        let svg = &waf.views[0].svg;
        assert!(svg.contains("stream 1") && !svg.contains("stream 2"), "an unused stream has no line: {svg}");
        // Ages 2^2 and 2^3: shares 1 and 1/4 of stream 0, 1 of stream 1.
        let cells = ages.views[0].svg.matches("class=\"cell\"").count();
        assert_eq!(cells, 3, "{}", ages.views[0].svg);
        assert!(ages.views[0].svg.contains("2^2 to 2^3"));
        assert!(figures(&[one.clone(), one]).is_empty(), "streams of two placements are not the same");
        result.as_object_mut().expect("an object").remove("streams");
        result["series"] = json!([{ "host_pages": 10, "measured": true, "waf": 1.0 }]);
        assert!(figures(&[run(&result)]).is_empty(), "no placement");
    }
}
