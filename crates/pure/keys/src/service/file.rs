//! The file of a key service: its key, its members, and its schedule. It alone is the state of the service.
//!
//! Whoever changes it holds the lock of its folder, reads it, and writes it whole; so the service, a second one in
//! standby, and the command that removes a member never undo each other's work.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use units::WallTime;
use zeroize::Zeroizing;

use super::{Answer, Content, Periods, Question, RefusedFor, Schedule};
use crate::key_file::{reading::Document, writing};
use crate::{AuthorityFile, KeyFileError, PublicKey, Secret, Suite, Token, exchange_public};

/// Maximum number of members, so that a file with as many that were removed is not too long.
pub const MAX_MEMBERS: usize = 250;
/// Members that were removed and are still told so; then they are strangers. A file of all of them is not too long.
const MAX_REMOVED: usize = 50;
/// Longest address: that of a name in the DNS, with a port. Units: bytes.
const MAX_ADDRESS_BYTES: usize = 253 + 6;

/// Address of a key service: host, colon, port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceAddress(String);

/// Error for a text that is no address of a key service.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the address of a key service is HOST:PORT, such as keys.lab.example:7409 or 192.0.2.7:7409")]
pub struct InvalidAddress;

/// A station that gets secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Name of the station.
    pub name: String,
    /// Public key of its connections (X25519).
    pub exchange: PublicKey,
}

/// A station that gets no secrets any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removed {
    /// The station.
    pub member: Member,
    /// Time of its removal.
    pub at: WallTime,
}

/// The state of a key service.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceFile {
    pub(crate) laboratory: String,
    pub(crate) authority: PublicKey,
    pub(crate) address: ServiceAddress,
    pub(crate) exchange: Secret,
    pub(crate) members: Vec<Member>,
    pub(crate) removed: Vec<Removed>,
    pub(crate) schedule: Schedule,
}

/// Reason why the list of members is not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemberError {
    /// There is no room for another.
    #[error(
        "the key service has {MAX_MEMBERS} members already\nremove stations that are gone: tallycast keys remove"
    )]
    Full,
    /// There is one with this name already.
    #[error("there is a member `{0}` already\nremove it first, or give the station another name")]
    Exists(String),
    /// There is none with this name.
    #[error("the key service has no member `{0}`\nlist them: tallycast keys show FILE.service")]
    Unknown(String),
}

impl ServiceAddress {
    /// Returns the address as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the port.
    ///
    /// # Panics
    /// Never: an address has one.
    #[must_use]
    pub fn port(&self) -> u16 {
        port(&self.0).expect("an address has a port")
    }
}

fn port(text: &str) -> Option<u16> {
    let (host, port) = text.rsplit_once(':')?;
    let is_host = !host.is_empty() && host.chars().all(|letter| letter.is_ascii_graphic() && letter != '"');
    let is_one = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
    port.parse().ok().filter(|port| *port != 0 && is_host && is_one && text.len() <= MAX_ADDRESS_BYTES)
}

impl FromStr for ServiceAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        port(text).map(|_| Self(text.to_owned())).ok_or(InvalidAddress)
    }
}

impl fmt::Display for ServiceAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl ServiceFile {
    /// Creates a service without members and secrets, whose private key is `exchange`.
    #[must_use]
    pub fn new(
        authority: &AuthorityFile,
        address: ServiceAddress,
        exchange: Secret,
        (periods, suite): (Periods, Suite),
    ) -> Self {
        Self {
            laboratory: authority.laboratory().to_owned(),
            authority: authority.authority().public(),
            address,
            exchange,
            members: Vec::new(),
            removed: Vec::new(),
            schedule: Schedule::new(periods, suite),
        }
    }

