import { expect, test } from 'vitest';
import { limitsOf } from '../../src/model/limits';
import { readStreams } from '../../src/wire/messages';

test('limits are those of alarm streams, for each channel that they watch', () => {
  const streams = readStreams({
    streams: [
      { stream: 'a', labels: { node: 'alarm', 'input.0': 'lab/x:p', 'input.1': 'lab/x:q', low_alarm: '-1', high_warning: '4.5', hysteresis: '0.1' } },
      { stream: 'b', labels: { node: 'alarm', 'input.0': 'lab/x:p', high_alarm: 'none', low_warning: '0' } },
      { stream: 'c', labels: { node: 'trigger', 'input.0': 'lab/x:r', high_alarm: '1' } },
    ],
  });
  const q = [{ value: -1, kind: 'alarm' }, { value: 4.5, kind: 'warning' }];
  expect([...limitsOf(streams)]).toEqual([['lab/x:p', [...q, { value: 0, kind: 'warning' }]], ['lab/x:q', q]]);
});
