/**
 * How a y-axis writes its values: in which unit, and from which zero.
 *
 * The labels have room for a few digits. Where neighbouring ticks differ only in later ones, the labels are differences
 * from a zero that the head of the axis names: a millihertz shows on half a gigahertz.
 */
import { decimalsFor, displayUnit, inUnit, type Display } from './quantity';
import type { Range } from './scale';

/** How the values of one axis are written. */
export interface AxisScale {
  /** Unit of whole values: the newest one, those at the cursor. */
  readonly value: Display;
  /** The value at which the labels count 0. */
  readonly zero: number;
  /** Unit of the labels. */
  readonly tick: Display;
  /** Text above the axis. */
  readonly head: string;
}

/** Digits that a label has room for, beside a sign and a point. */
const MOST_DIGITS = 5;
/** Larger numbers without prefix do not fit as labels. */
const LONG_LABEL = 10 ** MOST_DIGITS;
/** An axis has at least so many ticks. */
const FEWEST_TICKS = 4;

/** Returns how an axis of this range is written. */
export function axisScale({ low, high }: Range, unit: string): AxisScale {
  const size = Math.max(Math.abs(low), Math.abs(high));
  const span = high - low;
  const value = displayUnit(size, unit);
  if (digitsOf(size, span / FEWEST_TICKS) <= MOST_DIGITS) {
    const tick = displayUnit(size, unit, LONG_LABEL);
    return { value, zero: 0, tick, head: tick.unit };
  }
  const round = 10 ** Math.floor(Math.log10(span));
  const zero = Math.round((low + high) / 2 / round) * round;
  const tick = displayUnit(span, unit, LONG_LABEL);
  const written = inUnit(zero, value, decimalsFor(round, value, 1));
  return { value, zero, tick, head: `${tick.unit} from ${written} ${value.unit}`.trim() };
}

/** Returns the labels of these values. */
export function tickLabels(at: readonly number[], { tick, zero }: AxisScale, { low, high }: Range): string[] {
  const step = at.length > 1 ? (at[1] ?? 0) - (at[0] ?? 0) : high - low;
  const decimals = decimalsFor(step, tick, 1);
  return at.map((value) => inUnit(value - zero, tick, decimals));
}

/** The digits that tell multiples of `step` up to `size` apart. */
function digitsOf(size: number, step: number): number {
  return Math.floor(Math.log10(size)) - Math.floor(Math.log10(step)) + 1;
}
