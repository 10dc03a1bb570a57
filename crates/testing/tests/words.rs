//! Lint of names and text in source and documentation: heads of doc comments, matches on a bool, predicates
//! that mutate, and long lines of prose.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const RIDDLES: &[&str] =
    &["What", "Who", "Whose", "Whether", "That", "Those", "The same", "How", "Where", "Which"];

const COLUMNS_MAX: usize = 110;

/// Pages written by `strobe schema`, with one line per paragraph.
const GENERATED: &[&str] = &["docs/REFERENCE.md", "docs/RESULT.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// By path below the root. Skips build output.
fn files(folder: &Path, extension: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            if !path.ends_with("target") {
                found.extend(files(&path, extension));
            }
        } else if path.extension().is_some_and(|is| is == extension) {
            let below = path.strip_prefix(root()).expect("below").to_string_lossy().replace('\\', "/");
            found.insert(below, fs::read_to_string(&path).expect("text"));
        }
    }
    found
}

fn begins_with(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

fn doc_line(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let kind = ["///", "//!"].into_iter().find(|kind| line.starts_with(kind))?;
    (!line.starts_with("////")).then(|| (kind, line[kind.len()..].trim_start()))
}

fn riddles(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut kind_before = None;
    for (at, line) in text.lines().enumerate() {
        let doc = doc_line(line);
        let kind = doc.map(|(kind, _)| kind);
        if let Some((_, text)) = doc
            && kind != kind_before
            && RIDDLES.iter().any(|word| begins_with(text, word))
        {
            found.push(at + 1);
        }
        kind_before = kind;
    }
    found
}

fn is_bool_arm(text: &str) -> bool {
    ["true", "false"]
        .into_iter()
        .filter_map(|literal| text.strip_prefix(literal))
        .any(|rest| rest.starts_with(" =>") || rest.starts_with(" if ") && rest.contains(" =>"))
}

/// Lines from 1. In a one-line match the first arm counts.
fn bool_arms(text: &str) -> Vec<usize> {
    let is_breach = |line: &str| {
        let inner = line.split_once("match ").and_then(|(_, rest)| rest.split_once(" { "));
        is_bool_arm(line.trim_start()) || inner.is_some_and(|(_, arms)| is_bool_arm(arms))
    };
    (1..).zip(text.lines()).filter(|(_, line)| is_breach(line)).map(|(at, _)| at).collect()
}

fn mutating_predicates(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for start in ["fn is_", "fn has_"] {
        for (at, _) in text.match_indices(start) {
            let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
            let is_code = !text[line..at].contains("//") && !text[line..at].contains('"');
            let arguments = text[at..].split_once('(').map_or("", |(_, arguments)| arguments);
            if is_code && arguments.trim_start().starts_with("&mut self") {
                found.push(text[..at].matches('\n').count() + 1);
            }
        }
    }
    found
}

/// Lines from 1. Code, tables and lines with a link may be longer.
fn long_prose(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            is_code = !is_code;
        }
        let is_prose = !is_code && !trimmed.starts_with('|') && !line.contains("](") && !line.contains("://");
        if is_prose && line.chars().count() > COLUMNS_MAX {
            found.push(at + 1);
        }
    }
    found
}

fn judge(what: &str, subject: &str, found: &[String], complaints: &mut Vec<String>) {
    if !found.is_empty() {
        let shown = found.iter().take(10).cloned().collect::<Vec<_>>().join(", ");
        complaints.push(format!("{subject}: {} {what}: {shown}", found.len()));
    }
}

#[test]
fn crates_are_written_in_plain_words() {
    type Rule = (&'static str, fn(&str) -> Vec<usize>);
    const RULES: [Rule; 3] = [
        ("doc comments that begin with What, Who, Whether, …: begin with a noun phrase or a verb", riddles),
        ("arms of a match on a bool: use if and else", bool_arms),
        ("predicates with &mut self: give them a verb as name", mutating_predicates),
    ];
    let crates = fs::read_dir(root().join("crates")).expect("the crates");
    let folders = crates.map(|entry| entry.expect("readable").path()).chain([root().join("fuzz")]);
    let mut complaints = Vec::new();
    for folder in folders {
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
        let sources = files(&folder, "rs");
        for (what, rule) in RULES {
            let found: Vec<String> = sources
                .iter()
                .flat_map(|(path, text)| rule(text).into_iter().map(move |line| format!("{path}:{line}")))
                .collect();
            judge(what, name, &found, &mut complaints);
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn lines_of_prose_fit_on_a_screen() {
    let mut pages = files(&root().join("docs"), "md");
    for page in ["README.md", "CONTRIBUTING.md"] {
        pages.insert(page.to_owned(), fs::read_to_string(root().join(page)).expect("a page"));
    }
    let mut complaints = Vec::new();
    for (path, text) in pages.iter().filter(|(path, _)| !GENERATED.contains(&path.as_str())) {
        let found: Vec<String> = long_prose(text).iter().map(|line| format!("{line}")).collect();
        judge("lines of prose above 110 columns", path, &found, &mut complaints);
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn breaches_are_found() {
    let docs =
        "/// What it is.\n/// Where.\nfn a() {}\n\n/// Whatever.\n    /// The same.\n//! Who.\n//// Who.\n";
    assert_eq!(riddles(docs), [1, 7], "heads only, whole words only");
    assert_eq!(riddles("/// The same\nfn a() {}\n    /// True if what is new.\n"), [1]);
    let arms =
        "match a {\n    true => 1,\n    false if b => 2,\n    Some(true) => 3,\n    (true, _) => 4,\n}\n";
    assert_eq!(bool_arms(arms), [2, 3]);
    let in_a_line = ["let c = match a {", "true => 1, false => 2 };\nlet truely = 1;\n"].join(" ");
    assert_eq!(bool_arms(&in_a_line), [1]);
    let methods = "fn is_new(&mut self) {}\nfn is_old(&self) {}\nfn has_it<T>(\n    &mut self,\n) {}\n// fn is_x(&mut self)\n";
    assert_eq!(mutating_predicates(methods), [1, 3]);
    let long = "x".repeat(COLUMNS_MAX + 1);
    let page = format!("{long}\n| {long} |\n```\n{long}\n```\n[a]({long})\n{}\n", &long[1..]);
    assert_eq!(long_prose(&page), [1]);
    let mut complaints = Vec::new();
    judge("findings", "one", &[], &mut complaints);
    assert!(complaints.is_empty());
    judge("findings", "one", &["a:1".to_owned(), "a:2".to_owned()], &mut complaints);
    assert_eq!(complaints, ["one: 2 findings: a:1, a:2"]);
}
