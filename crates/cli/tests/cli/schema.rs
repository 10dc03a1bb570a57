//! The subset of JSON Schema that `strobe schema` uses.

use serde_json::Value as Json;

/// Stricter than the standard: an unknown key is an error.
pub(crate) fn violations(value: &Json, schema: &Json) -> Vec<String> {
    let mut found = Vec::new();
    Walk { root: schema }.visit(value, schema, "", &mut found);
    found
}

struct Walk<'a> {
    root: &'a Json,
}

impl Walk<'_> {
    fn visit(&self, value: &Json, schema: &Json, place: &str, found: &mut Vec<String>) {
        let mut wrong = |what: String| found.push(format!("{place}: {what}"));
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.strip_prefix("#/$defs/").expect("a local reference");
            let target = &self.root["$defs"][name];
            assert!(target.is_object(), "{reference} leads nowhere");
            return self.visit(value, target, place, found);
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(choices) = schema[key].as_array() {
                let fits = |choice: &&Json| {
                    let mut found = Vec::new();
                    self.visit(value, choice, place, &mut found);
                    found.is_empty()
                };
                if !choices.iter().any(|choice| fits(&choice)) {
                    wrong(format!("{value} fits none of {key}"));
                }
                if schema["properties"].is_null() {
                    return;
                }
            }
        }
        if let Some(constant) = schema.get("const")
            && constant != value
        {
            wrong(format!("{value} is not {constant}"));
        }
        if let Some(names) = schema["enum"].as_array()
            && !names.contains(value)
        {
            wrong(format!("{value} is not among {names:?}"));
        }
        let types: Vec<&str> = match &schema["type"] {
            Json::String(one) => vec![one],
            Json::Array(many) => many.iter().filter_map(Json::as_str).collect(),
            _ => Vec::new(),
        };
        if !types.is_empty() && !types.iter().any(|name| is_a(value, name)) {
            wrong(format!("{value} is no {types:?}"));
        }
        if let (Some(number), Some(least)) = (value.as_f64(), schema["minimum"].as_f64())
            && number < least
        {
            wrong(format!("{number} is below {least}"));
        }
        if let Some(items) = value.as_array() {
            for (at, item) in items.iter().enumerate() {
                self.visit(item, &schema["items"], &format!("{place}[{at}]"), found);
            }
        }
        if let Some(object) = value.as_object() {
            self.object(object, schema, place, found);
        }
    }

    fn object(
        &self,
        object: &serde_json::Map<String, Json>,
        schema: &Json,
        place: &str,
        found: &mut Vec<String>,
    ) {
        for key in schema["required"].as_array().into_iter().flatten() {
            if !object.contains_key(key.as_str().expect("a key")) {
                found.push(format!("{place}: {key} is missing"));
            }
        }
        for (key, value) in object {
            let place = format!("{place}.{key}");
            if let Some(property) = schema["properties"].get(key) {
                self.visit(value, property, &place, found);
            } else if schema["additionalProperties"].is_object() {
                self.visit(value, &schema["additionalProperties"], &place, found);
            } else if schema["additionalProperties"] != true {
                found.push(format!("{place}: not in the schema"));
            }
        }
    }
}

fn is_a(value: &Json, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

#[test]
fn violations_are_found() {
    let schema = serde_json::json!({
        "type": "object",
        "required": ["a"],
        "properties": { "a": { "$ref": "#/$defs/A" }, "b": { "type": ["string", "null"] } },
        "$defs": { "A": { "type": "array", "items": { "type": "integer", "minimum": 0 } } },
    });
    let check = |value: Json| violations(&value, &schema).len();
    assert_eq!(check(serde_json::json!({ "a": [1, 2], "b": null })), 0);
    assert_eq!(check(serde_json::json!({ "b": 3, "c": 1 })), 3);
    assert_eq!(check(serde_json::json!({ "a": [-1, "x", 1.5] })), 3);
}
