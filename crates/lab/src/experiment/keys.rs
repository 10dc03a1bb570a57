//! Finds keys by their last part: `victim` can only be drive.ftl.gc.victim.

use std::collections::BTreeSet;

use serde_json::Value;
use strobe_ssd::schema::{self, resolve};

use super::Experiment;

/// Path of the key `name`; `None` unless unique.
pub(super) fn only_place(name: &str) -> Option<String> {
    let root = schema::of::<Experiment>();
    let mut found = BTreeSet::new();
    places(root, root, name, "", &mut found);
    if found.len() == 1 { found.pop_first() } else { None }
}

/// Skips [[jobs]], which repeats the keys of [workload].
fn places(root: &Value, node: &Value, name: &str, path: &str, found: &mut BTreeSet<String>) {
    let node = resolve(root, node);
    for (key, inner) in node["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        if path == "jobs" {
            continue;
        }
        if key == name {
            found.insert(path.clone());
        }
        places(root, inner, name, &path, found);
    }
    for choices in ["oneOf", "anyOf", "allOf"] {
        for choice in node[choices].as_array().into_iter().flatten() {
            places(root, choice, name, path, found);
        }
    }
}
