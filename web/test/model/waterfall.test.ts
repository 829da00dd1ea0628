import { describe, expect, test } from 'vitest';
import { decibels, finiteEnds, Waterfall } from '../../src/model/waterfall';
import type { Sample } from '../../src/wire/picture';

const SECOND = 1_000_000_000n;
/** Samples per second of the streams here. */
const RATE = 10;

/** Sample `index` of a stream that began at 100 s. */
const sample = (index: number, values: readonly number[], skipped = 0): Sample => ({
  time: 100n * SECOND + (BigInt(index) * SECOND) / BigInt(RATE), index: BigInt(index), skipped, planes: 1, rows: 1, columns: values.length,
  size: [1, values.length], block: [1, 1], low: 0, high: 0, values: Float64Array.from(values),
});

/** Columns of a tenth of a second from a sample on. */
const columns = (index: number, count: number): { from: bigint; spanNs: bigint; count: number } => ({
  from: sample(index, []).time, spanNs: (BigInt(count) * SECOND) / BigInt(RATE), count,
});

const picture = (waterfall: Waterfall, first: number, count: number): number[] => [...waterfall.picture(columns(first, count), RATE)];

describe('a waterfall', () => {
  test('has the lowest bin below and the oldest column left', () => {
    const waterfall = new Waterfall();
    waterfall.push(sample(0, [1, 2]));
    waterfall.push(sample(1, [3, 4]));
    expect(picture(waterfall, 0, 2)).toEqual([2, 4, 1, 3]);
    expect([waterfall.bins, waterfall.since]).toEqual([2, 100n * SECOND]);
  });

  test('never fills up what is missing from its neighbours', () => {
    const waterfall = new Waterfall();
    waterfall.push(sample(1, [1]));
    waterfall.push(sample(4, [4]));
    expect(picture(waterfall, 0, 6)).toEqual([NaN, 1, NaN, NaN, 4, NaN]);
    expect([waterfall.indexAt(sample(1, []).time, RATE), waterfall.indexAt(sample(2, []).time, RATE)]).toEqual([1n, null]);
  });

  test('shows what was not sent as the sample before, if none of it is missing', () => {
    const waterfall = new Waterfall();
    waterfall.push(sample(1, [1]));
    waterfall.push(sample(4, [4], 2));
    waterfall.push(sample(7, [7], 1));
    expect(picture(waterfall, 1, 7)).toEqual([1, 1, 1, 4, NaN, NaN, 7]);
  });

  test('has the largest values where a column holds several samples, and those between columns where it holds none', () => {
    const waterfall = new Waterfall();
    [[1, 8], [NaN, 3], [5, NaN], [2, 2]].forEach((values, index) => waterfall.push(sample(index, values)));
    const { from } = columns(0, 1);
    const wide = waterfall.picture({ from, spanNs: (4n * SECOND) / 10n, count: 2 }, RATE);
    expect([...wide]).toEqual([8, 2, 1, 5]);
    const narrow = waterfall.picture({ from: from + SECOND / 20n, spanNs: SECOND / 10n, count: 4 }, RATE);
    expect([...narrow].slice(0, 4)).toEqual([8, 8, 3, 3]);
  });

  test('takes a sample once, and begins anew with another epoch or other bins', () => {
    const waterfall = new Waterfall();
    waterfall.push(sample(3, [1]));
    waterfall.push(sample(3, [1]));
    waterfall.push(sample(4, [2]));
    expect(picture(waterfall, 3, 2)).toEqual([1, 2]);
    waterfall.push({ ...sample(5, [9]), index: 0n });
    expect(picture(waterfall, 3, 3)).toEqual([NaN, NaN, 9]);
    waterfall.push({ ...sample(6, [1, 2]), index: 1n });
    expect([waterfall.bins, waterfall.since]).toEqual([2, sample(6, []).time]);
  });

  test('keeps a bounded number of samples, and is empty at first', () => {
    const waterfall = new Waterfall();
    expect([waterfall.bins, waterfall.since, picture(waterfall, 0, 3).length]).toEqual([0, null, 0]);
    for (let index = 0; index < 12_000; index += 1) waterfall.push(sample(index, [index]));
    expect(Number(((waterfall.since ?? 0n) - 100n * SECOND) / (SECOND / 10n))).toBeGreaterThan(2_000);
    expect(picture(waterfall, 11_998, 2)).toEqual([11_998, 11_999]);
  });
});

test('zero is below all decibels, and what is less than zero is none', () => {
  const values = Float32Array.of(100, 0, -1, NaN, 1e-9);
  decibels(values);
  expect([...values]).toEqual([20, -Infinity, NaN, NaN, -90]);
  expect(finiteEnds(values, 100)).toEqual({ low: -80, high: 20 });
  expect(finiteEnds(values)).toEqual({ low: -90, high: 20 });
  expect(finiteEnds(Float32Array.of(NaN, -Infinity))).toEqual({ low: NaN, high: NaN });
});
