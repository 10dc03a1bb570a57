//! Standalone picture files, and their style.

/// Style sheet whose colours are custom properties, defined by the page for light and dark.
pub(crate) const PICTURES: &str = include_str!("page/picture.css");

const PAPER: [(&str, &str); 12] = [
    ("--ink", "#1a1c20"),
    ("--soft", "#5b616b"),
    ("--line", "#e3e5e9"),
    ("--back", "#fff"),
    ("--s0", "#14305c"),
    ("--s1", "#9c3a26"),
    ("--s2", "#3c8a68"),
    ("--s3", "#cf9a2c"),
    ("--s4", "#5a4a8c"),
    ("--s5", "#b3688a"),
    ("--s6", "#6d8fb5"),
    ("--s7", "#9aa0a8"),
];

/// Style sheet with fixed colours. Outside browsers, custom properties are drawn black.
pub(crate) fn on_paper() -> String {
    PAPER.iter().fold(PICTURES.trim().to_owned(), |sheet, (name, colour)| {
        sheet.replace(&format!("var({name})"), colour)
    })
}

pub(crate) fn standalone(svg: &str) -> String {
    let sheet = on_paper();
    let head = format!("><style>{sheet}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>");
    svg.replacen('>', &head, 1) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_on_paper_has_colours_and_no_custom_property() {
        let sheet = on_paper();
        assert!(!sheet.contains("var(") && !sheet.contains("--"), "{sheet}");
        assert!(
            sheet.contains(".plot .s1{stroke:#9c3a26;") && sheet.contains(".plot .f0{fill:#14305c}"),
            "{sheet}"
        );
        assert!(!standalone("<svg class=\"plot\"></svg>").contains("var("));
    }
}
