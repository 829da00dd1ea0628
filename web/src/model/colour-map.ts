/**
 * Colours of values: from dark blue by green to yellow, of evenly rising lightness, so that order is seen by everybody,
 * also without colour and with any kind of colour blindness.
 *
 * The map is viridis (Smith and van der Walt 2015, matplotlib, CC0) by the polynomial of degree 6 that Zucker fitted to it
 * (2019, shadertoy.com/view/WlfXRN, CC0).
 */
import type { Range } from './scale';

/** Coefficients of red, green and blue, from the constant up. */
const VIRIDIS: readonly (readonly [number, number, number])[] = [
  [0.2777273272234177, 0.005407344544966578, 0.3340998053353061],
  [0.1050930431085774, 1.404613529898575, 1.384590162594685],
  [-0.3308618287255563, 0.214847559468213, 0.09509516302823659],
  [-4.634230498983486, -5.799100973351585, -19.33244095627987],
  [6.228269936347081, 14.17993336680509, 56.69055260068105],
  [4.776384997670288, -13.74514537774601, -65.35303263337234],
  [-5.435455855934631, 4.645852612178535, 26.3124352495832],
];

/** Colours of the map. */
export const COLOURS = 256;

/** Returns red, green and blue, 0 to 255, at a share of the map. */
export function colourAt(share: number): readonly [number, number, number] {
  const at = Math.max(0, Math.min(1, share));
  const part = (k: 0 | 1 | 2): number => VIRIDIS.reduceRight((sum, each) => sum * at + each[k], 0);
  const byte = (k: 0 | 1 | 2): number => Math.round(255 * Math.max(0, Math.min(1, part(k))));
  return [byte(0), byte(1), byte(2)];
}

const TABLE: readonly (readonly [number, number, number])[] = Array.from({ length: COLOURS }, (_, k) => colourAt(k / (COLOURS - 1)));

/**
 * Writes the colours of values as red, green, blue and opacity. What is no number is transparent; infinities have the
 * colours of the ends.
 */
export function colourise(values: ArrayLike<number>, { low, high }: Range, into: Uint8ClampedArray): void {
  const scale = (COLOURS - 1) / (high - low);
  for (let at = 0; at < values.length; at += 1) {
    const value = values[at] ?? NaN;
    const isNumber = !Number.isNaN(value);
    const step = isNumber ? Math.round(Math.max(0, Math.min(COLOURS - 1, (value - low) * scale))) : 0;
    const [red, green, blue] = TABLE[step] ?? [0, 0, 0];
    into[4 * at] = red;
    into[4 * at + 1] = green;
    into[4 * at + 2] = blue;
    into[4 * at + 3] = isNumber ? 255 : 0;
  }
}
