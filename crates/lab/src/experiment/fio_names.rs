use strobe_ssd::KeyError;
use strobe_ssd::schema::parse_size;
use toml::{Table, Value};

/// fio's names of numbers and sizes, and ours.
const SIZES: &[(&str, &str)] =
    &[("bs", "block_bytes"), ("size", "size_bytes"), ("offset", "offset_bytes"), ("iodepth", "queue_depth")];

/// Our name of the key at `path`, such as workload.queue_depth for workload.iodepth.
pub(super) fn ours(path: &str) -> String {
    let others = [("bssplit", "block_split"), ("rw", "kind"), ("random_distribution", "kind")];
    let mut names = SIZES.iter().chain(&others);
    match path.rsplit_once('.') {
        Some((table, name)) if table == "workload" || table.starts_with("jobs[") => {
            let ours = names.find(|(fio, _)| *fio == name).map_or(name, |(_, ours)| ours);
            format!("{table}.{ours}")
        }
        _ => path.to_owned(),
    }
}

pub(crate) fn accept_fio_names(table: &mut Table, path: &str) -> Result<(), KeyError> {
    let bad = |key: &str, given: &Value, allowed: &str| {
        KeyError::value(format!("{path}.{key}"), given.to_string(), allowed, "fio's name for this knob.")
    };
    // Two names for one key are refused: either choice would surprise a user.
    for (one, other) in [
        ("bs", "block_bytes"),
        ("bssplit", "bs"),
        ("bssplit", "block_bytes"),
        ("bssplit", "block_split"),
        ("size", "size_bytes"),
        ("offset", "offset_bytes"),
        ("iodepth", "queue_depth"),
        ("rwmixread", "rwmixwrite"),
        ("rwmixread", "write_fraction"),
        ("rwmixwrite", "write_fraction"),
    ] {
        if let (Some(value), true) = (table.get(one), table.contains_key(other)) {
            return Err(bad(one, value, &format!("left out, or {path}.{other} left out")));
        }
    }
    for &(fio, ours) in SIZES {
        if let Some(value) = table.remove(fio) {
            let size = value.as_integer().or_else(|| value.as_str().and_then(parse_size));
            let size = size.ok_or_else(|| bad(fio, &value, "a number such as 4096 or \"4k\""))?;
            table.insert(ours.to_owned(), Value::Integer(size));
        }
    }
    if let Some(value) = table.remove("bssplit") {
        let allowed = "sizes with their percentages, such as \"4k/60:64k/40\", the same for reads and writes";
        let split = value.as_str().and_then(block_split).ok_or_else(|| bad("bssplit", &value, allowed))?;
        table.insert("block_split".to_owned(), split);
    }
    for (fio, sign, base) in [("rwmixwrite", 1.0, 0.0), ("rwmixread", -1.0, 1.0)] {
        if let Some(value) = table.remove(fio) {
            let percent = value.as_integer().filter(|p| (0..=100).contains(p));
            let percent = percent.ok_or_else(|| bad(fio, &value, "a whole number from 0 to 100"))?;
            table.insert("write_fraction".to_owned(), Value::Float(base + sign * percent as f64 / 100.0));
        }
    }
    if let Some(value) = table.remove("rw") {
        let (kind, write_fraction) = match value.as_str() {
            Some(rw @ ("trim" | "randtrim")) => {
                table.entry("trim_fraction").or_insert(Value::Float(1.0));
                (if rw == "trim" { "sequential" } else { "uniform" }, Some(1.0))
            }
            Some("write") => ("sequential", Some(1.0)),
            Some("read") => ("sequential", Some(0.0)),
            Some("rw" | "readwrite") => ("sequential", None),
            Some("randwrite") => ("uniform", Some(1.0)),
            Some("randread") => ("uniform", Some(0.0)),
            Some("randrw") => ("uniform", None),
            _ => {
                return Err(bad(
                    "rw",
                    &value,
                    "read, write, rw, trim, randread, randwrite, randrw or randtrim",
                ));
            }
        };
        table.entry("kind").or_insert_with(|| Value::String(kind.to_owned()));
        table.entry("write_fraction").or_insert(Value::Float(write_fraction.unwrap_or(0.5)));
    }
    if let Some(value) = table.remove("random_distribution") {
        let allowed = "random, zipf:THETA, normal:PERCENT or zoned:ACCESS/SIZE (two zones, in percent)";
        let text = value.as_str().ok_or_else(|| bad("random_distribution", &value, allowed))?;
        let (name, argument) = text.split_once(':').unwrap_or((text, ""));
        let keys: Option<(&str, Vec<(&str, f64)>)> = match name {
            "random" => Some(("uniform", Vec::new())),
            "zipf" => number(argument).map(|theta| ("zipf", vec![("theta", theta)])),
            "normal" => number(argument).map(|percent| ("gaussian", vec![("sigma", percent / 100.0)])),
            "zoned" => two_zones(argument).map(|(access, size)| {
                ("hotcold", vec![("hot_write_share", access / 100.0), ("hot_fraction", size / 100.0)])
            }),
            _ => None,
        };
        let (kind, keys) = keys.ok_or_else(|| bad("random_distribution", &value, allowed))?;
        table.insert("kind".to_owned(), Value::String(kind.to_owned()));
        for (key, number) in keys {
            table.insert(key.to_owned(), Value::Float(number));
        }
    }
    Ok(())
}

/// `SIZE/PERCENT:SIZE/PERCENT`; sizes without a percentage share the rest.
fn block_split(text: &str) -> Option<Value> {
    let mut shares = Vec::new();
    for part in text.split(':') {
        let (size, percent) = part.split_once('/').unwrap_or((part, ""));
        let size = parse_size(size).filter(|&size| size > 0)?;
        let percent = if percent.trim().is_empty() { None } else { Some(number(percent)?) };
        shares.push((size, percent));
    }
    let given: f64 = shares.iter().filter_map(|(_, percent)| *percent).sum();
    let open = shares.iter().filter(|(_, percent)| percent.is_none()).count();
    let rest = (100.0 - given) / open.max(1) as f64;
    let share = |(size, percent): (i64, Option<f64>)| {
        let percent = Value::Float(percent.unwrap_or(rest));
        let keys = [("block_bytes", Value::Integer(size)), ("percent", percent)];
        Value::Table(keys.map(|(key, value)| (key.to_owned(), value)).into_iter().collect())
    };
    Some(Value::Array(shares.into_iter().map(share).collect()))
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|x: &f64| x.is_finite())
}

/// First zone of `ACCESS/SIZE:ACCESS/SIZE`, in percent. The second zone is optional and must be the rest.
fn two_zones(text: &str) -> Option<(f64, f64)> {
    let zone = |text: &str| text.split_once('/').and_then(|(a, s)| Some((number(a)?, number(s)?)));
    let (hot, rest) = match text.split_once(':') {
        None => (zone(text)?, None),
        Some((hot, rest)) => (zone(hot)?, Some(zone(rest)?)),
    };
    let completes = |(access, size): (f64, f64)| {
        (hot.0 + access - 100.0).abs() < 1e-9 && (hot.1 + size - 100.0).abs() < 1e-9
    };
    rest.is_none_or(completes).then_some(hot)
}
