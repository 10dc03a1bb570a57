//! Counts in the documentation match the code.

use std::fs;
use std::path::{Path, PathBuf};

use strobe_ssd::POLICIES;
use strobe_workload::trace::FORMATS;

use crate::root;

/// Two common baselines, and a second reading of a published one.
const UNPUBLISHED: [&str; 3] = ["fifo", "random", "scata-newest"];

const NUMBERS: [&str; 21] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
];

fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    let mut folders = vec![root().join("docs"), root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if path.is_dir() && !["lab", "src", "tests", "target", "site"].map(Into::into).contains(&name) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Directly before one of `things`, each of several words.
fn numbers_of(text: &str, things: &[&str]) -> Vec<usize> {
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let words: Vec<String> = text.split_whitespace().map(bare).collect();
    let number =
        |word: &String| NUMBERS.iter().position(|number| number == word).or_else(|| word.parse().ok());
    let follows = |at: usize, thing: &str| {
        let mut rest = words[at + 1..].iter();
        thing.split(' ').all(|word| rest.next().is_some_and(|found| found == word))
    };
    (0..words.len())
        .filter(|&at| things.iter().any(|thing| follows(at, thing)))
        .filter_map(|at| number(&words[at]))
        .collect()
}

#[test]
fn numbers_are_found_in_a_text() {
    let text = "**Formats.** Ten formats, 11 trace\nformats (twelve) formats; ten other formats";
    assert_eq!(numbers_of(text, &["formats", "trace formats"]), [10, 11, 12]);
    assert!(numbers_of("nine", &["formats"]).is_empty());
}

fn counted() -> [(&'static str, &'static [&'static str], usize); 3] {
    let patches = fs::read_dir(root().join("crates/linux/kernel/patches")).expect("a folder").flatten();
    let is_patch = |path: &Path| path.extension().is_some_and(|extension| extension == "patch");
    let published = POLICIES.iter().filter(|policy| !UNPUBLISHED.contains(&policy.name)).count();
    [
        ("trace formats", &["formats", "trace formats"], FORMATS.len()),
        (
            "kernel patches",
            &["patches", "small patches", "kernel patches"],
            patches.filter(|p| is_patch(&p.path())).count(),
        ),
        ("published victim policies", &["published victim policies"], published),
    ]
}

#[test]
fn numbers_in_the_documentation_are_true() {
    assert_eq!(POLICIES.iter().filter(|policy| UNPUBLISHED.contains(&policy.name)).count(), 3);
    let documents = documents();
    for (what, names, count) in counted() {
        let mut told = 0;
        for path in &documents {
            let text = fs::read_to_string(path).expect("text");
            for number in numbers_of(&text, names) {
                assert_eq!(number, count, "{} of {what} in {}", NUMBERS[number.min(20)], path.display());
                told += 1;
            }
        }
        assert!(told > 0, "the documentation has no number of {what}: take it out of this test");
    }
}

#[test]
fn every_trace_format_is_in_the_documentation() {
    let page = fs::read_to_string(root().join("docs/how-to/traces.md")).expect("text");
    for format in FORMATS {
        assert!(page.contains(&format!("| `{}` |", format.name)), "{} is not in the table", format.name);
    }
}

#[test]
fn the_readme_is_short_and_its_picture_is_drawn_everywhere() {
    let text = fs::read_to_string(root().join("README.md")).expect("text");
    let words = text.split_whitespace().count();
    assert!(words <= 900, "{words} words");
    // LaTeX and librsvg do not support CSS custom properties.
    let picture = fs::read_to_string(root().join("docs/waf.svg")).expect("a picture");
    assert!(text.contains("(docs/waf.svg)") && picture.contains("<svg") && !picture.contains("var("));
    for command in ["cargo run --release -- run examples/quickstart.toml", "make test "] {
        assert!(text.lines().any(|line| line.starts_with(command)), "{command}");
    }
}
