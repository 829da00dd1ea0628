/** The live edge moves forward alone, and goes on with the page's clock between frames. */
import { expect, test } from 'vitest';
import { LiveEdge } from '../../src/model/live-edge';

test('the edge is the newest time of all frames, and goes on between them', () => {
  const edge = new LiveEdge(1_000n, 5);
  expect([edge.time, edge.now(5), edge.now(7)]).toEqual([1_000n, 1_000n, 2_001_000n]);
  edge.reach(900n, 7);
  expect([edge.time, edge.now(7)]).toEqual([1_000n, 2_001_000n]);
  edge.reach(3_000n, 9);
  expect([edge.time, edge.now(9.5)]).toEqual([3_000n, 503_000n]);
});
