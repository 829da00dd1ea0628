import { describe, expect, test } from 'vitest';
import { encodeView } from '../../dev/encode-view.mjs';
import { bandAt, bands, detailOf, gapOfDetail, gapsAsText, gapSentence, lossRows, neighbour, plotGaps } from '../../src/model/gaps';
import { rowsOf } from '../../src/model/hops';
import { ladderOf, percent } from '../../src/model/ladder';
import { leadingStage, stageOfCode, UNEXPLAINED, UNSETTLED, type Stage } from '../../src/model/stage';
import { decodeViewFrame, type ViewFrame } from '../../src/wire/frame';
import { readAccount, readGapDetail, type HopLoss } from '../../src/wire/messages';

const gap = (from: bigint, to: bigint, code = 17, flags = 0): { from: bigint; to: bigint; lostElements: number; code: number; flags: number; firstIndex: bigint; samples: number } =>
  ({ from, to, lostElements: 2, code, flags, firstIndex: from, samples: Number(to - from) });

const frame = (): ViewFrame => decodeViewFrame(encodeView({
  frame: 1, view: 1, now: 1000n, from: 0n, column: 1n, columnCount: 1000,
  traces: [
    { index: 0, body: { first: 0, pairs: [] }, gaps: [gap(500n, 600n), gap(100n, 101n, 8, 2)] },
    { index: 1, body: { first: 0, pairs: [] }, gaps: [gap(500n, 600n), gap(100n, 101n, 8, 2)] },
    { index: 2, body: { first: 0, pairs: [] }, gaps: [gap(550n, 552n, 255)] },
  ],
}));
const TRACES = [{ stream: 'a', channel: 'x' }, { stream: 'a', channel: 'y' }, { stream: 'b', channel: 'x' }];
const GAPS = plotGaps(frame(), TRACES);

describe('gaps of a plot', () => {
  test('are listed once for a stream with several channels, by time', () => {
    expect(GAPS.map(({ stream, from }) => [stream, from])).toEqual([['a', 100n], ['a', 500n], ['b', 550n]]);
    expect(GAPS.map(({ stage }) => stage.name)).toEqual(['network', 'receiver_socket_buffer', 'unsettled']);
  });

  test('fall where their times say, cut at the edges', () => {
    expect(bands(GAPS, 0n, 1000n, 500).map(({ left, width }) => [left, width])).toEqual([[50, 0.5], [250, 50], [275, 1]]);
    expect(bands(GAPS, 520n, 60n, 60).map(({ left, width }) => [left, width])).toEqual([[0, 60], [30, 2]]);
    expect(bands(GAPS, 700n, 100n, 100)).toEqual([]);
  });

  test('are found under the pointer, the narrow one first', () => {
    const all = bands(GAPS, 0n, 1000n, 500);
    expect(bandAt(all, 276, 4)?.gap.stream).toBe('b');
    expect(bandAt(all, 260, 4)?.gap.stream).toBe('a');
    expect(bandAt(all, 53, 4)?.gap.from).toBe(100n);
    expect(bandAt(all, 60, 4)).toBeNull();
  });

  test('have neighbours', () => {
    expect(neighbour(GAPS, 100n, 'next')?.from).toBe(500n);
    expect(neighbour(GAPS, 500n, 'previous')?.from).toBe(100n);
    expect(neighbour(GAPS, 550n, 'next')).toBeNull();
  });

  test('are said in one sentence', () => {
    expect(GAPS.map((each) => gapSentence(each).replaceAll('\u202f', ' '))).toEqual([
      '1 sample missing: network and others, 1 ns', '100 samples missing: socket buffer, 100 ns', '2 samples missing: not settled yet, 2 ns',
    ]);
  });
});

