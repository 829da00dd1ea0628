import { describe, expect, test } from 'vitest';
import { count, decimalsFor, displayUnit, duration, grouped, inUnit, parseUnit, short, significant } from '../../src/model/quantity';

const plain = (text: string): string => text.replaceAll('\u202f', ' ');

describe('numbers', () => {
  test.each([
    [0, '0'], [7, '7'], [9999, '9999'], [12_345, '12 345'], [1_240_000, '1 240 000'], [-12_345, '−12 345'],
  ])('count(%d) is %s', (value, text) => expect(plain(count(value))).toBe(text));

  test.each([
    [0, '', '0'], [212, '', '212'], [999, '', '999'], [9_999, '', '10.0 k'], [1_240_000, 'samples/s', '1.24 M samples/s'],
    [360, 'Hz', '360 Hz'], [48_000, 'Hz', '48.0 kHz'], [0.5, 'Hz', '0.500 Hz'], [Number.NaN, 'Hz', '–'],
  ])('short(%d, %s) is %s', (value, unit, text) => expect(plain(short(value, unit))).toBe(text));

  test.each([
    [0, 3, '0.00'], [1.2345, 3, '1.23'], [123.4, 3, '123'], [0.012345, 3, '0.0123'], [-0.00001, 3, '−1.00·10⁻⁵'],
    [4.2e19, 3, '4.20·10¹⁹'], [-0.00049, 2, '−0.00049'], [Number.POSITIVE_INFINITY, 3, '–'],
  ])('significant(%d, %d) is %s', (value, digits, text) => expect(plain(significant(value, digits))).toBe(text));

  test('grouping leaves four digits alone', () => {
    expect(plain(grouped('1234.5'))).toBe('1234.5');
    expect(plain(grouped('12345.678'))).toBe('12 345.678');
    expect(plain(grouped('499.6540966'))).toBe('499.654 096 6');
  });

  test.each([
    ['mV', { power: -3, base: 'V', scalable: true }], ['V', { power: 0, base: 'V', scalable: true }], ['uA', { power: -6, base: 'A', scalable: true }],
    ['kHz', { power: 3, base: 'Hz', scalable: true }], ['m', { power: 0, base: 'm', scalable: true }], ['counts', { power: 0, base: 'counts', scalable: false }],
    ['%', { power: 0, base: '%', scalable: false }], ['', { power: 0, base: '', scalable: false }], ['min', { power: 0, base: 'min', scalable: false }],
  ])('the unit %s is understood', (unit, parsed) => expect(parseUnit(unit)).toEqual(parsed));

  test.each<[number, string, string]>([
    [0.5, 'V', 'mV'], [1, 'V', 'V'], [999, 'V', 'V'], [1000, 'V', 'kV'], [940_000, 'W', 'kW'], [2, 'mV', 'mV'], [0.002, 'mV', 'µV'],
    [1000, 'mV', 'V'], [5000, 'counts', 'counts'], [0, 'V', 'V'], [1e-30, 'V', 'fV'],
    [1.1e-7, 'counts', '×10⁻⁹ counts'], [0.001, '', ''], [9e11, '', ''], [1e12, '', '×10¹²'],
  ])('%d %s is shown in %s', (size, unit, shown) => expect(displayUnit(size, unit).unit).toBe(shown));

  test('a value keeps its decimals so that figures do not jump', () => {
    const display = displayUnit(0.5, 'V');
    expect(decimalsFor(1, display, 1000)).toBe(0);
    expect(inUnit(0.0251, display, 1)).toBe('25.1');
    expect(inUnit(-0.00001, display, 1)).toBe('0.0');
    expect(inUnit(-0.317, display, 0)).toBe('−317');
    expect(inUnit(Number.NaN, display, 1)).toBe('–');
    expect(plain(inUnit(123_456_789, displayUnit(123_456_789, ''), 0))).toBe('123 456 789');
    expect(plain(inUnit(499_654_096.601, displayUnit(5e8, 'Hz'), 12))).toBe('499.654 096 601 000');
    expect(plain(inUnit(5e12, { factor: 1, unit: '' }, 3))).toBe('5.000·10¹²');
  });

  test.each([
    [0, '0 ns'], [360, '360 ns'], [3_600, '3.6 µs'], [250e6, '250 ms'], [1e9, '1 s'], [4.2e9, '4.2 s'], [60e9, '1 min'], [200e9, '3 min 20 s'],
    [3_600e9, '1 h'], [90_000e9, '1 d 1 h'], [86_400e9, '1 d'],
  ])('a duration of %d ns is %s', (ns, text) => expect(plain(duration(ns))).toBe(text));
});
