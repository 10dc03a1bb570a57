//! Layer rules: no crate depends on one above it. The engine has no command line, no tables, and no files
//! except images. No two modules of one folder depend on each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Crates from bottom to top, each with its allowed dependencies.
const LAYERS: &[(&str, &[&str])] = &[
    // Used by `types`, which re-exports its macros.
    ("derive", &[]),
    ("types", &["derive"]),
    ("nand", &["types"]),
    ("ftl", &["types", "nand"]),
    ("ssd", &["types", "nand", "ftl"]),
    ("workload", &["types"]),
    ("lab", &["types", "nand", "ftl", "ssd", "workload"]),
    ("nvme", &["types", "nand", "ssd"]),
    ("virtio", &["types", "ssd"]),
    ("linux", &["types", "nand", "ftl", "ssd", "nvme", "virtio", "lab"]),
    ("serve", &["types", "nand", "ssd", "nvme", "virtio", "lab"]),
    ("papers", &["types", "nand", "ftl", "ssd", "workload", "linux", "lab"]),
    ("crash", &["types", "ftl", "ssd", "linux", "lab"]),
    ("twin", &["types", "nand", "workload", "ssd", "lab"]),
    // Knows results only in their external form, JSON.
    ("report", &[]),
    ("sweep", &["ssd", "lab", "report"]),
    ("sim", &["types", "nand", "ftl", "ssd", "workload", "lab"]),
    (
        "cli",
        &[
            "types", "nand", "ftl", "ssd", "workload", "linux", "lab", "papers", "crash", "twin", "sweep",
            "report", "serve",
        ],
    ),
    // The program only for a build of both: see its feature `program`.
    ("py", &["types", "nand", "ftl", "ssd", "lab", "sweep", "report", "cli"]),
    ("testing", &[]),
    // Tests that need guests.
    ("crash-tests", &["types", "ftl", "ssd", "lab", "linux", "crash"]),
];

/// Libraries allowed in the engine. An added library is listed here, with its reason in the commit.
const ENGINE: &[(&str, &[&str])] = &[
    // At compile time only: the dependencies of serde_derive, in the same versions.
    ("derive", &["proc-macro2", "quote", "syn"]),
    ("types", &["rand_core", "rand_xoshiro", "thiserror", "zerocopy"]),
    ("nand", &["crc32c", "rustix", "schemars", "serde", "thiserror", "zerocopy"]),
    ("ftl", &["crc32c", "libm", "schemars", "serde", "thiserror"]),
    (
        "ssd",
        &[
            "crc32c",
            "hdrhistogram",
            "indexmap",
            "libm",
            "rustc-hash",
            "schemars",
            "serde",
            "serde_json",
            "strsim",
            "thiserror",
            "toml",
        ],
    ),
];

/// Interfaces banned from the engine, except in code for images and states.
const OUTSIDE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::time",
    "println!",
    "eprintln!",
    "print!",
];
const IMAGES: &[&str] = &["nand/src/image", "ssd/src/assembly/image.rs", "ssd/src/state_file.rs"];

const FOR_TERMINALS: &[&str] = &["clap", "clap_complete", "clap_mangen", "comfy-table", "indicatif"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Libraries that a crate needs outside its tests, on any system.
fn dependencies(name: &str) -> BTreeSet<String> {
    let path = crates().join(name).join("Cargo.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let manifest: toml::Table = text.parse().expect("a manifest");
    let mut found = BTreeSet::new();
    let mut add = |table: Option<&toml::Value>| {
        found.extend(
            table.and_then(|table| table.as_table()).into_iter().flatten().map(|(name, _)| name.clone()),
        );
    };
    add(manifest.get("dependencies"));
    add(manifest.get("build-dependencies"));
    for (_, target) in manifest.get("target").and_then(|targets| targets.as_table()).into_iter().flatten() {
        add(target.get("dependencies"));
    }
    found
}

#[test]
fn crates_depend_on_lower_ones_only() {
    let listed: BTreeSet<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    for entry in fs::read_dir(crates()).expect("the crates") {
        let name = entry.expect("readable").file_name().into_string().expect("a name");
        assert!(listed.contains(name.as_str()), "crates/{name} has no place in the layers: give it one here");
    }
    for (at, (name, allowed)) in LAYERS.iter().enumerate() {
        for lower in *allowed {
            assert!(LAYERS[..at].iter().any(|(below, _)| below == lower), "{lower} is not below {name}");
        }
        for dependency in dependencies(name) {
            if let Some(ours) = dependency.strip_prefix("strobe-") {
                assert!(allowed.contains(&ours), "crates/{name} may not depend on {dependency}");
            }
            let is_shown = FOR_TERMINALS.contains(&dependency.as_str());
            assert!(
                !is_shown || ["cli", "crash-tests"].contains(name),
                "crates/{name} depends on {dependency}: that is for programs"
            );
        }
    }
}

#[test]
fn the_engine_uses_what_is_listed() {
    for (name, allowed) in ENGINE {
        for dependency in dependencies(name).iter().filter(|dependency| !dependency.starts_with("strobe-")) {
            assert!(
                allowed.contains(&dependency.as_str()),
                "crates/{name} uses {dependency}, which is not listed"
            );
        }
    }
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let below = path.strip_prefix(crates()).expect("below").to_string_lossy().replace('\\', "/");
            found.insert(below, fs::read_to_string(&path).unwrap_or_default());
        }
    }
    found
}

