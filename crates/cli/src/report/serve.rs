//! Summary of a server: one screen.

use std::fmt::Write as _;

use strobe_linux::command::keep_data;
use strobe_serve::ServeResult;

use super::overview::differs;
use super::style::Style;
use super::{brief, count, duration, errors_line, trimmed};

/// Summary of a server after its end.
pub fn serve_brief(result: &ServeResult, style: Style) -> String {
    let server = &result.server;
    let mut out = format!("{}\n", brief::drive(&result.drive, differs(&result.drive, keep_data)));
    let clients = format!(
        "{} connections, {} requests in {} of the drive's time (pace {})",
        count(server.connections),
        count(result.requests.total()),
        duration(result.time.virtual_ns as f64),
        server.pace,
    );
    let lag = server.lag_ns.map(|lag| {
        let (mean, max) = (duration(lag.mean), duration(lag.max as f64));
        brief::labelled("lag", &format!("completions came {mean} later than the model says, {max} at most"))
    });
    let error = server.drive_error.as_ref();
    let parts = [
        Some(brief::labelled("clients", &clients)),
        error.map(|error| style.warning(&format!("note: a client saw an error of the drive: {error}"))),
        Some(brief::amplification(result.waf, &result.drive, &result.nand, None, style)),
        brief::speed(&result.jobs[0], result.time.virtual_ns),
        lag,
        errors_line(&result.host).map(|line| style.warning(&line)),
        Some(brief::wear(&result.wear, result.drive.nand.endurance_pe)),
        brief::longest(&result.jobs)
            .map(|(name, ns)| brief::labelled("slowest", &format!("a {name} took {}", duration(ns as f64)))),
    ];
    for part in parts.into_iter().flatten() {
        let _ = writeln!(out, "{part}");
    }
    trimmed(&out)
}
