/**
 * Titles of plots, and of traces within them: as short as distinguishes them.
 */
import type { Stream, TraceRequest } from '../wire/messages';
import { short, significant } from './quantity';

/** A plot's title and the labels of its traces. */
export interface Titles {
  /** The part of the path that is context, ending in a slash; may be empty. */
  readonly path: string;
  readonly name: string;
  readonly labels: readonly string[];
}

/** Returns the title of a plot. */
export function titlesOf(traces: readonly TraceRequest[]): Titles {
  const streams = [...new Set(traces.map((trace) => trace.stream))];
  const [first = ''] = streams;
  if (streams.length === 1) {
    const cut = first.lastIndexOf('/') + 1;
    return { path: first.slice(0, cut), name: first.slice(cut), labels: traces.map((trace) => trace.channel) };
  }
  const ends = streams.map((stream) => stream.slice(stream.lastIndexOf('/') + 1));
  const path = commonPath(streams);
  // Where the last words differ, they are enough: the whole names stand in the list.
  const distinct = new Set(ends).size === streams.length && path === '';
  const shortOf = (stream: string): string => (distinct ? ends[streams.indexOf(stream)] : undefined) ?? stream.slice(path.length);
  const alone = (stream: string): boolean => traces.filter((trace) => trace.stream === stream).length === 1;
  const labels = traces.map(({ stream, channel }) => (alone(stream) ? shortOf(stream) : `${shortOf(stream)} ${channel}`));
  const name = streams.slice(0, 3).map(shortOf).join(' + ') + (streams.length > 3 ? ' …' : '');
  return { path, name, labels };
}

function commonPath(streams: readonly string[]): string {
  const [first = '', ...others] = streams.map((stream) => stream.split('/').slice(0, -1));
  const shared: string[] = [];
  for (const [i, word] of [...first].entries()) {
    if (!others.every((other) => other[i] === word)) break;
    shared.push(word);
  }
  return shared.length === 0 ? '' : `${shared.join('/')}/`;
}

/** Returns the unit of each trace, as far as the catalogue knows it. */
export function unitsOf(traces: readonly TraceRequest[], catalogue: ReadonlyMap<string, Stream>): readonly string[] {
  return traces.map(({ stream, channel }) => catalogue.get(stream)?.channels.find((each) => each.name === channel)?.unit ?? '');
}

/** The most y-axes a plot has: one at each side. */
export const MAX_AXES = 2;

/**
 * Returns the axes of a plot (their units) and which one each trace uses.
 *
 * A trace of a third unit has none, -1, and is not drawn: another's axis would be wrong for it.
 */
export function axesOf(units: readonly string[]): { readonly units: readonly string[]; readonly axis: readonly number[] } {
  const distinct = [...new Set(units)].slice(0, MAX_AXES);
  return { units: distinct, axis: units.map((unit) => distinct.indexOf(unit)) };
}

/** Describes the downsampling, or nothing if every sample is drawn. */
export function thinning(samplesPerColumn: number, slow: boolean): string {
  if (!(samplesPerColumn > 1)) return slow ? 'thinned to what this connection carries' : '';
  const many = samplesPerColumn < 10 ? significant(samplesPerColumn, 2) : short(Math.round(samplesPerColumn));
  const per = `${many} samples per pixel`;
  return slow ? `${per}, to fit this connection` : per;
}
