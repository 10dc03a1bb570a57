//! Keys that are given, over those of a preset.

use toml::{Table, Value};

use crate::schema::{KeyError, parse_size};

/// Puts `over` on `base`. Of the two keys that say how much the drive offers, the one that is given replaces the
/// other; with neither, a drive of another size keeps its over-provisioning.
pub fn overlay(base: &mut Table, over: Table) -> Result<(), KeyError> {
    let given = |key: &str| over.get("ftl").and_then(|ftl| ftl.get(key)).is_some();
    let (pages, spare) = (given("logical_pages"), given("over_provisioning"));
    if pages && spare {
        return Err(KeyError::value(
            "drive.ftl.over_provisioning",
            "given beside drive.ftl.logical_pages",
            "left out, or drive.ftl.logical_pages left out",
            "Both say how much the drive offers.",
        ));
    }
    if let Some(Value::Table(ftl)) = base.get_mut("ftl") {
        if pages {
            ftl.remove("over_provisioning");
        } else if spare {
            ftl.remove("logical_pages");
        }
    }
    let before = units(base);
    merge(base, over);
    let after = units(base);
    if let (false, false, Some(before), Some(after)) = (pages, spare, before, after)
        && before != after
        && let Some(Value::Table(ftl)) = base.get_mut("ftl")
        && let Some(Value::Integer(logical)) = ftl.get_mut("logical_pages")
    {
        let scaled = u128::try_from(*logical).ok().and_then(|logical| logical.checked_mul(after));
        // What is beyond any drive is refused for what is wrong with it, not for what follows from it.
        let scaled = scaled.map(|all| all / before).filter(|&logical| logical < u128::from(u32::MAX));
        *logical = scaled.and_then(|scaled| i64::try_from(scaled).ok()).unwrap_or(*logical);
    }
    Ok(())
}

/// Mapping units of the flash that `drive` describes, as far as it makes sense.
fn units(drive: &Table) -> Option<u128> {
    let number = |table: &str, key: &str| {
        let value = drive.get(table)?.get(key)?;
        let number = value.as_integer().or_else(|| value.as_str().and_then(parse_size));
        u128::try_from(number?).ok().filter(|&number| number > 0)
    };
    let of_nand = |key| number("nand", key);
    let keys = [
        "channels",
        "dies_per_channel",
        "planes_per_die",
        "blocks_per_plane",
        "pages_per_block",
        "page_bytes",
    ];
    let bytes = keys.into_iter().try_fold(1u128, |all, key| all.checked_mul(of_nand(key)?))?;
    Some(bytes / number("ftl", "mapping_unit_bytes")?).filter(|&units| units > 0)
}

/// Puts `over` on `base`, table by table.
fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(over)) => merge(inner, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
