//! Signals INT, TERM and HUP, from a person, a batch system or a closing terminal.
//!
//! A signal ends the program with the exit code 128 and its number. Commands that take long listen: the first signal
//! raises a flag, and the command ends by itself, with what it has and that exit code. The second one ends it at once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use strobe_types::StopFlag;

/// Time that a command without a partial result is given to end by itself.
const GRACE: Duration = Duration::from_millis(1_500);
/// Time between two looks whether it has begun.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Signals {
    /// The next signal ends the program.
    ends_at_once: Arc<AtomicBool>,
    /// There was one.
    raised: Arc<AtomicBool>,
    /// Its number.
    number: Arc<AtomicUsize>,
}

static SIGNALS: LazyLock<Signals> = LazyLock::new(Signals::default);

/// From now on a signal ends the program, with its exit code.
pub(crate) fn end_at_once() {
    SIGNALS.ends_at_once.store(true, Ordering::SeqCst);
    catch();
}

/// From now on the first signal only raises the flag that this returns.
pub(crate) fn listen() -> StopFlag {
    catch();
    flag()
}

/// The flag that the first signal raises.
pub(crate) fn flag() -> StopFlag {
    Arc::clone(&SIGNALS.raised).into()
}

fn catch() {
    // Who runs the program by nohup wants it to go on when the terminal goes.
    let hangup = if is_ignored(SIGHUP) { None } else { Some(SIGHUP) };
    // Tests take it that the flag is heard once INT is caught.
    for signal in hangup.into_iter().chain([SIGTERM, SIGINT]) {
        // Without a handler a signal ends the program too, which is no reason not to run. Actions are taken in this order:
        // the one that ends the program sees what the flag was before this signal.
        let at_once = || Arc::clone(&SIGNALS.ends_at_once);
        let number = usize::try_from(signal).unwrap_or_default();
        let _ = signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, at_once());
        let _ = signal_hook::flag::register_usize(signal, Arc::clone(&SIGNALS.number), number);
        let _ = signal_hook::flag::register(signal, at_once());
        let _ = signal_hook::flag::register(signal, Arc::clone(&SIGNALS.raised));
    }
}

/// [`listen`] for a command that loses nothing if it is ended: it is, soon after the flag is raised.
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

/// The exit code of a command that a signal has ended, if there was one.
pub(crate) fn exit_code() -> Option<u8> {
    let was_raised = SIGNALS.raised.load(Ordering::SeqCst);
    was_raised.then(|| u8::try_from(128 + SIGNALS.number.load(Ordering::SeqCst)).ok())?
}

/// True if this process was started with `signal` ignored. Only Linux tells; elsewhere it is taken to be, so that the
/// signal does what it did before.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(u64::MAX);
    mask >> (signal - 1) & 1 == 1
}
