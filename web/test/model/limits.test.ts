import { expect, test } from 'vitest';
import { limitsOf, reached, type Limit } from '../../src/model/limits';
import { readStreams } from '../../src/wire/messages';

test('limits are those of alarm streams, for each channel that they watch', () => {
  const streams = readStreams({
    streams: [
      { stream: 'a', labels: { node: 'alarm', 'input.0': 'lab/x:p', 'input.1': 'lab/x:q', low_alarm: '-1', high_warning: '4.5', hysteresis: '0.1' } },
      { stream: 'b', labels: { node: 'alarm', 'input.0': 'lab/x:p', high_alarm: 'none', low_warning: '0' } },
      { stream: 'c', labels: { node: 'trigger', 'input.0': 'lab/x:r', high_alarm: '1' } },
    ],
  });
  const q = [{ value: -1, side: 'low', kind: 'alarm' }, { value: 4.5, side: 'high', kind: 'warning' }];
  expect([...limitsOf(streams)]).toEqual([['lab/x:p', [...q, { value: 0, side: 'low', kind: 'warning' }]], ['lab/x:q', q]]);
});

test('a value reaches the worst limit that it is at or beyond', () => {
  const limits: readonly Limit[] = [{ value: -1, side: 'low', kind: 'alarm' }, { value: 0, side: 'low', kind: 'warning' }, { value: 4, side: 'high', kind: 'warning' }, { value: 5, side: 'high', kind: 'alarm' }];
  const kinds = [-1, -0.5, 0, 0.1, 3.9, 4, 5, NaN].map((value) => { const limit = reached(value, limits); return limit === null ? 'ok' : `${limit.side} ${limit.kind}`; });
  expect(kinds).toEqual(['low alarm', 'low warning', 'low warning', 'ok', 'ok', 'high warning', 'high alarm', 'ok']);
});
