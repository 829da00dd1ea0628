/**
 * The stretch of time the plots show, and how following, zooming and panning change it.
 *
 * One window for all plots: that is what makes a cursor line across them mean something. Values in, values
 * out; the live edge is an argument.
 */
import { SECOND } from './time';

/** Window of the plots: `spanNs` up to `endNs`, or up to the live edge if that is null. */
export interface TimeWindow {
  readonly spanNs: bigint;
  readonly endNs: bigint | null;
}

/** The stretch of time that a plot shows. */
export interface Shown {
  readonly from: bigint;
  readonly spanNs: bigint;
}

/** Shorter than this no sample clock we know resolves. */
export const MIN_SPAN = 1_000n;
/** Thirty days: longer is for the archive's own tools. */
export const MAX_SPAN = 30n * 86_400n * SECOND;
/** Default window. */
export const DEFAULT_WINDOW: TimeWindow = { spanNs: 10n * SECOND, endNs: null };

/** The spans on offer at one press. */
export const SPANS: readonly bigint[] = [100_000_000n, ...[1n, 5n, 10n, 30n, 60n, 300n, 1800n, 7200n, 86_400n].map((s) => s * SECOND)];

const clampSpan = (span: bigint): bigint => (span < MIN_SPAN ? MIN_SPAN : span > MAX_SPAN ? MAX_SPAN : span);

/** Returns the right edge of the window. */
export function endOf(window: TimeWindow, live: bigint): bigint {
  return window.endNs ?? live;
}

/** Goes back to the live edge. */
export function follow(window: TimeWindow): TimeWindow {
  return { spanNs: window.spanNs, endNs: null };
}

/** Holds the window where it is. */
export function pause(window: TimeWindow, live: bigint): TimeWindow {
  return { spanNs: window.spanNs, endNs: endOf(window, live) };
}

/** Changes the span and keeps the right edge. */
export function withSpan(window: TimeWindow, spanNs: bigint): TimeWindow {
  return { spanNs: clampSpan(spanNs), endNs: window.endNs };
}

/**
 * Zooms so that the time at `share` of the width (0 left, 1 right) stays where it is.
 *
 * A window that follows keeps following: there the right edge is what matters.
 */
export function zoom(window: TimeWindow, factor: number, share: number, live: bigint): TimeWindow {
  const spanNs = clampSpan(BigInt(Math.round(Number(window.spanNs) * factor)));
  if (window.endNs === null) return { spanNs, endNs: null };
  const right = 1 - Math.max(0, Math.min(1, share));
  const grown = Number(spanNs - window.spanNs);
  return settle({ spanNs, endNs: window.endNs + BigInt(Math.round(grown * right)) }, live);
}

/** Moves the window by `deltaNs`; one that reaches the live edge follows again. */
export function pan(window: TimeWindow, deltaNs: bigint, live: bigint): TimeWindow {
  return settle({ spanNs: window.spanNs, endNs: endOf(window, live) + deltaNs }, live);
}

function settle(window: TimeWindow, live: bigint): TimeWindow {
  return window.endNs !== null && window.endNs >= live ? follow(window) : window;
}

/** Shows `[from, to]` in the middle, with room around it; never past the live edge. */
export function centre(window: TimeWindow, from: bigint, to: bigint, live: bigint): TimeWindow {
  const wide = (to - from) * 2n;
  const spanNs = clampSpan(wide > window.spanNs ? wide : window.spanNs);
  const endNs = (from + to) / 2n + spanNs / 2n;
  return { spanNs, endNs: endNs > live ? live : endNs };
}
