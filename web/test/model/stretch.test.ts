import { describe, expect, test } from 'vitest';
import { encodeView, meanShares } from '../../dev/encode-view.mjs';
import { frequencyText, holesText, intervalText, isShown, sourceText, stretchOf, type Source, type Stretch } from '../../src/model/stretch';
import { decodeViewFrame, type ViewFrame } from '../../src/wire/frame';

const START = 1_790_000_000_000_000_000n;
const plain = (text: string): string => text.replaceAll('\u202f', ' ');

/** Seeded numbers from 0 to 1. Source: Park and Miller, 1988. */
function random(seed: number): () => number {
  // Neighbouring seeds begin far apart.
  let state = (seed * 1_299_709) % 2_147_483_647;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

interface Hole {
  readonly first: number;
  readonly samples: number;
}

/** Samples one nanosecond apart, `each` to a column; those of the hole are missing, and so may be the means. */
function columnsOf(values: readonly number[], each: number, hole: Hole | null = null, withMeans = false): ViewFrame {
  const count = values.length / each;
  const pairs = new Float64Array(2 * count).fill(NaN);
  const parts = Array.from({ length: count }, (): number[] => []);
  values.forEach((value, i) => {
    if (hole !== null && i >= hole.first && i < hole.first + hole.samples) return;
    const k = Math.floor(i / each);
    pairs[2 * k] = Math.min(pairs[2 * k] || value, value);
    pairs[2 * k + 1] = Math.max(pairs[2 * k + 1] || value, value);
    parts[k]?.push(value);
  });
  const means = withMeans ? meanShares(pairs, parts.map((part) => part.reduce((sum, value) => sum + value, 0) / part.length)) : null;
  const gaps = hole === null ? [] : [{
    from: START + BigInt(hole.first), to: START + BigInt(hole.first + hole.samples), lostElements: hole.samples, code: 17, firstIndex: 0n, samples: hole.samples,
  }];
  return decodeViewFrame(encodeView({
    frame: 0, view: 1, now: START, from: START, column: BigInt(each), columnCount: count,
    traces: [{ index: 0, body: { first: 0, pairs, means }, samplesPerColumn: each, gaps }],
  }));
}

function pointsOf(offsets: readonly number[], values: readonly number[]): ViewFrame {
  return decodeViewFrame(encodeView({
    frame: 0, view: 1, now: START, from: START, column: 10n, columnCount: 100, traces: [{ index: 0, body: { offsets, values } }],
  }));
}

function between(frame: ViewFrame, a: number, b: number): Stretch {
  const [trace] = frame.traces;
  if (trace === undefined) throw new Error('one trace');
  return stretchOf(frame, trace, { a: START + BigInt(a), b: START + BigInt(b) });
}

describe('the stretch between two cursors', () => {
  test('of single samples is exact, and both ends belong to it', () => {
    const frame = pointsOf([0, 100, 200, 300, 400], [9, 3, -4, 1, 9]);
    const stretch = between(frame, 100, 300);
    expect(stretch).toMatchObject({ source: { kind: 'samples', count: 3 }, min: -4, max: 3, mean: { low: 0, high: 0 } });
    expect(stretch.rms.low).toBeCloseTo(Math.sqrt(26 / 3), 12);
    expect(stretch.rms.high).toBe(stretch.rms.low);
    expect(stretch.step).toEqual({ low: -2, high: -2 });
    expect(between(frame, 300, 100)).toEqual({ ...stretch, a: stretch.b, b: stretch.a, step: { low: 2, high: 2 } });
  });

  test('without a sample has no value', () => {
    const stretch = between(pointsOf([0, 400], [1, 2]), 100, 300);
    expect(stretch).toMatchObject({ source: { count: 0 }, min: NaN, max: NaN, mean: { low: NaN, high: NaN } });
    expect(sourceText([stretch.source])).toBe('nothing arrived between the cursors');
  });

  test.each([false, true])('of columns has exact extremes, and bounds that hold the true mean and rms, with and without a hole (means: %s)', (withMeans) => {
    for (let seed = 1; seed <= 300; seed += 1) {
      const next = random(seed);
      const each = 1 + Math.floor(next() * 20);
      const count = 2 + Math.floor(next() * 30);
      const offset = (next() - 0.5) * 4;
      const values = Array.from({ length: each * count }, () => offset + next());
      const hole = next() < 0.5 ? null : { first: Math.floor(next() * values.length * 0.6), samples: 1 + Math.floor(next() * values.length * 0.3) };
      const frame = columnsOf(values, each, hole, withMeans);
      const [first, last] = [Math.floor(next() * count), Math.floor(next() * count)].sort((x, y) => x - y) as [number, number];
      const stretch = between(frame, first * each + Math.floor(next() * each), last * each + Math.floor(next() * each));
      const there = values.map((value, i) => [value, i] as const).slice(first * each, (last + 1) * each)
        .filter(([, i]) => hole === null || i < hole.first || i >= hole.first + hole.samples).map(([value]) => value);
      const missing = (last + 1 - first) * each - there.length;
      expect([stretch.holes.samples, stretch.holes.count], `seed ${seed}`).toEqual([missing, missing > 0 ? 1 : 0]);
      if (there.length === 0) {
        expect(stretch.min, `seed ${seed}`).toBeNaN();
        continue;
      }
      const mean = there.reduce((sum, value) => sum + value, 0) / there.length;
      const rms = Math.sqrt(there.reduce((sum, value) => sum + value * value, 0) / there.length);
      expect([stretch.min, stretch.max], `seed ${seed}`).toEqual([Math.min(...there), Math.max(...there)]);
      for (const [bounds, value] of [[stretch.mean, mean], [stretch.rms, rms]] as const) {
        expect(bounds.low, `seed ${seed}`).toBeLessThanOrEqual(value + 1e-9);
        expect(bounds.high, `seed ${seed}`).toBeGreaterThanOrEqual(value - 1e-9);
      }
      expect(stretch.source.hasMeans, `seed ${seed}`).toBe(withMeans);
      // Known to half a step of a column that is at most one high.
      if (withMeans) expect(stretch.mean.high - stretch.mean.low, `seed ${seed}`).toBeLessThan(1.001 / 65_534);
    }
  });

  test('counts of a hole that reaches beyond it only its share', () => {
    const stretch = between(columnsOf(Array.from({ length: 100 }, () => 1), 10, { first: 35, samples: 40 }), 0, 49);
    expect(stretch.holes).toEqual({ count: 1, samples: 15 });
    expect(holesText(stretch.holes)).toBe('1 hole, 15 samples missing');
    expect(holesText({ count: 0, samples: 0 })).toBe('');
  });

  test('is shown if both cursors are, the right edge included', () => {
    const frame = columnsOf([1, 2, 3, 4], 2);
    const shows = (a: bigint, b: bigint): boolean => isShown(frame, { a: START + a, b: START + b });
    expect([shows(0n, 4n), shows(4n, 0n), shows(-1n, 4n), shows(0n, 5n)]).toEqual([true, true, false, false]);
    expect(between(frame, 0, 4)).toMatchObject({ source: { kind: 'columns', count: 2, samplesEach: 2 }, min: 1, max: 4 });
  });
});

describe('the read-out', () => {
  test('has the digits that pixels tell apart', () => {
    const cursors = { a: START, b: START + 1_333_333_333n };
    expect(plain(intervalText(cursors, 10_000_000))).toBe('1.33 s');
    expect(plain(intervalText({ a: cursors.b, b: cursors.a }, 100_000))).toBe('−1.3333 s');
    expect(plain(intervalText({ a: START, b: START + 5_400_000_000_000n }, 1_000_000_000))).toBe('5400 s');
    expect(plain(intervalText({ a: START, b: START + 4_200n }, 100))).toBe('4.2 µs');
    expect(plain(frequencyText(cursors, 1_000_000))).toBe('750.0 mHz');
    expect(frequencyText({ a: START, b: START }, 1)).toBe('–');
  });

  test('says what its values are computed from', () => {
    expect(plain(sourceText([{ kind: 'samples', count: 3, samplesEach: 1, hasMeans: true }]))).toBe('from 3 samples: all exact');
    const columns = (count: number, samplesEach: number, hasMeans = false): Source => ({ kind: 'columns', count, samplesEach, hasMeans });
    expect(plain(sourceText([columns(334, 12_500), { kind: 'samples', count: 1, samplesEach: 1, hasMeans: true }])))
      .toBe('from 334 columns of 12.5 k samples, or 1 sample: their min and max, bounds of mean and rms');
    expect(plain(sourceText([columns(2, 10, true), columns(3, 10, true)]))).toBe('from 2 to 3 columns of 10 samples: their min, max and mean, bounds of rms');
    expect(plain(sourceText([columns(322, 3.77), columns(353, 758.4), columns(0, 9)])))
      .toBe('from 322 to 353 columns of 3.8 to 758 samples: their min and max, bounds of mean and rms');
  });
});
