//! Figures, their rows, and whether a measurement agrees with the paper.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use strobe_types::named;

named! {
    /// How a measurement compares with the paper.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Verdict {
        /// Within the band, like the paper's number.
        Reproduced => "reproduced",
        /// Within the band, which the paper's own number is outside of: as foretold, but not as printed.
        NotReached => "not-reached",
        /// Outside the band, or not to be measured.
        Missed => "missed",
        /// There is nothing to compare with.
        Shown => "shown",
    }
}

/// One number of a figure. Its coordinates (mode, data set, policy, unit …) come first, each under
/// its own name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// Where in the figure, and the unit of the numbers.
    #[serde(flatten)]
    pub at: Map<String, Value>,
    /// What the paper says; null where its figure cannot be read.
    pub paper: Option<f64>,
    /// What was measured; null if the drive did not get that far.
    pub measured: Option<f64>,
    /// Lowest and highest value that counts as reproduced; null is no limit.
    pub band: Option<[Option<f64>; 2]>,
    /// Whether it is within.
    pub verdict: Verdict,
    /// Why it is not, or why the paper's number is not, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Row {
    /// A measurement without anything to compare it with.
    pub fn shown(at: &[(&str, &str)], measured: Option<f64>) -> Self {
        let at = at.iter().map(|&(key, value)| (key.to_owned(), value.into())).collect();
        Self { at, paper: None, measured, band: None, verdict: Verdict::Shown, why: None }
    }

    /// A measurement that should lie in `band`.
    pub fn judged(
        at: &[(&str, &str)],
        paper: Option<f64>,
        measured: Option<f64>,
        band: [Option<f64>; 2],
    ) -> Self {
        let within =
            |value: f64| band[0].is_none_or(|low| value >= low) && band[1].is_none_or(|high| value <= high);
        let verdict = match (measured.is_some_and(within), paper.is_none_or(within)) {
            (true, true) => Verdict::Reproduced,
            (true, false) => Verdict::NotReached,
            (false, _) => Verdict::Missed,
        };
        Self { paper, band: Some(band), verdict, ..Self::shown(at, measured) }
    }

    /// The same with the reason, if it was missed or not reached.
    #[must_use]
    pub fn because(mut self, why: &str) -> Self {
        let differs = matches!(self.verdict, Verdict::Missed | Verdict::NotReached);
        self.why = (differs && !why.is_empty()).then(|| why.to_owned());
        self
    }

    /// A coordinate as text; empty if the row has none of this name.
    pub fn coordinate(&self, name: &str) -> String {
        match self.at.get(name) {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }
}

/// How a figure is shown to people.
#[derive(Clone, Debug, PartialEq)]
pub enum View {
    /// All rows, one below the other.
    List,
    /// Rows that have the coordinate `across` as a table: the coordinates `down` name its lines,
    /// `across` its columns. The others below it as a list.
    Table {
        /// Coordinates of a line.
        down: &'static [&'static str],
        /// Coordinate of a column.
        across: &'static str,
    },
    /// Rows that have the coordinate `of` as one curve for each of its values, over the coordinate
    /// `over`. The others below it as a list.
    Curves {
        /// Coordinate that names a curve.
        of: &'static str,
        /// Coordinate on the horizontal axis.
        over: &'static str,
    },
    /// One map for each value of the coordinate `of`: darker where there is more.
    Map {
        /// Coordinate that names a map.
        of: &'static str,
        /// Coordinate on the horizontal axis.
        across: &'static str,
        /// Coordinate on the vertical axis, from below.
        up: &'static str,
    },
}

