use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use strobe_lab::points::Pool;

use crate::{Task, carry_out};

#[derive(Debug)]
pub(crate) enum Report {
    Answer { point: usize, text: String },
    Died { point: usize, reason: String },
    Failed(std::io::Error),
}

/// Calls `drive` with `count` workers, each a process started by `command`. On return all processes have
/// ended, even with unfinished tasks.
pub(crate) fn on_processes<O>(
    count: usize,
    command: impl Fn() -> Command + Sync,
    drive: impl FnOnce(&mut Pool<Task, Report>) -> O,
) -> O {
    let children = Children(Mutex::new(Some(Vec::new())));
    let worker = || {
        let mut process = None;
        let (command, children) = (&command, &children);
        move |task| work(&mut process, &task, command, children)
    };
    Pool::run(count, worker, |pool| {
        // `_killed` ends the processes before the pool joins its threads, because each thread waits for its
        // process.
        let _killed = Killed(&children);
        drive(pool)
    })
}

/// Worker processes; `None` once all have been killed: no process starts after that.
struct Children(Mutex<Option<Vec<Child>>>);

impl Children {
    fn with<O>(&self, act: impl FnOnce(&mut Option<Vec<Child>>) -> O) -> O {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Killed<'a>(&'a Children);

impl Drop for Killed<'_> {
    fn drop(&mut self) {
        let children = self.0.with(Option::take);
        for mut child in children.into_iter().flatten() {
            // A process that has ended cannot be killed, and need not be.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

struct Process<'a> {
    children: &'a Children,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    id: u32,
}

impl<'a> Process<'a> {
    fn start(command: &dyn Fn() -> Command, children: &'a Children) -> std::io::Result<Self> {
        let mut command = command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        children.with(|all| {
            // The process starts under the lock, so none starts after all have been killed.
            let all = all.as_mut().ok_or_else(|| std::io::Error::other("the sweep has ended"))?;
            let mut child = command.spawn()?;
            let pipes = child.stdin.take().zip(child.stdout.take());
            let (input, output) = pipes.ok_or_else(|| std::io::Error::other("no pipes"))?;
            let id = child.id();
            all.push(child);
            Ok(Self { children, input, output: BufReader::new(output), id })
        })
    }

    fn ask(&mut self, task: &Task) -> Option<String> {
        self.input.write_all((task.to_line() + "\n").as_bytes()).ok()?;
        let mut text = String::new();
        // An answer without a line end comes from a worker that died while it wrote.
        self.output.read_line(&mut text).ok().filter(|_| text.ends_with('\n'))?;
        Some(text)
    }

    fn end(self) -> String {
        drop(self.input);
        let child = self.children.with(|all| {
            let all = all.as_mut()?;
            let at = all.iter().position(|child| child.id() == self.id)?;
            Some(all.swap_remove(at))
        });
        match child.map(|mut child| child.wait()) {
            Some(Ok(status)) => status.to_string(),
            Some(Err(error)) => error.to_string(),
            None => "it is gone".to_owned(),
        }
    }
}

fn work<'a>(
    process: &mut Option<Process<'a>>,
    task: &Task,
    command: &dyn Fn() -> Command,
    children: &'a Children,
) -> Report {
    let mut worker = match process.take().map_or_else(|| Process::start(command, children), Ok) {
        Ok(worker) => worker,
        Err(error) => return Report::Failed(error),
    };
    match worker.ask(task) {
        Some(text) => {
            *process = Some(worker);
            Report::Answer { point: task.point, text }
        }
        // A dead worker is not put back, so the next task starts a new process.
        None => Report::Died { point: task.point, reason: worker.end() },
    }
}

/// Main loop of a worker process: one task per line, one line per answer, until end of input.
pub fn serve(input: impl std::io::BufRead, mut output: impl std::io::Write) -> std::io::Result<()> {
    die_with_parent();
    for line in input.lines() {
        let answer = carry_out(&line?);
        output.write_all((answer + "\n").as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

/// Ends this process when its parent is killed: no worker outlives a killed sweep.
fn die_with_parent() {
    // On other systems a worker ends after its current point, when it cannot deliver the answer.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}
