//! A document of keys: its entries are taken out one by one, by name and kind, and none may be left.
//!
//! The parser's own conversion into types is not used: its errors quote values.

use base64ct::{Base64, Encoding};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use units::WallTime;
use zeroize::Zeroizing;

use super::{FORMAT, KeyFileError, MAX_KEY_FILE_BYTES};
use crate::service::ServiceAddress;
use crate::station::is_name;
use crate::{CERTIFICATE_BYTES, Certificate, GroupSecret, PublicKey, SECRET_BYTES, Secret, Suite, Token};

/// Wish for an entry with a key or a secret.
const THIRTY_TWO_BYTES: &str = "32 bytes in Base64, in quotes";

/// A table of the text with the entries that are not taken yet.
pub(crate) struct Document<'t> {
    text: &'t str,
    /// First line of the table, from 1.
    line: usize,
    entries: DeTable<'t>,
}

impl<'t> Document<'t> {
    /// Parses a whole text of this format.
    pub(crate) fn parse(text: &'t str) -> Result<Self, KeyFileError> {
        if text.len() > MAX_KEY_FILE_BYTES {
            return Err(KeyFileError::Long);
        }
        let parsed = DeTable::parse(text).map_err(|error| {
            let line = line_at(text, error.span().map_or(0, |span| span.start));
            // Not the error's whole text, which quotes the line.
            KeyFileError::Syntax { line, message: error.message().to_owned() }
        })?;
        let mut document = Self { text, line: 1, entries: parsed.into_inner() };
        let (line, value) = document.take("format")?;
        let is_known = value.as_integer().is_some_and(|number| number.as_str() == FORMAT);
        if is_known { Ok(document) } else { Err(KeyFileError::Format(line)) }
    }

    /// Returns the first line of the table.
    pub(crate) const fn line(&self) -> usize {
        self.line
    }

