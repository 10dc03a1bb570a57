use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::job::{Report, Sample};

use super::now_ns;

/// Sampling thread. Each mark starts a new one, which aligns samples to the mark.
pub(super) struct Sampler {
    every_ns: u64,
    device: String,
    marks: Arc<AtomicU64>,
}

impl Sampler {
    pub(super) fn new(every_ns: u64, device: &str) -> Self {
        Self { every_ns, device: device.trim_start_matches("/dev/").to_owned(), marks: Arc::default() }
    }

    /// Reports a sample now, at the mark `mark_ns`, and then periodically.
    #[allow(
        clippy::disallowed_methods,
        reason = "a program of the guest, which its kernel runs in virtual time"
    )]
    pub(super) fn begin(&self, mark_ns: u64, mut control: File) -> io::Result<()> {
        if self.every_ns == 0 {
            return Ok(());
        }
        say(&mut control, mark_ns, &self.device)?;
        let (every, device, marks) = (self.every_ns, self.device.clone(), Arc::clone(&self.marks));
        let mine = marks.fetch_add(1, Ordering::SeqCst) + 1;
        thread::spawn(move || {
            for turn in 1.. {
                let at_ns = mark_ns.saturating_add(every.saturating_mul(turn));
                thread::sleep(Duration::from_nanos(at_ns.saturating_sub(now_ns())));
                // A newer mark has started another thread, or the host no longer reads.
                if marks.load(Ordering::SeqCst) != mine || say(&mut control, at_ns, &device).is_err() {
                    return;
                }
            }
        });
        Ok(())
    }
}

fn say(control: &mut File, at_ns: u64, device: &str) -> io::Result<()> {
    let read = |path: String| fs::read_to_string(path).ok();
    let vmstat = read("/proc/vmstat".to_owned()).unwrap_or_default();
    let mut line = serde_json::to_vec(&Report::Sample { at_ns, sample: sample(&vmstat, device, &read) })?;
    line.push(b'\n');
    // One write per line, because the main thread uses the pipe as well.
    control.write_all(&line)
}

fn sample(vmstat: &str, device: &str, read: &dyn Fn(String) -> Option<String>) -> Sample {
    let pages = |name: &str| {
        let value = |line: &str| line.strip_prefix(name)?.trim().parse::<u64>().ok();
        vmstat.lines().find_map(value).unwrap_or(0)
    };
    let page_bytes = rustix::param::page_size() as u64;
    let f2fs = |name: &str| read(format!("/sys/fs/f2fs/{device}/{name}"))?.trim().parse::<u64>().ok();
    let journal = || {
        let journals = fs::read_dir(Path::new("/proc/fs/jbd2")).ok()?;
        let names = journals.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        // A journal's folder is named after its device, such as vda-8.
        let mine = names
            .into_iter()
            .find(|name| name.strip_prefix(device).is_some_and(|rest| rest.starts_with('-')))?;
        read(format!("/proc/fs/jbd2/{mine}/info"))?.split_whitespace().next()?.parse().ok()
    };
    let checkpoints = || Some(f2fs("cp_foreground_calls")? + f2fs("cp_background_calls")?);
    let cleanings = || Some(f2fs("gc_foreground_calls")? + f2fs("gc_background_calls")?);
    Sample {
        dirty_bytes: pages("nr_dirty ") * page_bytes,
        writeback_bytes: pages("nr_writeback ") * page_bytes,
        commits: journal().or_else(checkpoints),
        cleanings: cleanings(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_has_counted_is_found_in_its_files() {
        let vmstat = "nr_dirty 3\nnr_writeback 1\nnr_writeback_temp 7\nnr_dirty_threshold 21973\n";
        let files = |path: String| {
            let text = match path.strip_prefix("/sys/fs/f2fs/vda/")? {
                "cp_foreground_calls" => "2\n",
                "cp_background_calls" => "3\n",
                "gc_foreground_calls" => "40\n",
                "gc_background_calls" => "1\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let page = rustix::param::page_size() as u64;
        let expected =
            Sample { dirty_bytes: 3 * page, writeback_bytes: page, commits: Some(5), cleanings: Some(41) };
        assert_eq!(sample(vmstat, "vda", &files), expected);
        let nothing = sample("", "vda", &|_| None);
        assert_eq!(nothing, Sample::default());
    }
}
