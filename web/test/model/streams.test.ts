import { describe, expect, test } from 'vitest';
import { backoffMs } from '../../src/model/backoff';
import { hash, TRACE_COLOURS, traceColours } from '../../src/model/colour';
import { connectionSentence, noticeOf, type Standing } from '../../src/model/notices';
import { sentence } from '../../src/model/sentence';
import { stageOfName, STAGES } from '../../src/model/stage';
import { axesOf, thinning, titlesOf, unitsOf } from '../../src/model/titles';
import { channelsToPlot, firstPlots, matches, step, treeRows } from '../../src/model/tree';
import { readStream, type Stream } from '../../src/wire/messages';

const stream = (name: string, more: Readonly<Record<string, unknown>> = {}): Stream => {
  const read = readStream({ stream: name, channels: [{ name: 'I', unit: 'A' }], samples_per_s: 1000, health: 'ok', ...more });
  if (read === null) throw new Error('a stream has a name');
  return read;
};

const NONE: ReadonlySet<string> = new Set();
const ALL = [stream('w7x/ecrh/power'), stream('w7x/ecrh/beam10'), stream('w7x/ecrh/beam9'), stream('alone'), stream('geo/grfo/z', { labels: { shot: '17' } })];

describe('the list', () => {
  test('is a tree by path, sorted as people count', () => {
    const rows = treeRows(ALL, { filter: '', folded: NONE, opened: NONE });
    expect(rows.map((row) => `${row.depth} ${row.label}`)).toEqual(['0 alone', '0 geo/grfo', '1 z', '0 w7x/ecrh', '1 beam9', '1 beam10', '1 power']);
  });

  test('folds groups, but not what was searched for', () => {
    const folded = new Set(['w7x/ecrh']);
    expect(treeRows(ALL, { filter: '', folded, opened: NONE }).map((row) => row.label)).toEqual(['alone', 'geo/grfo', 'z', 'w7x/ecrh']);
    expect(treeRows(ALL, { filter: 'beam', folded, opened: NONE }).map((row) => row.label)).toEqual(['w7x/ecrh', 'beam9', 'beam10']);
  });

  test.each([['ECRH pow', 1], ['beam', 2], ['shot=17', 1], ['w7x z', 0], ['  ', 5]])('filter "%s" leaves %d', (filter, left) => {
    expect(ALL.filter((each) => matches(each, filter))).toHaveLength(left);
  });

  test('shows the channels of an opened stream that has several', () => {
    const many = stream('a/b', { channels: [{ name: 'x', unit: 'V' }, { name: 'y', unit: 'A' }, { name: 'z', unit: 'V' }] });
    const rows = treeRows([many, ...ALL], { filter: '', folded: NONE, opened: new Set(['a/b', 'alone']) });
    expect(rows.filter((row) => row.kind === 'channel').map((row) => row.label)).toEqual(['x', 'y', 'z']);
    expect(channelsToPlot(many)).toEqual(['x', 'z']);
  });

  test('moves the selection and stops at its ends', () => {
    const rows = treeRows(ALL, { filter: '', folded: NONE, opened: NONE });
    expect(step(rows, null, 1)).toBe(rows[0]?.key);
    expect(step(rows, rows[0]?.key ?? null, -1)).toBe(rows[0]?.key);
    expect(step(rows, rows[0]?.key ?? null, 100)).toBe(rows.at(-1)?.key);
    expect(step([], null, 1)).toBeNull();
  });

  test('offers the first stream of each path to a page that was told nothing', () => {
    expect(firstPlots(ALL).map(([trace]) => trace?.stream)).toEqual(['alone', 'geo/grfo/z', 'w7x/ecrh/beam9']);
  });

  test('offers traces before fields, and no commands to apps', () => {
    const plate = [stream('plate/image', { elements_per_sample: 6144 }), stream('plate/probes'), stream('steer/sim/plate'), stream('camera/a', { elements_per_sample: 4 })];
    expect(firstPlots(plate).map(([trace]) => trace?.stream)).toEqual(['camera/a', 'plate/probes']);
  });
});

