import { describe, expect, test } from 'vitest';
import { readAlarms } from '../../src/model/alarms';
import { cellsOf, exactText, nextSorting, sortedPlaces, tableText, type At, type Column, type Facts } from '../../src/model/table';
import { readStream } from '../../src/wire/messages';
import type { TraceState } from '../../src/wire/reader';
import type { NoSample, Value, ValueSample } from '../../src/wire/values';

const SECOND = 1_000_000_000n;
const NOON = 1_795_262_400n * SECOND;
const LIVE: At = { now: NOON, end: null, zone: 'utc' };

const sample = (values: readonly (Value | null)[], more: Partial<ValueSample> = {}): ValueSample => {
  const figures = values.filter((value) => typeof value === 'number');
  return { time: NOON - 10_000_000n, elements: values.length, lostElements: 0, values, low: Math.min(...figures), high: Math.max(...figures), isSpan: false, ...more };
};

const facts = (one: ValueSample | null, more: Partial<Facts> = {}, lost = 0): Facts => ({
  trace: { stream: 'lab/x', channel: 'a' }, label: 'a', row: { index: 0, state: 'ok', sample: one, noSample: 'not kept' }, unit: 'V', shape: [], limits: [], alarms: [],
  stream: readStream({ stream: 'lab/x', dtype: 'f8', lost_elements: lost }) ?? undefined, ...more,
});

const plain = (text: string): string => text.replaceAll('\u202f', ' ');
const value = (one: ValueSample | null, more: Partial<Facts> = {}, at = LIVE): string => plain(cellsOf(facts(one, more), at).text.value);

describe('a row', () => {
  test('has any value whole', () => {
    expect([0.1, -12345.678, 6.02e23, 0, NaN, Infinity, -Infinity].map((each) => value(sample([each])))).toEqual(
      ['0.100 000 0', '−12 345.68', '6.020000·10²³', '0', 'NaN', '∞', '−∞'],
    );
    expect(value(sample([2n ** 64n - 1n]))).toBe('18 446 744 073 709 551 615');
    expect([true, [3, -4] as const, [NaN, 0] as const, null].map((each) => value(sample([each], { lostElements: each === null ? 1 : 0 })))).toEqual(
      ['true', '3.000 000 − 4.000 000i', 'NaN + 0i', 'lost'],
    );
  });

  test('has the shape, the first elements and the extremes of a vector', () => {
    expect(value(sample([1, 2]), { shape: [2] })).toBe('[2] 1.0000, 2.0000');
    const field = sample([1, NaN, null, 4], { elements: 1536, lostElements: 7, low: -5, high: 80 });
    expect(value(field, { shape: [32, 48] })).toBe('[32 × 48] −5.0000 … 80.000, 7 lost');
    expect(value({ ...field, elements: 4, lostElements: 1 })).toBe('[4] 1.0000, NaN, lost, 4.0000');
    expect(value({ ...field, values: [1] }, { shape: [32, 48] })).toBe('[32 × 48] 1.0000, …, 7 lost');
    expect(value({ ...field, low: NaN, high: NaN }, { shape: [32, 48] })).toContain('no numbers');
  });

  test('says why it has no value', () => {
    expect(value(null)).toBe('no sample yet');
    const held = (noSample: NoSample, state: TraceState = 'ok'): string => value(null, { row: { index: 0, state, sample: null, noSample } }, { ...LIVE, end: NOON });
    expect((['not kept', 'asked', 'lost', 'not recorded', 'unreadable'] as const).map((reason) => held(reason))).toEqual(
      ['none kept of this time', 'asking the archive', 'lost', 'not recorded', 'the archive cannot be read'],
    );
    expect([held('not kept', 'unknown'), held('asked', 'unknown'), held('not recorded', 'unknown')]).toEqual(['no such channel', 'asking the archive', 'not recorded']);
    expect(value(null, { row: { index: 0, state: 'unknown', sample: null, noSample: 'not kept' } })).toBe('no such channel');
    expect(value(null, { row: null })).toBe('');
    expect(value(sample([], { isSpan: true, elements: 1, low: -1, high: 2 }))).toBe('−1.000 000 … 2.000 000');
  });

  test('has the age of its sample in whole seconds, up to now or to the time that it is held at', () => {
    const age = (ago: bigint, at = LIVE): string => plain(cellsOf(facts(sample([1], { time: NOON - ago })), at).text.age);
    expect([0n, SECOND - 1n, SECOND, 2n * SECOND - 1n, 200n * SECOND, -3n * SECOND].map((ago) => age(ago))).toEqual(['< 1 s', '< 1 s', '1 s', '1 s', '3 min 20 s', '3 s ahead']);
    expect(age(30n * SECOND, { ...LIVE, end: NOON - 20n * SECOND })).toBe('10 s');
  });

  test('has the state of its alarm, in the past that of its limits, and says that its stream is silent', () => {
    const limits = [{ value: 5, side: 'high', kind: 'alarm' }, { value: 4, side: 'high', kind: 'warning' }] as const;
    const alarms = readAlarms([{ stream: 'w', channel: 0, input: 'lab/x:a', state: 2, side: 1 }]);
    const state = (one: ValueSample, more: Partial<Facts>, at = LIVE): string => { const { mood, text } = cellsOf(facts(one, more), at); return `${mood}: ${text.state}`; };
    expect(state(sample([1]), {})).toBe(': ');
    expect([3, 4, 5].map((each) => state(sample([each]), { limits }))).toEqual(['ok: ok', 'warning: warning, high', 'alarm: alarm, high']);
    expect(state(sample([3]), { limits, alarms })).toBe('alarm: alarm, high');
    expect(state(sample([3]), { limits, alarms }, { ...LIVE, end: NOON })).toBe('ok: ok');
    const row = { index: 0, state: 'stale', sample: sample([3]), noSample: 'not kept' } as const;
    expect(state(sample([3]), { row })).toBe('absent: silent');
    expect(state(sample([3]), { row, alarms })).toBe('alarm: alarm, high · silent');
  });
});

