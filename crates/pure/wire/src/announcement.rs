//! Announcements: they make a stream findable without a server.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;

use sample::{Dtype, MAX_CHANNELS, MAX_ELEMENTS_PER_SAMPLE, MAX_NAME_BYTES, StreamName};
use units::{Epoch, SampleRate, StreamId};

use crate::header::{self, Kind, Sealed};
use crate::layout::{self, Common};
use crate::malformed::{BufferTooSmall, Reason};
use crate::tally;
use crate::text::{self, MAX_STATION_BYTES};

const HEADER_BYTES: usize = layout::Announcement::SIZE_BYTES;

/// A stream that can be joined, sent to the bus's announcement group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// The stream.
    pub stream: StreamId,
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// The stream's name.
    pub name: StreamName,
    /// The group (or single address) and port of the numbered datagrams. A scope is not sent.
    pub group: SocketAddr,
    /// Port for reports and requests, on the source address of the announcement; 0 if the publisher takes none.
    pub report_port: u16,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Sample rate.
    pub rate: SampleRate,
    /// Number of channels.
    pub channels: u32,
    /// Elements of one sample.
    pub elements_per_sample: u32,
    /// The name of the host or process that publishes, at most [`MAX_STATION_BYTES`] long.
    pub station: String,
    /// Maximum time until the next announcement.
    pub period: Duration,
}

impl Announcement {
    /// Writes the datagram to the start of `out` and returns its size.
    ///
    /// A station's name that is too long is truncated between two characters.
    ///
    /// # Errors
    /// [`BufferTooSmall`] if `out` is shorter than the datagram.
    ///
    /// # Panics
    /// In debug builds, if [`crate::Datagram::decode`] would refuse it.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooSmall> {
        debug_assert_eq!(self.check(), Ok(()), "an announcement that its own readers would refuse");
        let name = self.name.as_str().as_bytes();
        let station = text::cut(&self.station, MAX_STATION_BYTES).as_bytes();
        let out = header::place(out, HEADER_BYTES + name.len() + station.len())?;
        let (name_place, station_place) = out[HEADER_BYTES..].split_at_mut(name.len());
        name_place.copy_from_slice(name);
        station_place.copy_from_slice(station);
        let mut header = self.header(name.len(), station.len());
        header.payload_crc = header::crc32c(&out[HEADER_BYTES..]).into();
        header::seal(&header, out);
        Ok(out.len())
    }

    pub(crate) fn read(sealed: &Sealed<'_>) -> Result<Self, Reason> {
        let header: &layout::Announcement = sealed.header()?;
        let payload = sealed.checked_payload(header.payload_crc.get())?;
        let (name, station) =
            payload.split_at_checked(usize::from(header.name_bytes)).ok_or(Reason::Length)?;
        if station.len() != usize::from(header.station_bytes) {
            return Err(Reason::Length);
        }
        if header.reserved.get() != 0 {
            return Err(Reason::Field("reserved"));
        }
        let name = text::read(name, MAX_NAME_BYTES, "name")?;
        let announcement = Self {
            stream: sealed.common.stream(),
            epoch: sealed.common.epoch(),
            name: name.parse().map_err(|_| Reason::Field("name"))?,
            group: SocketAddr::new(header.group()?, header.group_port.get()),
            report_port: header.report_port.get(),
            dtype: Dtype::from_code(header.dtype).ok_or(Reason::Field("dtype"))?,
            rate: header.rate()?,
            channels: header.channels.get(),
            elements_per_sample: header.elements_per_sample.get(),
            station: text::read(station, MAX_STATION_BYTES, "station")?,
            period: Duration::from_nanos(header.period_ns.get()),
        };
        announcement.check().map(|()| announcement)
    }

    /// Checks the fields that a reader needs to join, and the limits of a schema.
    fn check(&self) -> Result<(), Reason> {
        if self.group.ip().is_unspecified() {
            return Err(Reason::Field("group_address"));
        }
        if self.group.port() == 0 {
            return Err(Reason::Field("group_port"));
        }
        if !(1..=MAX_CHANNELS).contains(&(self.channels as usize)) {
            return Err(Reason::Field("channels"));
        }
        if !(1..=MAX_ELEMENTS_PER_SAMPLE).contains(&self.elements_per_sample) {
            return Err(Reason::Field("elements_per_sample"));
        }
        Ok(())
    }

    fn header(&self, name_bytes: usize, station_bytes: usize) -> layout::Announcement {
        let (group_family, group_address) = address(self.group.ip());
        let payload_bytes = name_bytes + station_bytes;
        let length = |bytes| u8::try_from(bytes).expect("names are shorter than 256 bytes");
        layout::Announcement {
            common: Common::new(Kind::Announcement, HEADER_BYTES, payload_bytes, self.stream, self.epoch),
            period_ns: tally::nanos(self.period).into(),
            payload_crc: 0.into(),
            elements_per_sample: self.elements_per_sample.into(),
            rate_numerator: self.rate.numerator().into(),
            rate_denominator: self.rate.denominator().into(),
            channels: self.channels.into(),
            group_port: self.group.port().into(),
            report_port: self.report_port.into(),
            group_address,
            group_family,
            dtype: self.dtype.code(),
            name_bytes: length(name_bytes),
            station_bytes: length(station_bytes),
            reserved: 0.into(),
        }
    }
}

impl layout::Announcement {
    fn group(&self) -> Result<IpAddr, Reason> {
        let [first, second, third, fourth, rest @ ..] = self.group_address;
        match self.group_family {
            4 if rest == [0; 12] => Ok(Ipv4Addr::new(first, second, third, fourth).into()),
            6 => Ok(Ipv6Addr::from(self.group_address).into()),
            _ => Err(Reason::Field("group_family")),
        }
    }

    fn rate(&self) -> Result<SampleRate, Reason> {
        let (numerator, denominator) = (self.rate_numerator.get(), self.rate_denominator.get());
        lowest_terms(numerator, denominator).ok_or(Reason::Field("rate_numerator"))
    }
}

/// Returns the rate if it is in lowest terms: the same rate always has the same bytes.
pub(crate) fn lowest_terms(numerator: u32, denominator: u32) -> Option<SampleRate> {
    let rate = SampleRate::new(numerator, denominator).ok()?;
    (rate.numerator() == numerator).then_some(rate)
}

fn address(ip: IpAddr) -> (u8, [u8; 16]) {
    match ip {
        IpAddr::V4(v4) => {
            let mut address = [0; 16];
            address[..4].copy_from_slice(&v4.octets());
            (4, address)
        }
        IpAddr::V6(v6) => (6, v6.octets()),
    }
}