fn sources(name: &str) -> BTreeMap<String, String> {
    let is_source = |path: &str| !path.contains("/tests") && !path.ends_with("testing.rs");
    let all = files(&crates().join(name).join("src")).into_iter();
    all.filter(|(path, _)| is_source(path)).map(|(path, text)| (path, without_tests(&text))).collect()
}

/// Without comments, and without the tests at the end of a file.
fn without_tests(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_engine_knows_no_files_but_images() {
    for (name, _) in ENGINE {
        for (path, text) in sources(name) {
            if IMAGES.iter().any(|image| path.starts_with(image)) {
                continue;
            }
            for word in OUTSIDE {
                assert!(!text.contains(word), "crates/{path} says {word}: the engine is the same everywhere");
            }
        }
    }
}

fn module_of(path: &str) -> Vec<String> {
    let inside = path.split_once("/src/").map_or(path, |(_, inside)| inside).trim_end_matches(".rs");
    let mut parts: Vec<String> = inside.split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// Absolute paths, with braces expanded.
fn paths_in(text: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(start) {
            let before = text[..at].chars().next_back().unwrap_or(' ');
            if before.is_alphanumeric() || before == '_' || before == ':' {
                continue;
            }
            let mut base = module.to_vec();
            let mut rest = &text[at..];
            loop {
                if let Some(after) = rest.strip_prefix("crate::") {
                    (base, rest) = (Vec::new(), after);
                } else if let Some(after) = rest.strip_prefix("super::") {
                    base.pop();
                    rest = after;
                } else if let Some(after) = rest.strip_prefix("self::") {
                    rest = after;
                } else {
                    break;
                }
            }
            open(rest, &base, &mut found);
        }
    }
    found
}

fn open(text: &str, base: &[String], found: &mut Vec<Vec<String>>) {
    let text = text.trim_start();
    if let Some(inside) = text.strip_prefix('{') {
        let (mut depth, mut start) = (0, 0);
        for (at, c) in inside.char_indices() {
            match c {
                '{' => depth += 1,
                ',' if depth == 0 => {
                    open(&inside[start..at], base, found);
                    start = at + 1;
                }
                '}' if depth == 0 => return open(&inside[start..at], base, found),
                '}' => depth -= 1,
                _ => {}
            }
        }
        return;
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let mut path = base.to_vec();
    if end > 0 && &text[..end] != "self" {
        path.push(text[..end].to_owned());
    }
    match text[end..].strip_prefix("::") {
        Some(rest) if !rest.starts_with('<') => open(rest, &path, found),
        _ => found.push(path),
    }
}

fn neighbours(name: &str) -> BTreeMap<Vec<String>, BTreeMap<(String, String), String>> {
    let sources = sources(name);
    let modules: BTreeSet<Vec<String>> = sources.keys().map(|path| module_of(path)).collect();
    // Re-exported names, and the module that they come from.
    let mut passed_on: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    for (path, text) in &sources {
        let module = module_of(path);
        for (at, _) in text.match_indices("use ") {
            let is_public = text[..at].ends_with("pub ") || text[..at].ends_with(") ");
            if !is_public {
                continue;
            }
            let tree = text[at + 4..].split(';').next().unwrap_or_default();
            let tree = tree.trim_start().trim_start_matches("self::");
            let mut paths = Vec::new();
            open(tree, &module, &mut paths);
            for path in paths {
                let origin = longest(&path, &modules);
                if let (true, Some(last)) = (origin.len() > module.len(), path.last()) {
                    let mut alias = module.clone();
                    alias.push(last.clone());
                    passed_on.insert(alias, origin);
                }
            }
        }
    }
    let mut edges: BTreeMap<Vec<String>, BTreeMap<(String, String), String>> = BTreeMap::new();
    for (path, text) in &sources {
        let module = module_of(path);
        for used in paths_in(text, &module) {
            let origin = (1..=used.len()).rev().find_map(|length| passed_on.get(&used[..length]));
            let target = origin.cloned().unwrap_or_else(|| longest(&used, &modules));
            let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (module.get(common), target.get(common)) {
                let example = format!("{path} uses {}", used.join("::"));
                edges
                    .entry(module[..common].to_vec())
                    .or_default()
                    .entry((from.clone(), to.clone()))
                    .or_insert(example);
            }
        }
    }
    edges
}

fn longest(path: &[String], modules: &BTreeSet<Vec<String>>) -> Vec<String> {
    let length = (0..=path.len()).rev().find(|&length| modules.contains(&path[..length])).unwrap_or(0);
    path[..length].to_vec()
}

fn way(edges: &BTreeMap<(String, String), String>, from: &str, to: &str) -> Option<Vec<String>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for (a, b) in edges.keys() {
            if a == at && b != from && !came_from.contains_key(b.as_str()) {
                came_from.insert(b, a);
                open.push(b);
            }
        }
    }
    let mut examples = Vec::new();
    let mut at = to;
    while at != from {
        let before = came_from.get(at)?;
        examples.push(edges[&((*before).to_owned(), at.to_owned())].clone());
        at = before;
    }
    examples.reverse();
    Some(examples)
}

