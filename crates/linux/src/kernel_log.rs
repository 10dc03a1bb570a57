const BYTES_MAX: usize = 16 << 10;
const LINES_QUOTED: usize = 12;

#[derive(Default)]
pub(crate) struct KernelLog(Vec<u8>);

impl KernelLog {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        let excess = self.0.len().saturating_sub(BYTES_MAX);
        self.0.drain(..excess);
    }

    pub(crate) fn says(&self, what: &str) -> bool {
        String::from_utf8_lossy(&self.0).contains(what)
    }

    pub(crate) fn last_words(&self) -> String {
        let text = String::from_utf8_lossy(&self.0);
        // A panic is quoted from its first line, any other log by its last lines.
        let from =
            text.find("Kernel panic").map_or(0, |at| text[..at].rfind('\n').map_or(0, |line| line + 1));
        let lines: Vec<_> = text[from..].lines().collect();
        let shown = match from {
            0 => &lines[lines.len().saturating_sub(LINES_QUOTED)..],
            _ => &lines[..lines.len().min(LINES_QUOTED)],
        };
        shown.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_quoted_and_a_panic_from_where_it_begins() {
        let mut log = KernelLog::default();
        for line in 0..2000 {
            log.add(format!("line {line}\n").as_bytes());
        }
        assert!(log.0.len() <= BYTES_MAX);
        assert!(log.last_words().starts_with("line 1988\n"), "{}", log.last_words());
        log.add(b"Kernel panic - not syncing\nwhy\n");
        assert!(log.says("not syncing"));
        assert_eq!(log.last_words(), "Kernel panic - not syncing\nwhy");
    }
}
