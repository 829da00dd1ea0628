import { describe, expect, test } from 'vitest';
import { encodeView, meanShares } from '../../dev/encode-view.mjs';
import { meanOf } from '../../src/model/trace';
import { decodeViewFrame, type ViewFrame } from '../../src/wire/frame';
import { KeptColumns } from '../../src/wire/kept';

/** A frame of one trace of columns of 10 ns. */
function frame(from: bigint, first: number, kept: number, lows: readonly number[], exact = true): ViewFrame {
  const pairs = lows.flatMap((low) => [low, low + 0.5]);
  const body = { first, kept, pairs: exact ? Float64Array.from(pairs) : pairs };
  return decodeViewFrame(encodeView({ frame: 1, view: 7, now: 0n, from, column: 10n, columnCount: 8, traces: [{ index: 0, body }] }));
}

const lowsOf = ({ traces }: ViewFrame): readonly number[] => {
  const body = traces[0]?.body;
  return body?.kind === 'columns' ? [...body.pairs].filter((_, i) => i % 2 === 0) : [];
};

describe('kept columns', () => {
  test('are put before those that a frame brings', () => {
    const kept = new KeptColumns();
    expect(lowsOf(kept.complete(frame(0n, 2, 0, [1, 2, 3, 4])))).toEqual([1, 2, 3, 4]);
    // Three columns later: the first is out of the window.
    const next = kept.complete(frame(30n, 3, 3, [499_654_096.601]));
    expect(lowsOf(next)).toEqual([2, 3, 4, 499_654_096.601]);
    expect(next.traces[0]?.body).toMatchObject({ first: 0, count: 4, kept: 0 });
    expect(lowsOf(kept.complete(frame(30n, 4, 4, [])))).toEqual([2, 3, 4, 499_654_096.601]);
    expect(lowsOf(kept.complete(frame(30n, 1, 1, [8, 9], false)))).toEqual([2, 8, 9]);
  });

  test('keep their means', () => {
    const kept = new KeptColumns();
    const of = (from: bigint, first: number, count: number, means: readonly number[]): readonly number[] => {
      const pairs = Float64Array.from(means.flatMap(() => [0, 1]));
      const body = { first, kept: count, pairs, means: meanShares(pairs, means) };
      const whole = kept.complete(decodeViewFrame(encodeView({ frame: 1, view: 7, now: 0n, from, column: 10n, columnCount: 8, traces: [{ index: 0, body }] })));
      const complete = whole.traces[0]?.body;
      return complete?.kind === 'columns' ? Array.from({ length: complete.count }, (_, k) => meanOf(complete, k)) : [];
    };
    expect(of(0n, 0, 0, [0, 0.5, 1])).toEqual([0, 0.5, 1]);
    expect(of(10n, 2, 2, [0.5, 0])).toEqual([0.5, 1, 0.5, 0]);
    // A server that had sent none before: those kept are not known.
    kept.complete(frame(10n, 0, 0, [1, 2]));
    expect(of(10n, 2, 2, [0])).toEqual([NaN, NaN, 0]);
  });

  test('that are not there make a frame malformed', () => {
    const kept = new KeptColumns();
    expect(() => kept.complete(frame(0n, 2, 1, [1]))).toThrow('kept columns');
    kept.complete(frame(0n, 2, 0, [1, 2]));
    expect(() => kept.complete(frame(5n, 2, 1, [1]))).toThrow('kept columns');
    expect(() => kept.complete(frame(0n, 5, 2, [1]))).toThrow('kept columns');
    expect(() => kept.complete(frame(0n, 2, 2, [1]))).toThrow('kept columns');
    kept.forget(7);
    expect(() => kept.complete(frame(0n, 3, 1, [1]))).toThrow('kept columns');
  });
});
