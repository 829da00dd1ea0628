//! Round trips of encoding and decoding, for every kind.

use proptest::prelude::*;
use wire::{Datagram, MAX_RANGES, TALLY_HEADER_BYTES, Tally};

use crate::any;

proptest! {
    #[test]
    fn data_come_back_as_they_were_sent(slice in any::slice()) {
        comes_back(&Datagram::Data(slice.data()))?;
    }

    #[test]
    fn tallies_come_back_as_they_were_sent(tally in any::tally()) {
        comes_back(&Datagram::Tally(tally))?;
    }

    #[test]
    fn reports_come_back_as_they_were_sent(report in any::report()) {
        comes_back(&Datagram::Report(Box::new(report)))?;
    }

    #[test]
    fn announcements_come_back_as_they_were_sent(announcement in any::announcement()) {
        comes_back(&Datagram::Announcement(announcement))?;
    }

    #[test]
    fn requests_come_back_as_they_were_sent(request in any::request()) {
        comes_back(&Datagram::Request(request))?;
    }

    #[test]
    fn what_is_read_encodes_to_the_same_bytes(bytes in any::datagram()) {
        let datagram = Datagram::decode(&bytes).unwrap();
        prop_assert_eq!(any::encoded(&datagram), bytes);
    }

    #[test]
    fn a_buffer_one_byte_too_small_says_what_is_needed(bytes in any::datagram()) {
        let datagram = Datagram::decode(&bytes).unwrap();
        let mut exact = vec![0; bytes.len()];
        prop_assert_eq!(datagram.encode(&mut exact), Ok(bytes.len()));
        let short = &mut exact[1..];
        match datagram {
            // A tally omits ranges before it fails.
            Datagram::Tally(tally) if !(tally.withheld.is_empty() && tally.skipped.is_empty()) => {
                let size = tally.encode(short).unwrap();
                let Ok(Datagram::Tally(read)) = Datagram::decode(&short[..size]) else { panic!("a tally") };
                let ranges = |tally: &Tally| tally.withheld.len() + tally.skipped.len();
                prop_assert_eq!(ranges(&read), ranges(&tally) - 1);
            }
            other => prop_assert_eq!(other.encode(short).unwrap_err().needed, bytes.len()),
        }
    }

    #[test]
    fn a_small_tally_keeps_its_extensions_and_the_newest_of_each_list(tally in any::tally(), room in 0..=MAX_RANGES) {
        let limit = TALLY_HEADER_BYTES + room * 20 + 19;
        prop_assert_eq!(Tally::ranges_that_fit(limit), room);
        // A head of 4 bytes, and zeros up to a multiple of 8.
        let nonce_bytes = if tally.nonces.is_empty() { 0 } else { 8 + tally.nonces.len() * 8 };
        let statement_bytes = if tally.statement.is_empty() { 0 } else { (4 + tally.statement.len()).next_multiple_of(8) };
        let origin_bytes = if tally.origin.is_some() { 24 } else { 0 };
        let hop_bytes = tally.upstream.iter().map(|hop| 10 + hop.station.len() + 9 * hop.lost.nonzero().count());
        let upstream_bytes = if tally.upstream.is_empty() { 0 } else { (4 + hop_bytes.sum::<usize>()).next_multiple_of(8) };
        prop_assert_eq!(wire::relayed_bytes(tally.origin, &tally.upstream, &[]), origin_bytes + upstream_bytes);
        let is_inherited = tally.skipped.iter().any(|range| range.inherited.is_some());
        let inherited_bytes = if is_inherited { (4 + 2 * tally.skipped.len()).next_multiple_of(8) } else { 0 };
        let limit = limit + nonce_bytes + statement_bytes + origin_bytes + upstream_bytes + inherited_bytes;
        let mut buffer = vec![0; limit];
        let size = tally.encode(&mut buffer).unwrap();
        let Ok(Datagram::Tally(read)) = Datagram::decode(&buffer[..size]) else { panic!("a tally") };
        prop_assert_eq!(&read.nonces, &tally.nonces);
        prop_assert_eq!(&read.statement, &tally.statement);
        prop_assert_eq!((read.origin, &read.upstream), (tally.origin, &tally.upstream));
        prop_assert!(tally.withheld.ends_with(&read.withheld));
        prop_assert!(tally.skipped.ends_with(&read.skipped));
        let (kept, all) = (read.withheld.len() + read.skipped.len(), tally.withheld.len() + tally.skipped.len());
        prop_assert_eq!(kept, room.min(all));
        prop_assert!(read.withheld.len() >= tally.withheld.len().min(room / 2));
        prop_assert!(read.skipped.len() >= tally.skipped.len().min(room / 2));
    }

    #[test]
    fn a_position_leads_back_to_its_head(head in any::numbered()) {
        prop_assert_eq!(head.at(head.number, head.position()), head);
    }
}

fn comes_back(datagram: &Datagram<'_>) -> Result<(), TestCaseError> {
    let bytes = any::encoded(datagram);
    let read = Datagram::decode(&bytes);
    prop_assert_eq!(read.as_ref(), Ok(datagram));
    Ok(())
}
