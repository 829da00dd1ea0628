/**
 * Content of a frame's trace: its extremes for the y-axis, its values under the cursor.
 */
import { MEAN_STEPS, MEAN_UNKNOWN, type Columns, type TraceFrame, type ViewFrame } from '../wire/frame';

/** The smallest and largest of something; `NaN` for nothing. */
export interface Extremes {
  readonly low: number;
  readonly high: number;
}

const NOTHING: Extremes = { low: NaN, high: NaN };

/** Returns the smallest and largest value a trace shows. */
export function extremes(trace: TraceFrame): Extremes {
  let low = Infinity;
  let high = -Infinity;
  const { body } = trace;
  const all: Float32Array | Float64Array = body.kind === 'columns' ? body.pairs : body.values;
  for (let i = 0; i < all.length; i += 1) {
    const value = all[i] ?? NaN;
    // Comparisons with NaN are false, so holes fall through, and so do infinities.
    if (value < low && value > -Infinity) low = value;
    if (value > high && value < Infinity) high = value;
  }
  return low <= high ? { low, high } : NOTHING;
}

/** Returns what encloses both. */
export function enclose(a: Extremes, b: Extremes): Extremes {
  if (Number.isNaN(a.low)) return b;
  if (Number.isNaN(b.low)) return a;
  return { low: Math.min(a.low, b.low), high: Math.max(a.high, b.high) };
}

/** Returns the values of a trace at a moment: a column's two extremes, or the nearest sample twice. */
export function valuesAt(frame: ViewFrame, trace: TraceFrame, at: bigint): Extremes {
  const { body } = trace;
  if (body.kind === 'columns') {
    const k = frame.column > 0n ? Number((at - frame.from) / frame.column) - body.first : -1;
    if (at < frame.from || k < 0 || k >= body.count) return NOTHING;
    return { low: body.pairs[2 * k] ?? NaN, high: body.pairs[2 * k + 1] ?? NaN };
  }
  const value = nearest(body.offsets, body.values, body.count, Number(at - frame.from));
  return { low: value, high: value };
}

/** Returns the mean of the column at a moment; NaN where none is known, and of single samples. */
export function meanAt(frame: ViewFrame, { body }: TraceFrame, at: bigint): number {
  if (body.kind !== 'columns' || frame.column === 0n || at < frame.from) return NaN;
  return meanOf(body, Number((at - frame.from) / frame.column) - body.first);
}

/** Returns the mean of the `k`-th column of a body, exact to half a step; NaN if it is not known. */
export function meanOf({ pairs, means, count }: Columns, k: number): number {
  const share = means === null || k < 0 || k >= count ? MEAN_UNKNOWN : means[k] ?? MEAN_UNKNOWN;
  if (share === MEAN_UNKNOWN) return NaN;
  const low = pairs[2 * k] ?? NaN;
  return low + ((pairs[2 * k + 1] ?? NaN) - low) * (share / MEAN_STEPS);
}

/** Sample nearest to `offset`; in a hole, and beyond the ends, there is none. */
function nearest(offsets: Float64Array, values: Float64Array, count: number, offset: number): number {
  const after = lowerBound(offsets, count, offset);
  if (after >= count) return offset === offsets[count - 1] ? values[count - 1] ?? NaN : NaN;
  if (offsets[after] === offset) return values[after] ?? NaN;
  if (after === 0) return NaN;
  const [left, right] = [values[after - 1] ?? NaN, values[after] ?? NaN];
  if (Number.isNaN(left) || Number.isNaN(right)) return NaN;
  return offset - (offsets[after - 1] ?? 0) < (offsets[after] ?? 0) - offset ? left : right;
}

function lowerBound(offsets: Float64Array, count: number, offset: number): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((offsets[middle] ?? 0) < offset) low = middle + 1;
    else high = middle;
  }
  return low;
}
