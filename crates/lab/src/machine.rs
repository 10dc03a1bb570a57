//! Clock and memory of this machine, for progress and limits. The simulation does not use them.

/// A stopwatch for this process: wall and CPU seconds.
#[derive(Debug)]
pub struct Stopwatch {
    #[allow(clippy::disallowed_types, reason = "measures the simulator, not the simulation")]
    wall: std::time::Instant,
    cpu: cpu_time::ProcessTime,
}

impl Stopwatch {
    /// Starts now.
    #[allow(clippy::disallowed_types, reason = "measures the simulator, not the simulation")]
    pub fn start() -> Self {
        Self { wall: std::time::Instant::now(), cpu: cpu_time::ProcessTime::now() }
    }

    /// Wall seconds since the start.
    pub fn wall_s(&self) -> f64 {
        self.wall.elapsed().as_secs_f64()
    }

    /// CPU seconds of this process since the start.
    pub fn cpu_s(&self) -> f64 {
        self.cpu.elapsed().as_secs_f64()
    }
}

/// Resident memory of this process in bytes; `None` if the system does not report it.
pub fn resident_bytes() -> Option<u64> {
    proc_kib("/proc/self/status", "VmRSS:")
}

/// Memory available without swapping, in bytes; `None` if the system does not report it.
pub fn available_bytes() -> Option<u64> {
    proc_kib("/proc/meminfo", "MemAvailable:")
}

fn proc_kib(file: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}