/// A figure or table of a paper, or one beside them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// Its number in the paper, or a name.
    pub figure: String,
    /// What it shows.
    pub title: String,
    /// What to know before comparing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Its numbers.
    pub rows: Vec<Row>,
    /// How to show it.
    #[serde(skip)]
    pub view: View,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, title: impl Into<String>, view: View, rows: Vec<Row>) -> Self {
        Self { figure: name.into(), title: title.into(), note: None, rows, view }
    }

    /// The same with what to know before comparing.
    pub(crate) fn noted(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }

    /// Names of all coordinates, in the order in which they first appear.
    pub fn coordinates(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.rows.iter().flat_map(|row| row.at.keys()) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// The rows as CSV: coordinates, then paper, measured, band and verdict; empty where a row has
    /// none.
    pub fn csv(&self) -> String {
        let names = self.coordinates();
        let fixed = ["paper", "measured", "band_low", "band_high", "verdict"];
        let header: Vec<String> = names.iter().chain(&fixed).map(|name| field(name)).collect();
        let mut out = header.join(",") + "\n";
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        for row in &self.rows {
            let [low, high] = row.band.unwrap_or_default();
            let mut fields: Vec<String> = names.iter().map(|name| field(&row.coordinate(name))).collect();
            fields.extend([row.paper, row.measured, low, high].map(number));
            fields.push(row.verdict.name().to_owned());
            out += &(fields.join(",") + "\n");
        }
        out
    }
}

/// All `values` put together by `with`; nothing if one is missing.
pub(crate) fn reduced(
    values: impl IntoIterator<Item = Option<f64>>,
    with: fn(f64, f64) -> f64,
) -> Option<f64> {
    values.into_iter().collect::<Option<Vec<f64>>>()?.into_iter().reduce(with)
}

/// The mean of `values`; nothing if one is missing.
pub(crate) fn mean(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let values = values.into_iter().collect::<Option<Vec<f64>>>()?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

/// A CSV field after RFC 4180.
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_whether_the_measurement_is_in_the_band() {
        let verdict = |measured, band| Row::judged(&[], Some(73.0), measured, band).verdict;
        assert_eq!(verdict(Some(35.0), [Some(35.0), Some(90.0)]), Verdict::Reproduced);
        assert_eq!(verdict(Some(90.1), [Some(35.0), Some(90.0)]), Verdict::Missed);
        assert_eq!(verdict(Some(-1.0), [Some(0.0), None]), Verdict::Missed);
        assert_eq!(verdict(Some(1e9), [Some(0.0), None]), Verdict::Reproduced);
        assert_eq!(verdict(None, [None, None]), Verdict::Missed);
        assert_eq!(verdict(Some(f64::NAN), [Some(0.0), None]), Verdict::Missed);
        let outside = [Some(-2.0), Some(14.0)];
        assert_eq!(verdict(Some(5.0), outside), Verdict::NotReached);
        assert_eq!(verdict(Some(15.0), outside), Verdict::Missed);
        let row = Row::judged(&[], None, Some(1.0), [Some(0.0), None]);
        assert_eq!(row.because("no reason").why, None);
    }

    fn figure() -> Figure {
        let rows = vec![
            Row::shown(&[("policy", "GA"), ("unit", "%")], Some(1.5)),
            Row::judged(&[("claim", "a, \"b\"")], Some(-2.0), None, [Some(-3.0), None]).because("it died"),
        ];
        Figure { figure: "4".into(), title: "t".into(), note: None, rows, view: View::List }
    }

    #[test]
    fn csv_has_a_column_for_every_coordinate() {
        let expected = "policy,unit,claim,paper,measured,band_low,band_high,verdict\n\
                        GA,%,,,1.5,,,shown\n\
                        ,,\"a, \"\"b\"\"\",-2,,-3,,missed\n";
        assert_eq!(figure().csv(), expected);
    }

    #[test]
    fn json_has_the_coordinates_beside_the_numbers() {
        let expected = serde_json::json!({
            "figure": "4",
            "title": "t",
            "rows": [
                { "policy": "GA", "unit": "%", "paper": null, "measured": 1.5, "band": null, "verdict": "shown" },
                {
                    "claim": "a, \"b\"", "paper": -2.0, "measured": null, "band": [-3.0, null],
                    "verdict": "missed", "why": "it died"
                },
            ],
        });
        assert_eq!(serde_json::to_value(figure()).expect("plain data"), expected);
    }
}
