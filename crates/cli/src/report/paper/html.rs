//! Self-contained HTML page with all results.

use std::fmt::Write as _;

use strobe_papers::{Claim, Figure, Paper, PaperResult, Quote, Row};

use super::{band, name, number, svg, table, tally};

const STYLE: &str = "body{font:15px/1.45 sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .6em;border-bottom:1px solid #ddd;text-align:left;\
vertical-align:top}td.n,th.n{text-align:right;white-space:nowrap}svg{width:100%;max-width:42em}\
pre{overflow-x:auto;font-size:12px}.v{white-space:nowrap;font-weight:bold}.reproduced{color:#17692a}\
.direction-only{color:#8a6100}.missed{color:#a11}.by-construction,.not-run{color:#667}small{color:#556}";

/// Returns the page of `result`.
pub fn page(paper: &Paper, result: &PaperResult) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>{STYLE}</style></head><body>\n\
         <h1>{0}</h1>\n<p>{1}</p>\n<p>{2}</p>\n",
        escaped(paper.title),
        escaped(paper.authors),
        escaped(&tally(result)).replace('\n', "<br>")
    );
    out += "<ul>\n";
    for note in &result.notes {
        let _ = writeln!(out, "<li>{}</li>", escaped(note));
    }
    out += "</ul>\n<h2>Claims and results</h2>\n";
    out += &claims(&result.claims.iter().collect::<Vec<_>>(), true);
    for figure in &result.figures {
        let _ = writeln!(out, "<h2>{}: {}</h2>", escaped(&name(&figure.figure)), escaped(&figure.title));
        if let Some(note) = &figure.note {
            let _ = writeln!(out, "<p><small>{}</small></p>", escaped(note));
        }
        if let Some(svg) = svg(figure) {
            out += &svg;
        }
        // The figure's claims again; their reasons stand in the table above.
        let here: Vec<&Claim> = result.claims.iter().filter(|claim| claim.place == figure.figure).collect();
        if !here.is_empty() {
            out += &claims(&here, false);
        }
        out += &numbers(figure);
    }
    out + "</body></html>"
}

fn claims(claims: &[&Claim], whole: bool) -> String {
    let mut out =
        "<table><tr><th>verdict</th><th>claim</th><th class=n>paper</th><th class=n>ours</th><th>unit</th>\
                   <th class=n>accepted band</th><th>reason</th></tr>\n"
            .to_owned();
    for claim in claims {
        let was = claim.band.was.as_deref().map(|was| format!(" (was {was})")).unwrap_or_default();
        let reason = if whole {
            format!("<br><small>{}{}</small>", escaped(&claim.band.reason), escaped(&was))
        } else {
            String::new()
        };
        let quote = match claim.quote.as_ref().filter(|_| whole) {
            Some(Quote { section, original, translation }) => format!(
                "<br><small>{}: <span lang=\"ko\">{}</span> ({})</small>",
                escaped(section),
                escaped(original),
                escaped(translation)
            ),
            None => String::new(),
        };
        let error = claim.error.map(|error| format!(" ± {}", number(Some(error)))).unwrap_or_default();
        let class = claim.verdict.name().replace(' ', "-");
        let _ = writeln!(
            out,
            "<tr><td class=\"v {class}\">{}</td><td>{} {}{quote}</td><td class=n>{}</td><td class=n>{}{error}</td><td>{}</td>\
             <td class=n>{}{reason}</td><td>{}</td></tr>",
            claim.verdict.name(),
            escaped(&claim.place),
            escaped(&claim.claim),
            number(claim.paper),
            number(claim.measured),
            escaped(&claim.unit),
            escaped(&band(&claim.band)),
            escaped(&claim.why)
        );
    }
    out + "</table>\n"
}

/// Maximum rows on the page. The CSV file has all.
const NUMBERS_MAX: usize = 600;

fn numbers(figure: &Figure) -> String {
    let rows: &[Row] = &figure.rows;
    if rows.len() > NUMBERS_MAX {
        return String::new();
    }
    format!("<details><summary>numbers</summary><pre>{}</pre></details>\n", escaped(&table::figure(figure)))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
