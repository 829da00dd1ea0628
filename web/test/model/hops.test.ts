import { describe, expect, test } from 'vitest';
import { backfillWords } from '../../src/model/backfill';
import { findingsOf } from '../../src/model/finding';
import { gapOfDetail, gapsAsText, gapSentence, lossRows } from '../../src/model/gaps';
import { hopsOf, hopTitle, hopWords, relayWords } from '../../src/model/hops';
import { ladderOf } from '../../src/model/ladder';
import { LossTimes } from '../../src/model/loss-times';
import { pathOf } from '../../src/model/path';
import { onHop, stageOfName } from '../../src/model/stage';
import { readAccount, readGapDetail, readStream, type Account, type Stream } from '../../src/wire/messages';

const SECOND = 1_000_000_000n;
/** Two hops before this one: 4 elements in the relay's ring, 30 on the link, of which 5 are not explained; 6 here. */
const HOPS = [
  { hop: 0, station: 'daq', lost: { reader_lag: 4 }, unexplained: 0, unsettled: 0 },
  { hop: 1, station: 'gate', lost: { deadline: 25 }, unexplained: 5, unsettled: 0 },
];
const account = (more: Readonly<Record<string, unknown>> = {}): Account => readAccount({
  stream: 'lab/x', origin: { epoch: '1-2', hop: 2 }, hops: HOPS,
  elements: { next: 1_000, delivered: 957, lost: { source: 34, network: 6 }, unexplained: 0, unsettled: 0, in_flight: 3 }, ...more,
});
const stream = (more: Readonly<Record<string, unknown>> = {}): Stream => readStream({ stream: 'lab/x', station: 'far', stations: ['daq', 'gate'], ...more }) ?? expect.fail('it has a name');
const gap = (more: Readonly<Record<string, unknown>> = {}): ReturnType<typeof readGapDetail> => readGapDetail({
  id: 1, from_ns: 1e9, to_ns: 2e9, first_index: 1, samples: 30, lost: { source: 34 }, hops: HOPS, evidence: ['given up: link down'], ...more,
});

describe('the hops of a relayed stream', () => {
  test('go from the publisher to the last relay, buses and links in turn', () => {
    expect(hopsOf(account(), stream())).toEqual([
      { number: 0, kind: 'bus', from: 'daq', to: 'gate', relay: null },
      { number: 1, kind: 'link', from: 'gate', to: 'far', relay: null },
    ]);
    expect(hopsOf(account(), stream()).map(hopWords)).toEqual(["the publisher's bus from daq to gate", 'the link from gate to far']);
    expect(hopsOf(readAccount({ stream: 'lab/y' }), stream({ stations: [] }))).toEqual([]);
  });

  test('are there before their names are, and by the names of the catalogue', () => {
    const bare = account({ hops: [] });
    expect(hopsOf(bare, stream()).map(hopWords)).toEqual(["the publisher's bus from daq to gate", 'the link from gate to far']);
    expect(hopsOf(bare, stream({ stations: [], station: '' })).map(hopWords)).toEqual(["the publisher's bus", 'the link']);
  });

  test('are eight at most, and each at its place', () => {
    const many = Array.from({ length: 12 }, (_, hop) => ({ hop, lost: { deadline: 1 } }));
    expect(account({ hops: many, origin: { hop: 200 } })).toMatchObject({ hop: 8 });
    expect(account({ hops: many }).hops).toHaveLength(8);
    expect(account({ hops: [{ hop: 1, lost: { deadline: 1 } }] }).hops).toEqual([]);
    expect(account({ hops: 'none', origin: 7 })).toMatchObject({ hop: 0, hops: [] });
  });
});

