#![allow(missing_docs, clippy::disallowed_types, clippy::unwrap_used)]
use std::time::Instant;
use strobe::bench::*;
use strobe_ssd::*;
use strobe_types::*;
use strobe_workload::synthetic::*;
fn main() {
    let t: bool = std::env::args().nth(1).is_some_and(|a| a == "timed");
    let mut rng = Prng::new(1);
    let mut f =
        Floor::new(FloorShape { logical_units: 1_635_778, physical_units: 2_097_152, units_per_block: 256 });
    let mut batch = vec![0u32; 4096];
    let mut c: DriveConfig = toml::from_str(presets::find("generic-8g").unwrap().toml).unwrap();
    if let Some(v) = std::env::args().nth(2) {
        c.ftl.gc.victim = v;
    }
    let mut d = build(&c, t, 1).unwrap();
    let n = d.logical_units();
    let mut w = SyntheticConfig::default().build(u64::from(n) * 4096, 1).unwrap();
    let mut q = HostQueue::new(Pacing::Closed { depth: 1, interval_ns: 0 }, SimTime::ZERO);
    let mut reqs = Vec::new();
    for l in 0..n {
        reqs.push(Request::new(Op::Write, Lba::new(u64::from(l) * 8), 8));
        if reqs.len() == 1024 {
            d.run(&reqs, &[], &mut q).unwrap();
            reqs.clear();
        }
    }
    let mut go = |d: &mut Box<dyn Engine>, count: u64| {
        let s = Instant::now();
        for _ in 0..count / 1024 {
            w.fill(&mut reqs, 1024);
            d.run(&reqs, &[], &mut q).unwrap();
        }
        s.elapsed().as_secs_f64()
    };
    go(&mut d, 8 * u64::from(n));
    let a = d.stats();
    let mut out = vec![];
    for _ in 0..16 {
        let mut spent = 0.0;
        for _ in 0..500 {
            f.draw(&mut batch, &mut rng);
            let s = Instant::now();
            f.run(&batch);
            spent += s.elapsed().as_secs_f64();
        }
        let floor = 500.0 * 4096.0 / spent;
        let s = go(&mut d, 1 << 20);
        let rate = f64::from(1 << 20) / s;
        out.push((rate / floor * 2.4514, rate / 1e6, floor / 1e6));
    }
    let b = d.stats().since(&a);
    let waf = b.nand.total(strobe_nand::NandOp::Program) as f64 / b.host.units_written as f64;
    out.sort_by(|a, b| a.0.total_cmp(&b.0));
    println!(
        "waf {waf:.4} ratio/rate/floor min {:.3?} median {:.3?} max {:.3?} {}",
        out[0],
        out[8],
        out[15],
        f.digest() & 1
    );
}
