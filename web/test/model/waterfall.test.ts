import { describe, expect, test } from 'vitest';
import { decibels, finiteEnds, Waterfall } from '../../src/model/waterfall';
import type { Column, WaterfallFrame } from '../../src/wire/waterfall';

const SECOND = 1_000_000_000n;
/** Columns of half a second, samples of one a second. */
const [WIDTH, RATE] = [SECOND / 2n, 1];

const column = (bins: readonly number[], missing = 0): Column => ({ present: bins.length > 0 ? 1 : 0, expected: (bins.length > 0 ? 1 : 0) + missing, bins: Float32Array.from(bins) });

/** A frame of columns at these places. */
const frame = (columns: readonly (readonly [number, Column])[], more: Partial<WaterfallFrame> = {}): WaterfallFrame => ({
  frame: 0, view: 1, state: 'ok', live: true, slow: false, anew: false, short: false, now: 0n, first: 100n, columnNs: WIDTH, count: 6,
  bins: 2, block: 1, elements: 2, rows: 1, planes: 1, plane: 0, isNearest: false, droppedFrames: 0, liveFrom: null, columns: new Map(columns), ...more,
});

const waterfall = (columns: readonly (readonly [number, Column])[]): Waterfall => {
  const made = new Waterfall();
  made.take(frame(columns, { anew: true }));
  return made;
};

/** The lower row of a picture. */
const lower = (made: Waterfall, rate = RATE): number[] => [...made.picture(rate).subarray(made.count)];

describe('a waterfall', () => {
  test('has the lowest bin below and the oldest column left', () => {
    const made = waterfall([[0, column([1, 2])], [1, column([3, 4])]]);
    expect([...made.picture(2)]).toEqual([2, 4, NaN, NaN, NaN, NaN, 1, 3, NaN, NaN, NaN, NaN]);
    expect([made.bins, made.count, made.stretch.from, made.stretch.spanNs]).toEqual([2, 6, 50n * SECOND, 3n * SECOND]);
  });

  test('shows a sample until the next one is due, and never over a hole', () => {
    const made = waterfall([[0, column([1, 2])], [2, column([])], [4, column([3, 4])]].map(([place, of]) => [place as number, of as Column]));
    expect(lower(made)).toEqual([1, 1, NaN, NaN, 3, 3]);
    expect(lower(made, 100)).toEqual([1, NaN, NaN, NaN, 3, NaN]);
    expect(lower(made, 0)[1], 'a rate that is not known').toBe(1);
  });

  test('takes what is new beside what it has, and forgets what left the window', () => {
    const made = waterfall([[0, column([1, 2])], [5, column([3, 4])]]);
    expect(made.take(frame([[5, column([5, 6])]], { first: 101n }))).toBe(true);
    expect(lower(made, 100)).toEqual([NaN, NaN, NaN, NaN, 3, 5]);
    made.take(frame([[5, column([7, 8])]], { first: 101n }));
    expect(lower(made, 100)[5], 'a column that has changed').toBe(7);
    expect(made.take(frame([], { anew: true }))).toBe(true);
    expect(lower(made, 100).every(Number.isNaN)).toBe(true);
  });

  test('refuses columns that are not of what it has', () => {
    expect(new Waterfall().take(frame([]))).toBe(false);
    const made = waterfall([[0, column([1, 2])]]);
    for (const other of [{ columnNs: WIDTH * 2n }, { block: 2 }, { bins: 3 }]) expect(made.take(frame([], other))).toBe(false);
    expect(lower(made)[0]).toBe(1);
  });

  test('tells what is at a place: a value, a hole, or nothing', () => {
    const made = waterfall([[0, column([1, NaN], 2)], [2, column([], 3)]]);
    expect(made.cell(50n * SECOND, 0, RATE)).toEqual({ kind: 'value', value: 1, column: column([1, NaN], 2) });
    expect(made.cell(50n * SECOND + 700_000_000n, 1, RATE)).toMatchObject({ kind: 'value', value: NaN });
    expect(made.cell(51n * SECOND, 1, RATE)).toEqual({ kind: 'hole', missing: 3 });
    expect(made.cell(52n * SECOND, 1, RATE)).toEqual({ kind: 'nothing' });
    expect(made.cell(0n, 1, RATE)).toEqual({ kind: 'nothing' });
    expect(new Waterfall().cell(1n, 0, 0)).toEqual({ kind: 'nothing' });
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
