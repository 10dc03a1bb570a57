//! Overlays given keys on a preset.

use toml::{Table, Value};

use crate::schema::{KeyError, parse_size};

/// Overlays the keys of `over` on `base`. A capacity or over-provisioning in `over` replaces either key in
/// `base`. Both together are an error. Without them, the capacity scales with the flash.
pub fn overlay(base: &mut Table, over: Table) -> Result<(), KeyError> {
    let given = |key: &str| over.get("ftl").and_then(|ftl| ftl.get(key)).is_some();
    let (pages, spare) = (given("logical_pages"), given("over_provisioning"));
    if pages && spare {
        return Err(KeyError::value(
            "drive.ftl.over_provisioning",
            "given together with drive.ftl.logical_pages",
            "left out, or drive.ftl.logical_pages left out",
            "Both set the capacity of the drive.",
        ));
    }
    if let Some(Value::Table(ftl)) = base.get_mut("ftl") {
        if pages {
            ftl.remove("over_provisioning");
        } else if spare {
            ftl.remove("logical_pages");
        }
    }
    // Without either key in `over`, the capacity is scaled with the size of flash.
    let before = units(base);
    merge(base, over);
    let after = units(base);
    if let (false, false, Some(before), Some(after)) = (pages, spare, before, after)
        && before != after
        && let Some(Value::Table(ftl)) = base.get_mut("ftl")
        && let Some(Value::Integer(logical)) = ftl.get_mut("logical_pages")
    {
        let scaled = u128::try_from(*logical).ok().and_then(|logical| logical.checked_mul(after));
        // A capacity too large for any drive is left unscaled. The error then names the geometry, not a
        // number that the user never gave.
        let scaled = scaled.map(|all| all / before).filter(|&logical| logical < u128::from(u32::MAX));
        *logical = scaled.and_then(|scaled| i64::try_from(scaled).ok()).unwrap_or(*logical);
    }
    Ok(())
}

/// Mapping units of the flash; `None` if the geometry is invalid.
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
