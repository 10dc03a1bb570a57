//! Markdown reference of all keys, from the JSON Schema that validates them.

use std::fmt::Write as _;

use schemars::Schema;
use serde_json::{Map, Value as Json};

use strobe_ssd::schema::{Need, enum_names, limit, resolve};

/// Subject of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// User input: keys have ranges and defaults.
    Input,
    /// Output: keys are always present or not always.
    Output,
}

/// Returns every key of `schema` in Markdown: one table per section, one line per key.
///
/// A line has the type, the unit and the meaning; for input also the range and the default.
pub fn page(title: &str, schema: &Schema, of: Of) -> String {
    let root = schema.as_value();
    let mut out = format!(
        "# {title}\n\n*Made from the schema by `strobe schema … --markdown`; do not edit.*\n\n{}\n",
        one_line(root)
    );
    let mut path = Vec::new();
    section(root, root, of, &mut path, &mut out);
    out
}

fn section(root: &Json, node: &Json, of: Of, path: &mut Vec<String>, out: &mut String) {
    if of == Of::Output && *path == ["config"] {
        let keys = "[The experiment file](REFERENCE.md) explains its keys.";
        let _ = writeln!(out, "\n## `config`\n\n{} {keys}", one_line(node));
        return;
    }
    let mut inner: Vec<(String, &Json, &Json, String)> = Vec::new();
    let mut rows = String::new();
    for (title, properties, required) in alternatives(root, node) {
        if let Some(title) = title {
            let _ = writeln!(rows, "\n{title}\n");
        }
        let mut lines = String::new();
        for (key, property) in properties {
            let resolved = resolve(root, property);
            match tables_in(root, resolved) {
                Some(table) => inner.push((key.clone(), property, table, need(property, properties))),
                None => {
                    let missing = if !required.contains(&key.as_str()) {
                        "–"
                    } else if path.first().is_some_and(|first| first == "drive") && path.len() == 2 {
                        // Presets fill these tables of a drive.
                        "from the preset"
                    } else {
                        "none: required"
                    };
                    match of {
                        Of::Input => {
                            let need = need(property, properties);
                            line(key, property, resolved, missing, &need, &mut lines);
                        }
                        Of::Output => {
                            let there =
                                if required.contains(&key.as_str()) { "always" } else { "not always" };
                            output_line(key, property, resolved, there, &mut lines);
                        }
                    }
                }
            }
        }
        if !lines.is_empty() {
            rows += match of {
                Of::Input => "| key | type | unit | range | default | |\n|---|---|---|---|---|---|\n",
                Of::Output => "| key | type | unit | present | |\n|---|---|---|---|---|\n",
            };
            rows += &lines;
        }
    }
    if !rows.is_empty() {
        if !path.is_empty() {
            let name = path.join(".");
            let name = if of == Of::Input { format!("[{name}]") } else { name };
            let _ = writeln!(out, "\n## `{name}`\n\n{}\n", one_line(node));
        } else {
            out.push('\n');
        }
        out.push_str(rows.trim_start_matches('\n'));
    }
    for (key, property, table, need) in inner {
        path.push(key);
        // The limit ends the descent into recursive tables.
        if path.len() < 8 {
            let mut merged = table.clone();
            if let Some(merged) = merged.as_object_mut() {
                merged.insert("description".to_owned(), (about(property, table) + &need).into());
            }
            section(root, &merged, of, path, out);
        }
        path.pop();
    }
}

type Alternative<'a> = (Option<String>, &'a Map<String, Json>, Vec<&'a str>);

/// One set of keys, or one per variant.
fn alternatives<'a>(root: &'a Json, node: &'a Json) -> Vec<Alternative<'a>> {
    let of = |node: &'a Json, titled: bool| {
        let table = resolve(root, node);
        let properties = table["properties"].as_object()?;
        let required = table["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        Some((titled.then(|| format!("**{}**", one_line(table).trim_end_matches('.'))), properties, required))
    };
    match node["anyOf"].as_array() {
        Some(kinds) => kinds.iter().filter_map(|kind| of(kind, true)).collect(),
        None => of(node, false).into_iter().collect(),
    }
}

/// The table itself, or the table of its items.
fn tables_in<'a>(root: &'a Json, node: &'a Json) -> Option<&'a Json> {
    let is_table = |node: &Json| node["properties"].is_object() || is_choice_of_tables(root, node);
    if is_table(node) {
        return Some(node);
    }
    let items = resolve(root, &node["items"]);
    is_table(items).then_some(items)
}

fn is_choice_of_tables(root: &Json, node: &Json) -> bool {
    node["anyOf"].as_array().is_some_and(|kinds| {
        kinds.len() > 1 && kinds.iter().all(|kind| resolve(root, kind)["properties"].is_object())
    })
}

/// `missing` is shown if neither the schema nor the text has a default.
fn line(key: &str, property: &Json, schema: &Json, missing: &str, need: &str, out: &mut String) {
    let (kind, about) = (kind(schema), about(property, schema));
    let default = match property.get("default").or_else(|| schema.get("default")) {
        Some(Json::Null) | None => match said_default(&about) {
            Some(default) => format!("`{default}`"),
            None => missing.to_owned(),
        },
        Some(value) => format!("`{value}`"),
    };
    let _ = writeln!(
        out,
        "| `{key}` | {kind} | {} | {} | {default} | {} |",
        unit(key),
        range(property, schema),
        (about + need).replace('|', "\\|")
    );
}

