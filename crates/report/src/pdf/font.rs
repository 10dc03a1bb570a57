//! The font of PDF files: DejaVu Sans Condensed with Latin, Greek and signs of mathematics (`FONT-LICENSE`).

use ttf_parser::{Face, GlyphId};

/// The font's file.
pub(super) const FILE: &[u8] = include_bytes!("font.ttf");

/// The font.
pub(super) struct Font {
    face: Face<'static>,
}

impl Font {
    pub(super) fn embedded() -> Self {
        Self { face: Face::parse(FILE, 0).expect("the font that comes along is sound") }
    }

    /// The glyph of `c`, or the one that stands for what is missing.
    pub(super) fn glyph(&self, c: char) -> u16 {
        self.face.glyph_index(c).unwrap_or(GlyphId(0)).0
    }

    /// `value` in thousandths of the font's size.
    fn thousandths(&self, value: f64) -> f64 {
        value * 1000.0 / f64::from(self.face.units_per_em())
    }

    /// Width of a glyph in thousandths of the font's size.
    pub(super) fn width(&self, glyph: u16) -> f64 {
        self.thousandths(self.face.glyph_hor_advance(GlyphId(glyph)).unwrap_or(0).into())
    }

    /// Lowest and highest ends of letters, in thousandths.
    pub(super) fn heights(&self) -> (i64, i64) {
        let of = |value: i16| libm::round(self.thousandths(value.into())) as i64;
        (of(self.face.descender()), of(self.face.ascender()))
    }

    /// The box around all glyphs.
    pub(super) fn bounds(&self) -> String {
        let bounds = self.face.global_bounding_box();
        let ends = [bounds.x_min, bounds.y_min, bounds.x_max, bounds.y_max];
        ends.map(|end| format!("{:.0}", self.thousandths(end.into()))).join(" ")
    }
}
