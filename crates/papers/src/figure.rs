//! Figures and their rows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One number of a figure. Its coordinates (mode, data set, policy, unit …) come first, each under
/// its own name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Place in the figure, and the unit of the numbers.
    #[serde(flatten)]
    pub at: Map<String, Value>,
    /// Number of the paper; null where it says nothing or its figure cannot be read.
    pub paper: Option<f64>,
    /// Measured value; null if it was not measured.
    pub measured: Option<f64>,
}

impl Row {
    /// A measurement.
    pub fn new(at: &[(&str, &str)], measured: Option<f64>) -> Self {
        let at = at.iter().map(|&(key, value)| (key.to_owned(), value.into())).collect();
        Self { at, paper: None, measured }
    }

    /// Sets the number of the paper.
    #[must_use]
    pub fn beside(self, paper: f64) -> Self {
        Self { paper: Some(paper), ..self }
    }

    /// Adds a coordinate that is a number.
    #[must_use]
    pub fn at(mut self, name: &str, value: f64) -> Self {
        self.at.insert(name.to_owned(), value.into());
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

/// Presentation of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum View {
    /// All rows, one below the other.
    #[default]
    List,
    /// A table: the coordinates `down` name its lines, `across` its columns.
    Table {
        /// Coordinates of a line.
        down: &'static [&'static str],
        /// Coordinate of a column.
        across: &'static str,
    },
    /// Bars: those of one value of `group` stand together, one for each value of `bar`; a picture of
    /// its own for each value of `panel`. In text a table.
    Bars {
        /// Coordinates that name a picture.
        panel: &'static [&'static str],
        /// Coordinate that bars beside each other share.
        group: &'static str,
        /// Coordinate that tells them apart.
        bar: &'static str,
    },
    /// One curve for each value of the coordinate `of`, over the coordinate `over`; a picture of its own for
    /// each value of `panel`.
    Curves {
        /// Coordinates that name a picture.
        panel: &'static [&'static str],
        /// Coordinate that names a curve.
        of: &'static str,
        /// Coordinate on the horizontal axis, a number.
        over: &'static str,
    },
    /// One map for each value of the coordinate `of`: darker where there is more.
    Map {
        /// Coordinate that names a map.
        of: &'static str,
        /// Coordinate on the horizontal axis: where a cell begins.
        across: &'static str,
        /// Coordinate on the vertical axis, from below, likewise.
        up: &'static str,
    },
}

/// A figure or table of a paper, or one beside them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Its number in the paper, or a name.
    pub figure: String,
    /// Its subject.
    pub title: String,
    /// Remarks to know before comparing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Its numbers.
    pub rows: Vec<Row>,
    /// Its presentation.
    #[serde(skip)]
    pub view: View,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, title: impl Into<String>, view: View, rows: Vec<Row>) -> Self {
        Self { figure: name.into(), title: title.into(), note: None, rows, view }
    }

    /// Adds a remark to know before comparing.
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

    /// The rows as CSV: coordinates, then paper and measured; empty where a row has none.
    pub fn csv(&self) -> String {
        let names = self.coordinates();
        let header: Vec<String> =
            names.iter().chain(&["paper", "measured"]).map(|name| field(name)).collect();
        let mut out = header.join(",") + "\n";
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        for row in &self.rows {
            let mut fields: Vec<String> = names.iter().map(|name| field(&row.coordinate(name))).collect();
            fields.extend([row.paper, row.measured].map(number));
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
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Excess of `a` over `b`, in percent.
pub(crate) fn percent_more(a: f64, b: f64) -> f64 {
    100.0 * (a / b - 1.0)
}

/// A CSV field after RFC 4180.
pub(crate) fn field(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let rows = vec![
            Row::new(&[("policy", "GA"), ("unit", "%")], Some(1.5)),
            Row::new(&[("claim", "a, \"b\"")], None).beside(-2.0).at("x", 0.5),
        ];
        Figure { figure: "4".into(), title: "t".into(), note: None, rows, view: View::List }
    }

    #[test]
    fn csv_has_a_column_for_every_coordinate() {
        let expected = "policy,unit,claim,x,paper,measured\nGA,%,,,,1.5\n,,\"a, \"\"b\"\"\",0.5,-2,\n";
        assert_eq!(figure().csv(), expected);
    }

    #[test]
    fn json_has_the_coordinates_beside_the_numbers() {
        let expected = serde_json::json!({
            "figure": "4",
            "title": "t",
            "rows": [
                { "policy": "GA", "unit": "%", "paper": null, "measured": 1.5 },
                { "claim": "a, \"b\"", "x": 0.5, "paper": -2.0, "measured": null },
            ],
        });
        assert_eq!(serde_json::to_value(figure()).expect("plain data"), expected);
    }
}
