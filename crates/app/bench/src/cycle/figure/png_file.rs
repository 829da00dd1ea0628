//! Pixels as a PNG file.

use super::FigureError;

/// Encodes rows of red, green, blue.
pub(super) fn encode(pixels: &[u8], (width, height): (u32, u32)) -> Result<Vec<u8>, FigureError> {
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