    /// Reads a file.
    ///
    /// The text is the caller's to overwrite.
    ///
    /// # Errors
    /// [`KeyFileError`], which never quotes the text.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        let mut document = Document::parse(text)?;
        if document.has_table("station") || document.has_table("authority") {
            return Err(KeyFileError::IsNoService);
        }
        let (laboratory, authority) = document.laboratory()?;
        let mut table = document.table("service")?;
        let (_, address) = table.service_address("address")?;
        let (_, exchange) = table.secret("exchange")?;
        let (_, suite) = table.suite("suite")?;
        let (line, lifetime) = table.milliseconds("lifetime_ms")?;
        let (_, kept) = table.milliseconds("kept_ms")?;
        table.finish()?;
        let wanted = "from 1000 to 30 days, and `kept_ms` from 1000 to 60000 and at most three times as long";
        let periods = Periods::new(Duration::from_millis(lifetime), Duration::from_millis(kept));
        let periods = periods.map_err(|_| KeyFileError::Value { line, name: "lifetime_ms", wanted })?;
        let members = document.tables("member")?.into_iter().map(|mut table| {
            let (name, exchange) = table.station()?;
            table.finish()?;
            Ok(Member { name, exchange })
        });
        let members: Vec<Member> = members.collect::<Result<_, _>>()?;
        let removed = document.tables("removed")?.into_iter().map(|mut table| {
            let ((name, exchange), (_, at)) = (table.station()?, table.time("at")?);
            table.finish()?;
            Ok(Removed { member: Member { name, exchange }, at })
        });
        let removed = removed.collect::<Result<_, _>>()?;
        let secrets = document.tables("secret")?;
        let line = secrets.first().map_or(1, Document::line);
        let secrets = secrets.into_iter().map(|mut table| {
            let ((_, secret), (_, until)) = (table.group_secret()?, table.time("until")?);
            table.finish()?;
            Ok(secret.ending(until))
        });
        let secrets = secrets.collect::<Result<_, _>>()?;
        document.finish()?;
        let wanted = "at most 8, each with `until` and a token of its own";
        let schedule = Schedule::new(periods, suite).with_secrets(secrets);
        let schedule = schedule.ok_or(KeyFileError::Value { line, name: "secret", wanted })?;
        Ok(Self { laboratory, authority, address, exchange, members, removed, schedule })
    }

    /// Writes the file as [`parse`](Self::parse) reads it.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        writing::service_file(self)
    }

    /// Returns the laboratory's name.
    #[must_use]
    pub fn laboratory(&self) -> &str {
        &self.laboratory
    }

    /// Returns the public key of the laboratory's authority.
    #[must_use]
    pub const fn authority(&self) -> PublicKey {
        self.authority
    }

    /// Returns the address at which members ask.
    #[must_use]
    pub const fn address(&self) -> &ServiceAddress {
        &self.address
    }

    /// Returns the service's private key.
    #[must_use]
    pub const fn exchange(&self) -> &Secret {
        &self.exchange
    }

    /// Returns the service's public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        exchange_public(&self.exchange)
    }

    /// Returns the members.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns those that were removed, the earliest first.
    #[must_use]
    pub fn removed(&self) -> &[Removed] {
        &self.removed
    }

    /// Returns the secrets and their times.
    #[must_use]
    pub const fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Adds a member.
    ///
    /// # Errors
    /// `Full` and `Exists` of [`MemberError`].
    pub fn add(&mut self, member: Member) -> Result<(), MemberError> {
        if self.members.len() >= MAX_MEMBERS {
            return Err(MemberError::Full);
        }
        if self.members.iter().any(|known| known.name == member.name || known.exchange == member.exchange) {
            return Err(MemberError::Exists(member.name));
        }
        self.removed.retain(|removed| removed.member.exchange != member.exchange);
        self.members.push(member);
        Ok(())
    }

    /// Removes members, and forces a rotation so that they are blind within 1 s.
    ///
    /// # Errors
    /// `Unknown` of [`MemberError`]; nothing has changed then.
    pub fn remove(
        &mut self,
        names: &[String],
        now: WallTime,
        draw: impl FnMut() -> (Token, Secret),
    ) -> Result<(), MemberError> {
        let is_unknown = |name: &&String| !self.members.iter().any(|member| member.name == **name);
        if let Some(unknown) = names.iter().find(is_unknown) {
            return Err(MemberError::Unknown(unknown.clone()));
        }
        let (gone, stay) = self.members.drain(..).partition(|member: &Member| names.contains(&member.name));
        self.members = stay;
        self.removed.extend(gone.into_iter().map(|member| Removed { member, at: now }));
        let surplus = self.removed.len().saturating_sub(MAX_REMOVED);
        self.removed.drain(..surplus);
        self.schedule.force(now, draw);
        Ok(())
    }

    /// Makes the secrets that are due; returns whether the file has changed and must be written before a member gets
    /// them.
    pub fn advance(&mut self, now: WallTime, draw: impl FnMut() -> (Token, Secret)) -> bool {
        self.schedule.advance(now, draw)
    }

    /// Answers a question of the station with this key.
    #[must_use]
    pub fn answer(&self, question: Question, from: &PublicKey, now: WallTime) -> Answer {
        let content = if self.members.iter().any(|member| member.exchange == *from) {
            let schedule = &self.schedule;
            Content::Secrets { kept: schedule.periods().kept(), secrets: schedule.secrets().to_vec() }
        } else {
            let removed = self.removed.iter().rev().find(|removed| removed.member.exchange == *from);
            Content::Refused(removed.map_or(RefusedFor::Unknown, |removed| RefusedFor::Removed(removed.at)))
        };
        Answer { number: question.number, now, content }
    }
}

