//! Program of the crash tests' guests: first process, writer and verifier.

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use std::process::ExitCode;

    use clap::Parser as _;
    use strobe_crash_tests::{Guest, verify, write};

    if strobe_linux::guest::is_first_process() {
        strobe_linux::guest::main();
    }
    let failed = |error: std::io::Error| {
        eprintln!("crash-guest: {error}");
        ExitCode::FAILURE
    };
    match Guest::parse() {
        Guest::Write(args) => write(&args).map_or_else(failed, |()| ExitCode::SUCCESS),
        Guest::Verify(args) => verify(&args).map_or_else(failed, |found| {
            if found == 0 {
                ExitCode::SUCCESS
            } else {
                failed(std::io::Error::other(format!("{found} violations")))
            }
        }),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
