//! Signals INT, TERM and HUP, from a user, a batch system or a closing terminal.
//!
//! A signal ends the program with exit code 128 plus its number. Long commands listen: the first signal
//! raises a flag, and the command ends with its partial result and that exit code. The second signal ends the
//! program immediately.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use strobe_types::StopFlag;

/// Time for a command without a partial result to end by itself.
const GRACE: Duration = Duration::from_millis(1_500);
const LOOK: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Signals {
    ends_at_once: Arc<AtomicBool>,
    raised: Arc<AtomicBool>,
    number: Arc<AtomicUsize>,
}

static SIGNALS: LazyLock<Signals> = LazyLock::new(Signals::default);

pub(crate) fn end_at_once() {
    SIGNALS.ends_at_once.store(true, Ordering::SeqCst);
    catch();
}

/// Turns a write beyond the file size limit (`ulimit -f`) into an error with a message. Without a handler the
/// kernel ends the program.
pub(crate) fn survive_file_limit() {
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

pub(crate) fn listen() -> StopFlag {
    catch();
    flag()
}

pub(crate) fn flag() -> StopFlag {
    Arc::clone(&SIGNALS.raised).into()
}

fn catch() {
    // nohup ignores HUP: the program must survive the terminal.
    let hangup = if is_ignored(SIGHUP) { None } else { Some(SIGHUP) };
    // INT is last: tests rely on the flag being ready once INT is caught.
    for signal in hangup.into_iter().chain([SIGTERM, SIGINT]) {
        // A failed registration is ignored: without a handler, a signal ends the program as well. Actions run
        // in order of registration. The shutdown reads its flag before this signal raises it, so a listening
        // command is only ended at once by the second signal.
        let at_once = || Arc::clone(&SIGNALS.ends_at_once);
        let number = usize::try_from(signal).unwrap_or_default();
        let _ = signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, at_once());
        let _ = signal_hook::flag::register_usize(signal, Arc::clone(&SIGNALS.number), number);
        let _ = signal_hook::flag::register(signal, at_once());
        let _ = signal_hook::flag::register(signal, Arc::clone(&SIGNALS.raised));
    }
}

/// [`listen`] for a command without a partial result: it is ended [`GRACE`] after the signal.
#[allow(clippy::disallowed_methods, reason = "it waits for a signal; no simulation runs in it")]
pub(crate) fn listen_for_long() -> StopFlag {
    let stop = listen();
    let raised = stop.clone();
    std::thread::spawn(move || {
        while !raised.is_raised() {
            std::thread::sleep(LOOK);
        }
        std::thread::sleep(GRACE);
        super::complain("interrupted");
        std::process::exit(exit_code().unwrap_or(1).into());
    });
    stop
}

/// `None` without a signal.
pub(crate) fn exit_code() -> Option<u8> {
    let was_raised = SIGNALS.raised.load(Ordering::SeqCst);
    was_raised.then(|| u8::try_from(128 + SIGNALS.number.load(Ordering::SeqCst)).ok())?
}

/// True if this process was started with `signal` ignored. On other systems than Linux, true is assumed,
/// which leaves the signal's action unchanged.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(u64::MAX);
    mask >> (signal - 1) & 1 == 1
}
