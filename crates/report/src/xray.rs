//! X-ray: the drive, block by block, as data for a page.

use serde_json::{Map, Value};

use crate::Run;
use crate::run::number;

/// Maximum bytes of X-rays; further ones are left out, and the page says so.
pub(crate) const BYTES_MAX: usize = 4_000_000;

/// Colours from least to most, ordered by lightness, so they differ in greyscale.
pub(crate) const RAMP: [&str; 7] =
    ["#101c4a", "#2a3f74", "#4d5f83", "#727d86", "#989a7f", "#c3b766", "#efdb57"];
/// Purposes or placement streams, with their colours.
pub(crate) const STREAMS: [(&str, &str); 23] = [
    ("unknown", "#8a8f98"),
    ("the host", "#1f4e9c"),
    ("moved", "#c8642f"),
    ("moved, cold", "#7fc4e8"),
    ("wear levelling", "#3f9a6b"),
    ("the map", "#5b3a8c"),
    ("the host, SLC", "#f2cf63"),
    ("stream 0", "#1f4e9c"),
    ("stream 1", "#7fc4e8"),
    ("stream 2", "#c8642f"),
    ("stream 3", "#f2cf63"),
    ("stream 4", "#3f9a6b"),
    ("stream 5", "#a8d08d"),
    ("stream 6", "#5b3a8c"),
    ("stream 7", "#c9a6dd"),
    ("stream 8", "#8c2a4a"),
    ("stream 9", "#e58fa6"),
    ("stream 10", "#5f4a32"),
    ("stream 11", "#c9ad86"),
    ("stream 12", "#2a7f86"),
    ("stream 13", "#9bd9d5"),
    ("stream 14", "#4d5f83"),
    ("stream 15 or above", "#c3b766"),
];

pub(crate) fn colours() -> Value {
    let (names, colours): (Vec<&str>, Vec<&str>) = STREAMS.into_iter().unzip();
    serde_json::json!({ "ramp": RAMP, "streams": names, "stream": colours })
}

const CELLS_MAX: u64 = 1 << 20;
const FRAMES_MAX: usize = 4096;

/// Numeric keys with their maximum.
const NUMBERS: [(&str, u64); 8] = [
    ("channels", CELLS_MAX),
    ("dies", CELLS_MAX),
    ("planes_per_die", CELLS_MAX),
    ("blocks_per_plane", u32::MAX as u64),
    ("blocks_per_cell", u32::MAX as u64),
    ("cells_per_plane", CELLS_MAX),
    ("wear_min", u32::MAX as u64),
    ("wear_step", u32::MAX as u64),
];
const TEXTS: [&str; 6] = ["stage", "stream", "valid", "written", "changed", "wear"];

/// X-ray of `run`; `None` if it is missing or malformed.
pub(crate) fn of(run: &Run) -> Option<Value> {
    let xray = run.at("xray").as_object()?;
    let mut out = Map::new();
    out.insert("name".to_owned(), run.name.clone().into());
    for (key, most) in NUMBERS {
        let least = if key == "wear_min" { 0 } else { 1 };
        let value = xray.get(key)?.as_u64().filter(|value| (least..=most).contains(value))?;
        out.insert(key.to_owned(), value.into());
    }
    let of = |key: &str| out.get(key).and_then(Value::as_u64).unwrap_or(1);
    let cells = of("dies").checked_mul(of("planes_per_die"))?.checked_mul(of("cells_per_plane"))?;
    let frames = xray.get("frames")?.as_array()?;
    if cells > CELLS_MAX || frames.is_empty() || frames.len() > FRAMES_MAX {
        return None;
    }
    let column = |key: &str| -> Option<Value> {
        frames.iter().map(|frame| number(frame.get(key)?).map(Value::from)).collect()
    };
    out.insert("at_ns".to_owned(), column("at_ns")?);
    out.insert("host_pages".to_owned(), column("host_pages")?);
    for key in TEXTS {
        out.insert(key.to_owned(), digits(xray.get(key)?)?);
    }
    // With a few large cells, a page shows single units.
    if let Some(units) = units_per_block(run) {
        out.insert("units_per_block".to_owned(), units.into());
    }
    for key in ["units", "held"] {
        if let Some(text) = xray.get(key) {
            out.insert(key.to_owned(), digits(text)?);
        }
    }
    Some(out.into())
}

fn units_per_block(run: &Run) -> Option<u64> {
    let of = |path: &str| run.at(path).as_u64().filter(|&value| value > 0);
    let bytes = of("config/drive/nand/pages_per_block")?.checked_mul(of("config/drive/nand/page_bytes")?)?;
    Some(bytes / of("config/drive/ftl/mapping_unit_bytes")?).filter(|&units| units > 0)
}

/// Base64 text; `None` for any other value.
fn digits(value: &Value) -> Option<Value> {
    let text = value.as_str()?;
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    text.bytes().all(is_digit).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_knows_the_units_of_a_block() {
        let of = |drive: Value| {
            let frames = json!([{ "at_ns": 0, "host_pages": 0 }]);
            let xray = json!({
                "channels": 1, "dies": 1, "planes_per_die": 1, "blocks_per_plane": 8, "blocks_per_cell": 1,
                "cells_per_plane": 8, "wear_min": 0, "wear_step": 1, "frames": frames, "stage": "", "stream": "",
                "valid": "", "written": "", "changed": "", "wear": "",
            });
            let result = json!({ "schema_version": 1, "config": { "drive": drive }, "host": {}, "nand": {},
                                 "wear": {}, "xray": xray });
            super::of(&Run::new("x", result).expect("a result")).expect("an X-ray")["units_per_block"].clone()
        };
        let nand = json!({ "pages_per_block": 4, "page_bytes": 16384 });
        assert_eq!(of(json!({ "nand": nand, "ftl": { "mapping_unit_bytes": 4096 } })), 16);
        assert_eq!(of(json!({ "nand": nand, "ftl": { "mapping_unit_bytes": 0 } })), Value::Null);
        assert_eq!(of(json!({})), Value::Null);
    }
}
