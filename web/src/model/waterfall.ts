/**
 * The columns of a waterfall that the page has: the largest values of the samples in each, bin by bin, as the server sent
 * them.
 *
 * A column in which no sample was due shows the sample before it until the next one is due. A hole stays empty: a sample
 * that is missing is never filled up from its neighbours.
 */
import type { Column, WaterfallFrame } from '../wire/waterfall';
import { SECOND } from './time';
import type { Shown } from './window';

/** Decibels below the largest value that colours reach at most. */
export const DECIBELS = 100;

/** What a waterfall shows at a place. */
export type Cell = { readonly kind: 'value'; readonly value: number; readonly column: Column } | { readonly kind: 'hole'; readonly missing: number } | { readonly kind: 'nothing' };

/** The columns of one window. */
export class Waterfall {
  /** By number: the time divided by the width. */
  #columns = new Map<number, Column>();
  #frame: WaterfallFrame | null = null;

  /** The newest frame, null before the first. */
  get frame(): WaterfallFrame | null {
    return this.#frame;
  }

  /** Takes what is new; returns whether it fits what there is. */
  take(frame: WaterfallFrame): boolean {
    const same = this.#frame !== null && this.#frame.columnNs === frame.columnNs && this.#frame.block === frame.block && this.#frame.bins === frame.bins;
    if (frame.anew) this.#columns.clear();
    else if (!same) return false;
    this.#frame = frame;
    const first = Number(frame.first);
    for (const [place, column] of frame.columns) this.#columns.set(first + place, column);
    for (const number of this.#columns.keys()) if (number < first || number >= first + frame.count) this.#columns.delete(number);
    return true;
  }

  /** Number of bins. */
  get bins(): number {
    return this.#frame?.bins ?? 0;
  }

  /** Number of columns of the window. */
  get count(): number {
    return this.#frame?.count ?? 0;
  }

  /** Beginning of the first column, and the width of all. */
  get stretch(): Shown {
    const { first = 0n, columnNs = 1n, count = 1 } = this.#frame ?? {};
    return { from: first * columnNs, spanNs: columnNs * BigInt(Math.max(1, count)) };
  }

  /**
   * Returns the picture: bins from the highest down, in each the columns from left to right; NaN where nothing is known.
   * `rate` is in samples per second.
   */
  picture(rate: number): Float32Array {
    const { bins, count } = this;
    const picture = new Float32Array(bins * count).fill(NaN);
    for (let place = 0, column: Column | null = null, until = -1; place < count; place += 1) {
      const own = this.#at(place);
      if (own !== undefined) [column, until] = [own, place + this.#columnsHeld(rate)];
      if (column === null || (own === undefined && place >= until)) continue;
      for (let bin = 0; bin < column.bins.length; bin += 1) picture[(bins - 1 - bin) * count + place] = column.bins[bin] ?? NaN;
    }
    return picture;
  }

  /** What is shown at a time, in a bin. */
  cell(time: bigint, bin: number, rate: number): Cell {
    if (this.#frame === null) return { kind: 'nothing' };
    const place = Number(time / this.#frame.columnNs - this.#frame.first);
    for (let before = Math.min(place, this.count); before >= 0 && (before === place || place - before < this.#columnsHeld(rate)); before -= 1) {
      const column = this.#at(before);
      if (column === undefined) continue;
      return column.present === 0 ? { kind: 'hole', missing: column.expected } : { kind: 'value', value: column.bins[bin] ?? NaN, column };
    }
    return { kind: 'nothing' };
  }

  #at(place: number): Column | undefined {
    return this.#columns.get(Number(this.#frame?.first ?? 0n) + place);
  }

  /** Columns until the next sample is due. */
  #columnsHeld(rate: number): number {
    return Number(SECOND) / rate / Number(this.#frame?.columnNs ?? 1n);
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
