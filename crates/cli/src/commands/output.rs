//! Printed text, and the destinations of results.

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;
use strobe_cli::output::{Output, OutputError};

use super::Failure;

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        Failure::judged(error.is_bad_request(), &error)
    }
}

/// Prints to standard output. A reader that has gone away (`| head`) is no error; anything else,
/// a full disk for one, is.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Run(anyhow::Error::new(error).context("cannot write to standard output")))
        }
        _ => Ok(()),
    }
}

/// Tells the person who waits what is going on; nobody may be there.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// The output named by `--json`, if one is, checked before the run; it must be none of `inputs`.
pub(crate) fn json_output(given: &Option<String>, inputs: &[&Path]) -> Result<Option<Output>, Failure> {
    given.as_deref().map(|given| Output::new("--json", given, inputs)).transpose().map_err(Failure::from)
}

/// True if a result takes standard output, so that nothing else may be printed there.
pub(crate) fn takes_stdout<'a>(outputs: impl IntoIterator<Item = &'a Option<Output>>) -> bool {
    outputs.into_iter().flatten().any(Output::is_stdout)
}

/// Writes `value` as JSON to `output`, if there is one.
pub(crate) fn json(value: &impl Serialize, output: Option<&Output>) -> Result<(), Failure> {
    match output {
        Some(output) => Ok(output.write(&json_text(value))?),
        None => Ok(()),
    }
}

/// `value` as JSON for people and programs.
pub(crate) fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("results are plain data")
}
