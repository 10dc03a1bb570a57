//! Printed text, and destinations of results.

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;
use strobe_cli::output::{Output, OutputError, explained, stdout};

use super::Failure;

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        Failure::judged(error.is_bad_request(), &error)
    }
}

/// Prints to standard output. A closed reader (`| head`) is no error; other failures, such as a full disk,
/// are.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let written = stdout().and_then(|out| {
        let mut out = out.lock();
        out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush())
    });
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let error = anyhow::Error::new(explained(error));
            Err(Failure::Run(error.context("cannot write to standard output")))
        }
        _ => Ok(()),
    }
}

/// Prints to standard error. Failures are ignored.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Destination of --json, checked before the run. Fails if it is one of `inputs`.
pub(crate) fn json_output(given: &Option<String>, inputs: &[&Path]) -> Result<Option<Output>, Failure> {
    given.as_deref().map(|given| Output::new("--json", given, inputs)).transpose().map_err(Failure::from)
}

/// If true, standard output takes no other text.
pub(crate) fn takes_stdout<'a>(outputs: impl IntoIterator<Item = &'a Option<Output>>) -> bool {
    outputs.into_iter().flatten().any(Output::is_stdout)
}

pub(crate) fn json(value: &impl Serialize, output: Option<&Output>) -> Result<(), Failure> {
    match output {
        Some(output) => Ok(output.write(&json_text(value))?),
        None => Ok(()),
    }
}

pub(crate) fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("results are plain data")
}