fn output_line(key: &str, property: &Json, schema: &Json, there: &str, out: &mut String) {
    let (kind, about) = (kind(schema), about(property, schema).replace('|', "\\|"));
    let _ = writeln!(out, "| `{key}` | {kind} | {} | {there} | {about} |", unit(key));
}

fn kind(schema: &Json) -> String {
    match enum_names(schema) {
        Some(names) => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        None => types(schema),
    }
}

fn about(property: &Json, schema: &Json) -> String {
    one_line(if property["description"].is_string() { property } else { schema })
}

/// Condition under which `property`, one of `properties`, has an effect. Keys of the same table are named
/// without it.
fn need(property: &Json, properties: &Map<String, Json>) -> String {
    let is_here = |key: String| key.contains('.') || properties.contains_key(&key);
    let need = Need::of(property, "").filter(|need| need.keys().all(is_here));
    need.map(|need| format!(" No effect unless {need}.")).unwrap_or_default()
}

/// Finds "Default 64." in the description, for keys without a default in the schema.
fn said_default(about: &str) -> Option<&str> {
    let (_, rest) = about.rsplit_once("Default ").or_else(|| about.rsplit_once("Default: "))?;
    let end = rest.find(['.', ':', ';', ',']).filter(|&at| !rest[at..].starts_with(".0"));
    Some(rest[..end.unwrap_or(rest.len())].trim_matches('"'))
        .filter(|value| !value.is_empty() && !value.contains(' '))
}

fn types(schema: &Json) -> String {
    let name = |name: &str| match name {
        "integer" => "whole number",
        "number" => "number",
        "string" => "text",
        "boolean" => "true or false",
        "array" => "list",
        "object" => "table",
        _ => "",
    };
    match &schema["type"] {
        Json::String(one) => name(one).to_owned(),
        Json::Array(many) => {
            let many = many.iter().filter_map(Json::as_str).map(name).filter(|name| !name.is_empty());
            many.collect::<Vec<_>>().join(" or ")
        }
        _ => String::new(),
    }
}

/// Unit, from the suffix of the key's name.
fn unit(key: &str) -> &'static str {
    let units = [
        ("_ns", "ns"),
        ("_bytes", "bytes"),
        ("_mb_s", "MB/s"),
        ("_iops", "requests/s"),
        ("_pages", "mapping units"),
        ("_units", "mapping units"),
        ("_blocks", "blocks"),
        ("_pct", "%"),
        ("_s", "s"),
    ];
    let found = units.iter().find(|(end, _)| key.ends_with(end) || key == &end[1..]);
    found.map_or("", |&(_, unit)| unit)
}

fn range(property: &Json, schema: &Json) -> String {
    let number = |name: &str| {
        // A larger limit is the number type's, not the key's.
        limit(name, property, schema).filter(|x| x.abs() < 9e18).map(|x| match x {
            x if x == x.trunc() && x.abs() < 1e15 => strobe_lab::numbers::count_signed(x as i64),
            x => format!("{x}"),
        })
    };
    let low = number("minimum").map(|x| (x, "from ")).or(number("exclusiveMinimum").map(|x| (x, "above ")));
    let high = number("maximum").map(|x| (x, "to ")).or(number("exclusiveMaximum").map(|x| (x, "below ")));
    let text: Vec<String> = [low, high].into_iter().flatten().map(|(x, word)| format!("{word}{x}")).collect();
    text.join(" ")
}

fn one_line(node: &Json) -> String {
    node["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_in_the_repository_are_those_of_the_schemas() {
        let experiment =
            page("The experiment file", &schemars::schema_for!(strobe_lab::Experiment), Of::Input);
        let result = page("The result of a run", &schemars::schema_for!(strobe_lab::RunResult), Of::Output);
        for (name, what, page) in
            [("REFERENCE.md", "experiment", experiment), ("RESULT.md", "result", result)]
        {
            let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
            let there = std::fs::read_to_string(path).unwrap_or_default();
            assert!(
                there.trim_end() == page.trim_end(),
                "docs/{name} is old: strobe schema {what} --markdown > docs/{name}"
            );
        }
    }

    #[test]
    fn every_key_has_a_line_with_its_type_and_meaning() {
        let page = page("The experiment file", &schemars::schema_for!(strobe_lab::Experiment), Of::Input);
        for part in [
            "## `[drive.nand]`",
            "## `[drive.ftl.gc]`",
            "## `[drive.controller.nvram]`",
            "## `[workload]`",
            "## `[run]`",
            "## `[power]`",
            "| `read_ns` | whole number | ns | from 0 to 1,000,000,000,000 |",
            "| `victim` | text |",
            "| `theta` | number |",
            "| `format` | text |",
        ] {
            assert!(page.contains(part), "{part} is missing in\n{page}");
        }
        for line in page.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.split(" | ").collect();
            assert!(cells.len() >= 6 && !cells[1].trim().is_empty(), "no type: {line}");
            assert!(cells[5].len() > 5, "no meaning: {line}");
        }
    }
}
