//! Keys by their last name: `victim` can only be drive.ftl.gc.victim.

use std::collections::BTreeSet;

use serde_json::Value;
use strobe_ssd::schema::{self, resolve};

use super::Experiment;

/// The whole path of the key or table called `name`, if there is one only.
pub(super) fn only_place(name: &str) -> Option<String> {
    let root = schema::of::<Experiment>();
    let mut found = BTreeSet::new();
    places(root, root, name, "", &mut found);
    if found.len() == 1 { found.pop_first() } else { None }
}

/// Collects the paths below `node` that end in `name`; of [[jobs]] those of [workload] say enough.
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
