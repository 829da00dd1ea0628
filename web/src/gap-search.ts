/**
 * Searches the next gap beyond the window of a plot: the action of `g` if none is in view.
 */
import { gapOfDetail, neighbour, type Direction, type PlotGap } from './model/gaps';
import type { FetchGaps } from './ui/gap-card';

/** Maximum extent of the search into the past. */
const BACK_NS = 86_400_000_000_000n;
/** Gaps looked at for each stream. */
const LIMIT = 2_000;

/** Returns the nearest gap of these streams after (or before) `at`, or null if there is none or no answer. */
export async function searchGap(
  fetchGaps: FetchGaps,
  streams: readonly string[],
  at: bigint,
  live: bigint,
  direction: Direction,
): Promise<PlotGap | null> {
  const [from, to] = direction === 'next' ? [at, live] : [at - BACK_NS, at];
  try {
    const found = await Promise.all(streams.map(async (stream) =>
      (await fetchGaps(stream, from, to, LIMIT)).map((detail) => gapOfDetail(stream, detail))));
    return neighbour(found.flat().sort((a, b) => (a.from < b.from ? -1 : 1)), at, direction);
  } catch {
    return null;
  }
}
