/**
 * The spectra that a page was sent, as a picture of frequency over time.
 *
 * A column has the largest value of the samples in it, bin by bin. One without a sample of its own shows the sample before
 * it if that one's period reaches so far, or if all samples up to the next one arrived at the server, which sent none of
 * them. Any other stays empty: a sample that is missing is never filled up from its neighbours.
 */
import type { Sample } from '../wire/picture';
import { SECOND } from './time';

/** Most samples that are kept, and most values of them all: 16 MB. */
const MOST = { samples: 8_192, values: 4_194_304 };
/** Decibels below the largest value that colours reach at most. */
export const DECIBELS = 100;

/** A kept sample: its time, its index, its first row; whether no sample is missing between the one before and it. */
interface Kept {
  readonly time: bigint;
  readonly index: bigint;
  readonly joined: boolean;
  readonly values: Float32Array;
}

/** Time columns of equal width. */
export interface Columns {
  readonly from: bigint;
  readonly spanNs: bigint;
  readonly count: number;
}

/** The spectra of one channel, oldest first. */
export class Waterfall {
  #kept: Kept[] = [];

  /** Takes a sample; one that was taken already changes nothing, one of another epoch or form begins anew. */
  push(sample: Sample): void {
    const last = this.#kept.at(-1);
    if (last !== undefined && last.index === sample.index && last.time === sample.time) return;
    const follows = last === undefined || (sample.time > last.time && sample.index > last.index && sample.columns === last.values.length);
    if (!follows) this.#kept = [];
    const joined = follows && last !== undefined && sample.index - last.index === BigInt(sample.skipped) + 1n;
    this.#kept.push({ time: sample.time, index: sample.index, joined, values: Float32Array.from(sample.values.subarray(0, sample.columns)) });
    const most = Math.min(MOST.samples, Math.floor(MOST.values / Math.max(1, sample.columns)));
    // In large steps, so that the array is not moved for every sample.
    if (this.#kept.length > most + most / 8) this.#kept = this.#kept.slice(-most);
  }

  /** Time of the oldest sample, null without one. */
  get since(): bigint | null {
    return this.#kept[0]?.time ?? null;
  }

  /** Number of bins. */
  get bins(): number {
    return this.#kept.at(-1)?.values.length ?? 0;
  }

  /** Index of the sample that a moment shows, null where none is. */
  indexAt(time: bigint, rate: number): bigint | null {
    const place = this.#before(time);
    const kept = this.#kept[place];
    return kept !== undefined && this.#holds(place, time, rate) ? kept.index : null;
  }

  /**
   * Returns the picture: bins from the highest down, in each the columns from left to right; NaN where nothing is known.
   * `rate` is in samples per second.
   */
  picture({ from, spanNs, count }: Columns, rate: number): Float32Array {
    const { bins } = this;
    const picture = new Float32Array(bins * count).fill(NaN);
    const edge = (column: number): bigint => from + (spanNs * BigInt(column)) / BigInt(count);
    let place = this.#before(from - 1n) + 1;
    for (let column = 0; column < count; column += 1) {
      const end = edge(column + 1);
      let own = false;
      for (let kept = this.#kept[place]; kept !== undefined && kept.time < end; kept = this.#kept[place]) {
        join(picture, kept.values, column, count);
        own = true;
        place += 1;
      }
      const before = this.#kept[place - 1];
      if (!own && before !== undefined && this.#holds(place - 1, edge(column), rate)) join(picture, before.values, column, count);
    }
    return picture;
  }

  /** Place of the last sample up to a moment; −1 before the first. */
  #before(time: bigint): number {
    let [low, high] = [0, this.#kept.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#kept[middle]?.time ?? 0n) <= time) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /** Whether a sample still holds at a moment before the next one. */
  #holds(place: number, time: bigint, rate: number): boolean {
    const [kept, next] = [this.#kept[place], this.#kept[place + 1]];
    if (kept === undefined) return false;
    return next?.joined === true || Number(time - kept.time) < Number(SECOND) / rate;
  }
}

/** The largest values of a column and a sample; what is no number is left out. */
function join(picture: Float32Array, values: Float32Array, column: number, count: number): void {
  for (let bin = 0; bin < values.length; bin += 1) {
    const at = (values.length - 1 - bin) * count + column;
    const [before, value] = [picture[at] ?? NaN, values[bin] ?? NaN];
    if (!(before >= value)) picture[at] = Number.isNaN(value) ? before : value;
  }
}

/** Turns powers into decibels in place: zero becomes −∞, the lowest colour; less than zero is no power. */
export function decibels(values: Float32Array): void {
  for (let at = 0; at < values.length; at += 1) values[at] = 10 * Math.log10(values[at] ?? NaN);
}

/** Returns the least and the largest finite value, the former at most `below` under the latter. */
export function finiteEnds(values: Float32Array, below = Infinity): { readonly low: number; readonly high: number } {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return low > high ? { low: NaN, high: NaN } : { low: Math.max(low, high - below), high };
}
