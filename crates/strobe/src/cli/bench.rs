//! `strobe bench`.

use clap::Args;
use comfy_table::{Cell, CellAlignment, Table};
use strobe::bench::{BenchResult, CELLS, CellResult, run_cell};
use strobe::report::bytes;

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
    output::check_target(&args.json, &[])?;
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
    if args.json.as_deref() != Some("-") {
        output::print(&table(&cells))?;
    }
    match &args.json {
        Some(target) => {
            let result = BenchResult { strobe_version: env!("CARGO_PKG_VERSION").to_owned(), cells };
            output::json(&result, target)
        }
        None => Ok(()),
    }
}

fn table(cells: &[CellResult]) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "cell",
        "host pages/CPU-s",
        "WAF",
        "floor updates/CPU-s",
        "share of floor",
        "memory",
        "bytes/page",
    ]);
    for cell in cells {
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row(vec![
            Cell::new(&cell.name),
            right(format!("{:.2} M", cell.host_pages_per_cpu_s / 1e6)),
            right(format!("{:.3}", cell.waf)),
            right(format!("{:.1} M", cell.floor_updates_per_cpu_s / 1e6)),
            right(format!("{:.0} %", 100.0 * cell.floor_ratio)),
            right(bytes(cell.rss_bytes as f64)),
            right(format!("{:.1}", cell.rss_bytes_per_page)),
        ]);
    }
    table.to_string()
}
