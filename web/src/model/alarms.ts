/**
 * Alarms as the page lists them: what the server tells, in words, and what the badge in the top bar says.
 */
import { fields, flag, list, nanoseconds, number, text, type Fields } from '../wire/json';
import { count, inUnit, displayUnit, decimalsFor } from './quantity';

/** States by the server's numbers, those of EPICS severities. */
export const STATES = ['ok', 'warning', 'alarm', 'unknown'] as const;
/** State of an alarm. */
export type AlarmState = (typeof STATES)[number];

/** Acknowledgement of a state. */
export interface Acknowledged {
  readonly by: string;
  readonly atNs: bigint;
  readonly reason: string;
}

/** One alarm. */
export interface Alarm {
  /** Stream of the alarm, and number of the channel in its input. */
  readonly stream: string;
  readonly channel: number;
  /** Watched channel, as `stream:channel`. */
  readonly input: string;
  readonly unit: string;
  readonly state: AlarmState;
  /** -1 low, 1 high, else 0. */
  readonly side: number;
  /** Null if it is missing. */
  readonly value: number | null;
  /** Null if none is reached. */
  readonly limit: number | null;
  readonly sinceNs: bigint;
  /** Names this state. */
  readonly change: number;
  readonly acknowledged: Acknowledged | null;
}

/** Message about alarms. */
export interface AlarmNews {
  /** These are all alarms; else those that have changed. */
  readonly whole: boolean;
  readonly alarms: readonly Alarm[];
  /** Keys of alarms that there are no longer. */
  readonly gone: readonly string[];
}

/** Reads a message of the live connection. */
export function readAlarmNews(from: Fields): AlarmNews {
  const gone = list(from, 'gone').map(fields).map((key) => alarmKey({ stream: text(key, 'stream'), channel: number(key, 'channel') }));
  return { whole: flag(from, 'whole'), alarms: readAlarms(from['alarms']), gone };
}

/** Reads the server's list; what is no alarm is left out. */
export function readAlarms(value: unknown): readonly Alarm[] {
  return (Array.isArray(value) ? value : []).map(readAlarm).filter((alarm) => alarm !== null);
}

function readAlarm(value: unknown): Alarm | null {
  const from = fields(value);
  const [stream, input, state] = [text(from, 'stream'), text(from, 'input'), STATES[number(from, 'state', -1)]];
  if (stream === '' || input === '' || state === undefined) return null;
  const given = from['acknowledged'];
  const acknowledged = fields(given);
  const figure = (name: string): number | null => (typeof from[name] === 'number' ? number(from, name) : null);
  return {
    stream, input, state, channel: number(from, 'channel'), unit: text(from, 'unit'), side: Math.sign(number(from, 'side')),
    value: figure('value'), limit: figure('limit'), sinceNs: nanoseconds(from, 'since_ns'), change: number(from, 'change'),
    acknowledged: given === null || given === undefined ? null
      : { by: text(acknowledged, 'by'), atNs: nanoseconds(acknowledged, 'at_ns'), reason: text(acknowledged, 'reason') },
  };
}

/** Names an alarm across answers. */
export const alarmKey = (alarm: Pick<Alarm, 'stream' | 'channel'>): string => `${alarm.stream} ${alarm.channel}`;

/** Returns whether an alarm waits for somebody: anything but ok that is not acknowledged. */
export const waits = (alarm: Alarm): boolean => alarm.state !== 'ok' && alarm.acknowledged === null;

/** How urgent a state is. */
export const URGENCY: Readonly<Record<AlarmState, number>> = { alarm: 3, unknown: 2, warning: 1, ok: 0 };

/** Sorts by urgency, within it the newest first; those that wait come before acknowledged ones of their state. */
export function byUrgency(alarms: readonly Alarm[]): readonly Alarm[] {
  const later = (a: Alarm, b: Alarm): number => (a.sinceNs === b.sinceNs ? 0 : a.sinceNs > b.sinceNs ? -1 : 1);
  return [...alarms].sort((a, b) => URGENCY[b.state] - URGENCY[a.state] || Number(waits(b)) - Number(waits(a)) || later(a, b) || (alarmKey(a) < alarmKey(b) ? -1 : 1));
}

/** Content of the badge. */
export interface Badge {
  readonly mood: AlarmState;
  readonly text: string;
}

/** Returns the badge of the top bar: the worst state and how many wait; null without alarms on this bus. */
export function badgeOf(alarms: readonly Alarm[]): Badge | null {
  const [worst] = byUrgency(alarms);
  if (worst === undefined) return null;
  const waiting = alarms.filter(waits);
  const [first] = byUrgency(waiting);
  if (first === undefined) return { mood: worst.state === 'ok' ? 'ok' : worst.state, text: worst.state === 'ok' ? 'no alarms' : 'all acknowledged' };
  const same = waiting.filter(({ state }) => state === first.state).length;
  const words = { alarm: same === 1 ? 'alarm' : 'alarms', warning: same === 1 ? 'warning' : 'warnings', unknown: 'unknown', ok: '' }[first.state];
  return { mood: first.state, text: `${count(same)} ${words}` };
}

/** Writes a state with its side: `alarm, high`. */
export function stateText({ state, side }: Alarm): string {
  if (state === 'ok' || state === 'unknown' || side === 0) return state;
  return `${state}, ${side > 0 ? 'high' : 'low'}`;
}

/** Writes a value of an alarm in a unit that suits it; a missing one is a dash. */
export function figureText(value: number | null, unit: string): string {
  if (value === null) return '–';
  const display = displayUnit(Math.abs(value), unit);
  return `${inUnit(value, display, decimalsFor(Math.abs(value) || 1, display, 1000))} ${display.unit}`.trim();
}
