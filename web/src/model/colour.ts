/**
 * Assignment of colours to traces: stable per stream, distinct within a plot.
 *
 * The colours themselves live in the style sheet (`--trace-0` … `--trace-7`), one set per theme, chosen so
 * that neighbours differ also for red-green colour blindness.
 */
import type { TraceRequest } from '../wire/messages';

/** Number of trace colours in the style sheet. */
export const TRACE_COLOURS = 8;

/** FNV-1a over the name's UTF-16 units: small, and stable in every browser. */
export function hash(name: string): number {
  let state = 0x811c9dc5;
  for (let i = 0; i < name.length; i += 1) state = Math.imul(state ^ name.charCodeAt(i), 0x01000193);
  return state >>> 0;
}

/**
 * Returns the colour number of each trace of a plot.
 *
 * The first trace of a stream has the stream's own colour everywhere; one whose colour is taken within the
 * plot moves on to the next free colour. Beyond eight traces colours repeat.
 */
export function traceColours(traces: readonly TraceRequest[]): readonly number[] {
  const taken = new Set<number>();
  return traces.map(({ stream }) => {
    if (taken.size === TRACE_COLOURS) taken.clear();
    let colour = hash(stream) % TRACE_COLOURS;
    while (taken.has(colour)) colour = (colour + 1) % TRACE_COLOURS;
    taken.add(colour);
    return colour;
  });
}
