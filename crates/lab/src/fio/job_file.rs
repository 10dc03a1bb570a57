pub(super) struct Section {
    pub(super) name: String,
    /// Words and their values, "" without a value.
    pub(super) words: Vec<(String, String)>,
}

pub(super) fn sections(text: &str, name: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    for (at, line) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let wrong = |what: String| Err(format!("{name}, line {}: {what}", at + 1));
        if let Some(title) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if title.trim().is_empty() {
                return wrong("a job without a name; write one between the brackets".to_owned());
            }
            sections.push(Section { name: title.trim().to_owned(), words: Vec::new() });
            continue;
        }
        if line.starts_with("include ") {
            return wrong("include is not supported; copy the lines of that file here".to_owned());
        }
        // Without a section there is no job that the word could belong to.
        let Some(section) = sections.last_mut() else {
            return wrong(format!("\"{}\" is before the first [job]", shown(line)));
        };
        let (word, value) = match line.split_once('=') {
            Some((word, value)) if value.trim().is_empty() => {
                return wrong(format!("[{}] {} has no value", section.name, shown(word.trim())));
            }
            Some((word, value)) => (word.trim(), value.trim()),
            None => (line, ""),
        };
        if value.contains("${")
            || ["$pagesize", "$mb_memory", "$ncpus"].iter().any(|name| value.contains(name))
        {
            let (section, word) = (&section.name, shown(word));
            return wrong(format!("[{section}] {word}: {} is not expanded; write its value", shown(value)));
        }
        section.words.push((word.to_owned(), value.to_owned()));
    }
    Ok(sections)
}

pub(super) fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}
