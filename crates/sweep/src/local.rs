//! Worker processes on this machine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use strobe_lab::points::Pool;

use crate::{Task, carry_out};

/// Report of a worker.
#[derive(Debug)]
pub(crate) enum Report {
    /// Answer to the task of a point.
    Answer { point: usize, text: String },
    /// The process died during the task of a point; another takes its place.
    Died { point: usize, reason: String },
    /// No process can be started.
    Failed(std::io::Error),
}

/// Calls `drive` with a pool of `count` workers, each a process that `command` makes. All of them have ended when this
/// returns, whatever they were at.
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
        // Killed before the pool waits for its threads, which wait for the processes.
        let _killed = Killed(&children);
        drive(pool)
    })
}

/// Processes that are at work; nothing once all have been killed, and then none is started.
struct Children(Mutex<Option<Vec<Child>>>);

impl Children {
    fn with<O>(&self, act: impl FnOnce(&mut Option<Vec<Child>>) -> O) -> O {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Kills all processes when it is dropped.
struct Killed<'a>(&'a Children);

impl Drop for Killed<'_> {
    fn drop(&mut self) {
        let children = self.0.with(Option::take);
        for mut child in children.into_iter().flatten() {
            // One that has ended cannot be killed, and need not be.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A process at work. It ends when its input is closed.
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
            let all = all.as_mut().ok_or_else(|| std::io::Error::other("the sweep has ended"))?;
            let mut child = command.spawn()?;
            let pipes = child.stdin.take().zip(child.stdout.take());
            let (input, output) = pipes.ok_or_else(|| std::io::Error::other("no pipes"))?;
            let id = child.id();
            all.push(child);
            Ok(Self { children, input, output: BufReader::new(output), id })
        })
    }

    /// Answer to `task`; nothing if the process died.
    fn ask(&mut self, task: &Task) -> Option<String> {
        self.input.write_all((task.to_line() + "\n").as_bytes()).ok()?;
        let mut text = String::new();
        self.output.read_line(&mut text).ok().filter(|_| text.ends_with('\n'))?;
        Some(text)
    }

    /// Waits for the end of the process and returns its status.
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

/// Has `task` done by `process`, which is started if there is none.
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
        None => Report::Died { point: task.point, reason: worker.end() },
    }
}

/// Work of a worker process: reads tasks, a line each, and answers with a line, until there is no more.
pub fn serve(input: impl std::io::BufRead, mut output: impl std::io::Write) -> std::io::Result<()> {
    die_with_parent();
    for line in input.lines() {
        let answer = carry_out(&line?);
        output.write_all((answer + "\n").as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

/// A sweep that is killed leaves nobody behind who goes on for hours.
fn die_with_parent() {
    // Where that cannot be said, a worker ends when its point is done and nobody takes the answer.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}
