//! The `strobe` command.

mod commands;

use std::process::ExitCode;

/// Records that standard output is closed. The runtime then opens /dev/null in its place, where prints vanish
/// without an error.
#[cfg(target_os = "linux")]
extern "C" fn check_stdout() {
    if rustix::io::fcntl_getfd(std::io::stdout()).is_err() {
        strobe_cli::output::mark_stdout_closed();
    }
}

#[cfg(target_os = "linux")]
#[used]
#[allow(unsafe_code, reason = "the loader calls what is in this section before the runtime begins")]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = check_stdout;

fn main() -> ExitCode {
    // A guest boots this program as its first process.
    #[cfg(target_os = "linux")]
    if strobe_linux::guest::is_first_process() {
        strobe_linux::guest::main();
    }
    commands::main()
}