describe('a table', () => {
  const rows = [
    facts(sample([3]), { label: 'b', trace: { stream: 'lab/x', channel: 'b' } }, 7),
    facts(sample([NaN]), { label: 'a' }),
    facts(null, { label: 'c', trace: { stream: 'lab/x', channel: 'c' } }, 9),
    facts(sample([-1], { time: NOON - 5n * SECOND }), { label: 'd', trace: { stream: 'lab/x', channel: 'd' } }),
  ];
  const order = (by: Column, descending = false): string => sortedPlaces(rows, { by, descending }, LIVE).map((place) => rows[place]?.label).join('');

  test('is sorted by any column, without a figure last', () => {
    expect(['channel', 'value', 'time', 'age', 'lost'].map((by) => order(by as Column))).toEqual(['abcd', 'dbac', 'dbac', 'badc', 'adbc']);
    expect(order('value', true)).toBe('bdac');
    expect(sortedPlaces(rows, null, LIVE)).toEqual([0, 1, 2, 3]);
  });

  test('changes its order by presses on a head: up, down, as plotted', () => {
    const up = nextSorting(null, 'value');
    const down = nextSorting(up, 'value');
    expect([up, down, nextSorting(down, 'value'), nextSorting(down, 'age')]).toEqual([
      { by: 'value', descending: false }, { by: 'value', descending: true }, null, { by: 'age', descending: false },
    ]);
  });

  test('is copied with all digits', () => {
    expect([exactText(0.1, 'f8'), exactText(Math.fround(0.1), 'f4'), exactText(Math.fround(16777217.5), 'f4'), exactText(2n ** 63n, 'u64'), exactText([1, -0.5], 'c16'), exactText(NaN, 'f4'), exactText(null, 'f8')]).toEqual(
      ['0.1', '0.1', '16777218', '9223372036854775808', '1-0.5i', 'NaN', ''],
    );
    expect(tableText(rows.slice(0, 2), LIVE)).toBe([
      'channel\tvalue\tunit\tshape\ttime_utc\tage_s\tstate\tlost_elements',
      'lab/x:b\t3\tV\t\t2026-11-21T11:59:59.990000000Z\t0.01\t\t7',
      'lab/x:a\tNaN\tV\t\t2026-11-21T11:59:59.990000000Z\t0.01\t\t0',
    ].join('\n'));
  });
});
