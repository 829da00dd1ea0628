import { describe, expect, test } from 'vitest';
import { COLOURS, colourAt, colourise } from '../../src/model/colour-map';
import {
  binHz, columnOf, decadeRange, decadeTicks, elementsText, firstPanel, fitted, panelsOf, peakOf, placeAt, rowOf, shareOf, valueAt, widened, within,
} from '../../src/model/picture';
import { readStream, type Stream } from '../../src/wire/messages';
import type { Sample } from '../../src/wire/picture';

const stream = (shape: readonly number[], labels: Record<string, string> = {}): Stream => {
  const elements = shape.reduce((product, extent) => product * extent, 1);
  const read = readStream({ stream: 'a', labels, channels: [{ name: 'x', unit: 'V', shape, elements }] });
  if (read === null) throw new Error('a stream');
  return read;
};

const first = (of: Stream): string => {
  const [channel] = of.channels;
  if (channel === undefined) throw new Error('a channel');
  return `${firstPanel(of, channel)} of ${panelsOf(channel).join()}`;
};

/** A matrix of 3 × 5 in blocks of 2 × 2: 2 × 3 pixels with their index as value. */
const sample: Sample = {
  time: 0n, index: 0n, skipped: 0, planes: 1, plane: 0, isNearest: false, rows: 2, columns: 3, size: [3, 5], block: [2, 2], low: 0, high: 5, values: Float32Array.of(0, 1, 2, 3, 4, 5),
};

describe('the colour map', () => {
  test('becomes lighter with every step, so that it is read without colour', () => {
    const lightness = Array.from({ length: COLOURS }, (_, k) => {
      const [red, green, blue] = colourAt(k / (COLOURS - 1)).map((part) => (part / 255) ** 2.2);
      return 0.2126 * (red ?? 0) + 0.7152 * (green ?? 0) + 0.0722 * (blue ?? 0);
    });
    expect(lightness.every((each, k) => k < 8 || each > (lightness[k - 8] ?? 0))).toBe(true);
    expect((lightness[0] ?? 1) < 0.03 && (lightness.at(-1) ?? 0) > 0.7).toBe(true);
  });

  test('leaves out what is no number, and ends at its ends', () => {
    const pixels = new Uint8ClampedArray(20);
    colourise([0, 10, NaN, Infinity, -Infinity], { low: 0, high: 10 }, pixels);
    expect([3, 7, 11, 15, 19].map((at) => pixels[at])).toEqual([255, 255, 0, 255, 255]);
    expect([...pixels.slice(12, 15)]).toEqual([...pixels.slice(4, 7)]);
    expect([...pixels.slice(16, 19)]).toEqual([...colourAt(0)]);
  });
});

describe('a channel', () => {
  test('is shown as its shape and labels say', () => {
    expect(first(stream([]))).toBe('trend of trend,table');
    expect(first(stream([1, 1]))).toBe('trend of trend,table');
    expect(first(stream([64, 96]))).toBe('image of trend,spectrum,waterfall,image,table');
    expect(first(stream([3, 64, 96]))).toBe('image of trend,spectrum,waterfall,image,table');
    expect(first(stream([1, 96]))).toBe('spectrum of trend,spectrum,waterfall,image,table');
    expect(first(stream([96]))).toBe('spectrum of trend,spectrum,waterfall,image,table');
    expect(first(stream([4, 513], { spectrum_bin_hz: '62.5' }))).toBe('spectrum of trend,spectrum,waterfall,image,table');
  });

  test('has bins only if their distance is a number above zero', () => {
    expect([binHz(stream([9], { spectrum_bin_hz: '62.5' })), binHz(stream([9], { spectrum_bin_hz: '-1' })), binHz(stream([9], { spectrum_bin_hz: 'x' })), binHz(undefined)])
      .toEqual([62.5, null, null, null]);
  });
});

describe('a picture', () => {
  test('has square elements unless one side would be hardly seen', () => {
    const box = { x: 10, y: 20, width: 400, height: 200 };
    expect(fitted([64, 64], box)).toEqual({ x: 110, y: 20, width: 200, height: 200 });
    expect(fitted([50, 400], box)).toEqual({ x: 10, y: 95, width: 400, height: 50 });
    expect(fitted([1, 500], box)).toEqual(box);
    expect(fitted([500, 1], box)).toEqual(box);
    expect(fitted([64, 128], box)).toEqual(box);
  });

  test('knows the pixel at a point, also where the last block is smaller', () => {
    const box = { x: 0, y: 0, width: 50, height: 30 };
    expect(placeAt(sample, box, 0, 0)).toEqual({ row: 0, column: 0 });
    expect(placeAt(sample, box, 39.9, 19.9)).toEqual({ row: 0, column: 1 });
    expect(placeAt(sample, box, 40, 20)).toEqual({ row: 1, column: 2 });
    expect([placeAt(sample, box, 50, 0), placeAt(sample, box, 0, -1)]).toEqual([null, null]);
    expect(within(sample, { row: -4, column: 9 })).toEqual({ row: 0, column: 2 });
  });

  test('gives the values of a row, a column and a pixel, and names its elements', () => {
    expect([...rowOf(sample, 1)]).toEqual([3, 4, 5]);
    expect([...columnOf(sample, 2)]).toEqual([2, 5]);
    expect(valueAt(sample, { row: 1, column: 0 })).toBe(3);
    expect([elementsText(0, 2, 5), elementsText(2, 2, 5), elementsText(3, 1, 5)]).toEqual(['0–1', '4', '3']);
  });

  test('of one value has it in the middle of its colours', () => {
    expect(widened(2, 2)).toEqual({ low: 1.9, high: 2.1 });
    expect(widened(NaN, NaN)).toEqual({ low: 0, high: 1 });
    const { low, high } = widened(0, 0);
    expect(low < 0 && high > 0).toBe(true);
  });
});

describe('a logarithmic axis', () => {
  test('has whole decades around what is above zero', () => {
    expect(decadeRange([0, -1, NaN, 0.02, 30, Infinity])).toEqual({ low: 0.01, high: 100 });
    expect(decadeRange([1, 1])).toEqual({ low: 1, high: 10 });
    expect(decadeRange([0, 0])).toEqual({ low: 0.1, high: 1 });
    expect(decadeRange([])).toEqual({ low: 0.1, high: 1 });
    const { low, high } = decadeRange([1e-300, 1]);
    expect(Math.round(Math.log10(high / low))).toBe(12);
  });

  test('has zero below its end, and few powers of ten', () => {
    expect(shareOf(0, { low: 1, high: 10 }, true)).toBe(-Infinity);
    expect(shareOf(-3, { low: 1, high: 10 }, true)).toBe(-Infinity);
    expect(shareOf(10, { low: 1, high: 100 }, true)).toBeCloseTo(0.5);
    expect(shareOf(5, { low: 0, high: 10 }, false)).toBe(0.5);
    expect(decadeTicks({ low: 1, high: 1000 }, 8)).toEqual([1, 10, 100, 1000]);
    expect(decadeTicks({ low: 1e-12, high: 1 }, 4).length).toBe(5);
    expect(decadeTicks({ low: 2, high: 9 }, 4)).toEqual([]);
  });
});

test('a peak is the largest number', () => {
  expect([peakOf([1, NaN, 5, 5, 2]), peakOf([NaN]), peakOf([])]).toEqual([2, null, null]);
});
