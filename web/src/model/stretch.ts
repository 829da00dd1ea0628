/**
 * Two cursors, and what a trace does in the stretch between them.
 *
 * Everything is computed from the frame that is drawn: from single samples exactly, else from columns, of which only
 * the extremes and the mean are known. Then the stretch is that of whole columns, its extremes are theirs, and mean and rms
 * are the bounds between which the true ones lie.
 */
import { MEAN_STEPS, type Columns, type GapRecord, type Points, type TraceFrame, type ViewFrame } from '../wire/frame';
import { decimalsFor, displayUnit, inUnit, short, significant } from './quantity';
import { meanOf, valuesAt, type Extremes } from './trace';

/** Times of the two cursors; `a` may be the later one. */
export interface Cursors {
  readonly a: bigint;
  readonly b: bigint;
}

/** Name of a cursor. */
export type CursorName = keyof Cursors;

/** Data behind the values of a stretch: its samples, or the columns that it touches. */
export interface Source {
  readonly kind: 'samples' | 'columns';
  readonly count: number;
  /** Samples of one column; 1 for samples. */
  readonly samplesEach: number;
  /** Every column has a mean. */
  readonly hasMeans: boolean;
}

/** What a trace does between the cursors; a value that nothing is known of is NaN. */
export interface Stretch {
  readonly source: Source;
  readonly a: Extremes;
  readonly b: Extremes;
  /** Value at `b` minus value at `a`. */
  readonly step: Extremes;
  readonly min: number;
  readonly max: number;
  readonly mean: Extremes;
  readonly rms: Extremes;
  readonly holes: Holes;
}

/** Holes within a stretch. */
export interface Holes {
  readonly count: number;
  /** Missing samples; of a hole that reaches beyond the stretch, its share. */
  readonly samples: number;
}

/** Returns the earlier and the later time. */
export function ordered({ a, b }: Cursors): readonly [bigint, bigint] {
  return a <= b ? [a, b] : [b, a];
}

/** Returns whether a frame shows the whole stretch. */
export function isShown(frame: ViewFrame, cursors: Cursors): boolean {
  const [from, to] = ordered(cursors);
  return from >= frame.from && to <= frame.from + frame.column * BigInt(frame.columnCount);
}

/** Returns what a trace does between the cursors, which the frame shows ({@link isShown}). */
export function stretchOf(frame: ViewFrame, trace: TraceFrame, cursors: Cursors): Stretch {
  const [from, to] = ordered(cursors).map((at) => Number(at - frame.from)) as [number, number];
  const { body } = trace;
  const width = Number(frame.column);
  const columns = body.kind === 'columns' ? touched(from, to, width, frame.columnCount) : null;
  const sums = body.kind === 'columns' && columns !== null
    ? ofColumns(body, columns, weights(frame, trace, columns))
    : ofSamples(body as Points, from, to);
  const [start, end] = columns === null ? [from, to] : [columns.first * width, (columns.last + 1) * width];
  const [a, b] = [valuesAt(frame, trace, cursors.a), valuesAt(frame, trace, cursors.b)];
  return { ...sums, a, b, step: { low: b.low - a.high, high: b.high - a.low }, holes: holesIn(frame, trace.gaps, start, end) };
}

/** First and last column that a stretch touches. */
interface Touched {
  readonly first: number;
  readonly last: number;
}

function touched(from: number, to: number, width: number, count: number): Touched {
  const at = (offset: number): number => Math.max(0, Math.min(count - 1, Math.floor(offset / width)));
  return { first: at(from), last: at(to) };
}

type Sums = Pick<Stretch, 'source' | 'min' | 'max' | 'mean' | 'rms'>;

/** Sums of values that lie between two bounds each. */
class Summed {
  #min = Infinity;
  #max = -Infinity;
  #weight = 0;
  #mean = [0, 0] as [number, number];
  #square = [0, 0] as [number, number];

  /** Takes values from `low` to `high`, as many as `weight` says, whose mean lies within `mean`. */
  take(low: number, high: number, weight: number, mean: Extremes = { low, high }): void {
    this.#min = Math.min(this.#min, low);
    this.#max = Math.max(this.#max, high);
    this.#weight += weight;
    this.#mean[0] += mean.low * weight;
    this.#mean[1] += mean.high * weight;
    this.#square[0] += leastSquare(mean) * weight;
    this.#square[1] += mostSquare({ low, high }, mean) * weight;
  }

