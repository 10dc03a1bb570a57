//! The `strobe` command.

mod commands;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The first process of a guest is this program too.
    #[cfg(target_os = "linux")]
    if strobe_linux::guest::is_first_process() {
        strobe_linux::guest::main();
    }
    commands::main()
}