#[test]
fn no_modules_of_one_folder_know_each_other() {
    let mut circles = Vec::new();
    for (name, _) in LAYERS {
        for (folder, edges) in neighbours(name) {
            for ((from, to), example) in &edges {
                if from < to
                    && let Some(back) = way(&edges, to, from)
                {
                    circles.push(format!("{name}::{}: {example}; {}", folder.join("::"), back.join("; ")));
                }
            }
        }
    }
    assert!(circles.is_empty(), "circles:\n{}", circles.join("\n"));
}

/// Most lines of a file. A longer file states the reason at its head.
const LINES_MAX: usize = 500;

#[test]
fn files_can_be_held_in_the_head() {
    for (name, _) in LAYERS {
        for (path, text) in files(&crates().join(name)) {
            let lines = text.lines().count();
            let reason = text.lines().take(12).any(|line| line.starts_with("//! Long because"));
            assert!(lines <= LINES_MAX || reason, "{path} has {lines} lines: split it by duty");
        }
    }
}

#[test]
fn circles_are_found() {
    let open_all = |text: &str| {
        let mut found = Vec::new();
        open(text, &["a".to_owned()], &mut found);
        found.into_iter().map(|path| path.join("::")).collect::<Vec<_>>()
    };
    assert_eq!(open_all("b::{c, d::{self, E}, f};"), ["a::b::c", "a::b::d", "a::b::d::E", "a::b::f"]);
    let module = ["x".to_owned(), "y".to_owned()];
    let paths = paths_in("use super::z::Z; let a = crate::w::f(); not_crate::q", &module);
    let paths: Vec<_> = paths.into_iter().map(|path| path.join("::")).collect();
    assert_eq!(paths, ["w::f", "x::z::Z"]);
    let edges = BTreeMap::from([
        (("a".to_owned(), "b".to_owned()), "1".to_owned()),
        (("b".to_owned(), "c".to_owned()), "2".to_owned()),
        (("c".to_owned(), "a".to_owned()), "3".to_owned()),
    ]);
    assert_eq!(way(&edges, "b", "a"), Some(vec!["2".to_owned(), "3".to_owned()]));
    assert_eq!(way(&BTreeMap::new(), "b", "a"), None);
}