describe('details of gaps', () => {
  const detail = readGapDetail({
    id: 1, from_ns: 500, to_ns: 600, first_index: 500, samples: 100, lost: { late: 3, network: 5, browser: 0 }, unexplained: 1, unsettled: 2,
    evidence: ['SO_RXQ_OVFL rose by 37'],
  });

  test('list the stages, most first, what is open last', () => {
    expect(lossRows(detail).map(([stage, lost]) => [stage.name, lost])).toEqual([['network', 5], ['late', 3], ['unexplained', 1], ['unsettled', 2]]);
  });

  test('are found by index, else by overlap', () => {
    const other = readGapDetail({ from_ns: 100, to_ns: 101, first_index: 7 });
    expect(GAPS[1] && detailOf([other, detail], GAPS[1])).toBe(detail);
    expect(GAPS[0] && detailOf([detail, other], GAPS[0])).toBe(other);
    expect(GAPS[2] && detailOf([other, detail], GAPS[2])).toBe(detail);
    expect(GAPS[2] && detailOf([other], GAPS[2])).toBeNull();
  });

  test('become a gap of a plot, with its code', () => {
    expect(gapOfDetail('a', detail)).toMatchObject({ stream: 'a', code: 8, lostElements: 11, severalStages: true, firstIndex: 500n });
    expect(gapOfDetail('a', readGapDetail({ unexplained: 4 })).code).toBe(254);
    expect(gapOfDetail('a', readGapDetail({ unsettled: 4 })).code).toBe(255);
    const absent = gapOfDetail('a', readGapDetail({ samples: 4, reader_absent: 4, from_ns: 1, to_ns: 3 }));
    expect([absent.code, absent.lostElements]).toEqual([253, 4]);
    expect(gapSentence(absent).replaceAll('\u202f', ' ')).toBe('4 samples missing: no recorder or publisher, 2 ns');
    expect(gapOfDetail('a', readGapDetail({ kind: 'publisher_absent', reader_absent: 0 })).code, 'of unknown extent').toBe(253);
  });

  test('are written for a logbook', () => {
    const text = gapsAsText('a/b', [detail], null, 'utc').replaceAll('\u202f', ' ');
    expect(text).toBe('a/b: 1 gap, 1970-01-01\n1970-01-01 00:00:00.000000500 UTC  100 ns  from index 500  100 samples  '
      + '[network 5, late 3, unexplained 1, unsettled 2 elements]\n    SO_RXQ_OVFL rose by 37\n');
    expect(gapsAsText('a/b', [], null, 'utc')).toBe('a/b: 0 gaps\n');
  });

  test('are written below what their socket counts, if there is one', () => {
    const socket = { address: '239.84.3.4:7400', drops: 131, unmatched: new Map([['receiver_socket_buffer', 3]]), unused: new Map(), longestWaitNs: 1_234_567 };
    const [head, line, first] = gapsAsText('a/b', [detail], socket, 'utc').replaceAll('\u202f', ' ').split('\n');
    expect(head).toBe('a/b: 1 gap, 1970-01-01');
    expect(line).toBe('socket 239.84.3.4:7400 · dropped 131 · unmatched 3 (receiver_socket_buffer) · longest wait 1.23 ms');
    expect(first).toContain('from index 500');
  });
});

describe('stages', () => {
  test('are known by code and by name, and what is unknown is unexplained', () => {
    expect(stageOfCode(17).place).toBe('receiver');
    expect(stageOfCode(254)).toBe(UNEXPLAINED);
    expect(stageOfCode(255)).toBe(UNSETTLED);
    expect(stageOfCode(99)).toBe(UNEXPLAINED);
  });

  test('lead when they lost most', () => {
    const leading = (lost: readonly (readonly [string, number])[], unexplained = 0, hops: readonly HopLoss[] = []): Stage | null =>
      leadingStage(rowsOf({ lost: new Map(lost), unexplained, unsettled: 99, hops }));
    expect(leading([['late', 1], ['network', 5]])?.name).toBe('network');
    expect(leading([['late', 1]], 9)).toBe(UNEXPLAINED);
    expect(leading([['late', 0]])).toBeNull();
    const link: HopLoss = { hop: 1, station: 'gate', lost: new Map([['deadline', 4]]), unexplained: 0, unsettled: 0 };
    expect(leading([['source', 6], ['network', 3]], 0, [link])?.words).toBe('deadline on hop 1');
  });
});

describe('the ladder', () => {
  const account = (more: Readonly<Record<string, unknown>> = {}, state = 'open'): Parameters<typeof ladderOf>[0] => readAccount({
    stream: 'a', state, elements: { first: 10, next: 110, per_sample: 2, delivered: 190, lost: { network: 7 }, unexplained: 1, unsettled: 2, in_flight: 0, ...more },
    ladder: [{ stage: 'archive_write', elements: 3 }],
  });

  test('adds up both sides of the law and says whether they agree', () => {
    expect(ladderOf(account(), null)).toMatchObject({ sent: 200, lost: 7, balanced: true, verdict: 'balanced, part unexplained' });
    expect(ladderOf(account({ delivered: 189 }), null)).toMatchObject({ balanced: false, verdict: 'does not balance' });
    expect(ladderOf(account({ delivered: 193, unexplained: 0, unsettled: 0 }, 'closed'), null).verdict).toBe('closed and explained');
    expect(ladderOf(account({ delivered: 193, unexplained: 0, unsettled: 0 }, 'unconfirmed'), null).verdict).toBe('balanced, tail unknown');
  });

  test('shows what this browser missed without putting it into the reader\'s law', () => {
    const ladder = ladderOf(account(), { shownFrames: 1, droppedFrames: 1, lostElements: new Map([['a', 40]]) });
    expect(ladder.balanced).toBe(true);
    expect(ladder.rungs.find((rung) => rung.stage.name === 'browser')?.elements).toBe(40);
  });

  test('gives every stage its share of what is missing', () => {
    const rungs = ladderOf(account({ next: 500_010, delivered: 999_990, lost: { network: 6 }, unexplained: 1, unsettled: 0 }), null).rungs;
    const share = (name: string): number => rungs.find((rung) => rung.stage.name === name)?.share ?? NaN;
    expect([share('network'), share('unexplained'), share('archive_write'), share('late')]).toEqual([0.6, 0.1, 0.3, 0]);
  });

  test.each<[number, number, string]>([
    [0, 0, ''], [0, 9, '0 %'], [9, 9, '100 %'], [1, 3, '33.3 %'], [1, 1e9, '< 0.001 %'], [999_999_999, 1e9, '> 99.999 %'], [9_998, 10_000, '99.980 %'], [3, 1_000, '0.300 %'],
  ])('writes %d of %d as %s', (part, whole, text) => expect(percent(part, whole)).toBe(text));
});
