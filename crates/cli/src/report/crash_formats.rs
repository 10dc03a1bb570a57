//! Findings of `strobe crash` for other programs: JUnit XML for test reports, SARIF for code views.

use std::fmt::Write as _;

use serde_json::{Value, json};
use strobe_crash::{CrashReport, Found, SourceLine, Verdict};

use super::crash::{on, verdict};

/// JUnit XML: a test suite for each file system, a test case for each cut.
pub fn crash_junit(reports: &[CrashReport]) -> String {
    let mut out =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"strobe crash\">\n".to_owned();
    for report in reports {
        let wrong = report.found.iter().filter(|found| found.verdict != Verdict::Fine).count();
        let (program, fs) = (xml(&report.program.join(" ")), xml(&on(report)));
        let _ = writeln!(
            out,
            "<testsuite name=\"{program} on {fs}\" tests=\"{}\" failures=\"{wrong}\" errors=\"0\">",
            report.found.len()
        );
        for found in &report.found {
            let _ = write!(
                out,
                "<testcase classname=\"{fs}\" name=\"power cut at operation {}\"",
                found.operation
            );
            if found.verdict == Verdict::Fine {
                out += "/>\n";
                continue;
            }
            let first = found.reason.lines().next().unwrap_or_default();
            let _ = writeln!(
                out,
                "><failure type=\"{}\" message=\"{}\">{}</failure></testcase>",
                verdict(found.verdict),
                xml(first),
                xml(&described(found))
            );
        }
        out += "</testsuite>\n";
    }
    out + "</testsuites>"
}

/// SARIF 2.1.0: a result for each kind of damage, at the lines of source whose data was not sent.
pub fn crash_sarif(reports: &[CrashReport]) -> Value {
    let rules = [
        ("lost", "The check reports lost data after a power cut."),
        ("corrupt", "The check, fsck or the kernel finds damage after a power cut."),
        ("does not mount", "The file system cannot be mounted after a power cut."),
    ];
    let rule = |(id, text): &(&str, &str)| json!({ "id": id, "shortDescription": { "text": text } });
    let results = reports.iter().flat_map(|report| {
        report.groups.iter().filter_map(|group| {
            let is_first = |found: &&Found| group.operations.first() == Some(&found.operation);
            let first = report.found.iter().find(is_first)?;
            let text = format!(
                "{} of {} power cuts under {} on {}: {}",
                group.operations.len(),
                report.found.len(),
                report.program.join(" "),
                on(report),
                described(first)
            );
            let mut result = json!({
                "ruleId": verdict(group.verdict), "level": "error", "message": { "text": text }
            });
            let locations: Vec<Value> = sources(first).into_iter().map(location).collect();
            if !locations.is_empty() {
                result["locations"] = locations.into();
            }
            Some(result)
        })
    });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "strobe crash",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.iter().map(rule).collect::<Vec<_>>(),
            } },
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

/// Reason and circumstances of a cut.
fn described(found: &Found) -> String {
    let facts = found.facts.iter().map(|fact| format!("\n{}: {}", fact.label, fact.text));
    facts.fold(found.reason.trim_end().to_owned(), |text, fact| text + &fact)
}

/// Lines that wrote data that is still in memory, oldest first. Other calls may be innocent.
fn sources(found: &Found) -> Vec<&SourceLine> {
    let mut lines: Vec<&SourceLine> = Vec::new();
    for line in found.unsent.iter().filter_map(|data| data.call.source.as_ref()) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn location(source: &SourceLine) -> Value {
    json!({ "physicalLocation": {
        "artifactLocation": { "uri": uri(&source.file) },
        "region": { "startLine": source.line },
    } })
}

/// URI of a path; absolute ones have the scheme.
fn uri(path: &str) -> String {
    let mut out = if path.starts_with('/') { "file://".to_owned() } else { String::new() };
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Escapes text for XML, and leaves out what XML cannot hold.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for symbol in text.chars() {
        match symbol {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '"' => out += "&quot;",
            '\n' => out += "&#10;",
            '\t' => out += "&#9;",
            '\0'..=' ' if symbol != ' ' => out.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(symbol),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use strobe_crash::{Fact, FileCall, UnsentData};

    use super::super::crash::tests::{found, report};
    use super::*;

    fn reports() -> Vec<CrashReport> {
        let mut lost = found(7, Verdict::Lost, "row <3> is \u{1}gone\nsecond & last");
        lost.facts = vec![Fact { label: "in cache", text: "/a \"b\": lost".to_owned() }];
        let source = SourceLine { file: "src/save.c".to_owned(), line: 12, function: "put".to_owned() };
        let mut data = UnsentData { path: "/a".to_owned(), offset: 0, length: 1, call: FileCall::default() };
        data.call.source = Some(source);
        lost.unsent = vec![data];
        vec![report(vec![found(5, Verdict::Fine, ""), lost, found(9, Verdict::Lost, "row <4> is \u{1}gone")])]
    }

    #[test]
    fn each_cut_is_a_test_case() {
        let text = crash_junit(&reports());
        for part in [
            "<testsuite name=\"./save.sh on ext4\" tests=\"3\" failures=\"2\" errors=\"0\">",
            "<testcase classname=\"ext4\" name=\"power cut at operation 5\"/>",
            "name=\"power cut at operation 7\"><failure type=\"lost\" message=\"row &lt;3&gt; is \u{fffd}gone\">",
            "second &amp; last&#10;in cache: /a &quot;b&quot;: lost</failure></testcase>",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(text.ends_with("</testsuite>\n</testsuites>"));
    }

    #[test]
    fn each_kind_of_damage_is_a_result_at_its_line() {
        let sarif = crash_sarif(&reports());
        let results = sarif["runs"][0]["results"].as_array().expect("results");
        assert_eq!(results.len(), 1);
        let at = &results[0]["locations"][0]["physicalLocation"];
        assert_eq!(
            (&at["artifactLocation"]["uri"], &at["region"]["startLine"]),
            (&"src/save.c".into(), &12.into())
        );
        assert_eq!(results[0]["ruleId"], "lost");
        let text = results[0]["message"]["text"].as_str().expect("text");
        assert!(text.starts_with("2 of 3 power cuts under ./save.sh on ext4: row <3>"), "{text}");
        assert_eq!(uri("/a b/ü.c"), "file:///a%20b/%C3%BC.c");
        let rules = sarif["runs"][0]["tool"]["driver"]["rules"].as_array().expect("rules");
        assert!(rules.iter().any(|rule| rule["id"] == results[0]["ruleId"]));
    }
}
