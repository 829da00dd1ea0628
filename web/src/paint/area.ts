/**
 * The rectangle of a canvas that a plot's data fill, and how time and value map into it.
 *
 * All in device pixels. Nothing here knows the chart library.
 */
import type { Range } from '../model/scale';

/** A rectangle on a canvas. */
export interface Area {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
  /** Device pixels of one CSS pixel. */
  readonly ratio: number;
}

/** The stretch of time an area shows. */
export interface Shown {
  readonly from: bigint;
  readonly spanNs: bigint;
}

/** A straight line `at + slope * (value - base)`: cheaper in a loop than a call, and exact for small steps on a large base. */
export interface Linear {
  readonly at: number;
  readonly slope: number;
  readonly base: number;
}

/** Maps nanoseconds since `base` to x. */
export function timeToX(area: Area, shown: Shown, base: bigint): Linear {
  const slope = area.width / Number(shown.spanNs);
  return { at: area.left + Number(base - shown.from) * slope, slope, base: 0 };
}

/** Maps a value to y. */
export function valueToY(area: Area, range: Range): Linear {
  return { at: area.top, slope: -area.height / (range.high - range.low), base: range.high };
}