describe('the sentence of the top bar', () => {
  const nobody = (): null => null;
  const CALM = { disk: null, attack: null };
  test.each<[string, readonly Stream[], string]>([
    ['quiet', [], 'No streams yet'],
    ['good', [stream('a'), stream('b', { samples_per_s: 1_239_000 })], '2 streams · 1.24 M samples/s · 0 missing in the last hour'],
    ['warn', [stream('a'), stream('b', { health: 'stale', samples_per_s: 0 })], '2 streams · 1.00 k samples/s · 0 missing in the last hour · 1 silent'],
    ['good', [stream('a', { lost_last_hour_elements: 12, elements_per_sample: 3 })], '1 stream · 1.00 k samples/s · 4 missing in the last hour'],
  ])('is %s', (mood, streams, text) => {
    expect(sentence(streams, nobody, CALM)).toMatchObject({ mood, text: expect.any(String) as string });
    expect(sentence(streams, nobody, CALM).text.replaceAll('\u202f', ' ')).toBe(text);
  });

  test('names the stream that loses most, its stage and whose it is', () => {
    const losing = stream('w7x/ecrh/power', { health: 'losing', lost_elements: 212, lost_last_hour_elements: 212, next_index: 1_200_000, station: 'daq-3' });
    const said = (stage: string): string => sentence([stream('a'), losing], () => stageOfName(stage), CALM).text.replaceAll('\u202f', ' ');
    expect(said('sender_qdisc')).toBe("ecrh power lost 212 of 1.20 M samples (sender's queue discipline of daq-3)");
    expect(said('receiver_socket_buffer')).toBe('ecrh power lost 212 of 1.20 M samples (socket buffer of this monitor)');
    const disk = { freeBytes: 17e9, sizeBytes: 100e9, alarm: true };
    expect(sentence([losing], nobody, { ...CALM, disk })).toMatchObject({ mood: 'warn', text: expect.stringMatching(/lost .* · archive disk 83 % full, 17\.0.GB free$/) as string });
    expect(sentence([], nobody, { ...CALM, disk: { ...disk, alarm: false } }).text).toBe('No streams yet');
    expect(sentence([losing], nobody, CALM)).toMatchObject({ mood: 'warn', stream: 'w7x/ecrh/power' });
  });

  test('tells an attack before a loss', () => {
    const forged = stream('a/b', { unauthentic_datagrams: 7 });
    const said = sentence([stream('a'), forged], nobody, { ...CALM, attack: { stream: forged, others: 0 } });
    expect(said).toEqual({ mood: 'bad', stream: 'a/b', text: 'Somebody forges a/b: 7 datagrams refused, no account changed' });
  });
});

describe('titles', () => {
  test('are as short as tells the traces apart', () => {
    expect(titlesOf([{ stream: 'w7x/ecrh/power', channel: 'g1' }, { stream: 'w7x/ecrh/power', channel: 'g2' }]))
      .toEqual({ path: 'w7x/ecrh/', name: 'power', labels: ['g1', 'g2'] });
    expect(titlesOf([{ stream: 'w7x/ecrh/power', channel: 'g1' }, { stream: 'w7x/nbi/power', channel: 'g1' }, { stream: 'w7x/nbi/power', channel: 'g2' }]))
      .toEqual({ path: 'w7x/', name: 'ecrh/power + nbi/power', labels: ['ecrh/power', 'nbi/power g1', 'nbi/power g2'] });
    expect(titlesOf([{ stream: 'a', channel: 'x' }, { stream: 'b', channel: 'x' }])).toEqual({ path: '', name: 'a + b', labels: ['a', 'b'] });
    expect(titlesOf([{ stream: 'geo/grfo/z', channel: 'BHZ' }, { stream: 'geo/grfo/z', channel: 'BHN' }, { stream: 'hall/stereo', channel: 'left' }]))
      .toEqual({ path: '', name: 'z + stereo', labels: ['z BHZ', 'z BHN', 'stereo'] });
  });

  test('give two units an axis each and a third none', () => {
    expect(axesOf(['V', 'A', 'V', 'T'])).toEqual({ units: ['V', 'A'], axis: [0, 1, 0, -1] });
    expect(unitsOf([{ stream: 'a', channel: 'I' }, { stream: 'a', channel: '?' }], new Map([['a', stream('a')]]))).toEqual(['A', '']);
  });

  test.each<[number, boolean, string]>([
    [0.2, false, ''], [1, false, ''], [2.7, false, '2.7 samples per pixel'], [12_500, false, '12.5 k samples per pixel'],
    [12_500, true, '12.5 k samples per pixel, to fit this connection'], [0.2, true, 'thinned to what this connection carries'],
  ])('say how much is thinned: %d', (samples, slow, text) => expect(thinning(samples, slow).replaceAll('\u202f', ' ')).toBe(text));
});

