/**
 * The range of a y-axis: automatic, held, or fixed.
 *
 * An automatic range grows at once, so that nothing is ever cut off, and shrinks only when most of it has
 * been empty for a while, so that the axis does not breathe with every beat of a signal.
 */

/** Lower and upper end; `low < high` always. */
export interface Range {
  readonly low: number;
  readonly high: number;
}

/** Method by which an axis finds its range. */
export type AxisMode = { readonly kind: 'auto' } | { readonly kind: 'held' | 'fixed'; readonly range: Range };

/** The automatic axis. */
export const AUTO: AxisMode = { kind: 'auto' };

/** Returns the mode after this one: automatic, held, fixed, automatic; `range` is what shows now. */
export function nextMode(mode: AxisMode, range: Range): AxisMode {
  if (mode.kind === 'auto') return { kind: 'held', range };
  return mode.kind === 'held' ? { kind: 'fixed', range: mode.range } : AUTO;
}

/** An automatic range and since when it has been too large. */
export interface AutoRange {
  readonly range: Range;
  readonly looseSinceMs: number | null;
}

/** Room above and below the data, as a share of their span. */
const MARGIN = 0.06;
/** A range whose data fill less than this is too large. */
const LOOSE = 0.6;
/** Time for which a range stays too large before it shrinks. */
const PATIENCE_MS = 2_000;

/** Returns the range with round ends and some room around `[low, high]`. */
export function roundRange(low: number, high: number): Range {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return { low: 0, high: 1 };
  const size = Math.max(Math.abs(low), Math.abs(high));
  // What a double hardly resolves is a constant.
  const span = high - low > size * 1e-14 ? high - low : Math.max(size * 0.1, 1e-12);
  const middle = (low + high) / 2;
  const half = span * (0.5 + MARGIN);
  const step = roundStep(span / 20);
  return { low: Math.floor((middle - half) / step) * step, high: Math.ceil((middle + half) / step) * step };
}

/** Returns the 1-2-5 step at or above `least`. */
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  const share = least / power;
  return (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10) * power;
}

/** Returns the next automatic range for data in `[low, high]`; `rounded` says which range these fill. */
export function nextAuto(last: AutoRange | null, low: number, high: number, nowMs: number, rounded = roundRange): AutoRange {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return last ?? { range: { low: 0, high: 1 }, looseSinceMs: null };
  const tight = rounded(low, high);
  if (last === null) return { range: tight, looseSinceMs: null };
  const { range } = last;
  if (low < range.low || high > range.high) {
    return { range: { low: Math.min(tight.low, range.low), high: Math.max(tight.high, range.high) }, looseSinceMs: null };
  }
  const loose = tight.high - tight.low < (range.high - range.low) * LOOSE;
  if (!loose) return { range, looseSinceMs: null };
  const since = last.looseSinceMs ?? nowMs;
  return nowMs - since >= PATIENCE_MS ? { range: tight, looseSinceMs: null } : { range, looseSinceMs: since };
}

/** Returns round values within `range`, about `wanted` of them. */
export function valueTicks(range: Range, wanted: number): readonly number[] {
  const step = roundStep((range.high - range.low) / Math.max(1, wanted));
  const first = Math.ceil(range.low / step - 1e-9);
  const last = Math.floor(range.high / step + 1e-9);
  const ticks: number[] = [];
  // The sum with 0 turns −0, which would be written with a sign, into 0.
  for (let k = first; k <= last && ticks.length < 64; k += 1) ticks.push(k * step + 0);
  return ticks;
}
