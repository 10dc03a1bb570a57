//! Self-contained HTML pages.

mod cell;
mod collection;
mod crash;
mod written;

pub use cell::cell;
pub use collection::{Collection, Table, collection};
pub use crash::crash_page;

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::Run;
use crate::figures::{self, SHOWN_MAX, headlines};
use crate::paper::{PICTURES, on_paper};
use crate::plot::Figure;
use crate::text::{count, escaped, escaped_lines, script};
use crate::xray;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");
const XRAY: &str = include_str!("xray.js");

const NOTES_MAX: usize = 12;

/// Returns the page of `runs`.
pub fn page(runs: &[Run]) -> String {
    let title = match runs {
        [run] => format!("{} – Strobe", run.name),
        _ => format!("{} runs – Strobe", runs.len()),
    };
    let mut out = begin(&title);
    head(&mut out, runs);
    let xrays = xray_section(&mut out, runs, false);
    let _ = writeln!(out, "<section class=\"figures\">");
    for figure in figures::all(runs) {
        draw(&mut out, &figure);
    }
    let _ = writeln!(out, "</section>");
    if runs.len() > SHOWN_MAX {
        let _ = writeln!(
            out,
            "<p class=\"note\">Figures show the first {SHOWN_MAX} of {} runs; the table has all.</p>",
            runs.len()
        );
    }
    configuration(&mut out, runs);
    end_of_runs(out, runs, xrays)
}

fn end_of_runs(out: String, runs: &[Run], has_xray: bool) -> String {
    let version = runs.first().and_then(|run| run.text("strobe_version")).unwrap_or_default();
    let colours = format!("const XRAY_COLOURS = {};", script(&xray::colours()));
    let scripts = [colours.as_str(), XRAY];
    end(out, version, if has_xray { &scripts } else { &[] })
}

fn begin(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>{STYLE}{PICTURES}</style>\n<style id=\"paper\" media=\"not all\">{}</style></head>\n<body>\n",
        escaped(title),
        on_paper()
    )
}

/// Appends the common script and `scripts`.
fn end(mut out: String, version: &str, scripts: &[&str]) -> String {
    let _ = writeln!(out, "<footer>Strobe {}, a software SSD</footer>", escaped(version));
    for script in [SCRIPT].iter().chain(scripts) {
        let _ = writeln!(out, "<script>{script}</script>");
    }
    out + "</body></html>\n"
}

fn head(out: &mut String, runs: &[Run]) {
    if let [run] = runs {
        let _ =
            writeln!(out, "<header><h1>{}</h1><p>{}</p></header>", escaped(&run.name), escaped(&about(run)));
        notes(out, run);
        let _ = write!(out, "<dl class=\"headlines\">");
        for headline in headlines(run).iter().filter(|headline| headline.text != "–") {
            let _ = write!(out, "<div><dt>{}</dt><dd>{}</dd></div>", headline.name, escaped(&headline.text));
        }
        let _ = writeln!(out, "</dl>");
        return;
    }
    let _ = writeln!(out, "<header><h1>{} runs</h1></header>", runs.len());
    // A figure that no run has gets no column.
    let all: Vec<_> = runs.iter().map(headlines).collect();
    let has = |at: usize| all.iter().any(|headlines| headlines[at].text != "–");
    let columns: Vec<usize> = (0..all.first().map_or(0, Vec::len)).filter(|&at| has(at)).collect();
    let _ = write!(out, "<div class=\"scroll\"><table><thead><tr><th>run</th>");
    for &at in &columns {
        let _ = write!(out, "<th class=\"n\">{}</th>", all[0][at].name);
    }
    let _ = write!(out, "</tr></thead><tbody>");
    for (run, headlines) in runs.iter().zip(&all) {
        let partial = if run.at("partial").as_bool() == Some(true) { " <em>partial</em>" } else { "" };
        let about = escaped(&about(run));
        let _ = write!(out, "<tr><th title=\"{about}\">{}{partial}</th>", escaped(&run.name));
        for &at in &columns {
            let _ = write!(out, "<td class=\"n\">{}</td>", escaped(&headlines[at].text));
        }
        let _ = write!(out, "</tr>");
    }
    let _ = writeln!(out, "</tbody></table></div>");
}

