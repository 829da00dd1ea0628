//! Equality of the page and the types: every table of `docs/protocol/stream.md`, in both directions.

use std::collections::BTreeMap;

use super::{
    Announcement, Common, CountedSecured, Data, Deadline, Descriptor, ExtensionHead, Group, Header,
    Inherited, Origin, Predecessor, RangeRecord, Report, Request, SaltedSecured, Secured, StageRecord, Tally,
    UpstreamHop, Waiting,
};
use crate::cbor::key;
use crate::{ExtensionType, Kind};

const PAGE: &str = include_str!("../../../../../docs/protocol/stream.md");

/// Returns the rows of every table with these first columns, by the heading above it.
fn tables(columns: &[&str]) -> BTreeMap<String, Vec<Vec<String>>> {
    let mut tables: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    let (mut heading, mut wanted) = (String::new(), false);
    for line in PAGE.lines() {
        let cells: Vec<String> =
            line.trim().trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
        match line.chars().next() {
            Some('#') => line.trim_start_matches('#').trim().clone_into(&mut heading),
            Some('|')
                if cells.starts_with(&columns.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()) =>
            {
                wanted = true;
                let old = tables.insert(heading.clone(), Vec::new());
                assert!(old.is_none(), "two tables under `{heading}`");
            }
            Some('|') if wanted && !line.starts_with("|-") => {
                tables.get_mut(&heading).unwrap().push(cells[..columns.len()].to_vec());
            }
            Some('|') => {}
            _ => wanted = false,
        }
    }
    tables
}

fn number(text: &str) -> usize {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("`{text}` is not a number"))
}

#[test]
fn every_field_lies_where_the_page_draws_it() {
    let drawn: BTreeMap<_, Vec<_>> = tables(&["offset", "size", "name"])
        .into_iter()
        .map(|(heading, rows)| {
            let fields = rows.into_iter().map(|row| (number(&row[0]), number(&row[1]), row[2].clone()));
            (heading, fields.collect())
        })
        .collect();
    let built: BTreeMap<_, Vec<_>> = [
        ("Common header", Common::FIELDS),
        ("Group header", Group::FIELDS),
        ("Data, kind 1", Data::FIELDS),
        ("Tally, kind 2", Tally::FIELDS),
        ("Range record", RangeRecord::FIELDS),
        ("Descriptor, kind 3", Descriptor::FIELDS),
        ("Report, kind 4", Report::FIELDS),
        ("Stage record", StageRecord::FIELDS),
        ("Announcement, kind 5", Announcement::FIELDS),
        ("Request, kind 6", Request::FIELDS),
        ("Extensions", ExtensionHead::FIELDS),
        ("Secured, type 1", Secured::FIELDS),
        ("Secured descriptor, type 1", SaltedSecured::FIELDS),
        ("Secured without a number, type 1", CountedSecured::FIELDS),
        ("Predecessor, type 2", Predecessor::FIELDS),
        ("Waiting, type 4", Waiting::FIELDS),
        ("Origin, type 5", Origin::FIELDS),
        ("Upstream, type 6", UpstreamHop::FIELDS),
        ("Deadline, type 9", Deadline::FIELDS),
        ("Inherited, type 11", Inherited::FIELDS),
    ]
    .into_iter()
    .map(|(heading, fields)| {
        let fields = fields.iter().map(|&(offset, size, name)| (offset, size, name.to_owned()));
        (heading.to_owned(), fields.collect())
    })
    .collect();
    assert_eq!(drawn, built);
}

#[test]
fn the_page_names_every_header_size() {
    let drawn: BTreeMap<_, _> = tables(&["kind", "name", "header"])["Kinds"]
        .iter()
        .map(|row| (number(&row[0]), (row[1].clone(), number(&row[2]))))
        .collect();
    let built = BTreeMap::from([
        (1, ("data".to_owned(), Data::SIZE_BYTES)),
        (2, ("tally".to_owned(), Tally::SIZE_BYTES)),
        (3, ("descriptor".to_owned(), Descriptor::SIZE_BYTES)),
        (4, ("report".to_owned(), Report::SIZE_BYTES)),
        (5, ("announcement".to_owned(), Announcement::SIZE_BYTES)),
        (6, ("request".to_owned(), Request::SIZE_BYTES)),
    ]);
    assert_eq!(drawn, built);
}

#[test]
fn the_page_names_every_extension() {
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let kinds = |of_type: ExtensionType| match of_type.kinds() {
        all if *all == Kind::ALL => "all kinds".to_owned(),
        some => some.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect::<Vec<_>>().join(", "),
    };
    let built: Vec<_> = ExtensionType::ALL
        .into_iter()
        .map(|of_type| {
            let (critical, known) = (yes(of_type.is_critical()), yes(of_type.is_known()));
            vec![of_type.code().to_string(), of_type.name().to_owned(), kinds(of_type), critical, known]
        })
        .collect();
    assert_eq!(tables(&["type", "name", "in", "critical", "known"])["Types of extensions"], built);
}

#[test]
fn each_kind_reads_the_known_extensions_that_the_table_gives_it() {
    let read = [
        (Kind::Data, Data::EXTENSIONS),
        (Kind::Tally, Tally::EXTENSIONS),
        (Kind::Descriptor, Descriptor::EXTENSIONS),
        (Kind::Report, Report::EXTENSIONS),
        (Kind::Announcement, Announcement::EXTENSIONS),
        (Kind::Request, Request::EXTENSIONS),
    ];
    for (kind, extensions) in read {
        let given = ExtensionType::ALL.into_iter();
        // A secured datagram is opened first, which removes the extension.
        let given = given.filter(|of_type| *of_type != ExtensionType::Secured);
        let given = given.filter(|of_type| of_type.is_known() && of_type.kinds().contains(&kind));
        assert_eq!(given.collect::<Vec<_>>(), extensions, "{kind:?}");
    }
}

