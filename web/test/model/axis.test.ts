import { describe, expect, test } from 'vitest';
import { axisScale, tickLabels } from '../../src/model/axis';
import { roundRange, valueTicks } from '../../src/model/scale';

const plain = (text: string): string => text.replaceAll('\u202f', ' ');

/** The head of the axis of these data, and its labels. */
function axis(low: number, high: number, unit: string): readonly string[] {
  const range = roundRange(low, high);
  const scale = axisScale(range, unit);
  return [scale.head, ...tickLabels(valueTicks(range, 5), scale, range)].map(plain);
}

describe('the labels of an axis', () => {
  test.each<[number, number, string, readonly string[]]>([
    [-1, 1, 'V', ['V', '−1.0', '−0.5', '0.0', '0.5', '1.0']],
    [0, 940_000, 'W', ['MW', '0.0', '0.5', '1.0']],
    [0, 1.1e-7, '', ['×10⁻⁹', '0', '50', '100']],
    [0, 5e6, 'counts', ['×10⁶ counts', '0', '2', '4']],
    [499_654_096.599, 499_654_096.601, 'Hz', ['mHz from 499.654 096 600 MHz', '−1.0', '−0.5', '0.0', '0.5', '1.0']],
    [123_456_000, 123_456_900, '', ['from 123 456 000', '0', '500', '1000']],
  ])('of %d to %d %s are told apart', (low, high, unit, labels) => expect(axis(low, high, unit)).toEqual(labels));

  test('never have more characters than there is room for', () => {
    for (let power = -4; power <= 15; power += 1) {
      for (const share of [1, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10]) {
        const size = 1.7 * 10 ** power;
        const [head, ...labels] = axis(-size, -size * (1 - share), 'V');
        expect(new Set(labels).size, head).toBe(labels.length);
        for (const label of labels) expect(label.replaceAll(' ', '').length, `${head}: ${label}`).toBeLessThanOrEqual(7);
      }
    }
  });
});
