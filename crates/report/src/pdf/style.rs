//! Style sheet of a picture: rules for classes and element names.

use roxmltree::Node;

use super::PaperError;

pub(super) struct Sheet {
    /// Element name, or class with a dot, and its properties.
    rules: Vec<(String, Vec<(String, String)>)>,
}

#[derive(Clone, Debug)]
pub(super) struct Style {
    pub(super) fill: Option<[f64; 3]>,
    pub(super) stroke: Option<[f64; 3]>,
    pub(super) width: f64,
    pub(super) dashes: Vec<f64>,
    pub(super) font_size: f64,
    pub(super) is_bold: bool,
}

impl Sheet {
    /// Only the last part of a selector counts: all pictures share one top-level class.
    pub(super) fn of(text: &str) -> Self {
        let mut rules = Vec::new();
        for rule in text.split('}') {
            let Some((selectors, body)) = rule.split_once('{') else { continue };
            let set = body.split(';').filter_map(|one| one.split_once(':'));
            let set: Vec<_> =
                set.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect();
            for selector in selectors.split(',') {
                let last = selector.split_whitespace().last().unwrap_or_default();
                rules.push((last.to_owned(), set.clone()));
            }
        }
        Self { rules }
    }

    /// Style of `node`. Rules for its name override its attributes, and rules for its classes override both.
    pub(super) fn style(&self, node: Node<'_, '_>) -> Result<Style, PaperError> {
        let classes: Vec<&str> = node.attribute("class").unwrap_or_default().split_whitespace().collect();
        let is_class =
            |selector: &str| selector.strip_prefix('.').is_some_and(|name| classes.contains(&name));
        let of_name = self.rules.iter().filter(|(selector, _)| selector == node.tag_name().name());
        let of_class = self.rules.iter().filter(|(selector, _)| is_class(selector));
        let mut set: Vec<(&str, &str)> =
            node.attributes().map(|attribute| (attribute.name(), attribute.value())).collect();
        set.extend(of_name.chain(of_class).flat_map(|(_, set)| set).map(|(key, value)| (&**key, &**value)));
        // Important properties apply last.
        let (important, plain): (Vec<_>, Vec<_>) =
            set.into_iter().partition(|(_, value)| value.ends_with("!important"));
        let mut style = Style {
            fill: Some([0.0; 3]),
            stroke: None,
            width: 1.0,
            dashes: Vec::new(),
            font_size: 12.0,
            is_bold: false,
        };
        let mut opacity = 1.0;
        for (key, value) in plain.into_iter().chain(important) {
            style.set(key, value.trim_end_matches("!important").trim(), &mut opacity)?;
        }
        // No transparency is written: blend the fill with white paper.
        style.fill = style.fill.map(|colour| colour.map(|part| part * opacity + 1.0 - opacity));
        Ok(style)
    }
}

impl Style {
    fn set(&mut self, key: &str, value: &str, opacity: &mut f64) -> Result<(), PaperError> {
        let number = || {
            let bare = value.trim_end_matches("px");
            bare.parse().ok().filter(|number: &f64| number.is_finite())
        };
        let wrong = || PaperError::Foreign(format!("{key}: {value}"));
        match key {
            "fill" => self.fill = colour(value)?,
            "stroke" => self.stroke = colour(value)?,
            "stroke-width" => self.width = number().ok_or_else(wrong)?,
            "font-size" => self.font_size = number().ok_or_else(wrong)?,
            "fill-opacity" => *opacity = number().ok_or_else(wrong)?.clamp(0.0, 1.0),
            "font-weight" => {
                self.is_bold = value == "bold" || value.parse().is_ok_and(|weight: u32| weight >= 600)
            }
            "stroke-dasharray" if value == "none" => self.dashes.clear(),
            "stroke-dasharray" => {
                let dashes: Option<Vec<f64>> =
                    value.split_whitespace().map(|dash| dash.parse().ok()).collect();
                self.dashes = dashes.ok_or_else(wrong)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// `None` for "none".
fn colour(text: &str) -> Result<Option<[f64; 3]>, PaperError> {
    if text == "none" {
        return Ok(None);
    }
    let wrong = || PaperError::Foreign(format!("the colour {text}"));
    let digits: Option<Vec<u32>> =
        text.strip_prefix('#').map(|hex| hex.chars().filter_map(|c| c.to_digit(16)).collect());
    let share = |value: u32| f64::from(value) / 255.0;
    match digits.as_deref() {
        Some([r, g, b]) if text.len() == 4 => Ok(Some([r, g, b].map(|digit| share(digit * 17)))),
        Some([r, s, g, h, b, c]) if text.len() == 7 => {
            Ok(Some([(r, s), (g, h), (b, c)].map(|(high, low)| share(high * 16 + low))))
        }
        _ => Err(wrong()),
    }
}
