//! Common parts of all figures: the font, the header lines of a picture, PNG encoding, the style of a page.

use std::sync::OnceLock;

use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::prelude::{DrawingBackend, Text};
use plotters::style::{FontStyle, IntoFont, RGBColor, WHITE, register_font};

/// PNG pixels per pixel of the drawing: sharp on high-resolution screens and on paper.
pub(crate) const PIXELS: u32 = 2;

/// Height of a header line above a picture's figures. Units: pixels of the drawing.
pub(crate) const LINE: u32 = 18;
/// Margin around the header. Units: pixels of the drawing.
pub(crate) const ROOM: u32 = 14;
/// Maximum average width of a letter in header lines. Units: pixels of the drawing.
pub(crate) const LETTER: u32 = 7;

/// Style sheet of a page.
pub(crate) const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1280px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; } td, th { padding: .15em .8em; text-align: right; border-bottom: 1px solid #ddd; }
td.word, th.word { text-align: left; } .noisy { color: #a33; } .quiet { color: #666; }
figure { margin: 0; display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 8px; }
svg { width: 100%; max-width: 560px; height: auto; } figcaption { grid-column: 1 / -1; color: #666; }";

/// Colour of lines and letters.
pub(crate) const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
/// Colour of the grid, faint behind the data.
pub(crate) const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

/// Reason why a figure could not be drawn.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FigureError {
    /// Nothing was measured.
    #[error("there is nothing to draw: no point was measured\nsee the table for the reasons")]
    Empty,
    /// The drawing failed: a defect of this program.
    #[error("a figure could not be drawn: {0}\nplease report it with the output of --json")]
    Drawing(String),
}

/// Draws the header lines above a picture's figures.
///
/// # Errors
/// Errors of the backend: for pictures in memory, only on a defect.
///
/// # Panics
/// If the lines exceed the pixel range of an `i32`.
pub(crate) fn draw_header<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    lines: &[String],
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    area.fill(&WHITE)?;
    let font = ("sans-serif", 12 * PIXELS).into_font().color(&INK);
    let pixels = |drawing: u32| i32::try_from(drawing * PIXELS).expect("a header has few lines");
    for (line, index) in lines.iter().zip(0..) {
        let place = (pixels(ROOM), pixels(ROOM + index * LINE));
        area.draw(&Text::new(line.as_str(), place, font.clone()))?;
    }
    Ok(())
}

/// Wraps text at word boundaries into lines of at most `letters` letters.
#[must_use]
pub(crate) fn wrapped(text: &str, letters: u32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        lines.push(String::new());
        for word in paragraph.split(' ') {
            let line = lines.last_mut().expect("every paragraph begins a line");
            if line.is_empty() {
                word.clone_into(line);
            } else if line.len() + 1 + word.len() <= letters as usize {
                line.push(' ');
                line.push_str(word);
            } else {
                lines.push(word.to_owned());
            }
        }
    }
    lines
}

/// Registers the embedded font, so that pictures do not depend on installed fonts.
pub(crate) fn use_font() {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| {
        let fonts = [(FontStyle::Normal, dejavu::sans::regular()), (FontStyle::Bold, dejavu::sans::bold())];
        for (style, bytes) in fonts {
            // An unreadable font would show as an error of the first text drawn.
            let _ = register_font("sans-serif", style, bytes);
        }
    });
}

/// Encodes rows of red, green, blue as PNG.
///
/// # Errors
/// [`FigureError::Drawing`], only on a defect.
pub(crate) fn encode(pixels: &[u8], (width, height): (u32, u32)) -> Result<Vec<u8>, FigureError> {
    let failed = |error: png::EncodingError| FigureError::Drawing(error.to_string());
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(file)
}

/// Escapes text for HTML.
#[must_use]
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_words_stay_whole() {
        assert_eq!(wrapped("one two three\nfour", 7), ["one two", "three", "four"]);
        assert_eq!(wrapped("unbreakable", 3), ["unbreakable"]);
    }
}
