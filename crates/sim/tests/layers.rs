//! Who may know whom: the engine and the experiments know nothing of the command line.

use std::fs;
use std::path::Path;

/// The dependencies of a crate, those of its tests apart.
fn dependencies(folder: &str) -> Vec<String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("Cargo.toml");
    let text = fs::read_to_string(manifest).expect("a crate");
    let mut found = Vec::new();
    let mut counts = false;
    for line in text.lines() {
        if line.starts_with('[') {
            counts = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        } else if counts && let Some((name, _)) = line.split_once(['.', ' ', '=']) {
            found.push(name.to_owned());
        }
    }
    assert!(!found.is_empty() || folder == "testing", "{folder} depends on something");
    found
}

#[test]
fn each_layer_knows_only_those_below() {
    let layers = ["types", "nand", "ftl", "ssd", "workload", "linux", "lab", "papers", "crash", "cli"];
    // Each with the first layer that it must not know.
    for (folder, above) in [
        ("types", "types"),
        ("nand", "nand"),
        ("ftl", "ftl"),
        ("ssd", "ssd"),
        ("linux", "workload"),
        ("lab", "lab"),
        ("papers", "papers"),
        ("sim", "papers"),
    ] {
        let known = dependencies(folder);
        let from = layers.iter().position(|layer| *layer == above).expect("a layer");
        for layer in &layers[from..] {
            assert!(!known.contains(&format!("strobe-{layer}")), "{folder} knows {layer}");
        }
    }
    assert_eq!(dependencies("workload").iter().filter(|name| name.starts_with("strobe-")).count(), 1);
}

#[test]
fn only_the_command_line_has_arguments_tables_and_progress() {
    for folder in ["types", "nand", "ftl", "ssd", "workload", "linux", "lab", "papers", "sim"] {
        for name in dependencies(folder) {
            assert!(
                !["anyhow", "clap", "comfy-table", "indicatif", "signal-hook"].contains(&name.as_str()),
                "{folder} depends on {name}"
            );
        }
    }
}