    /// Returns whether there is a table with this name.
    pub(crate) fn has_table(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.get_ref().is_table())
    }

    /// Takes a table.
    pub(crate) fn table(&mut self, name: &'static str) -> Result<Self, KeyFileError> {
        let (line, value) = self.take(name)?;
        self.inner(line, value).ok_or(KeyFileError::Value { line, name, wanted: "a table" })
    }

    /// Takes a list of tables, which may be missing.
    pub(crate) fn tables(&mut self, name: &'static str) -> Result<Vec<Self>, KeyFileError> {
        let Some(entry) = self.entries.remove(name) else { return Ok(Vec::new()) };
        let line = line_at(self.text, entry.span().start);
        let wrong = |line| KeyFileError::Value { line, name, wanted: "a table in double brackets" };
        let DeValue::Array(list) = entry.into_inner() else { return Err(wrong(line)) };
        let tables = list.into_iter().map(|entry| {
            let line = line_at(self.text, entry.span().start);
            self.inner(line, entry.into_inner()).ok_or_else(|| wrong(line))
        });
        tables.collect()
    }

    /// Takes a name.
    pub(crate) fn name(&mut self, name: &'static str) -> Result<(usize, String), KeyFileError> {
        let wanted = "a name of 1 to 64 bytes without control characters, in quotes";
        self.text(name, wanted, |text| is_name(text).then(|| text.to_owned()))
    }

    /// Takes a public key.
    pub(crate) fn public_key(&mut self, name: &'static str) -> Result<(usize, PublicKey), KeyFileError> {
        self.text(name, THIRTY_TWO_BYTES, |text| Some(PublicKey(*thirty_two_bytes(text)?)))
    }

    /// Takes a secret.
    pub(crate) fn secret(&mut self, name: &'static str) -> Result<(usize, Secret), KeyFileError> {
        self.text(name, THIRTY_TWO_BYTES, |text| thirty_two_bytes(text).map(Secret::new))
    }

    /// Takes a certificate.
    pub(crate) fn certificate(&mut self, name: &'static str) -> Result<(usize, Certificate), KeyFileError> {
        self.text(name, "a certificate in Base64, in quotes", |text| {
            let mut bytes = [0; CERTIFICATE_BYTES];
            Certificate::from_bytes(Base64::decode(text, &mut bytes).ok()?).ok()
        })
    }

    /// Takes the token of a secret.
    pub(crate) fn token(&mut self, name: &'static str) -> Result<(usize, Token), KeyFileError> {
        self.text(name, "8 hexadecimal digits, in quotes", |text| text.parse().ok())
    }

    /// Takes the name of a suite.
    pub(crate) fn suite(&mut self, name: &'static str) -> Result<(usize, Suite), KeyFileError> {
        self.text(name, "\"aes-256-gcm\" or \"chacha20-poly1305\"", Suite::from_name)
    }

    /// Takes a time, a date of TOML or a text.
    pub(crate) fn time(&mut self, name: &'static str) -> Result<(usize, WallTime), KeyFileError> {
        let (line, value) = self.take(name)?;
        let text = match value {
            DeValue::Datetime(time) => Some(time.to_string()),
            DeValue::String(text) => Some(text.into_owned()),
            _ => None,
        };
        let time = text.and_then(|text| text.parse::<jiff::Timestamp>().ok());
        let nanos = time.and_then(|time| i64::try_from(time.as_nanosecond()).ok());
        let wanted = "a time in UTC such as 2027-01-31T12:00:00Z";
        Ok((line, WallTime::from_nanos(nanos.ok_or(KeyFileError::Value { line, name, wanted })?)))
    }

    /// Takes the address of a key service.
    pub(crate) fn service_address(
        &mut self,
        name: &'static str,
    ) -> Result<(usize, ServiceAddress), KeyFileError> {
        self.text(name, "HOST:PORT, in quotes", |text| text.parse().ok())
    }

    /// Takes a number of milliseconds.
    pub(crate) fn milliseconds(&mut self, name: &'static str) -> Result<(usize, u64), KeyFileError> {
        let (line, value) = self.take(name)?;
        let number = value.as_integer().and_then(|number| number.as_str().parse().ok());
        Ok((line, number.ok_or(KeyFileError::Value { line, name, wanted: "a number of milliseconds" })?))
    }

    /// Takes a laboratory's name, and the public key of its authority.
    pub(crate) fn laboratory(&mut self) -> Result<(String, PublicKey), KeyFileError> {
        Ok((self.name("laboratory")?.1, self.public_key("authority")?.1))
    }

    /// Takes a station's name, and the public key of its connections.
    pub(crate) fn station(&mut self) -> Result<(String, PublicKey), KeyFileError> {
        Ok((self.name("name")?.1, self.public_key("exchange")?.1))
    }

    /// Takes a secret of the group with the line of its token.
    pub(crate) fn group_secret(&mut self) -> Result<(usize, GroupSecret), KeyFileError> {
        let (line, token) = self.token("token")?;
        let (_, suite) = self.suite("suite")?;
        let (_, from) = self.time("from")?;
        let (_, value) = self.secret("value")?;
        Ok((line, GroupSecret::new(token, suite, value, from)))
    }

    /// Checks that nothing is left.
    pub(crate) fn finish(self) -> Result<(), KeyFileError> {
        let left = self.entries.iter().map(|(name, _)| line_at(self.text, name.span().start)).min();
        left.map_or(Ok(()), |line| Err(KeyFileError::Unknown(line)))
    }

    fn text<T>(
        &mut self,
        name: &'static str,
        wanted: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<(usize, T), KeyFileError> {
        let (line, value) = self.take(name)?;
        let read = value.as_str().and_then(read);
        Ok((line, read.ok_or(KeyFileError::Value { line, name, wanted })?))
    }

    fn take(&mut self, name: &'static str) -> Result<(usize, DeValue<'t>), KeyFileError> {
        let missing = KeyFileError::Missing { line: self.line, name };
        let entry: Spanned<DeValue<'t>> = self.entries.remove(name).ok_or(missing)?;
        Ok((line_at(self.text, entry.span().start), entry.into_inner()))
    }

    fn inner(&self, line: usize, value: DeValue<'t>) -> Option<Self> {
        let DeValue::Table(entries) = value else { return None };
        Some(Self { text: self.text, line, entries })
    }
}

/// Returns the number of the line at an offset, from 1.
fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn thirty_two_bytes(text: &str) -> Option<Zeroizing<[u8; SECRET_BYTES]>> {
    // One more, so that a longer text is not taken for its beginning.
    let mut bytes = Zeroizing::new([0; SECRET_BYTES + 1]);
    let decoded = Base64::decode(text, &mut bytes[..]).ok()?;
    let mut found = Zeroizing::new([0; SECRET_BYTES]);
    (decoded.len() == SECRET_BYTES).then(|| found.copy_from_slice(decoded))?;
    Some(found)
}
