//! It searches all events for the next one, without any sorted structure.

use crate::{SERVICE_NS, run};

struct Job {
    depth: usize,
    arrivals: Vec<u64>,
    issued: usize,
    outstanding: Vec<u64>,
    latencies: Vec<(u64, u64)>,
}

/// FIFO; of simultaneous requests, the job with the lower number comes first.
fn serve(jobs: &mut [Job], start: u64) {
    let mut server_free = start;
    let mut now = start;
    loop {
        let ready = |job: &Job| {
            let &arrival = job.arrivals.get(job.issued)?;
            let mut left = job.outstanding.clone();
            left.retain(|&done| done > now);
            left.sort_unstable();
            let place = if left.len() < job.depth { now } else { left[left.len() - job.depth] };
            Some(arrival.max(place).max(now))
        };
        let next = jobs.iter().map(ready).enumerate().filter_map(|(at, ready)| Some((ready?, at))).min();
        let Some((at, number)) = next else { return };
        now = at;
        server_free = server_free.max(now) + SERVICE_NS;
        let job = &mut jobs[number];
        job.outstanding.push(server_free);
        job.latencies.push((server_free - now, server_free - job.arrivals[job.issued]));
        job.issued += 1;
    }
}

#[test]
fn jobs_are_served_as_by_a_naive_host() {
    // Name, rate, queue depth, delay in µs.
    let cases: [&[(u32, usize, u64)]; 4] = [
        &[(9000, 1, 0)],
        &[(9000, 2, 0), (9000, 1, 0)],
        &[(3000, 4, 0), (30_000, 3, 5_000), (2000, 1, 10_001)],
        &[(16_666, 1, 0), (100, 1, 0), (100, 1, 0), (100, 2, 60)],
    ];
    for jobs in cases {
        let mut text = "[workload]\nrw = \"randread\"\n".to_owned();
        for (number, (rate, depth, delay)) in jobs.iter().enumerate() {
            text += &format!(
                "[[jobs]]\nname = \"job{number}\"\nrate_iops = {rate}\niodepth = {depth}\nstartdelay = \"{delay}us\"\n"
            );
        }
        let count = 400;
        // Each job ends with its last arrival, which keeps all requests in the window.
        for (number, (rate, ..)) in jobs.iter().enumerate() {
            let runtime =
                format!("runtime = \"{}s\"\nname = \"job{number}\"", 100 + count / u64::from(*rate));
            text = text.replace(&format!("name = \"job{number}\""), &runtime);
        }
        let result = run(&format!("{text}[run]\nmeasure = \"200ms\"\ninterval = \"200ms\""));
        let start = result.intervals[0].start_ns;
        let mut naive: Vec<Job> = jobs
            .iter()
            .map(|&(rate, depth, delay)| {
                let begin = start + delay * 1000;
                let arrivals = (0..).map(|n: u64| begin + n * 1_000_000_000 / u64::from(rate));
                let arrivals = arrivals.take_while(|&at| at < start + 200_000_000).collect();
                Job { depth, arrivals, issued: 0, outstanding: Vec::new(), latencies: Vec::new() }
            })
            .collect();
        serve(&mut naive, start);
        for (job, naive) in result.jobs.iter().zip(&naive) {
            let read = &job.read;
            // Requests issued after the window do not count in either.
            let counted = &naive.latencies[..read.total_ios as usize];
            let sum = |of: fn(&(u64, u64)) -> u64| counted.iter().map(of).sum::<u64>() as f64;
            let mean = |sum: f64| sum / counted.len() as f64;
            assert_eq!(read.clat_ns.mean, mean(sum(|latency| latency.0)), "{}: {jobs:?}", job.jobname);
            let lat_ns = read.lat_ns.as_ref().expect("an open loop");
            assert_eq!(lat_ns.mean, mean(sum(|latency| latency.1)), "{}: {jobs:?}", job.jobname);
            assert_eq!(Some(read.clat_ns.max), counted.iter().map(|latency| latency.0).max());
            let load = job.load.expect("an open loop");
            assert_eq!(load.offered, naive.arrivals.len() as u64, "{}: {jobs:?}", job.jobname);
        }
    }
}