  /** Returns the extremes, mean and rms; NaN of nothing. */
  result(): Omit<Sums, 'source'> {
    const weight = this.#weight;
    if (weight === 0) return { min: NaN, max: NaN, mean: NOTHING, rms: NOTHING };
    const [low, high] = this.#mean.map((sum) => sum / weight) as [number, number];
    const [least, most] = this.#square.map((sum) => Math.sqrt(sum / weight)) as [number, number];
    return { min: this.#min, max: this.#max, mean: { low, high }, rms: { low: least, high: most } };
  }
}

const NOTHING: Extremes = { low: NaN, high: NaN };

/** The least mean square of values whose mean lies within these bounds: that of a constant. */
const leastSquare = ({ low, high }: Extremes): number => (low < 0 && high > 0 ? 0 : Math.min(low * low, high * high));

/** The largest mean square of values between `low` and `high`: that of values at both ends. Source: Bhatia and Davis, 2000. */
function mostSquare({ low, high }: Extremes, mean: Extremes): number {
  const of = (middle: number): number => middle * (low + high) - low * high;
  return Math.max(of(mean.low), of(mean.high));
}

function ofSamples({ offsets, values, count }: Points, from: number, to: number): Sums {
  const sums = new Summed();
  let samples = 0;
  for (let i = 0; i < count; i += 1) {
    const offset = offsets[i] ?? NaN;
    const value = values[i] ?? NaN;
    if (!(offset >= from && offset <= to) || value !== value) continue;
    sums.take(value, value, 1);
    samples += 1;
  }
  return { ...sums.result(), source: { kind: 'samples', count: samples, samplesEach: 1, hasMeans: true } };
}

function ofColumns(body: Columns, { first, last }: Touched, { samplesEach, weightOf }: Weights): Sums {
  const sums = new Summed();
  let [columns, hasMeans] = [0, true];
  for (let k = Math.max(first, body.first); k <= Math.min(last, body.first + body.count - 1); k += 1) {
    const low = body.pairs[2 * (k - body.first)] ?? NaN;
    const high = body.pairs[2 * (k - body.first) + 1] ?? NaN;
    if (low !== low) continue;
    const mean = meanOf(body, k - body.first);
    const known = mean === mean;
    // A mean is exact to half a step.
    const half = (high - low) / MEAN_STEPS / 2;
    sums.take(low, high, weightOf(k), known ? { low: Math.max(low, mean - half), high: Math.min(high, mean + half) } : { low, high });
    columns += 1;
    hasMeans &&= known;
  }
  return { ...sums.result(), source: { kind: 'columns', count: columns, samplesEach, hasMeans } };
}

interface Weights {
  readonly samplesEach: number;
  /** The share of a column's samples that arrived. */
  readonly weightOf: (column: number) => number;
}

/** Columns have equally many samples, but for those that a hole reaches into. */
function weights(frame: ViewFrame, trace: TraceFrame, { first, last }: Touched): Weights {
  const width = Number(frame.column);
  const samplesEach = trace.samplesPerColumn;
  const missing = new Map<number, number>();
  for (const gap of trace.gaps) {
    const [from, to] = [Number(gap.from - frame.from), Number(gap.to - frame.from)];
    // A hole's inner columns are empty; only those at its ends hold some samples. Joined holes hold some in between.
    const density = Math.min(1, gap.samples / Math.max(1e-300, ((to - from) / width) * samplesEach));
    for (let k = Math.max(first, Math.floor(from / width)); k <= Math.min(last, Math.floor(to / width)); k += 1) {
      const covered = Math.max(0, Math.min(to, (k + 1) * width) - Math.max(from, k * width)) / width;
      missing.set(k, (missing.get(k) ?? 0) + covered * density);
    }
  }
  // A column that is drawn has one sample at least.
  const least = Math.min(1, 1 / Math.max(1, samplesEach));
  return { samplesEach, weightOf: (k) => Math.max(least, 1 - (missing.get(k) ?? 0)) };
}

function holesIn(frame: ViewFrame, gaps: readonly GapRecord[], start: number, end: number): Holes {
  let [count, samples] = [0, 0];
  for (const gap of gaps) {
    const [from, to] = [Number(gap.from - frame.from), Number(gap.to - frame.from)];
    if (to <= start || from >= end) continue;
    count += 1;
    samples += gap.samples * ((Math.min(to, end) - Math.max(from, start)) / (to - from));
  }
  return { count, samples: Math.round(samples) };
}

/** Writes the time from `a` to `b` with as many digits as pixels of `pixelNs` tell apart. */
export function intervalText({ a, b }: Cursors, pixelNs: number): string {
  const seconds = Number(b - a) / 1e9;
  // Thousands of seconds are still seconds.
  const display = displayUnit(Math.min(1, Math.abs(seconds)), 's');
  return `${inUnit(seconds, display, decimalsFor(pixelNs / 1e9, display, 1))} ${display.unit}`;
}

/** Writes the frequency whose period is the time between the cursors. */
export function frequencyText({ a, b }: Cursors, pixelNs: number): string {
  const seconds = Math.abs(Number(b - a)) / 1e9;
  if (seconds === 0) return '–';
  const display = displayUnit(1 / seconds, 'Hz');
  const digits = Math.max(2, Math.min(6, Math.ceil(Math.log10((seconds * 1e9) / pixelNs))));
  return `${significant(display.factor / seconds, digits)} ${display.unit}`;
}

/** Writes what the values of these stretches are computed from. */
export function sourceText(sources: readonly Source[]): string {
  const columns = sources.filter(({ kind, count }) => kind === 'columns' && count > 0);
  const samples = sources.filter(({ kind, count }) => kind === 'samples' && count > 0);
  const parts = [
    ...(columns.length === 0 ? [] : [`${span(columns.map(({ count }) => count), 'column')} of ${span(columns.map(({ samplesEach }) => Math.max(1, samplesEach)), 'sample')}`]),
    ...(samples.length === 0 ? [] : [span(samples.map(({ count }) => count), 'sample')]),
  ];
  if (parts.length === 0) return 'nothing arrived between the cursors';
  const trust = columns.length === 0 ? 'all exact'
    : columns.every(({ hasMeans }) => hasMeans) ? 'their min, max and mean, bounds of rms' : 'their min and max, bounds of mean and rms';
  return `from ${parts.join(', or ')}: ${trust}`;
}

/** Writes the least and the largest of some numbers of something. */
function span(numbers: readonly number[], noun: string): string {
  const one = (value: number): string => (value < 10 && !Number.isInteger(value) ? significant(value, 2) : short(Math.round(value)));
  const [low, high] = [one(Math.min(...numbers)), one(Math.max(...numbers))];
  return `${low === high ? low : `${low} to ${high}`} ${low === high && low === '1' ? noun : `${noun}s`}`;
}

/** Writes the holes of a stretch, or nothing. */
export function holesText({ count, samples }: Holes): string {
  if (count === 0) return '';
  return `${short(count)} ${count === 1 ? 'hole' : 'holes'}, ${short(samples)} ${samples === 1 ? 'sample' : 'samples'} missing`;
}
