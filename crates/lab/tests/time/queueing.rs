//! Random reads on many dies: each die is a separate queue, because the address decides.

use std::collections::VecDeque;

use strobe_lab::{Experiment, runner};
use strobe_types::{Lba, Op, Prng, Request};
use strobe_workload::oracle::md1_wait_ns;
use strobe_workload::synthetic::SyntheticConfig;

use crate::assert_near;
use crate::drives::drive;
use crate::host::Host;

/// 60 µs, and 5.12 µs on the bus.
const SERVICE_NS: u64 = 65_120;

/// The number of requests keeps the error of the mean below a fifth of the tolerance. A single die needs the
/// same number (`tests/jobs`); here the requests of all dies count.
#[test]
fn poisson_reads_on_dies_with_buses_of_their_own_wait_as_long_as_in_m_d_1_queues() {
    for (dies, rho, requests) in [
        (4, 0.3, 400_000),
        (4, 0.6, 1_000_000),
        (16, 0.3, 400_000),
        (16, 0.6, 1_000_000),
        (16, 0.8, 3_000_000),
    ] {
        let rate_iops = (rho * 1e9 / SERVICE_NS as f64 * f64::from(dies)).round() as u32;
        // Equal units on each die, filled one after the other.
        let text = format!(
            "[drive.nand]\nchannels = {dies}\nblocks_per_plane = 16\npages_per_block = 64\nchannel_mb_s = 800\n\
             [drive.ftl]\nlogical_pages = {}\n[workload]\nrw = \"randread\"\niodepth = 65536\n\
             rate_iops = {rate_iops}\nrate_process = \"poisson\"\n[run]\nwarmup = 10000\nmeasure = {requests}",
            dies * 600
        );
        let experiment = Experiment::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let result = runner::run(&experiment, &mut ()).expect("it runs");
        let waited = result.jobs[0].read.clat_ns.mean - SERVICE_NS as f64;
        let rho = f64::from(rate_iops) / f64::from(dies) * SERVICE_NS as f64 / 1e9;
        let expected = md1_wait_ns(rho, SERVICE_NS as f64).expect("a share");
        println!(
            "{dies} dies at {rho:.2}: waiting {waited:.0} ns, M/D/1 {expected:.0} ({:+.2} %)",
            (waited / expected - 1.0) * 100.0
        );
        assert_near(&format!("waiting on {dies} dies at {rho}"), waited, expected, 0.01);
    }
}

/// A die holds its page until the bus has carried it.
struct Naive {
    read_ns: u64,
    transfer_ns: u64,
    queues: Vec<VecDeque<usize>>,
    dies: Vec<Doing>,
    buses: Vec<Bus>,
    done: Vec<u64>,
}

#[derive(Clone, Default)]
struct Bus {
    /// Die on the bus, and the end of the transfer.
    carries: Option<(usize, u64)>,
    waiting: VecDeque<usize>,
}

#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Nothing,
    Sensing(usize, u64),
    /// Waits for the bus, or transfers.
    Sending(usize),
}

impl Naive {
    fn serve(
        reads: &[(u64, usize)],
        channels: usize,
        per_channel: usize,
        read_ns: u64,
        transfer_ns: u64,
    ) -> Vec<u64> {
        let dies = channels * per_channel;
        let mut naive = Self {
            read_ns,
            transfer_ns,
            queues: vec![VecDeque::new(); dies],
            dies: vec![Doing::Nothing; dies],
            buses: vec![Bus::default(); channels],
            done: vec![0; reads.len()],
        };
        let mut arrived = 0;
        loop {
            let sensed = naive.dies.iter().filter_map(|&doing| match doing {
                Doing::Sensing(_, until) => Some(until),
                _ => None,
            });
            let sent = naive.buses.iter().filter_map(|bus| bus.carries.map(|(_, until)| until));
            let comes = reads.get(arrived).map(|&(at, _)| at);
            let Some(now) = sensed.chain(sent).chain(comes).min() else { return naive.done };
            naive.end(now, per_channel);
            while let Some(&(at, die)) = reads.get(arrived)
                && at <= now
            {
                naive.queues[die].push_back(arrived);
                arrived += 1;
            }
            naive.begin(now);
        }
    }

