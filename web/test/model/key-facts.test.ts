import { expect, test } from 'vitest';
import { keyFact } from '../../src/model/key-facts';
import { readAccount } from '../../src/wire/messages';

const HOUR = 3_600_000_000_000;
const NOW = 1_700_000_000_000_000_000n;

function fact(keys: object): { mood: string; text: string; remedy: string } {
  const read = readAccount({ stream: 'lab/x', keys }).keys;
  if (read === null) throw new Error('there are keys');
  return keyFact(read, NOW, 'utc');
}

const service = (more: object): object => ({ address: 'keys.lab:7409', left_ns: 2.5 * HOUR, silent_since_ns: null, unanswered: 0, refused: null, ...more });

test('a file of keys is told by its secret alone', () => {
  expect(fact({ token: '1a2b3c4d' })).toEqual({ mood: 'ok', text: 'secret 1a2b3c4d in use', remedy: '' });
  expect(readAccount({ stream: 'lab/x' }).keys).toBe(null);
});

test('a key service is told with the time that its secrets last, and since when it is silent', () => {
  expect(fact({ token: '1a2b3c4d', service: service({}) }).text).toBe('secret 1a2b3c4d in use · key service keys.lab:7409 answers · secrets held last for 2 h 30 min');
  const brief = fact({ token: '1a2b3c4d', service: service({ silent_since_ns: Number(NOW) - 2e9 }) });
  expect(brief.mood).toBe('ok');
  const silent = fact({ token: '1a2b3c4d', service: service({ left_ns: 59e9, silent_since_ns: Number(NOW) - 20e9, unanswered: 40 }) });
  expect(silent.mood).toBe('warn');
  expect(silent.text).toBe('secret 1a2b3c4d in use · key service keys.lab:7409 silent since 22:13:00 · secrets held last for 59 s · 40 questions unanswered');
  expect(silent.remedy).toContain('tallycast keys serve');
});

test('without secrets, and when it is refused, the page says that nothing is read', () => {
  const ended = fact({ token: null, service: service({ left_ns: null, silent_since_ns: Number(NOW) - 9e12, unanswered: 1 }) });
  expect(ended.mood).toBe('bad');
  expect(ended.text).toMatch(/^no secret: nothing is sent or read · key service keys.lab:7409 silent since .* · 1 question unanswered$/);
  const refused = fact({ token: null, service: service({ left_ns: null, refused: 'removed at 2027-01-31T12:00:00Z' }) });
  expect(refused.mood).toBe('bad');
  expect(refused.text).toContain('gives none: removed at');
  expect(refused.remedy).toContain('tallycast keys add');
});
