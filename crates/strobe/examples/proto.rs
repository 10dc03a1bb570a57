#![allow(missing_docs, clippy::disallowed_types, clippy::unwrap_used)]
use std::time::Instant;
use strobe::bench::*;
use strobe_ssd::*;
use strobe_types::*;
fn main() {
    let t: bool = std::env::args().nth(1).is_some_and(|a| a == "timed");
    let mut rng = Prng::new(1);
    let mut w = strobe_workload::synthetic::SyntheticConfig::default().build(1_635_778 * 4096, 1).unwrap();
    use strobe_workload::synthetic::Workload;
    let mut f =
        Floor::new(FloorShape { logical_units: 1_635_778, physical_units: 2_097_152, units_per_block: 256 });
    let mut batch = vec![0u32; 4096];
    let mut spent = 0.0;
    for i in 0..6000 {
        f.draw(&mut batch, &mut rng);
        let s = Instant::now();
        f.run(&batch);
        if i >= 1000 {
            spent += s.elapsed().as_secs_f64();
        }
    }
    let floor = 5000.0 * 4096.0 / spent;
    println!("floor {:.1} M/s  {}", floor / 1e6, f.digest());
    let mut c: DriveConfig = toml_from(presets::find("generic-8g").unwrap().toml);
    if let Some(v) = std::env::args().nth(2) {
        c.ftl.gc.victim = v;
    }
    let mut d = build(&c, t, 1).unwrap();
    let n = d.logical_units();
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
    let m = 10 * u64::from(n);
    let s = go(&mut d, m);
    let b = d.stats().since(&a);
    let waf = b.nand.total(strobe_nand::NandOp::Program) as f64 / b.host.units_written as f64;
    let rate = m as f64 / s;
    println!(
        "{:.2} M host/s waf {waf:.4} floor/waf {:.2} ratio {:.3}",
        rate / 1e6,
        floor / waf / 1e6,
        rate / (floor / waf)
    );
}
fn toml_from(t: &str) -> DriveConfig {
    toml::from_str(t).unwrap()
}
