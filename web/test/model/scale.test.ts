import { describe, expect, test } from 'vitest';
import { encodeView } from '../../dev/encode-view.mjs';
import { nextAuto, nextMode, roundRange, roundStep, valueTicks } from '../../src/model/scale';
import { enclose, extremes, valuesAt } from '../../src/model/trace';
import { decodeViewFrame, type TraceFrame, type ViewFrame } from '../../src/wire/frame';

describe('the y-axis', () => {
  test.each<[number, number]>([[-1, 1], [0, 1e-9], [5, 5], [0, 0], [1e15, 1e15 + 1], [-3, -2]])('encloses %d … %d with round ends', (low, high) => {
    const range = roundRange(low, high);
    expect(range.low).toBeLessThan(low);
    expect(range.high).toBeGreaterThan(high);
  });

  test('of nothing is 0 to 1', () => {
    expect(roundRange(NaN, NaN)).toEqual({ low: 0, high: 1 });
    expect(nextAuto(null, NaN, NaN, 0).range).toEqual({ low: 0, high: 1 });
  });

  test('grows at once and shrinks only after a while', () => {
    const first = nextAuto(null, -1, 1, 0);
    const grown = nextAuto(first, -1, 10, 16);
    expect(grown.range.high).toBeGreaterThan(10);
    const waiting = nextAuto(grown, -1, 1, 1_000);
    expect(waiting.range).toEqual(grown.range);
    expect(nextAuto(waiting, -1, 1, 2_999).range).toEqual(grown.range);
    expect(nextAuto(waiting, -1, 1, 3_000).range).toEqual(first.range);
  });

  test('does not shrink when the signal comes back in time', () => {
    const grown = nextAuto(nextAuto(null, -1, 10, 0), -1, 1, 1_000);
    const back = nextAuto(grown, -1, 9.9, 2_000);
    expect(nextAuto(back, -1, 1, 3_500).range).toEqual(grown.range);
  });

  test('has round ticks inside its range', () => {
    expect(valueTicks({ low: -1.1, high: 1.1 }, 5)).toEqual([-1, -0.5, 0, 0.5, 1]);
    expect(valueTicks({ low: 0, high: 100 }, 4)).toEqual([0, 50, 100]);
    expect([0.011, 0.02, 3, 7].map(roundStep).map((step) => Number(step.toPrecision(3)))).toEqual([0.02, 0.02, 5, 10]);
  });

  test('goes from automatic to held to fixed and back', () => {
    const range = { low: 0, high: 2 };
    const held = nextMode({ kind: 'auto' }, range);
    const fixed = nextMode(held, { low: 7, high: 8 });
    expect([held, fixed, nextMode(fixed, range)]).toEqual([{ kind: 'held', range }, { kind: 'fixed', range }, { kind: 'auto' }]);
  });
});

describe('values of a trace', () => {
  const frame: ViewFrame = decodeViewFrame(encodeView({
    frame: 1, view: 1, now: 0n, from: 1000n, column: 10n, columnCount: 4,
    traces: [
      { index: 0, body: { first: 1, pairs: [-2, 3, NaN, NaN, 5, Infinity] } },
      { index: 1, body: { offsets: [0, 10, 20, 30], values: [1, 2, NaN, 4] } },
    ],
  }));
  const [columns, points] = frame.traces as [TraceFrame, TraceFrame];

  test('are enclosed by their extremes, holes and infinities left out', () => {
    expect(extremes(columns)).toEqual({ low: -2, high: 5 });
    expect(extremes(points)).toEqual({ low: 1, high: 4 });
    expect(enclose(extremes(columns), { low: NaN, high: NaN })).toEqual({ low: -2, high: 5 });
    expect(enclose(extremes(columns), extremes(points))).toEqual({ low: -2, high: 5 });
  });

  test.each<[bigint, number, number]>([[1010n, -2, 3], [1019n, -2, 3], [1020n, NaN, NaN], [1005n, NaN, NaN], [999n, NaN, NaN], [1040n, NaN, NaN]])(
    'of columns at %d', (at, low, high) => expect(valuesAt(frame, columns, at)).toEqual({ low, high }));

  test.each<[bigint, number]>([[1000n, 1], [1004n, 1], [1006n, 2], [1010n, 2], [1015n, NaN], [1025n, NaN], [1030n, 4], [1031n, NaN], [999n, NaN]])(
    'of points at %d', (at, value) => expect(valuesAt(frame, points, at)).toEqual({ low: value, high: value }));
});