#[test]
fn the_page_names_every_key_of_a_description() {
    use key::{channel, description, schema};
    let drawn: BTreeMap<_, Vec<_>> = tables(&["key", "name"])
        .into_iter()
        .map(|(heading, rows)| {
            (heading, rows.into_iter().map(|row| (row[0].parse().unwrap(), row[1].clone())).collect())
        })
        .collect();
    let named = |keys: &[(u32, &str)]| keys.iter().map(|&(key, name)| (key, name.to_owned())).collect();
    let built: BTreeMap<String, Vec<(u32, String)>> = BTreeMap::from([
        (
            "Description map".to_owned(),
            named(&[
                (description::NAME, "name"),
                (description::SCHEMA, "schema"),
                (description::REPORT_PORT, "report_port"),
                (description::STATION, "station"),
                (description::SECURITY, "security"),
                (description::PROOF, "proof"),
            ]),
        ),
        (
            "Schema map".to_owned(),
            named(&[
                (schema::DTYPE, "dtype"),
                (schema::RATE, "rate"),
                (schema::CHANNELS, "channels"),
                (schema::LABELS, "labels"),
            ]),
        ),
        (
            "Channel map".to_owned(),
            named(&[
                (channel::NAME, "name"),
                (channel::UNIT, "unit"),
                (channel::SHAPE, "shape"),
                (channel::SCALE, "scale"),
                (channel::OFFSET, "offset"),
            ]),
        ),
    ]);
    assert_eq!(drawn, built);
}

#[test]
fn the_page_names_every_code() {
    let drawn = tables(&["code", "name"]);
    let drawn = |heading: &str| -> Vec<(usize, String)> {
        drawn[heading].iter().map(|row| (number(&row[0]), row[1].clone())).collect()
    };
    let numbered = |names: &[&str]| names.iter().map(|&name| name.to_owned()).enumerate().collect::<Vec<_>>();
    assert_eq!(drawn("Dtypes"), numbered(&sample::Dtype::ALL.map(sample::Dtype::name)));
    assert_eq!(drawn("Stages"), numbered(&ledger::Stage::ALL.map(ledger::Stage::name)));
    assert_eq!(drawn("States"), numbered(&crate::report::STATES.map(ledger::AccountState::name)));
    let clocks = (0..5).map(|code| format!("{:?}", crate::Clock::from_code(code)).to_lowercase());
    let clocks: Vec<_> = clocks.collect();
    assert_eq!(drawn("Clocks"), numbered(&clocks.iter().map(String::as_str).collect::<Vec<_>>()));
}

#[test]
fn the_page_names_every_limit() {
    let drawn: BTreeMap<_, _> =
        tables(&["limit", "value"])["Limits"].iter().map(|row| (row[0].clone(), number(&row[1]))).collect();
    let built: BTreeMap<String, usize> = [
        ("MAGIC", usize::from(crate::MAGIC)),
        ("VERSION", usize::from(crate::VERSION)),
        ("DATAGRAM_BYTES_IPV4", crate::DATAGRAM_BYTES_IPV4),
        ("DATAGRAM_BYTES_IPV6", crate::DATAGRAM_BYTES_IPV6),
        ("MIN_DATAGRAM_BYTES", crate::MIN_DATAGRAM_BYTES),
        ("MIN_DATA_BYTES", crate::MIN_DATA_BYTES),
        ("MAX_DATAGRAM_BYTES", crate::MAX_DATAGRAM_BYTES),
        ("MAX_HEADER_BYTES", crate::MAX_HEADER_BYTES),
        ("MAX_RANGES", crate::MAX_RANGES),
        ("MAX_ADDRESSES", crate::MAX_ADDRESSES),
        ("MAX_HOPS", crate::MAX_HOPS),
        ("MAX_INHERITED", crate::MAX_INHERITED),
        ("MAX_UPSTREAM_BYTES", crate::MAX_UPSTREAM_BYTES),
        ("MIN_DESCRIPTOR_PART_BYTES", crate::MIN_DESCRIPTOR_PART_BYTES),
        ("MAX_DESCRIPTION_BYTES", crate::MAX_DESCRIPTION_BYTES),
        ("MAX_DESCRIPTOR_PARTS", crate::MAX_DESCRIPTOR_PARTS),
        ("MAX_ELEMENTS_PER_SAMPLE", sample::MAX_ELEMENTS_PER_SAMPLE as usize),
        ("MAX_CHANNELS", sample::MAX_CHANNELS),
        ("MAX_NAME_BYTES", sample::MAX_NAME_BYTES),
        ("MAX_STATION_BYTES", crate::MAX_STATION_BYTES),
        ("MAX_READER_NAME_BYTES", crate::MAX_READER_NAME_BYTES),
        ("MAX_TEXT_BYTES", crate::MAX_TEXT_BYTES),
        ("MAX_UNIT_BYTES", crate::MAX_UNIT_BYTES),
        ("MAX_LABELS", crate::MAX_LABELS),
        ("MAX_SHAPE_EXTENTS", crate::MAX_SHAPE_EXTENTS),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    assert_eq!(drawn, built);
}
