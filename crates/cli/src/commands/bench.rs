//! `strobe bench`.

use clap::Args;
use strobe_cli::report::{self, bytes};
use strobe_lab::bench::{BenchResult, CELLS, CellResult, run_cell};

use super::{Failure, output};

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Write the result as JSON to FILE, or to standard output with "-"
    #[arg(long, value_name = "FILE|-")]
    json: Option<String>,
    /// Run only the cells whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

pub(crate) fn bench(args: &BenchArgs) -> Result<(), Failure> {
    let json = output::json_output(&args.json, &[])?;
    let wanted = |name: &str| args.only.as_ref().is_none_or(|text| name.contains(text));
    let mut cells = Vec::new();
    for spec in CELLS.iter().filter(|spec| wanted(spec.name)) {
        output::note(&format!("{}: {}", spec.name, spec.summary));
        cells.push(run_cell(spec, &mut |what| output::note(&format!("  {what}")))?);
    }
    if cells.is_empty() {
        let names: Vec<&str> = CELLS.iter().map(|spec| spec.name).collect();
        return Err(Failure::Request(anyhow::anyhow!("no cell matches; there are {}", names.join(", "))));
    }
    if !output::takes_stdout([&json]) {
        output::print(&table(&cells))?;
    }
    let result = BenchResult { strobe_version: env!("CARGO_PKG_VERSION").to_owned(), cells };
    output::json(&result, json.as_ref())
}

fn table(cells: &[CellResult]) -> String {
    let header = [
        "cell",
        "host pages\nper CPU-s",
        "times\nreal",
        "WAF",
        "floor updates\nper CPU-s",
        "share of\nfloor",
        "memory",
        "bytes\nper page",
    ];
    let mut table = report::table(&header);
    for cell in cells {
        table.add_row(report::row(
            &cell.name,
            [
                format!("{:.2} M", cell.host_pages_per_cpu_s / 1e6),
                cell.virtual_s_per_cpu_s.map_or("-".to_owned(), |pace| format!("{pace:.1}")),
                format!("{:.3}", cell.waf),
                format!("{:.1} M", cell.floor_updates_per_cpu_s / 1e6),
                format!("{:.0} %", 100.0 * cell.floor_ratio),
                bytes(cell.rss_bytes as f64),
                format!("{:.1}", cell.rss_bytes_per_page),
            ],
        ));
    }
    table.to_string()
}
