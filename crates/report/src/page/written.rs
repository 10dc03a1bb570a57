//! Tables as text for papers and web pages: LaTeX with booktabs, and Markdown.

use std::fmt::Write as _;

use super::Table;

impl Table {
    /// The table in LaTeX, with its title and note as caption. Needs the booktabs package.
    pub fn latex(&self) -> String {
        let align: String =
            self.columns.iter().map(|(_, is_number)| if *is_number { 'r' } else { 'l' }).collect();
        let row = |cells: &[String]| {
            let cell = |(cell, (_, is_number)): (&String, &(String, bool))| {
                if *is_number { number_in_latex(cell) } else { text_in_latex(cell) }
            };
            let cells: Vec<String> = cells.iter().zip(&self.columns).map(cell).collect();
            format!("{} \\\\", cells.join(" & "))
        };
        let caption = match &self.note {
            Some(note) => format!("{}. {note}", self.title),
            None => self.title.clone(),
        };
        let mut text = String::from("% \\usepackage{booktabs}\n\\begin{table}\n\\centering\n");
        let _ =
            writeln!(text, "\\caption{{{}}}\n\\begin{{tabular}}{{{align}}}\n\\toprule", in_latex(&caption));
        let names: Vec<String> = self.columns.iter().map(|(name, _)| in_latex(name)).collect();
        let _ = writeln!(text, "{} \\\\\n\\midrule", names.join(" & "));
        self.rows.iter().for_each(|cells| {
            let _ = writeln!(text, "{}", row(cells));
        });
        text.push_str("\\bottomrule\n\\end{tabular}\n\\end{table}\n");
        text
    }

    /// The table in Markdown, with its title above and its note below.
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| in_markdown(cell)).collect();
            format!("| {} |", cells.join(" | "))
        };
        let names: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let rules: Vec<String> =
            self.columns.iter().map(|(_, is_number)| rule(*is_number).to_owned()).collect();
        let mut text =
            format!("**{}**\n\n{}\n| {} |\n", in_markdown(&self.title), line(&names), rules.join(" | "));
        self.rows.iter().for_each(|row| {
            let _ = writeln!(text, "{}", line(row));
        });
        if let Some(note) = &self.note {
            let _ = writeln!(text, "\n{}", in_markdown(note));
        }
        text
    }
}

fn rule(is_number: bool) -> &'static str {
    if is_number { "---:" } else { "---" }
}

/// Escapes text for LaTeX, including characters that older engines lack.
fn in_latex(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' | '>' | '*' => out.extend(['$', c, '$']),
            '±' => out.push_str("$\\pm$"),
            '−' => out.push_str("$-$"),
            '×' => out.push_str("$\\times$"),
            'µ' => out.push_str("\\textmu{}"),
            '…' => out.push_str("\\ldots{}"),
            '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

const OF_FORMULAS: [char; 7] = ['(', '*', '^', '/', '<', '>', '='];

/// Formulas are set in typewriter font to keep their spelling.
fn text_in_latex(text: &str) -> String {
    if !text.contains(OF_FORMULAS) {
        return in_latex(text);
    }
    let escape = |c: char| match c {
        '^' => "\\^{}".to_owned(),
        // Typewriter fonts contain these.
        '<' | '>' | '*' => c.to_string(),
        c => in_latex(&c.to_string()),
    };
    format!("\\texttt{{{}}}", text.chars().map(escape).collect::<String>())
}

/// The number is set in math mode, for a proper minus, and its unit as text.
fn number_in_latex(text: &str) -> String {
    let is_math = |c: char| c.is_ascii_digit() || "+-−.±<>* ".contains(c);
    let end = text.find(|c| !is_math(c)).unwrap_or(text.len());
    let number = text[..end].trim_end();
    if !number.contains(|c: char| c.is_ascii_digit()) {
        return in_latex(text);
    }
    let symbol = |c: char| match c {
        '±' => "\\pm".to_owned(),
        '−' => "-".to_owned(),
        '*' => "^{*}".to_owned(),
        c => c.to_string(),
    };
    let number_in_math: String = number.chars().map(symbol).collect();
    format!("${number_in_math}${}", in_latex(&text[number.len()..]))
}

/// Escapes characters that end a cell or start emphasis or a tag.
fn in_markdown(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '<' | '`' | '[' | '\\' => out.extend(['\\', c]),
            '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            title: "waf_1, 50 %".to_owned(),
            note: Some("* has runs.".to_owned()),
            columns: vec![("victim".to_owned(), false), ("waf".to_owned(), true)],
            rows: vec![
                vec!["age * (1-u) / (1+u)^2".to_owned(), "3.16 ± 0.02".to_owned()],
                vec!["a|b & \\c".to_owned(), "−1 %".to_owned()],
                vec!["d-choices".to_owned(), "-17.11 ± 0.44 %".to_owned()],
                vec!["x_1".to_owned(), "< 0.001".to_owned()],
                vec!["y".to_owned(), "5*".to_owned()],
                vec!["z".to_owned(), "-".to_owned()],
            ],
        }
    }

    #[test]
    fn latex_has_rules_of_booktabs_and_no_character_that_it_takes_for_a_command() {
        let wanted = "% \\usepackage{booktabs}\n\\begin{table}\n\\centering\n\\caption{waf\\_1, 50 \\%. $*$ has runs.}\n\
                      \\begin{tabular}{lr}\n\\toprule\nvictim & waf \\\\\n\\midrule\n\
                      \\texttt{age * (1-u) / (1+u)\\^{}2} & $3.16 \\pm 0.02$ \\\\\n\
                      a|b \\& \\textbackslash{}c & $-1$ \\% \\\\\n\
                      d-choices & $-17.11 \\pm 0.44$ \\% \\\\\nx\\_1 & $< 0.001$ \\\\\ny & $5^{*}$ \\\\\nz & - \\\\\n\\bottomrule\n\\end{tabular}\n\\end{table}\n";
        assert_eq!(table().latex(), wanted);
    }

    #[test]
    fn markdown_aligns_numbers_and_keeps_cells_whole() {
        let wanted = "**waf\\_1, 50 %**\n\n| victim | waf |\n| --- | ---: |\n\
                      | age \\* (1-u) / (1+u)^2 | 3.16 ± 0.02 |\n| a\\|b & \\\\c | −1 % |\n\
                      | d-choices | -17.11 ± 0.44 % |\n| x\\_1 | \\< 0.001 |\n| y | 5\\* |\n| z | - |\n\n\\* has runs.\n";
        assert_eq!(table().markdown(), wanted);
    }
}
