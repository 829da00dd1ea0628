/**
 * What the panels of whole samples decide: which panels a channel offers, where a picture lies, which values lie in the
 * row and the column of a place, where a spectrum has its peak.
 */
import type { Channel, Stream, TraceRequest } from '../wire/messages';
import type { Sample } from '../wire/picture';
import type { Range } from './scale';

/** Kind of a plot. */
export type PanelKind = 'trend' | 'spectrum' | 'waterfall' | 'image' | 'table' | 'alarms';
/** All kinds of plots. */
export const PANELS: readonly PanelKind[] = ['trend', 'spectrum', 'waterfall', 'image', 'table', 'alarms'];

/** Label of a stream of spectra: the distance of two bins. */
const BIN_LABEL = 'spectrum_bin_hz';

/** Returns the distance of two bins of a stream's spectra in Hz, null of another stream. */
export function binHz(stream: Stream | undefined): number | null {
  const width = Number(stream?.labels.find(([name]) => name === BIN_LABEL)?.[1] ?? NaN);
  return width > 0 && Number.isFinite(width) ? width : null;
}

/** Returns the channel of a trace; of a trace that names an element, none. */
export function channelOf(trace: TraceRequest | undefined, catalogue: ReadonlyMap<string, Stream>): Channel | undefined {
  return catalogue.get(trace?.stream ?? '')?.channels.find(({ name }) => name === trace?.channel);
}

/** Returns the kinds of panels for a channel of this shape. */
export function panelsOf({ shape }: Channel): readonly PanelKind[] {
  return shape.reduce((product, extent) => product * extent, 1) > 1 ? ['trend', 'spectrum', 'waterfall', 'image', 'table'] : ['trend', 'table'];
}

/** Returns how a channel is shown at first: spectra and vectors as such, matrices as images. */
export function firstPanel(stream: Stream, channel: Channel): PanelKind {
  if (channel.elements <= 1) return 'trend';
  if (binHz(stream) !== null) return 'spectrum';
  const sides = channel.shape.slice(-2).filter((side) => side > 1).length;
  return sides === 2 ? 'image' : 'spectrum';
}

/** A rectangle in pixels. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** Elements would be more oblong than this if they filled the box: then they are squares. */
const OBLONG = 1.25;
/** A picture with so much longer a side fills the box all the same. */
const STRIP = 8;

/** Returns where a picture lies in a box: its elements are squares, unless one side would be hardly seen. */
export function fitted([rows, columns]: readonly [number, number], box: Box): Box {
  const strip = Math.max(rows / columns, columns / rows) > STRIP;
  const ratio = (box.width / columns) / (box.height / rows);
  if (strip || (ratio < OBLONG && ratio > 1 / OBLONG)) return box;
  const size = Math.min(box.width / columns, box.height / rows);
  const [width, height] = [columns * size, rows * size];
  return { x: box.x + (box.width - width) / 2, y: box.y + (box.height - height) / 2, width, height };
}

/** A pixel. */
export interface Place {
  readonly row: number;
  readonly column: number;
}

/** Returns the pixel at a point of the picture's box, or null beside it. */
export function placeAt(sample: Sample, box: Box, x: number, y: number): Place | null {
  const place = {
    row: Math.floor((((y - box.y) / box.height) * sample.size[0]) / sample.block[0]),
    column: Math.floor((((x - box.x) / box.width) * sample.size[1]) / sample.block[1]),
  };
  const inside = x >= box.x && y >= box.y && x < box.x + box.width && y < box.y + box.height;
  return inside ? within(sample, place) : null;
}

/** Returns the nearest pixel that there is. */
export function within({ rows, columns }: Sample, { row, column }: Place): Place {
  return { row: Math.max(0, Math.min(rows - 1, row)), column: Math.max(0, Math.min(columns - 1, column)) };
}

/** Returns the value of a pixel. */
export function valueAt({ values, columns }: Sample, { row, column }: Place): number {
  return values[row * columns + column] ?? NaN;
}

/** Returns the values of a row. */
export function rowOf({ values, columns }: Sample, row: number): Float32Array | Float64Array {
  return values.subarray(row * columns, (row + 1) * columns);
}

/** Returns the values of a column. */
export function columnOf(sample: Sample, column: number): Float64Array {
  return Float64Array.from({ length: sample.rows }, (_, row) => valueAt(sample, { row, column }));
}

/** Names the elements of the matrix that a pixel is: `7`, or `8–11`. */
export function elementsText(pixel: number, block: number, size: number): string {
  const first = pixel * block;
  const last = Math.min(size, first + block) - 1;
  return first === last ? String(first) : `${first}–${last}`;
}

/** Returns the range with some extent: one value alone lies in the middle. */
export function widened(low: number, high: number): Range {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return { low: 0, high: 1 };
  if (low < high) return { low, high };
  const half = Math.max(Math.abs(low) * 0.05, 1e-12);
  return { low: low - half, high: high + half };
}

/** Decades below the largest value that a logarithmic axis shows at most. */
const DECADES = 12;

/** Returns the range of whole decades for the values that a logarithmic axis can show; zeros and less lie below it. */
export function decadeRange(values: ArrayLike<number>): Range {
  let [low, high] = [Infinity, 0];
  for (let at = 0; at < values.length; at += 1) {
    const value = values[at] ?? NaN;
    if (!(value > 0) || value === Infinity) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (high === 0) return { low: 0.1, high: 1 };
  const top = Math.ceil(Math.log10(high) + 1e-9);
  const bottom = Math.max(Math.floor(Math.log10(low) + 1e-9), top - DECADES);
  return { low: 10 ** Math.min(bottom, top - 1), high: 10 ** top };
}

/** Returns the powers of ten in a range, at most about `wanted` of them. */
export function decadeTicks({ low, high }: Range, wanted: number): readonly number[] {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first) / Math.max(1, wanted)));
  return Array.from({ length: Math.max(0, Math.floor((last - first) / step) + 1) }, (_, k) => 10 ** (first + k * step));
}

/** Returns the share of a value between the ends of an axis; below a logarithmic one is zero, and what is not above it. */
export function shareOf(value: number, { low, high }: Range, log: boolean): number {
  if (!log) return (value - low) / (high - low);
  return value > 0 ? Math.log10(value / low) / Math.log10(high / low) : -Infinity;
}

/** Returns the place of the largest value, null if there is none. */
export function peakOf(values: ArrayLike<number>): number | null {
  let best: number | null = null;
  for (let at = 0; at < values.length; at += 1) {
    const value = values[at] ?? NaN;
    if (!Number.isNaN(value) && (best === null || value > (values[best] ?? NaN))) best = at;
  }
  return best;
}
