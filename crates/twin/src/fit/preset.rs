//! A fit as a preset file: the drive and its accuracy.

use std::fmt::Write as _;

use sha2::Digest as _;

use super::Fit;
use crate::check::{Check, Figure};

const BEGIN: &str = "# A drive fitted to ";
/// Start of the last line. The hash of all text before it follows.
const END: &str = "# As it was written, to here: sha256 ";

/// True if `text` is a preset written by a fit and not edited since.
pub fn is_preset(text: &str) -> bool {
    let untouched = |(before, hash): (&str, &str)| hash.trim_end() == hash_of(before);
    text.starts_with(BEGIN) && text.rsplit_once(END).is_some_and(untouched)
}

fn hash_of(text: &str) -> String {
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Text of a preset file with the drive of `fit`, fitted to the measurements in `source`.
pub fn preset(fit: &Fit, source: &str) -> String {
    let mut text = format!(
        "{BEGIN}{} by `strobe twin fit`.\n#\n# Fitted means: these numbers make the simulated drive reproduce \
         the measurements. They need not\n# be the real drive's.\n#\n",
        // A file name may contain line breaks, which would end the comment.
        source.escape_debug()
    );
    for (what, check) in [("fitted to", &fit.fitted), ("held out", &fit.held_out)] {
        errors(&mut text, what, check);
    }
    let _ =
        writeln!(text, "#\n# Parameter, value, effect (change of all errors in multiples of the tolerance):");
    for found in &fit.found {
        let value = super::parameters::shown(found.value, found.unit);
        let _ = if found.is_kept {
            writeln!(text, "#   {}: {value} (kept, not fitted)", found.name)
        } else {
            writeln!(text, "#   {}: {value} ({:.1})", found.name, found.effect)
        };
    }
    if !fit.untold.is_empty() {
        let _ = writeln!(text, "#\n# The measurements say nothing about: {}.", fit.untold.join("; "));
    }
    for (one, other) in &fit.alike {
        let _ = writeln!(text, "# The measurements cannot tell apart: {one}; {other}.");
    }
    let mut drive = fit.drive.clone();
    drive.preset = None;
    text.push('\n');
    text += &toml::to_string(&drive).expect("a configuration is plain data");
    text.push('\n');
    let hash = hash_of(&text);
    let _ = writeln!(text, "{END}{hash}");
    text
}

fn errors(text: &mut String, what: &str, check: &Check) {
    if check.rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "# Rows {what}: {}. Error, mean and largest:", check.rows.len());
    for figure in Figure::ALL {
        let errors = check.errors(figure);
        let (Some(largest), all) = (errors.last(), errors.len()) else { continue };
        let mean = errors.iter().sum::<f64>() / all as f64;
        let (passed, _) = check.passed(Some(figure));
        let within = figure.tolerance().map_or_else(
            || "neither fitted to nor judged".to_owned(),
            |tolerance| format!("{passed} of {all} within {:.0} %", 100.0 * tolerance),
        );
        let (name, mean, largest) = (figure.name(), 100.0 * mean, 100.0 * largest);
        let _ = writeln!(text, "#   {name}: {mean:.1} %, {largest:.1} %; {within}");
    }
}
