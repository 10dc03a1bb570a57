use strobe_ssd::schema::parse_size;
use toml::{Table, Value};

use super::job_file::shown;
use crate::experiment::Time;

pub(super) fn size(text: &str) -> Result<u64, String> {
    let is_binary = text.to_ascii_lowercase().contains('i');
    let size = parse_size(text).filter(|_| !is_binary).and_then(|size| u64::try_from(size).ok());
    size.ok_or_else(|| {
        let why = if is_binary { " (to fio \"ki\" is 1,000 bytes, and \"k\" 1,024)" } else { "" };
        let is_number = text.starts_with(|c: char| c.is_ascii_digit()) && !is_binary;
        match text.trim_start_matches(|c: char| c.is_ascii_digit()) {
            "" | "k" | "m" | "g" | "t" if is_number => format!("\"{}\" is too large", shown(text)),
            _ => format!("\"{}\" is no size such as 4096, 4k or 16m{why}", shown(text)),
        }
    })
}

/// Bytes, or a percentage of `whole` rounded down to a multiple of `block`.
pub(super) fn size_or_share(
    text: &str,
    block: u64,
    whole: impl Fn() -> Result<u64, String>,
) -> Result<u64, String> {
    let Some(percent) = text.strip_suffix('%') else { return size(text) };
    let percent = percent.trim().parse::<u64>().ok().filter(|percent| (0..=100).contains(percent));
    let percent = percent.ok_or_else(|| format!("\"{}\" is no percentage from 0% to 100%", shown(text)))?;
    Ok((u128::from(whole()?) * u128::from(percent) / 100) as u64 / block * block)
}

pub(super) fn whole(text: &str) -> Result<i64, String> {
    if let Some((first, _)) = text.split_once([',', '-']).filter(|(first, _)| !first.is_empty()) {
        return Err(format!(
            "\"{}\" has several numbers; give one, such as {}, or a job for each direction",
            shown(text),
            shown(first)
        ));
    }
    let number = text.parse::<i64>().ok().filter(|&number| number >= 0);
    number.ok_or_else(|| {
        let is_number = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        let why = if is_number { "is too large" } else { "is not a whole number" };
        format!("\"{}\" {why}", shown(text))
    })
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "" | "1" => Ok(true),
        "0" => Ok(false),
        _ => Err(format!("\"{}\" is neither 0 nor 1", shown(text))),
    }
}

/// Reads a time; a bare number is in `unit`.
pub(super) fn time(text: &str, unit: &str) -> Result<String, String> {
    let is_bare = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let time = if is_bare { format!("{text}{unit}") } else { text.to_owned() };
    match Time::parse(&time) {
        Some(_) => Ok(time),
        None => Err(format!("\"{}\" is no time such as 10s, 500ms or 1m", shown(text))),
    }
}

const SIZES_MAX: u64 = 4096;

/// `SIZE-SIZE` as a `block_split`. fio draws `least` plus a random number below `most`, rounded down to a
/// multiple of `least`, and at most `most`.
pub(super) fn range(text: &str) -> Result<Value, String> {
    let wrong = || format!("\"{}\" is no range such as 4k-64k", shown(text));
    let (least, most) = text.split_once('-').ok_or_else(wrong)?;
    let (least, most) = (size(least)?, size(most)?);
    if least == 0 || most < least {
        return Err(wrong());
    }
    let steps = most.div_ceil(least);
    if steps > SIZES_MAX {
        return Err(format!("\"{}\" has {steps} sizes, at most {SIZES_MAX} are possible", shown(text)));
    }
    let mut shares: Vec<(u64, u64)> = Vec::new();
    for step in 0..steps {
        let bytes = (least * (step + 1)).min(most);
        // Number of random values that fio rounds down to this step.
        let part = (least * (step + 1)).min(most) - least * step;
        match shares.last_mut() {
            Some((last, sum)) if *last == bytes => *sum += part,
            _ => shares.push((bytes, part)),
        }
    }
    let share = |(bytes, part): (u64, u64)| {
        let percent = Value::Float(100.0 * part as f64 / most as f64);
        let keys = [("block_bytes", Value::Integer(bytes as i64)), ("percent", percent)];
        Value::Table(keys.map(|(key, value)| (key.to_owned(), value)).into_iter().collect::<Table>())
    };
    Ok(Value::Array(shares.into_iter().map(share).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_a_range_are_drawn_as_fio_draws_them() {
        for text in ["4k-16k", "4k-14k", "512-512", "3k-10k"] {
            let (least, most) = text.split_once('-').expect("two");
            let (least, most) = (size(least).expect("size"), size(most).expect("size"));
            // Every possible random number.
            let mut counts = std::collections::BTreeMap::new();
            for part in 0..most {
                let bytes = (least + part) / least * least;
                *counts.entry(bytes.min(most)).or_insert(0) += 1;
            }
            let Value::Array(found) = range(text).expect("a range") else { panic!("a list") };
            assert_eq!(found.len(), counts.len(), "{text}");
            for (found, (bytes, count)) in found.iter().zip(counts) {
                assert_eq!(found["block_bytes"].as_integer(), Some(bytes as i64), "{text}");
                let percent = found["percent"].as_float().expect("a share");
                assert!((percent - 100.0 * f64::from(count) / most as f64).abs() < 1e-9, "{text}: {percent}");
            }
        }
    }
}