fn about(run: &Run) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut add = |text: Option<String>| parts.extend(text);
    add(run.text("config/drive/preset").map(str::to_owned));
    let bytes = run.number("capacity/logical_bytes");
    add(bytes.map(|bytes| match bytes / 1024.0 {
        kib if kib >= 1_048_576.0 => format!("{:.0} GiB offered", kib / 1_048_576.0),
        kib if kib >= 1024.0 => format!("{:.0} MiB offered", kib / 1024.0),
        kib => format!("{kib:.0} KiB offered"),
    }));
    let mapping = run.text("config/drive/ftl/mapping");
    let victim = run.text("config/drive/ftl/gc/victim").filter(|_| matches!(mapping, Some("page" | "dftl")));
    add(mapping.map(|mapping| format!("mapping {mapping}")));
    add(victim.map(|victim| format!("victims by {victim}")));
    let jobs: Vec<&str> =
        run.list("jobs").iter().filter_map(|job| job.get("jobname")?.as_str()).take(6).collect();
    add((!jobs.is_empty()).then(|| format!("workload {}", jobs.join(", "))));
    add(run.number("seed").map(|seed| format!("seed {seed}")));
    add(run.number("window/host_pages").map(|pages| format!("{} host pages measured", count(pages as u64))));
    parts.join(" · ")
}

fn notes(out: &mut String, run: &Run) {
    let stopped = run.text("stopped_by").map(|reason| format!("The result is partial: {reason}"));
    let notes: Vec<String> = stopped
        .into_iter()
        .chain(run.list("notes").iter().filter_map(|note| note.as_str().map(str::to_owned)))
        .collect();
    if notes.is_empty() {
        return;
    }
    let _ = write!(out, "<ul class=\"notes\">");
    for note in notes.iter().take(NOTES_MAX) {
        let _ = write!(out, "<li>{}</li>", escaped_lines(note));
    }
    let _ = writeln!(out, "</ul>");
}

fn draw(out: &mut String, figure: &Figure) {
    let _ = write!(
        out,
        "<figure id=\"{0}\" data-name=\"{0}\"><figcaption><h2>{1}</h2><span class=\"tools\">",
        figure.name,
        escaped(&figure.title)
    );
    // The page's script switches views; the first one is visible at the start.
    if figure.views.len() > 1 {
        for (at, view) in figure.views.iter().enumerate() {
            let pressed = at == 0;
            let _ = write!(out, "<button class=\"view\" aria-pressed=\"{pressed}\">{}</button>", view.label);
        }
    }
    let _ = write!(out, "<button class=\"save\" title=\"Save as an image\">PNG</button></span></figcaption>");
    for (at, view) in figure.views.iter().enumerate() {
        let hidden = if at == 0 { "" } else { " hidden" };
        let _ = write!(out, "<div class=\"picture\"{hidden}>{}", view.svg);
        if let Some(points) = &view.points {
            let _ = write!(out, "<script type=\"application/json\">{}</script>", script(points));
        }
        let _ = write!(out, "</div>");
    }
    if let Some(note) = &figure.note {
        let _ = write!(out, "<p class=\"note\">{}</p>", escaped(note));
    }
    let _ = writeln!(out, "</figure>");
}

/// Returns true if any X-ray is shown. X-rays play immediately if `plays`.
fn xray_section(out: &mut String, runs: &[Run], plays: bool) -> bool {
    // The X-rays of the first runs use the size budget. Later ones that do not fit are dropped and counted.
    let mut left = xray::BYTES_MAX;
    let (mut shown, mut dropped) = (Vec::new(), 0);
    for xray in runs.iter().filter_map(xray::of) {
        let text = script(&xray);
        match left.checked_sub(text.len()) {
            Some(rest) => (left, shown) = (rest, [shown, vec![text]].concat()),
            None => dropped += 1,
        }
    }
    if shown.is_empty() && dropped == 0 {
        return false;
    }
    let plays = if plays { " data-plays" } else { "" };
    let _ = writeln!(out, "<section id=\"xray\" class=\"xray\"{plays}>{}", include_str!("xray.html"));
    if dropped > 0 {
        let _ = writeln!(
            out,
            "<p class=\"note\">The X-rays of {dropped} runs are left out, as the page would become too large; make a page \
             of fewer results, or run with fewer frames (run.xray).</p>"
        );
    }
    for text in &shown {
        let _ = writeln!(out, "<script type=\"application/json\" class=\"xray-data\">{text}</script>");
    }
    let _ = writeln!(out, "</section>");
    !shown.is_empty()
}

fn configuration(out: &mut String, runs: &[Run]) {
    for run in runs.iter().take(SHOWN_MAX) {
        let text = match run.at("config") {
            // Configuration of a guest.
            Value::Null => {
                serde_json::to_string_pretty(&json!({ "guest": run.at("guest"), "drive": run.at("drive") }))
            }
            config => serde_json::to_string_pretty(config),
        };
        let text = text.unwrap_or_default();
        let lines = escaped_lines(&text);
        let hash = run.text("config_hash").unwrap_or_default();
        let _ = writeln!(
            out,
            "<details><summary>Configuration of {} <small>{}</small></summary><pre>{lines}</pre></details>",
            escaped(&run.name),
            escaped(hash)
        );
    }
}