describe('the link whose far relay is here', () => {
  const told = (relay: unknown): readonly string[] => {
    const hops = hopsOf(account({ relay }), stream());
    expect(hops[0]?.relay).toBeNull();
    return hops.slice(1).flatMap((hop) => [hopTitle(hop), relayWords(hop.relay)]).map((words) => words.replaceAll('\u202f', ' '));
  };

  test('is told with its times, and why it gave up what it did', () => {
    const relay = { is_up: true, round_trip_ns: 100_200_000, deadline_ns: 300_000_000, age_p50_ns: 52_000_000, age_p99_ns: 160_000_000, causes: { repair: 5, link_down: 2900 } };
    expect(told(relay)).toEqual(['link · hop 1 · 100 ms', 'The relay here gave up 5 as repairs came too late, 2900 while the link was down since it began. Now: round trip 100 ms, age here 52 ms, 99 % within 160 ms, deadline 300 ms.']);
    expect(told({ ...relay, is_up: false, causes: {}, age_p50_ns: null, age_p99_ns: null })).toEqual(['link · hop 1 · down', 'The relay here has given up nothing since it began; the link is down. Now: round trip 100 ms, deadline 300 ms.']);
    expect(told({ is_up: true })).toEqual(['link · hop 1', 'The relay here has given up nothing since it began.']);
    expect(told('none')).toEqual(['link · hop 1', '']);
  });

  const backfilled = (backfill: unknown): readonly string[] => {
    const hop = hopsOf(account({ relay: { is_up: true, backfill } }), stream())[1] ?? expect.fail('the link is a hop');
    return [hopTitle(hop), backfillWords(hop.relay?.backfill ?? null)].map((words) => words.replaceAll('\u202f', ' '));
  };

  test('tells what its archive fetched, what it misses, and why it stays so', () => {
    expect(backfilled(undefined)).toEqual(['link · hop 1', '']);
    expect(backfilled({})).toEqual(['link · hop 1', 'Backfill of the archive here, all streams: nothing fetched, none missing.']);
    const backfill = { samples: 29_000, bytes: 232_000, missing: 40, ranges: 2, lacking: 10, errors: ['disk full', 7] };
    expect(backfilled(backfill)).toEqual(['link · hop 1 · backfill fails',
      'Backfill of the archive here, all streams: 29 000 samples fetched (232 kB), 40 missing in 2 ranges, 10 of them at the near site, too. Holes are not filled: disk full.']);
    expect(backfilled({ missing: 1, ranges: 1 })[1]).toContain('1 missing in 1 range.');
  });
});

describe('what earlier hops lost', () => {
  const ladder = ladderOf(account(), null);

  test('stands at its hop and stage and not at the source once more, and the law is as it was', () => {
    const lost = ladder.rungs.filter(({ elements }) => elements > 0).map(({ stage, elements }) => [stage.hop, stage.name, elements]);
    expect(lost).toEqual([[0, 'reader_lag', 4], [1, 'deadline', 25], [1, 'unexplained', 5], [undefined, 'network', 6]]);
    expect(ladder).toMatchObject({ lost: 40, unexplained: 0, balanced: true });
  });

  test('is drawn before the places of this hop, and all sums up to the account', () => {
    const hops = hopsOf(account(), stream());
    const { places, missing } = pathOf(ladder, { archive: false, hops, isRecent: ({ stage }) => stage === onHop(stageOfName('deadline'), 1) });
    expect(places.map(({ name }) => name)).toEqual(['hop-0', 'hop-1', 'publisher', 'sender', 'network', 'receiver', 'reader', 'browser', 'unexplained', 'unsettled']);
    expect(places.reduce((sum, { elements }) => sum + elements, 0)).toBe(missing);
    expect(places.slice(0, 3).map(({ words, elements, colour, recent }) => [words, elements, colour, recent])).toEqual([
      ["the publisher's bus from daq to gate", 4, 'reader', false], ['the link from gate to far', 30, 'reader', true], ['relay', 0, 'publisher', false],
    ]);
  });

  test('is told of a gap with its hop', () => {
    expect(lossRows(gap()).map(([{ words }, elements]) => [words, elements])).toEqual([['deadline on hop 1', 25], ['unexplained on hop 1', 5], ['reader too slow on hop 0', 4]]);
    const shown = gapOfDetail('lab/x', gap());
    expect(shown).toMatchObject({ code: 0, inherited: { hop: 1, code: 22 }, severalStages: true, lostElements: 34 });
    expect(gapSentence(shown)).toMatch(/^30 samples missing: deadline on hop 1 and others, /);
    expect(gapsAsText('lab/x', [gap()], null, 'utc')).toContain('[deadline (hop 1) 25, unexplained (hop 1) 5, reader_lag (hop 0) 4 elements]');
  });

  test('is found at its place with its own evidence, and is recent there alone', () => {
    const hops = hopsOf(account(), stream());
    const times = new LossTimes();
    times.onGaps([gap({ hops: HOPS.slice(0, 1), lost: { source: 4 } })]);
    const recent = ladder.rungs.filter((rung) => times.isRecent(rung, 3n * SECOND)).map(({ stage }) => stage.words);
    expect(recent).toEqual(['reader too slow on hop 0']);
    const link = pathOf(ladder, { archive: false, hops, isRecent: () => false }).places[1] ?? expect.fail('the link is a place');
    const [deadline, unexplained] = findingsOf(link, [gap()]);
    expect([deadline?.rung.elements, deadline?.gaps[0]?.lines, unexplained?.gaps[0]?.elements]).toEqual([25, ['given up: link down'], 5]);
    const elsewhere = gap({ hops: [{ hop: 0, lost: { deadline: 4 } }], lost: { source: 4, deadline: 2 } });
    expect(findingsOf(link, [elsewhere]).map(({ gaps }) => gaps.length)).toEqual([0, 0]);
    expect(findingsOf(link, [gap({ hops: HOPS.slice(0, 1), lost: { source: 4 } })])[0]?.gaps).toEqual([]);
  });
});
