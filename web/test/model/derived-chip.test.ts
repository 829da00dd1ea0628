import { describe, expect, it } from 'vitest';
import { derivedChip } from '../../src/model/derived-chip';

const made = { name: 'lab/rms', kind: '', expression: '', input: '', python: '', state: '', error: '' };

describe('a stream that the monitor lets be made', () => {
  it('of another kind is told by its kind and input', () => {
    expect(derivedChip({ ...made, kind: 'thin', input: 'lab/x' }).title).toBe('thin lab/x');
  });

  it('is told by its expression and can be ended', () => {
    expect(derivedChip({ ...made, expression: 'a - b' })).toEqual({ name: 'lab/rms', words: 'lab/rms', title: '= a - b', ends: true });
  });

  it('is told by its function, with its state unless all is well, and cannot be ended from a page', () => {
    const operator = { ...made, python: 'ops:rms', state: 'running' };
    expect(derivedChip(operator)).toEqual({ name: 'lab/rms', words: 'lab/rms', title: 'Python ops:rms', ends: false });
    const dead = derivedChip({ ...operator, state: 'waiting', error: 'its process 7 ended with signal: 9' });
    expect(dead.words).toBe('lab/rms (waiting)');
    expect(dead.title).toBe('Python ops:rms\nits process 7 ended with signal: 9');
  });
});
