/**
 * The keys of a secured bus as text: the secret in use, and whether its key service answers.
 */
import type { KeyState } from '../wire/messages';
import { count } from './quantity';
import { clock, type Zone } from './time';

/** State of the keys in words. */
export interface KeyFact {
  readonly mood: 'ok' | 'warn' | 'bad';
  readonly text: string;
  /** What to do about it, or empty. */
  readonly remedy: string;
}

/** Silence that is told: a lost message is repeated long before. */
const SILENCE_NS = 3_000_000_000n;
const START = 'Start the key service again: tallycast keys serve.';

/** Returns the state of the keys in words. */
export function keyFact({ token, service }: KeyState, now: bigint, zone: Zone): KeyFact {
  const secret = token === '' ? 'no secret: nothing is sent or read' : `secret ${token} in use`;
  if (service === null) return { mood: token === '' ? 'bad' : 'ok', text: secret, remedy: '' };
  const { address, leftNs, silentSince, unanswered, refused } = service;
  const asked = unanswered === 0 ? '' : ` · ${count(unanswered)} ${unanswered === 1 ? 'question' : 'questions'} unanswered`;
  if (refused !== '') return { mood: 'bad', text: `${secret} · key service ${address} gives none: ${refused}`, remedy: 'Add this station again: tallycast keys add.' };
  const lasts = leftNs === null ? '' : ` · secrets held last for ${span(leftNs)}`;
  if (silentSince === null || now - silentSince < SILENCE_NS) return { mood: token === '' ? 'bad' : 'ok', text: `${secret} · key service ${address} answers${lasts}${asked}`, remedy: '' };
  const silent = `key service ${address} silent since ${clock(silentSince, zone)}`;
  return { mood: token === '' ? 'bad' : 'warn', text: `${secret} · ${silent}${lasts}${asked}`, remedy: START };
}

/** Writes a time in whole units: it is read, not measured. */
function span(ns: number): string {
  const seconds = Math.floor(ns / 1e9);
  const [hours, minutes] = [Math.floor(seconds / 3_600), Math.floor((seconds % 3_600) / 60)];
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min` : `${seconds} s`;
}