    fn end(&mut self, now: u64, per_channel: usize) {
        for die in 0..self.dies.len() {
            let bus = &mut self.buses[die / per_channel];
            match self.dies[die] {
                Doing::Sensing(read, until) if until <= now => {
                    self.dies[die] = Doing::Sending(read);
                    bus.waiting.push_back(die);
                }
                Doing::Sending(read)
                    if bus.carries.is_some_and(|(on_bus, until)| on_bus == die && until <= now) =>
                {
                    self.done[read] = now;
                    (bus.carries, self.dies[die]) = (None, Doing::Nothing);
                }
                _ => {}
            }
        }
    }

    fn begin(&mut self, now: u64) {
        for (die, queue) in self.dies.iter_mut().zip(&mut self.queues) {
            if *die == Doing::Nothing
                && let Some(read) = queue.pop_front()
            {
                *die = Doing::Sensing(read, now + self.read_ns);
            }
        }
        for bus in &mut self.buses {
            if bus.carries.is_none() {
                bus.carries = bus.waiting.pop_front().map(|die| (die, now + self.transfer_ns));
            }
        }
    }
}

/// No closed form: a die that waits for the bus stays busy. The oracle simulates the same arrivals, exact to
/// the nanosecond for every read. The wait exceeds M/D/1.
#[test]
fn poisson_reads_on_dies_that_share_a_bus_are_served_as_by_a_naive_drive() {
    for (channels, per_channel, mb_s, rho) in
        [(2, 4, 100, 0.3), (1, 4, 200, 0.6), (4, 2, 800, 0.8), (1, 8, 150, 0.2)]
    {
        let dies = channels * per_channel;
        let config = drive(&format!(
            "[drive.nand]\nchannels = {channels}\ndies_per_channel = {per_channel}\nblocks_per_plane = 16\n\
             pages_per_block = 64\nchannel_mb_s = {mb_s}\n[drive.ftl]\nlogical_pages = {}\ndie_allocation = \"stripe\"\n",
            dies * 600
        ));
        let mut host = Host::filled(&config, &SyntheticConfig::default());
        let (read_ns, transfer_ns) = (60_000, (4096 * 1000_u64).div_ceil(mb_s));
        let service_ns = (read_ns + transfer_ns) as f64;
        let rate = rho * 1e9 / service_ns * f64::from(dies);
        let (mut arrivals, mut prng) = (host.poisson(rate, 1), Prng::new(2));
        let mut reads = Vec::new();
        host.log = Some(Vec::new());
        for _ in 0..100_000 {
            let at = arrivals.next().expect("endless arrivals");
            arrivals.advance();
            let unit = prng.below(host.drive.logical_units());
            // Filled in stripes: channels first, then the dies of a channel.
            let place = unit % dies;
            let die = (place % channels) * per_channel + place / channels;
            reads.push((at.as_ns(), die as usize));
            host.run_until(at);
            host.submit(Request::new(Op::Read, Lba::new(u64::from(unit) * 8), 8));
        }
        host.rest();
        let mut latencies = host.log.take().expect("a log");
        let naive = Naive::serve(&reads, channels as usize, per_channel as usize, read_ns, transfer_ns);
        let mut expected: Vec<(u64, u64)> =
            reads.iter().zip(&naive).map(|(&(arrival, _), &done)| (done, done - arrival)).collect();
        expected.sort_unstable();
        latencies.sort_unstable();
        assert!(latencies == expected, "{channels} × {per_channel} dies at {rho}");
        let waited =
            expected.iter().map(|&(_, ns)| ns).sum::<u64>() as f64 / expected.len() as f64 - service_ns;
        let alone = md1_wait_ns(rho, service_ns).expect("a share");
        println!(
            "{channels} × {per_channel} dies, {mb_s} MB/s, at {rho}: waiting {waited:.0} ns, M/D/1 {alone:.0}"
        );
        assert!(waited > alone);
    }
}
