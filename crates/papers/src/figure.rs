use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One number of a figure. Its coordinates (mode, data set, policy, unit …) come first, each under its own
/// name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Coordinates in the figure, and the unit of the numbers.
    #[serde(flatten)]
    pub at: Map<String, Value>,
    /// Number in the paper; null if it gives none or its figure is not legible.
    pub paper: Option<f64>,
    /// Measured value; null if not measured.
    pub measured: Option<f64>,
}

impl Row {
    /// Returns a row with the coordinates `at`.
    pub fn new(at: &[(&str, &str)], measured: Option<f64>) -> Self {
        let at = at.iter().map(|&(key, value)| (key.to_owned(), value.into())).collect();
        Self { at, paper: None, measured }
    }

    /// Sets the paper's number.
    #[must_use]
    pub fn with_paper(self, paper: f64) -> Self {
        Self { paper: Some(paper), ..self }
    }

    /// Adds a numeric coordinate.
    #[must_use]
    pub fn at(mut self, name: &str, value: f64) -> Self {
        self.at.insert(name.to_owned(), value.into());
        self
    }

    /// Coordinate `name` as text; empty if the row has none.
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
    /// All rows as a list.
    #[default]
    List,
    /// Table.
    Table {
        /// Coordinates of a line.
        down: &'static [&'static str],
        /// Coordinate of a column.
        across: &'static str,
    },
    /// Grouped bars; a table in text output.
    Bars {
        /// Coordinates of a chart.
        panel: &'static [&'static str],
        /// Coordinate of a group of bars.
        group: &'static str,
        /// Coordinate of a bar within its group.
        bar: &'static str,
    },
    /// Curves.
    Curves {
        /// Coordinates of a chart.
        panel: &'static [&'static str],
        /// Coordinate of a curve.
        of: &'static str,
        /// Numeric coordinate on the horizontal axis.
        over: &'static str,
    },
    /// Heat maps; darker is more.
    Map {
        /// Coordinate of a map.
        of: &'static str,
        /// Coordinate on the horizontal axis, the start of a cell.
        across: &'static str,
        /// Coordinate on the vertical axis, the start of a cell from below.
        up: &'static str,
    },
}

/// A figure or table of a paper, or an additional one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Number in the paper, or a name.
    pub figure: String,
    /// Subject of the figure.
    pub title: String,
    /// Remarks for a comparison with the paper.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Numbers of the figure.
    pub rows: Vec<Row>,
    /// Presentation of the figure.
    #[serde(skip)]
    pub view: View,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, title: impl Into<String>, view: View, rows: Vec<Row>) -> Self {
        Self { figure: name.into(), title: title.into(), note: None, rows, view }
    }

    pub(crate) fn noted(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }

    /// Names of all coordinates in order of first appearance.
    pub fn coordinates(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.rows.iter().flat_map(|row| row.at.keys()) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// Formats the rows as CSV: coordinates, paper, measured; missing values are empty.
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

/// Values combined by `with`; `None` if one is missing.
pub(crate) fn reduced(
    values: impl IntoIterator<Item = Option<f64>>,
    with: fn(f64, f64) -> f64,
) -> Option<f64> {
    values.into_iter().collect::<Option<Vec<f64>>>()?.into_iter().reduce(with)
}

/// Mean of all values; `None` if one is missing.
pub(crate) fn mean(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let values = values.into_iter().collect::<Option<Vec<f64>>>()?;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

pub(crate) fn percent_more(a: f64, b: f64) -> f64 {
    100.0 * (a / b - 1.0)
}

/// A CSV field, quoted as in RFC 4180.
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
            Row::new(&[("claim", "a, \"b\"")], None).with_paper(-2.0).at("x", 0.5),
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
