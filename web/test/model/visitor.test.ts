import { describe, expect, test } from 'vitest';
import { ANYONE, barred, closedText, doorOf, nameOf, readVisitor, type Visitor } from '../../src/model/visitor';

const DENIED = { some: false, all: false, why: 'denied by line 4: deny anyone * **' };
const stranger: Visitor = { ...ANYONE, canSignIn: true, may: { read: DENIED, steer: DENIED, derive: DENIED } };

describe('a visitor', () => {
  test('is read from what the monitor answers', () => {
    const visitor = readVisitor({
      principal: 'user:ada', signed_in: true, can_sign_in: true, insecure: false,
      may: { read: { some: true, all: false, why: 'denied by line 2: deny anyone read hall/**' }, steer: DENIED },
    });
    expect(nameOf(visitor)).toBe('ada');
    expect(visitor.may.read).toEqual({ some: true, all: false, why: 'denied by line 2: deny anyone read hall/**' });
    expect(visitor.may.steer.some).toBe(false);
    expect(readVisitor(null)).toEqual(ANYONE);
  });

  test('finds the form if signing in helps, and the reason if it does not', () => {
    expect(doorOf(ANYONE)).toEqual({ kind: 'open' });
    expect(doorOf(stranger)).toEqual({ kind: 'sign-in' });
    expect(doorOf({ ...stranger, canSignIn: false })).toEqual({ kind: 'closed', why: DENIED.why });
    expect(doorOf({ ...stranger, signedIn: true })).toEqual({ kind: 'closed', why: DENIED.why });
  });

  test('is told why a page that was open is closed', () => {
    expect(closedText('ask again: denied by line 1: deny anyone read **')).toBe('This page was closed: denied by line 1: deny anyone read **');
    expect([closedText(''), closedText('the frame cannot be read')]).toEqual(['', '']);
  });

  test('is told why a control is disabled', () => {
    expect(barred(ANYONE, 'steer', 'all')).toBe('');
    expect(barred(stranger, 'steer', 'some')).toBe(`Sign in to do this (${DENIED.why})`);
    expect(barred({ ...stranger, signedIn: true, principal: 'user:ada' }, 'derive', 'some')).toBe(`user:ada may not derive (${DENIED.why})`);
    expect(barred({ ...stranger, may: { ...stranger.may, steer: { some: true, all: false, why: 'w' } } }, 'steer', 'some')).toBe('');
  });
});
