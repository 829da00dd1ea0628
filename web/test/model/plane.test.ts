import { describe, expect, test } from 'vitest';
import {
  choiceExtents, firstElementOf, indicesOf, isThere, keptPlane, MAX_PLANE_INDICES, missingPlaneText, numberOf, planeExtents, planeText, readPlane, samePlane, stepped,
} from '../../src/model/plane';
import type { Channel } from '../../src/wire/messages';
import { below, seeded } from './some-layouts';

const channel = (shape: readonly number[]): Channel => ({ name: 'x', unit: 'V', shape, elements: shape.reduce((so, extent) => so * extent, 1) });

describe('planes', () => {
  test('are counted in the extents before the last two', () => {
    expect([[], [5], [4, 5], [3, 4, 5], [2, 3, 4, 5]].map((shape) => planeExtents(channel(shape)))).toEqual([[], [], [], [3], [2, 3]]);
    expect(planeExtents(undefined)).toEqual([]);
    // Of a recording with another shape than the stream has now, only the number of planes is known.
    expect([choiceExtents([2, 3], null), choiceExtents([2, 3], 6), choiceExtents([2, 3], 8), choiceExtents([], 1)]).toEqual([[2, 3], [2, 3], [8], []]);
  });

  test('are numbered in the order of the sample', () => {
    expect([0, 1, 2, 3, 4, 5].map((number) => planeText(indicesOf(number, [2, 3])))).toEqual(['[0, 0]', '[0, 1]', '[0, 2]', '[1, 0]', '[1, 1]', '[1, 2]']);
    for (let seed = 0; seed < 300; seed += 1) {
      const random = seeded(seed);
      const extents = Array.from({ length: 1 + below(random, 6) }, () => 1 + below(random, 5));
      const count = extents.reduce((so, extent) => so * extent, 1);
      const number = below(random, count);
      const indices = indicesOf(number, extents);
      expect([numberOf(indices, extents), isThere(indices, extents), numberOf(keptPlane(indices), extents)], `seed ${seed}`).toEqual([number, true, number]);
    }
  });

  test('end where they end', () => {
    expect([stepped(3, 1, [4]), stepped(3, -1, [4]), stepped(0, -1, [4]), stepped(2, 1, [2, 3]), stepped(0, Infinity, [2, 3]), stepped(0, 1, [])]).toEqual([3, 2, 0, 3, 5, 0]);
    expect(numberOf([7, -1], [2, 3])).toBe(3);
    expect([isThere([3], [4]), isThere([4], [4]), isThere([1, 0], [4]), isThere([1], [2, 3]), isThere([], [4]), isThere([0], [])]).toEqual([true, false, false, false, true, false]);
  });

  test('are read if they can be some', () => {
    expect([readPlane([1, 0]), readPlane([0, 0]), readPlane([]), readPlane([2 ** 32 - 1])]).toEqual([[1, 0], [], [], [2 ** 32 - 1]]);
    expect([[-1], [1.5], ['1'], [NaN], [2 ** 32], [null]].map((indices) => readPlane(indices))).toEqual([null, null, null, null, null, null]);
    const indices = (count: number): readonly number[] => Array.from({ length: count }, () => 1);
    expect([readPlane(indices(MAX_PLANE_INDICES))?.length, readPlane(indices(MAX_PLANE_INDICES + 1))]).toEqual([MAX_PLANE_INDICES, null]);
    expect([samePlane([1, 0], [1, 0]), samePlane([1], [1, 0]), samePlane([], [])]).toEqual([true, false, true]);
  });

  test('that are not there say so, and which one is shown', () => {
    expect(missingPlaneText([5], 3, [4])).toBe('There is no plane [5]: this channel has 4 planes. The nearest, [3], is shown.');
    expect(missingPlaneText([1, 7], 5, [2, 3])).toBe('There is no plane [1, 7]: this channel has 2 × 3 planes. The nearest, [1, 2], is shown.');
    expect(missingPlaneText([5], 0, [])).toBe('There is no plane [5]: a sample of this channel is one plane, which is shown.');
  });

  test('are exported by their first element', () => {
    const trace = { stream: 'lab/stack', channel: 'x' };
    const of = (shape: readonly number[], plane: readonly number[]): string => firstElementOf(trace, channel(shape), plane).channel;
    expect([of([4, 48, 64], []), of([4, 48, 64], [2]), of([2, 3, 4, 5], [1, 0]), of([4, 48, 64], [9]), of([48, 64], [1])]).toEqual(['x', 'x[6144]', 'x[60]', 'x[9216]', 'x']);
    expect(firstElementOf(trace, undefined, [2])).toBe(trace);
  });
});