describe('trace colours', () => {
  test('are the same for a stream wherever it is first', () => {
    // The published value of FNV-1a for one letter.
    expect(hash('a')).toBe(0xe40c292c);
    expect(traceColours([{ stream: 'a/b', channel: 'x' }])[0]).toBe(hash('a/b') % TRACE_COLOURS);
  });

  test('differ within a plot of up to eight traces', () => {
    const eight = traceColours(Array.from({ length: 8 }, (_, i) => ({ stream: 'same', channel: `${i}` })));
    expect(new Set(eight).size).toBe(8);
    expect(traceColours(Array.from({ length: 20 }, (_, i) => ({ stream: `s${i}`, channel: 'x' })))).toHaveLength(20);
  });
});

describe('what the page says of itself', () => {
  const standing: Standing = {
    connection: 'open', lostForMs: 0, retryInMs: 0, server: { version: '1', startedNs: 0n, nowNs: 0n, pageProtocol: 1, archive: false, archiveDisk: null }, refused: null, streams: 3, plots: 1,
  };
  test.each<[string | undefined, Partial<Standing>]>([
    [undefined, {}],
    ['empty', { plots: 0 }],
    ['no-streams', { plots: 0, streams: 0 }],
    ['connecting', { plots: 0, server: null, connection: 'connecting' }],
    ['lost', { plots: 0, server: null, connection: 'waiting' }],
    ['no-permission', { refused: { message: 'no', help: 'ask' } }],
    ['older-server', { server: { version: '0', startedNs: 0n, nowNs: 0n, pageProtocol: 0, archive: false, archiveDisk: null } }],
    ['older-page', { server: { version: '2', startedNs: 0n, nowNs: 0n, pageProtocol: 2, archive: false, archiveDisk: null } }],
  ])('is %s', (kind, change) => expect(noticeOf({ ...standing, ...change })?.kind).toBe(kind));

  test('tells how long the connection is gone and when it tries again', () => {
    expect(connectionSentence(standing)).toBeNull();
    const said = (lostForMs: number, retryInMs: number): string | undefined =>
      connectionSentence({ ...standing, connection: 'waiting', lostForMs, retryInMs })?.text.replaceAll('\u202f', ' ');
    expect(said(3_400, 1_200)).toBe('No connection for 3 s · the data shown are old · trying again in 2 s');
    expect(said(999, 999)).toBe('No connection · the data shown are old · trying again now');
  });
});

test('the wait before a new attempt grows to five seconds and is spread', () => {
  expect([0, 1, 2, 3, 4, 5, 50].map((attempt) => backoffMs(attempt, 1))).toEqual([250, 500, 1000, 2000, 4000, 5000, 5000]);
  expect(backoffMs(5, 0)).toBe(2500);
});

test('there are the ledger\'s twenty-five stages, source first, archive last', () => {
  expect(STAGES).toHaveLength(25);
  expect([STAGES[0]?.name, STAGES[3]?.name, STAGES[17]?.name, STAGES[24]?.name]).toEqual(['source', 'injected', 'receiver_socket_buffer', 'archive_write']);
});
