//! Display of `strobe top`: the difference of two readings of a server's counters.

use std::fmt::Write as _;

use serde_json::Value;

use super::{count, duration, known};

const CAUSES: usize = 4;

/// Difference of the counters `now` and `before`, in the JSON of `strobe ctl SOCKET stats`.
pub fn top(before: &Value, now: &Value) -> String {
    let number = |of: &Value, at: &str| of.pointer(at).and_then(Value::as_f64).unwrap_or(0.0);
    let since = |at: &str| number(now, at) - number(before, at);
    let seconds = since("/time/wall_s");
    // A rewind or ageing resets counters: a negative difference counts as 0.
    let rate = |at: &str| (seconds > 0.0).then(|| since(at).max(0.0) / seconds);
    let mut out = String::new();
    let per_second = |rate: Option<f64>| known(rate, |rate| count(rate.round() as u64));
    let mb_s = |rate: Option<f64>| known(rate, |rate| format!("{:.1}", rate / 1e6));
    let _ = writeln!(
        out,
        "{:>8}  read {}/s  write {}/s  flush {}/s  trim {}/s  read {} MB/s  write {} MB/s",
        duration(number(now, "/time/wall_s") * 1e9),
        per_second(rate("/requests/read")),
        per_second(rate("/requests/write")),
        per_second(rate("/requests/flush")),
        per_second(rate("/requests/discard")),
        mb_s(rate("/jobs/0/read/io_bytes")),
        mb_s(rate("/jobs/0/write/io_bytes")),
    );
    let latency = |op: &str, percentile: &str| {
        let at = format!("/jobs/0/{op}/clat_ns/percentile/{percentile}");
        known(now.pointer(&at).and_then(Value::as_f64), duration)
    };
    let _ = writeln!(
        out,
        "{:>8}  read p50 {} p99 {}  write p50 {} p99 {}  (since the server started)",
        "latency",
        latency("read", "50.000000"),
        latency("read", "99.000000"),
        latency("write", "50.000000"),
        latency("write", "99.000000"),
    );
    let _ = writeln!(out, "{:>8}  {}", "WAF", amplification(before, now));
    let _ = writeln!(
        out,
        "{:>8}  {} of {} blocks free, dies {}, erases {:.1} mean {} max, {} bad",
        "drive",
        count(number(now, "/space/free_blocks") as u64),
        count(number(now, "/space/blocks") as u64),
        busy(since("/dies/held_ns"), since("/time/virtual_ns") * number(now, "/dies/count")),
        number(now, "/wear/erase_mean"),
        count(number(now, "/wear/erase_max") as u64),
        count(number(now, "/wear/bad_blocks") as u64),
    );
    out.trim_end().to_owned()
}

/// `total_ns` is the time of all dies. Without pacing no time passes between requests: the dies are idle.
fn busy(busy_ns: f64, total_ns: f64) -> String {
    if total_ns > 0.0 { format!("{:.1} % busy", 100.0 * busy_ns / total_ns) } else { "idle".to_owned() }
}

/// Write amplification by cause: pages programmed per page programmed for the host.
fn amplification(before: &Value, now: &Value) -> String {
    let causes = |of: &Value| -> Vec<(String, u64)> {
        let by_cause = of.pointer("/nand/program/by_cause").and_then(Value::as_object);
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        by_cause.into_iter().flatten().map(|(cause, value)| (cause.clone(), number(value))).collect()
    };
    let before = causes(before);
    let earlier = |cause: &str| before.iter().find(|(name, _)| name == cause).map_or(0, |(_, count)| *count);
    let mut since: Vec<_> = causes(now)
        .into_iter()
        .map(|(cause, count)| (count.saturating_sub(earlier(&cause)), cause))
        .filter(|(count, _)| *count > 0)
        .collect();
    since.sort_by(|a, b| b.cmp(a));
    let host = since.iter().find(|(_, cause)| cause == "host").map_or(0, |(count, _)| *count);
    if host == 0 {
        return "nothing programmed for the host".to_owned();
    }
    let share = |count: u64| count as f64 / host as f64;
    let total: u64 = since.iter().map(|(count, _)| count).sum();
    let parts: Vec<_> =
        since.iter().take(CAUSES).map(|(count, cause)| format!("{cause} {:.2}", share(*count))).collect();
    format!("{:.2} = {}", share(total), parts.join(" + "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_picture_shows_what_happened_since_the_one_before() {
        let at = |wall: f64, writes: u64, host: u64, gc: u64| {
            json!({
                "time": { "wall_s": wall, "virtual_ns": wall * 1e9 },
                "dies": { "count": 4, "held_ns": host * 1_000_000 },
                "requests": { "write": writes },
                "nand": { "program": { "by_cause": { "host": host, "gc": gc, "map": 0 } } },
                "space": { "blocks": 100, "free_blocks": 7 },
            })
        };
        let text = top(&at(1.0, 100, 1000, 0), &at(3.0, 2100, 1200, 100));
        assert!(text.contains("write 1,000/s") && text.contains("read 0/s"), "{text}");
        assert!(text.contains("1.50 = host 1.00 + gc 0.50"), "{text}");
        // 200 ms of 8 s: four dies for two seconds each.
        assert!(text.contains("7 of 100 blocks free, dies 2.5 % busy"), "{text}");
        let later = at(1.0, 0, 5, 5);
        let none = top(&later, &later);
        assert!(none.contains("dies idle") && none.contains("write -/s"), "{none}");
        assert!(top(&at(1.0, 0, 5, 5), &at(2.0, 0, 5, 5)).contains("nothing programmed"));
    }
}
