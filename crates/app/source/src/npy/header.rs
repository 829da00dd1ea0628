//! Header of an NPY file: a Python dictionary with element type, order and shape.
//!
//! Own code reads the few kinds of literals that NumPy writes: crates for Python's grammar bring a parser generator.
//!
//! Source: `numpy.lib.format`; Python 2 marks long integers with an `L`.

use std::io::Read;

use super::NpyError;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Maximum size of a header. NumPy pads headers to 64 bytes; a structured type takes some thirty bytes a field.
const MAX_HEADER_BYTES: usize = 1 << 20;
/// Greatest depth of tuples, lists and dictionaries: a structured type needs four.
const MAX_DEPTH: usize = 16;

/// Value of Python's grammar.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Literal {
    Text(String),
    Number(u64),
    Truth(bool),
    /// Tuple or list.
    Sequence(Vec<Literal>),
    Dictionary(Vec<(Literal, Literal)>),
}

/// Content of a header.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) descr: Literal,
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<u64>,
}

impl Header {
    /// Reads a header up to the first byte of the elements.
    pub(super) fn read(reader: &mut (impl Read + ?Sized)) -> Result<Self, NpyError> {
        let text = read_text(reader)?;
        let Literal::Dictionary(entries) = Parser { rest: &text }.whole()? else {
            return Err(NpyError::Header("it is not a dictionary"));
        };
        let missing = NpyError::Header("descr, fortran_order or shape is missing");
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        for (key, value) in entries {
            match (key, value) {
                (Literal::Text(key), value) if key == "descr" => descr = Some(value),
                (Literal::Text(key), Literal::Truth(value)) if key == "fortran_order" => {
                    fortran_order = Some(value);
                }
                (Literal::Text(key), value) if key == "shape" => shape = Some(extents(&value)?),
                _ => {}
            }
        }
        let (Some(descr), Some(fortran_order), Some(shape)) = (descr, fortran_order, shape) else {
            return Err(missing);
        };
        Ok(Self { descr, fortran_order, shape })
    }
}

/// Returns the extents of a shape.
pub(super) fn extents(shape: &Literal) -> Result<Vec<u64>, NpyError> {
    let damaged = NpyError::Header("its shape is not a tuple of numbers");
    let Literal::Sequence(extents) = shape else { return Err(damaged) };
    let number = |extent: &Literal| if let Literal::Number(extent) = extent { Some(*extent) } else { None };
    extents.iter().map(number).collect::<Option<_>>().ok_or(damaged)
}

fn read_text(reader: &mut (impl Read + ?Sized)) -> Result<String, NpyError> {
    let mut start = [0; 8];
    reader.read_exact(&mut start).map_err(|_| NpyError::NotNpy)?;
    if &start[..6] != MAGIC {
        return Err(NpyError::NotNpy);
    }
    let cut = |_| NpyError::Header("the file ends within it");
    let size_bytes = match start[6] {
        1 => {
            let mut size = [0; 2];
            reader.read_exact(&mut size).map_err(cut)?;
            usize::from(u16::from_le_bytes(size))
        }
        2 | 3 => {
            let mut size = [0; 4];
            reader.read_exact(&mut size).map_err(cut)?;
            u32::from_le_bytes(size) as usize
        }
        major => return Err(NpyError::Version { major, minor: start[7] }),
    };
    if size_bytes > MAX_HEADER_BYTES {
        return Err(NpyError::Header("it is longer than 1 MiB"));
    }
    let mut text = vec![0; size_bytes];
    reader.read_exact(&mut text).map_err(cut)?;
    // Versions 1 and 2 are Latin-1, whose letters appear in names of fields only.
    let text = String::from_utf8(text);
    Ok(text.unwrap_or_else(|latin| latin.as_bytes().iter().map(|byte| char::from(*byte)).collect()))
}

/// Text that is still to be parsed.
struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn whole(&mut self) -> Result<Literal, NpyError> {
        let literal = self.literal(0).filter(|_| self.rest.trim_start().is_empty());
        literal.ok_or(NpyError::Header("it is not a Python literal"))
    }

    fn literal(&mut self, depth: usize) -> Option<Literal> {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next().filter(|_| depth < MAX_DEPTH)? {
            'T' => self.word("True").map(|()| Literal::Truth(true)),
            'F' => self.word("False").map(|()| Literal::Truth(false)),
            quote @ ('\'' | '"') => self.text(quote),
            '(' => self.items("(", ")", |parser| parser.literal(depth + 1)).map(Literal::Sequence),
            '[' => self.items("[", "]", |parser| parser.literal(depth + 1)).map(Literal::Sequence),
            '{' => self.items("{", "}", |parser| parser.entry(depth + 1)).map(Literal::Dictionary),
            // The mark of Unicode text, which Python 2 wrote.
            'u' => self.word("u").and_then(|()| self.literal(depth + 1)),
            _ => self.number(),
        }
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(word)?;
        Some(())
    }

    fn entry(&mut self, depth: usize) -> Option<(Literal, Literal)> {
        let key = self.literal(depth)?;
        self.word(":")?;
        Some((key, self.literal(depth)?))
    }

    fn items<T>(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        self.word(open)?;
        let mut items = Vec::new();
        while self.word(close).is_none() {
            items.push(item(self)?);
            if self.word(",").is_none() {
                return self.word(close).map(|()| items);
            }
        }
        Some(items)
    }

    fn text(&mut self, quote: char) -> Option<Literal> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => text.push(characters.next()?.1),
                _ if character == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Some(Literal::Text(text));
                }
                _ => text.push(character),
            }
        }
        None
    }

    fn number(&mut self) -> Option<Literal> {
        let end = self.rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        digits.parse().ok().map(Literal::Number)
    }
}
