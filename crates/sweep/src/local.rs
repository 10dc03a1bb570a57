//! Worker processes on this machine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::{Task, carry_out};

/// What a worker has to say.
#[derive(Debug)]
pub enum Report {
    /// The answer to a task.
    Answer {
        /// Which point.
        point: usize,
        /// What the worker said.
        text: String,
    },
    /// The process died over a task; another has taken its place.
    Died {
        /// Which point.
        point: usize,
        /// How.
        reason: String,
    },
    /// No process can be started.
    Failed(std::io::Error),
}

/// Processes that run tasks, one each at a time. They end when this is dropped.
#[derive(Debug)]
pub struct Workers {
    tasks: Option<Sender<Task>>,
    reports: Receiver<Report>,
    threads: Vec<std::thread::JoinHandle<()>>,
    children: Arc<Mutex<Vec<Child>>>,
    idle: usize,
}

impl Workers {
    /// `count` workers, each a process that `command` makes: one that calls [`serve`].
    #[allow(clippy::disallowed_methods, reason = "each waits for a process; no simulation runs in it")]
    pub fn new(count: usize, command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        let (tasks, queue) = channel::<Task>();
        let (sender, reports) = channel();
        let (queue, command) = (Arc::new(Mutex::new(queue)), Arc::new(command));
        let children = Arc::new(Mutex::new(Vec::new()));
        let threads = (0..count)
            .map(|_| {
                let (queue, command, sender) = (Arc::clone(&queue), Arc::clone(&command), sender.clone());
                let children = Arc::clone(&children);
                std::thread::spawn(move || work(&queue, &*command, &sender, &children))
            })
            .collect();
        Self { tasks: Some(tasks), reports, threads, children, idle: count }
    }

    /// Whether one has nothing to do.
    pub fn has_idle(&self) -> bool {
        self.idle > 0
    }

    /// Gives a task to one that is idle.
    pub fn give(&mut self, task: Task) {
        self.idle -= 1;
        // The receiver lives as long as the threads do.
        if let Some(tasks) = &self.tasks {
            let _ = tasks.send(task);
        }
    }

    /// The next report; nothing if none comes for a tenth of a second.
    pub fn report(&mut self) -> Option<Report> {
        let report = self.reports.recv_timeout(Duration::from_millis(100)).ok()?;
        self.idle += 1;
        Some(report)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.tasks = None;
        // Whatever they are at is not wanted any more.
        if let Ok(mut children) = self.children.lock() {
            children.iter_mut().for_each(|child| drop(child.kill()));
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A process that is at work, killed and waited for when it is done with.
struct Process {
    input: std::process::ChildStdin,
    output: BufReader<std::process::ChildStdout>,
    id: u32,
}

impl Process {
    fn start(command: &dyn Fn() -> Command, children: &Mutex<Vec<Child>>) -> std::io::Result<Self> {
        let mut child =
            command().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or_else(|| std::io::Error::other("no pipes"))?;
        let id = child.id();
        if let Ok(mut children) = children.lock() {
            children.push(child);
        }
        Ok(Self { input, output: BufReader::new(output), id })
    }

    /// The answer to `task`; nothing if the process died.
    fn ask(&mut self, task: &Task) -> Option<String> {
        self.input.write_all((task.to_line() + "\n").as_bytes()).ok()?;
        let mut text = String::new();
        self.output.read_line(&mut text).ok().filter(|_| text.ends_with('\n'))?;
        Some(text)
    }

    /// Waits for its end and says how it came.
    fn end(self, children: &Mutex<Vec<Child>>) -> String {
        drop(self.input);
        let taken = children.lock().ok().and_then(|mut children| {
            let at = children.iter().position(|child| child.id() == self.id)?;
            Some(children.swap_remove(at))
        });
        match taken.map(|mut child| child.wait()) {
            Some(Ok(status)) => status.to_string(),
            Some(Err(error)) => error.to_string(),
            None => "it is gone".to_owned(),
        }
    }
}

fn work(
    queue: &Mutex<Receiver<Task>>,
    command: &(dyn Fn() -> Command + Send + Sync),
    reports: &Sender<Report>,
    children: &Mutex<Vec<Child>>,
) {
    let mut process: Option<Process> = None;
    loop {
        let task = queue.lock().ok().and_then(|queue| queue.recv().ok());
        let Some(task) = task else { break };
        let started = match process.take() {
            Some(process) => Ok(process),
            None => Process::start(&command, children),
        };
        let report = match started {
            Err(error) => Report::Failed(error),
            Ok(mut worker) => match worker.ask(&task) {
                Some(text) => {
                    process = Some(worker);
                    Report::Answer { point: task.point, text }
                }
                None => Report::Died { point: task.point, reason: worker.end(children) },
            },
        };
        if reports.send(report).is_err() {
            break;
        }
    }
    if let Some(process) = process {
        process.end(children);
    }
}

/// What a worker process does: reads tasks, a line each, and answers with a line, until there is no more.
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
