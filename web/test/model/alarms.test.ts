import { describe, expect, test } from 'vitest';
import { badgeOf, byUrgency, figureText, readAlarms, stateText, waits, type Alarm } from '../../src/model/alarms';

const one = (state: number, since: number, by: string | null = null, more: object = {}): unknown => ({
  stream: 'lab/alarm', channel: since, input: `lab/x:c${since}`, unit: 'V', state, side: state === 1 ? -1 : state === 2 ? 1 : 0, value: 1.5, limit: null,
  since_ns: since, change: since, acknowledged: by === null ? null : { by, at_ns: 7, reason: 'known' }, ...more,
});
const order = (alarms: readonly Alarm[]): string => byUrgency(alarms).map(({ state, sinceNs }) => `${state} ${sinceNs}`).join(', ');

describe('alarms', () => {
  test('are read as the protocol has them, and what is none is left out', () => {
    const read = readAlarms([one(2, 5, 'user:ada'), {}, null, one(4, 1), one(1, 3, null, { value: null, input: '' })]);
    expect(read).toEqual([{
      stream: 'lab/alarm', channel: 5, input: 'lab/x:c5', unit: 'V', state: 'alarm', side: 1, value: 1.5, limit: null, sinceNs: 5n, change: 5,
      acknowledged: { by: 'user:ada', atNs: 7n, reason: 'known' },
    }]);
    expect(readAlarms({})).toEqual([]);
  });

  test('are sorted by urgency, those that wait first, and then by time', () => {
    const all = readAlarms([one(0, 9), one(1, 8), one(2, 1), one(2, 7, 'a'), one(3, 6), one(2, 2)]);
    expect(order(all)).toBe('alarm 2, alarm 1, alarm 7, unknown 6, warning 8, ok 9');
    expect(order([...all].reverse())).toBe(order(all));
  });

  test('that are ok wait for no one, others until they are acknowledged', () => {
    expect(readAlarms([one(0, 1), one(1, 2), one(3, 3), one(2, 4, 'a')]).map(waits)).toEqual([false, true, true, false]);
  });

  test('have a badge that names the worst that waits', () => {
    const badge = (...alarms: readonly unknown[]): string => Object.values(badgeOf(readAlarms(alarms)) ?? ['none', '']).join(': ');
    expect(badge()).toBe('none: ');
    expect(badge(one(0, 1))).toBe('ok: no alarms');
    expect(badge(one(2, 1), one(2, 2), one(1, 3), one(2, 4, 'a'))).toBe('alarm: 2 alarms');
    expect(badge(one(1, 3), one(2, 4, 'a'))).toBe('warning: 1 warning');
    expect(badge(one(2, 4, 'a'), one(0, 1))).toBe('alarm: all acknowledged');
  });

  test('have words for state and value', () => {
    expect(readAlarms([one(0, 1), one(1, 2), one(2, 3), one(3, 4)]).map(stateText)).toEqual(['ok', 'warning, low', 'alarm, high', 'unknown']);
    expect([figureText(null, 'V'), figureText(0.0123, 'V'), figureText(0, 'V')].map((text) => text.replaceAll('\u202f', ' '))).toEqual(['–', '12.30 mV', '0.000 V']);
  });
});
