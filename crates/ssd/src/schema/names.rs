//! Nearest valid name for a misspelt one.

/// The valid name closest to `given`; `None` if no name is close enough for a likely typing error.
pub fn nearest<'a>(given: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Every name contains the empty string, so the empty string would match.
    if given.trim().is_empty() {
        return None;
    }
    let given = given.to_lowercase();
    valid
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&given, &name.to_lowercase()), name))
        .filter(|&(distance, name)| distance <= 1.max(name.len() / 3) || name.contains(&given))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_are_recognised_and_nonsense_is_not() {
        let names = ["greedy", "cost-benefit", "fifo", "random"];
        assert_eq!(nearest("gredy", names), Some("greedy"));
        assert_eq!(nearest("costbenefit", names), Some("cost-benefit"));
        assert_eq!(nearest("FIFO", names), Some("fifo"));
        assert_eq!(nearest("quantum", names), None);
        assert_eq!((nearest("", names), nearest(" ", names)), (None, None));
    }
}