impl fmt::Debug for ServiceFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ServiceFile({:?}, {} members, …)", self.laboratory, self.members.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::schedule::{LEAD, nanos};

    const HOUR: i64 = 3_600_000_000_000;

    fn secret(first: u8) -> Secret {
        Secret::new(Zeroizing::new([first; 32]))
    }

    fn drawn() -> impl FnMut() -> (Token, Secret) {
        drawn_after(0)
    }

    fn drawn_after(mut count: u8) -> impl FnMut() -> (Token, Secret) {
        move || {
            count += 1;
            (Token(u32::from(count)), secret(count))
        }
    }

    fn member(name: &str) -> Member {
        Member { name: name.to_owned(), exchange: PublicKey([name.as_bytes()[name.len() - 1]; 32]) }
    }

    fn file() -> ServiceFile {
        let authority = AuthorityFile::new("lab \"one\"", secret(0xa1)).unwrap();
        let address = "keys.lab.example:7409".parse().unwrap();
        let mut file = ServiceFile::new(&authority, address, secret(0xb2), Default::default());
        for name in ["daq-1", "daq-2", "daq-3"] {
            file.add(member(name)).unwrap();
        }
        file.advance(WallTime::from_nanos(HOUR), drawn());
        file
    }

    #[test]
    fn a_file_reads_what_it_writes() {
        let mut file = file();
        assert_eq!(ServiceFile::parse(&file.to_text()).unwrap(), file);
        file.remove(&["daq-2".to_owned()], WallTime::from_nanos(2 * HOUR), drawn()).unwrap();
        assert_eq!(ServiceFile::parse(&file.to_text()).unwrap(), file);
        assert!(file.to_text().contains("[[removed]]\nname = \"daq-2\""), "{}", *file.to_text());
    }

    #[test]
    fn a_full_file_is_not_too_long_and_has_room_from_the_start() {
        let authority = AuthorityFile::new(&"\\\"'".repeat(21), secret(1)).unwrap();
        let address: ServiceAddress = format!("{}:65535", "a".repeat(253)).parse().unwrap();
        let mut file = ServiceFile::new(&authority, address, secret(2), Default::default());
        let named = |index: usize| {
            let mut exchange = [0; 32];
            exchange[..8].copy_from_slice(&index.to_le_bytes());
            Member { name: format!("{index:0>64}"), exchange: PublicKey(exchange) }
        };
        for index in 0..MAX_MEMBERS + 2 * MAX_REMOVED {
            let member = named(index);
            let name = member.name.clone();
            file.add(member).unwrap();
            if index < 2 * MAX_REMOVED {
                file.remove(&[name], WallTime::from_nanos(i64::MAX / 2), drawn()).unwrap();
            }
        }
        assert_eq!(file.add(named(9_999)), Err(MemberError::Full));
        assert_eq!((file.members().len(), file.removed().len()), (MAX_MEMBERS, MAX_REMOVED));
        let text = file.to_text();
        assert_eq!(ServiceFile::parse(&text).unwrap(), file);
    }

    #[test]
    fn members_get_secrets_and_others_are_told_why_not() {
        let mut file = file();
        let (question, now) = (Question { number: 7 }, WallTime::from_nanos(HOUR));
        let content = |file: &ServiceFile, name| file.answer(question, &member(name).exchange, now).content;
        let Content::Secrets { secrets, .. } = content(&file, "daq-2") else { panic!("it is a member") };
        assert_eq!(secrets, file.schedule().secrets());
        let known: Vec<Token> = secrets.iter().map(|secret| secret.token).collect();
        file.remove(&["daq-2".to_owned()], now, drawn_after(100)).unwrap();
        let soon = file.schedule().in_use(now.offset(nanos(LEAD))).unwrap();
        assert!(!known.contains(&soon.token), "a removal forces a secret that the removed one never had");
        assert_eq!(content(&file, "daq-2"), Content::Refused(RefusedFor::Removed(now)));
        assert_eq!(content(&file, "daq-9"), Content::Refused(RefusedFor::Unknown));
        assert!(matches!(content(&file, "daq-1"), Content::Secrets { .. }));
        file.add(member("daq-2")).unwrap();
        assert!(matches!(content(&file, "daq-2"), Content::Secrets { .. }));
        assert!(file.removed().is_empty(), "it is a member again");
    }

    #[test]
    fn nobody_is_added_twice_or_removed_in_part() {
        let mut file = file();
        let before = file.clone();
        assert_eq!(file.add(member("daq-1")), Err(MemberError::Exists("daq-1".to_owned())));
        let names = ["daq-1", "daq-7"].map(str::to_owned);
        let refused = file.remove(&names, WallTime::from_nanos(HOUR), drawn());
        assert_eq!(refused, Err(MemberError::Unknown("daq-7".to_owned())));
        assert_eq!(file, before);
    }

    #[test]
    fn errors_name_the_line_and_never_quote_it() {
        let text = file().to_text();
        let told = |part: &str, by: &str| {
            assert!(text.contains(part), "{part}");
            ServiceFile::parse(&text.replacen(part, by, 1)).unwrap_err().to_string()
        };
        assert!(
            told("lifetime_ms = 3600000", "lifetime_ms = 999").contains("`lifetime_ms` must be from 1000")
        );
        assert!(told("lifetime_ms = 3600000", "lifetime_ms = \"1h\"").contains("milliseconds"));
        assert!(told("keys.lab.example:7409", "keys.lab.example").contains("HOST:PORT"));
        assert!(told("[service]", "[station]").contains("no file of a key service"));
        assert!(
            told("[[secret]]\ntoken = \"00000001\"", "[[secret]]\ntoken = \"00000002\"")
                .contains("a token of its own")
        );
        for at in 0..text.len() {
            let mut cut = text.to_string();
            cut.truncate(at);
            let Err(error) = ServiceFile::parse(&cut) else { continue };
            assert!(!format!("{error} {error:?}").contains("srKysrKy"), "{at}");
        }
        assert!(!format!("{:?}", file()).contains("178"));
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for text in ["192.0.2.7:7409", "[2001:db8::7]:7409", "keys.lab.example:1"] {
            assert_eq!(text.parse::<ServiceAddress>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "192.0.2.7",
            ":7409",
            "host:0",
            "host:65536",
            "2001:db8::7:7409",
            "a b:7",
            "a\":7",
            "host:+x",
        ] {
            assert_eq!(text.parse::<ServiceAddress>(), Err(InvalidAddress), "{text}");
        }
    }
}
