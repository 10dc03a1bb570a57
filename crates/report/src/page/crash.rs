//! Page of power cuts during a program: time, outcome and reason of each.

use std::fmt::Write as _;

use serde_json::Value;

use super::{begin, draw, end};
use crate::ReadError;
use crate::plot::{Axis, Figure, Row, Rows};
use crate::run::{at, number};
use crate::text::{Unit, count, escaped, escaped_lines, number as in_unit};

/// Verdicts: name in the JSON, name on the page, style.
const VERDICTS: [(&str, &str, usize); 4] = [
    ("fine", "fine", 2),
    ("lost", "lost", 1),
    ("corrupt", "corrupt", 3),
    ("does-not-mount", "does not mount", 4),
];
/// Maximum cuts on a page; more would make it slow.
const CUTS_MAX: usize = 2000;
const PROGRAM_MAX: usize = 120;

/// Page of `text`, the output of `strobe crash --json`, with the title `name`.
pub fn crash_page(name: &str, text: &str) -> Result<String, ReadError> {
    let report: Value =
        serde_json::from_str(text).map_err(|error| ReadError::NoJson { name: name.to_owned(), error })?;
    let missing = ["program", "operations", "found"].into_iter().find(|key| !report[*key].is_array());
    if let Some(missing) = missing {
        return Err(ReadError::NoResult { name: name.to_owned(), missing });
    }
    let cuts = report["found"].as_array().map_or(&[][..], Vec::as_slice);
    let mut out = begin(&format!("{name} – Strobe"));
    let _ = writeln!(out, "<header><h1>{}</h1><p>{}</p></header>", escaped(name), escaped(&about(&report)));
    headlines(&mut out, cuts);
    let _ = writeln!(out, "<section class=\"figures\">");
    draw(&mut out, &time_line(&report, cuts));
    let _ = writeln!(out, "</section>");
    groups(&mut out, &report, cuts);
    // Cuts without damage are folded away, below those with damage.
    let (wrong, fine): (Vec<&Value>, Vec<&Value>) = cuts.iter().partition(|cut| cut["verdict"] != "fine");
    if !wrong.is_empty() {
        table(&mut out, "Cuts with damage", &wrong);
    }
    if !fine.is_empty() {
        let _ = write!(out, "<details><summary>Cuts without damage ({})</summary>", fine.len());
        table(&mut out, "", &fine);
        let _ = writeln!(out, "</details>");
    }
    // The rest of the result; the cuts are in the tables.
    let mut rest = report.clone();
    rest.as_object_mut().map(|rest| rest.remove("found"));
    let rest = serde_json::to_string_pretty(&rest).unwrap_or_default();
    let _ = writeln!(
        out,
        "<details><summary>What was run</summary><pre>{}</pre></details>",
        escaped_lines(&rest)
    );
    Ok(end(out, report["strobe_version"].as_str().unwrap_or_default(), &[]))
}

