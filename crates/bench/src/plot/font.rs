//! The fonts of the plots, and how wide text becomes in them.

use skrifa::instance::{LocationRef, Size};
use skrifa::outline::{DrawSettings, OutlinePen};
use skrifa::{FontRef, GlyphId, MetadataProvider};

/// Letters, digits and common signs of DejaVu Sans; see `font/LICENSE`.
const REGULAR: &[u8] = include_bytes!("font/sans-regular.ttf");
const BOLD: &[u8] = include_bytes!("font/sans-bold.ttf");

/// Longest text that is laid out, bytes.
const MAX_LINE: usize = 4096;
/// Advance of a character in ems if the font cannot be asked.
const GUESS: f64 = 0.6;

/// A font at a size.
pub(super) struct Face {
    font: Option<FontRef<'static>>,
    size: f64,
}

impl Face {
    /// The font in `size` pixels an em.
    pub fn new(bold: bool, size: f64) -> Face {
        Face { font: FontRef::new(if bold { BOLD } else { REGULAR }).ok(), size }
    }

    /// The width of a line of text in pixels.
    pub fn width(&self, text: &str) -> f64 {
        self.glyphs(text).map(|(_, advance)| advance).sum()
    }

    /// As much of `text` as fits into `width` pixels, with a sign that something is missing.
    pub fn cut(&self, text: &str, width: f64) -> String {
        let text = text.get(..text.floor_char_boundary(MAX_LINE)).unwrap_or_default();
        if self.width(text) <= width {
            return text.to_owned();
        }
        let room = width - self.width("…");
        let mut used = 0.0;
        let kept = text.chars().zip(self.glyphs(text)).take_while(|(_, (_, advance))| {
            used += advance;
            used <= room
        });
        format!("{}…", kept.map(|(character, _)| character).collect::<String>().trim_end())
    }

    /// `text` in lines of at most `width` pixels, broken between words.
    pub fn wrap(&self, text: &str, width: f64) -> Vec<String> {
        let text = text.get(..text.floor_char_boundary(MAX_LINE)).unwrap_or_default();
        let mut lines = Vec::new();
        let mut line = String::new();
        for word in text.split_whitespace() {
            let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
            if self.width(&longer) <= width || line.is_empty() {
                line = longer;
            } else {
                lines.push(self.cut(&line, width));
                line = word.to_owned();
            }
        }
        if !line.is_empty() {
            lines.push(self.cut(&line, width));
        }
        lines
    }

    /// Hands the outline of `text` to `pen`: base line at 0, upwards positive, glyph after glyph with where it begins.
    pub fn outline<P: OutlinePen>(&self, text: &str, mut pen: impl FnMut(f64) -> P, mut done: impl FnMut(P)) {
        let Some(font) = &self.font else { return };
        let outlines = font.outline_glyphs();
        let mut at = 0.0;
        for (glyph, advance) in self.glyphs(text) {
            if let Some(outline) = outlines.get(glyph) {
                let mut glyph_pen = pen(at);
                let settings = DrawSettings::unhinted(self.em(), LocationRef::default());
                // What cannot be drawn is left out: the fonts are our own, and tested.
                if outline.draw(settings, &mut glyph_pen).is_ok() {
                    done(glyph_pen);
                }
            }
            at += advance;
        }
    }

    fn em(&self) -> Size {
        Size::new(self.size as f32)
    }

    fn glyphs(&self, text: &str) -> impl Iterator<Item = (GlyphId, f64)> {
        let tables = self
            .font
            .as_ref()
            .map(|font| (font.charmap(), font.glyph_metrics(self.em(), LocationRef::default())));
        text.chars().map(move |character| {
            let guess = GUESS * self.size;
            let Some((characters, metrics)) = &tables else { return (GlyphId::NOTDEF, guess) };
            let glyph = characters.map(character).unwrap_or(GlyphId::NOTDEF);
            (glyph, metrics.advance_width(glyph).map_or(guess, f64::from))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_fonts_know_what_plots_say() {
        for bold in [false, true] {
            let face = Face::new(bold, 10.0);
            let font = face.font.as_ref().unwrap();
            for character in "MiB/s µs ms 0,123.4× p99.9 – (ü) …±≤→".chars() {
                assert!(font.charmap().map(character).is_some(), "{character}");
            }
        }
    }

    #[test]
    fn text_has_a_width() {
        let face = Face::new(false, 10.0);
        // DejaVu Sans: digits are 0.636 em wide.
        assert!((face.width("0000") - 4.0 * 6.36).abs() < 0.1, "{}", face.width("0000"));
        assert!(Face::new(true, 10.0).width("abc") > face.width("abc"));
        assert_eq!(face.width(""), 0.0);
    }

    #[test]
    fn long_text_is_cut_or_broken() {
        let face = Face::new(false, 10.0);
        let text = "one two three four five six seven";
        assert_eq!(face.cut(text, 1000.0), text);
        let cut = face.cut(text, 60.0);
        assert!(cut.ends_with('…') && face.width(&cut) <= 60.0, "{cut}");
        let lines = face.wrap(text, 60.0);
        assert!(lines.len() > 2 && lines.iter().all(|line| face.width(line) <= 60.0), "{lines:?}");
        assert_eq!(lines.join(" "), text);
        assert!(face.wrap("", 60.0).is_empty());
    }
}