fn about(report: &Value) -> String {
    let words: Vec<&str> =
        report["program"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let operation = |end: &str| number(at(report, &format!("operations/{end}")));
    let operations = operation("0").zip(operation("1")).map_or(0.0, |(first, last)| last - first + 1.0);
    // Joins a script of several lines.
    let program = words.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = program.chars().take(PROGRAM_MAX).collect();
    let mut parts = vec![if shown.len() < program.len() { shown + "…" } else { shown }];
    parts.extend(report["file_system"].as_str().map(|name| format!("on {name}")));
    let options = report["mount_options"].as_str().filter(|options| !options.is_empty());
    parts.extend(options.map(|options| format!("mounted with {options}")));
    parts.push(format!("{} flash operations in {}", count(operations.max(0.0) as u64), took(report)));
    parts.extend(number(&report["flushes"]).map(|flushes| format!("{} flushes", count(flushes as u64))));
    if report["lying_flushes"] == true {
        parts.push("a drive whose flushes do nothing".to_owned());
    }
    if report["has_check"] == false {
        parts.push("no check except mount and fsck".to_owned());
    }
    parts.join(" · ")
}

fn groups(out: &mut String, report: &Value, cuts: &[Value]) {
    let all = report["groups"].as_array().map_or(&[][..], Vec::as_slice);
    if all.is_empty() {
        return;
    }
    let _ = write!(
        out,
        "<section class=\"table\"><h2>Kinds of damage</h2><div class=\"scroll\"><table><thead><tr><th class=\"n\">cuts</th>\
         <th>outcome</th><th>reason</th><th>place of the first</th></tr></thead><tbody>"
    );
    for group in all.iter().take(CUTS_MAX) {
        let operations = group["operations"].as_array().map_or(&[][..], Vec::as_slice);
        // The first cut of a kind of damage stands for all its cuts.
        let first = cuts.iter().find(|cut| operations.first() == Some(&cut["operation"]));
        let _ = write!(
            out,
            "<tr><td class=\"n\">{}</td><td>{}</td><td><pre>{}</pre></td><td><pre>{}</pre></td></tr>",
            operations.len(),
            verdict(group),
            escaped_lines(group["reason"].as_str().unwrap_or_default()),
            escaped_lines(&first.map(place).unwrap_or_default())
        );
    }
    let _ = write!(out, "</tbody></table></div>");
    if let (Some(image), Some(log)) =
        (report["kept"]["image"].as_str(), report["kept"]["kernel_log"].as_str())
    {
        let _ = write!(
            out,
            "<p class=\"note\">The first failing cut is kept: the drive in {}, the kernel's log in {}.</p>",
            escaped(image),
            escaped(log)
        );
    }
    let _ = writeln!(out, "</section>");
}

/// Circumstances of a cut, one per line.
fn place(cut: &Value) -> String {
    let facts = cut["facts"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |fact: &Value, key: &str| fact[key].as_str().unwrap_or_default().to_owned();
    let lines = facts.iter().map(|fact| format!("{}: {}", text(fact, "label"), text(fact, "text")));
    lines.collect::<Vec<_>>().join("\n")
}

fn verdict(of: &Value) -> &'static str {
    VERDICTS.iter().find(|(verdict, ..)| of["verdict"] == *verdict).map_or("?", |(_, name, _)| name)
}

fn took(report: &Value) -> String {
    in_unit(number(&report["took_ns"]).unwrap_or(0.0), Unit::Ns)
}

fn headlines(out: &mut String, cuts: &[Value]) {
    let _ = write!(out, "<dl class=\"headlines\"><div><dt>power cuts</dt><dd>{}</dd></div>", cuts.len());
    for (verdict, name, _) in VERDICTS {
        let number = cuts.iter().filter(|cut| cut["verdict"] == verdict).count();
        let _ = write!(out, "<div><dt>{name}</dt><dd>{number}</dd></div>");
    }
    let _ = writeln!(out, "</dl>");
}

fn time_line(report: &Value, cuts: &[Value]) -> Figure {
    let rows = VERDICTS.into_iter().filter_map(|(verdict, name, style)| {
        let of = cuts.iter().filter(|cut| cut["verdict"] == verdict);
        let places: Vec<f64> = of.filter_map(|cut| number(&cut["at_ns"])).collect();
        (!places.is_empty()).then(|| Row { name: format!("{name}: {}", places.len()), style, places })
    });
    let rows: Vec<Row> = rows.collect();
    let last = rows.iter().flat_map(|row| &row.places).fold(0.0, |last: f64, &at| last.max(at));
    let end = number(&report["took_ns"]).unwrap_or(0.0).max(last);
    let title = "Power cuts over the run of the program".to_owned();
    let picture = Rows {
        title: title.clone(),
        x: Axis::new("time since the program began", Unit::Ns),
        ends: (0.0, end),
        rows,
    };
    Figure { name: "power-cuts".into(), title, note: None, views: vec![picture.view()] }
}

fn table(out: &mut String, title: &str, cuts: &[&Value]) {
    let _ = write!(
        out,
        "<section class=\"table\"><h2>{title}</h2><div class=\"scroll\"><table><thead><tr><th class=\"n\">operation</th>\
         <th class=\"n\">after</th><th class=\"n\">lines</th><th>last line</th><th>outcome</th><th>reason</th><th>place</th></tr></thead><tbody>"
    );
    for cut in cuts.iter().take(CUTS_MAX) {
        let whole = |key: &str| count(cut[key].as_u64().unwrap_or(0));
        let text = |key: &str| cut[key].as_str().unwrap_or_default();
        let verdict = verdict(cut);
        let again = if cut["was_cut_again"] == true { ", cut again during recovery" } else { "" };
        let repaired = if cut["repair"].is_null() { "" } else { ", repaired before the mount" };
        let _ = write!(
            out,
            "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td>{verdict}{again}{repaired}</td>\
             <td><pre>{}</pre></td><td><pre>{}</pre></td></tr>",
            cut["operation"].as_u64().unwrap_or(0),
            in_unit(number(&cut["at_ns"]).unwrap_or(0.0), Unit::Ns),
            whole("acknowledged"),
            escaped(text("last_line")),
            escaped_lines(text("reason")),
            escaped_lines(&place(cut))
        );
    }
    let _ = write!(out, "</tbody></table></div>");
    if cuts.len() > CUTS_MAX {
        let _ =
            write!(out, "<p class=\"note\">The first {CUTS_MAX} of {}; the JSON has all.</p>", cuts.len());
    }
    let _ = writeln!(out, "</section>");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cut(operation: u64, verdict: &str, reason: &str) -> Value {
        json!({ "operation": operation, "at_ns": operation * 1_000_000, "acknowledged": 3, "last_line": "saved <3>",
                "was_cut_again": false, "verdict": verdict, "reason": reason })
    }

    fn report(found: &[Value]) -> String {
        json!({ "strobe_version": "0.1.0", "seed": 1, "program": ["./save.sh", "a"], "file_system": "ext4", "mount_options": "",
                "has_check": true, "lying_flushes": false, "operations": [10, 109], "flushes": 4, "lines": 9,
                "took_ns": 2_000_000_000_u64, "found": found })
        .to_string()
    }

    #[test]
    fn every_cut_is_on_the_time_line_and_reasons_are_there_in_full() {
        let reason = format!("line one\n{}\nthe end of it", "x".repeat(900));
        let found = [cut(10, "fine", ""), cut(20, "lost", &reason), cut(30, "does-not-mount", "bad <magic>")];
        let page = crash_page("save", &report(&found)).expect("a page");
        assert_eq!(page.matches("<circle class=\"dot").count(), 3);
        assert!(page.contains(&format!("<pre>line one\n{}\nthe end of it</pre>", "x".repeat(900))), "{page}");
        for text in [
            "./save.sh a · on ext4 · 100 flash operations in 2 s · 4 flushes",
            "bad &lt;magic&gt;",
            "saved &lt;3&gt;",
            "<dt>lost</dt><dd>1</dd>",
            "Cuts without damage (1)",
        ] {
            assert!(page.contains(text), "{text}");
        }
        let fine = crash_page("fine", &report(&found[..1])).expect("a page");
        assert!(!fine.contains("Cuts with damage"));
    }

    #[test]
    fn kinds_of_damage_have_their_count_and_the_place_of_the_first() {
        let mut lost = cut(20, "lost", "gone <1>");
        lost["facts"] = json!([{ "label": "under way", "text": "flush by <jbd2>" },
            { "label": "in cache", "text": "/log (inode 12), 4096 bytes at 0: lost" }]);
        let mut report: Value =
            serde_json::from_str(&report(&[lost, cut(30, "lost", "gone <2>")])).expect("JSON");
        report["groups"] = json!([{ "verdict": "lost", "reason": "gone <1>", "operations": [20, 30] }]);
        report["kept"] = json!({ "operation": 20, "image": "k/ext4-20.img", "kernel_log": "k/ext4-20.log" });
        let page = crash_page("kinds", &report.to_string()).expect("a page");
        let place =
            "<pre>under way: flush by &lt;jbd2&gt;\nin cache: /log (inode 12), 4096 bytes at 0: lost</pre>";
        for text in [
            "<td class=\"n\">2</td><td>lost</td><td><pre>gone &lt;1&gt;</pre>",
            place,
            "the drive in k/ext4-20.img",
        ] {
            assert!(page.contains(text), "{text} in {page}");
        }
    }

    #[test]
    fn what_is_no_report_of_cuts_is_refused() {
        assert!(matches!(crash_page("x", "{"), Err(ReadError::NoJson { .. })));
        let error = crash_page("x", "{\"program\": []}").expect_err("no report").to_string();
        assert!(error.contains("operations"), "{error}");
        let odd =
            json!({ "program": [1], "operations": [], "found": [1, {}, { "verdict": "lost", "at_ns": -1 }] });
        assert!(crash_page("x", &odd.to_string()).is_ok());
    }
}
