/**
 * A table of newest values: what its cells say, in which order its rows stand, and its text for the clipboard.
 */
import type { Stream, TraceRequest } from '../wire/messages';
import type { Value, ValueRow, ValueSample } from '../wire/values';
import { STATES, stateText, URGENCY, type Alarm, type AlarmState } from './alarms';
import { reached, type Limit } from './limits';
import { count, duration, grouped, short, significant } from './quantity';
import { clock, SECOND, type Zone } from './time';

/** Columns of the table. */
export const COLUMNS = ['channel', 'value', 'unit', 'time', 'age', 'lost', 'state'] as const;
/** Column of the table. */
export type Column = (typeof COLUMNS)[number];

/** What a row is made of. */
export interface Facts {
  readonly trace: TraceRequest;
  /** Name that distinguishes the channel from the others of the table. */
  readonly label: string;
  /** Null before the first frame. */
  readonly row: ValueRow | null;
  readonly stream: Stream | undefined;
  readonly unit: string;
  /** Extents of a sample. */
  readonly shape: readonly number[];
  readonly limits: readonly Limit[];
  /** Alarms of the channel. */
  readonly alarms: readonly Alarm[];
}

/** When the table is looked at. */
export interface At {
  /** The server's time. */
  readonly now: bigint;
  /** Time that the table is held at; null while it follows. */
  readonly end: bigint | null;
  readonly zone: Zone;
}

/** Texts of a row, and how urgent it is. */
export interface Cells {
  readonly text: Readonly<Record<Column, string>>;
  readonly mood: AlarmState | 'absent' | '';
}

/** Digits of a float in the table; the copied text has all of them. */
const DIGITS = 7;
/** Of several figures in one cell. */
const VECTOR_DIGITS = 5;
/** An age shorter than this is not counted: every row would be written all the time. */
const FRESH_NS = SECOND;
const ABSENT: Readonly<Record<string, string>> = { stale: 'silent', ended: 'ended', unknown: 'not known' };

/** Returns the texts of a row. */
export function cellsOf(facts: Facts, at: At): Cells {
  const { row, stream } = facts;
  const sample = row?.sample ?? null;
  const [state, mood] = stateOf(facts, at);
  return {
    mood,
    text: {
      channel: facts.label,
      value: valueText(facts, at),
      unit: sample === null ? '' : facts.unit,
      time: sample === null ? '' : clock(sample.time, at.zone, 3),
      age: sample === null ? '' : ageText(ageOf(sample, at)),
      state,
      lost: stream === undefined ? '' : lostText(stream),
    },
  };
}

/** Returns the age of a sample: up to now, or up to the time that the table is held at. */
const ageOf = ({ time }: ValueSample, { now, end }: At): bigint => (end ?? now) - time;

/** Writes an age in whole seconds. */
function ageText(age: bigint): string {
  if (age < -FRESH_NS) return `${duration(Number(-age / SECOND) * 1e9)} ahead`;
  return age < FRESH_NS ? '< 1 s' : duration(Number(age / SECOND) * 1e9);
}

function lostText({ lostElements, unsettledElements }: Stream): string {
  return unsettledElements > 0 ? `${short(lostElements)} + ${short(unsettledElements)} open` : short(lostElements);
}

function stateOf({ row, alarms, limits }: Facts, { end }: At): readonly [string, Cells['mood']] {
  const absent = row === null ? undefined : ABSENT[row.state];
  const alarm = end === null ? worst(alarms) : null;
  if (alarm !== null) return [[stateText(alarm), absent ?? ''].filter((part) => part !== '').join(' · '), alarm.state === 'ok' && absent !== undefined ? 'absent' : alarm.state];
  if (absent !== undefined) return [absent, 'absent'];
  const sample = row?.sample ?? null;
  if (limits.length === 0 || sample === null) return ['', ''];
  const limit = [sample.low, sample.high].map((value) => reached(value, limits)).reduce((a, b) => (a?.kind === 'alarm' ? a : b ?? a));
  return limit === null ? ['ok', 'ok'] : [`${limit.kind}, ${limit.side}`, limit.kind];
}

function worst(alarms: readonly Alarm[]): Alarm | null {
  return alarms.reduce<Alarm | null>((a, b) => (a === null || URGENCY[b.state] > URGENCY[a.state] ? b : a), null);
}

/** Writes the value, or says why there is none. */
function valueText({ row, shape }: Facts, { end }: At): string {
  if (row === null) return '';
  const { sample } = row;
  if (sample === null) return end === null && row.state !== 'unknown' ? 'no sample yet' : noSampleText(row);
  if (sample.isSpan) return boundsText(sample, DIGITS);
  return sample.elements <= 1 ? valuesText(sample, DIGITS) : vectorText(sample, shape);
}

/** Says why there is no sample at or before the time that the table is held at. */
function noSampleText({ noSample, state }: ValueRow): string {
  switch (noSample) {
    case 'asked': return 'asking the archive';
    case 'lost': return 'lost';
    case 'unreadable': return 'the archive cannot be read';
    case 'not recorded': return 'not recorded';
    case 'not kept': return state === 'unknown' ? 'no such channel' : 'none kept of this time';
  }
}

const valuesText = ({ values }: ValueSample, digits: number): string => values.map((value) => (value === null ? 'lost' : elementText(value, digits))).join(', ');

const boundsText = ({ low, high }: ValueSample, digits: number): string => (Number.isNaN(low) ? 'no numbers' : `${numberText(low, digits)} … ${numberText(high, digits)}`);

/** A short vector as its elements, a long one as its extremes. */
function vectorText(sample: ValueSample, shape: readonly number[]): string {
  const size = shape.length === 0 ? `${sample.elements}` : shape.join(' × ');
  const more = sample.elements > sample.values.length;
  const lost = more && sample.lostElements > 0 ? `, ${count(sample.lostElements)} lost` : '';
  // In the past one element is kept sample by sample: its bounds are those of no vector.
  const isFirst = more && sample.values.length === 1;
  return `[${size}] ${more && !isFirst ? boundsText(sample, VECTOR_DIGITS) : valuesText(sample, VECTOR_DIGITS)}${isFirst ? ', …' : ''}${lost}`;
}

function elementText(value: Value, digits: number): string {
  if (typeof value === 'boolean') return String(value);
  if (typeof value === 'bigint') return grouped(String(value));
  if (typeof value === 'number') return numberText(value, digits);
  const [real, imaginary] = value;
  return `${numberText(real, digits)} ${imaginary < 0 ? '−' : '+'} ${numberText(Math.abs(imaginary), digits)}i`;
}

function numberText(value: number, digits: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  return value === 0 ? '0' : significant(value, digits);
}

/** Writes a value with all its digits, as programs read it. */
export function exactText(value: Value | null, dtype: string): string {
  if (value === null) return '';
  if (typeof value === 'object') {
    const [real, imaginary] = value.map((part) => exact(part, dtype));
    return `${real}${imaginary?.startsWith('-') === true ? '' : '+'}${imaginary}i`;
  }
  return typeof value === 'number' ? exact(value, dtype) : String(value);
}

/** The fewest digits from which a reader of the same type gets the same number. */
function exact(value: number, dtype: string): string {
  const isSingle = (dtype === 'f4' || dtype === 'c8') && Math.fround(value) === value;
  if (!isSingle || !Number.isFinite(value)) return String(value);
  const digits = [6, 7, 8].find((each) => Math.fround(Number(value.toPrecision(each))) === value) ?? 9;
  return String(Number(value.toPrecision(digits)));
}

/** Returns the table as text: a line per row, tabs between the cells, values with all their digits. */
export function tableText(rows: readonly Facts[], at: At): string {
  const lines = rows.map((facts) => {
    const sample = facts.row?.sample ?? null;
    const { state } = cellsOf(facts, at).text;
    const lost = facts.stream === undefined ? '' : String(facts.stream.lostElements + facts.stream.unsettledElements);
    const values = sample === null ? '' : sample.isSpan ? `${sample.low} … ${sample.high}` : sample.values.map((value) => exactText(value, facts.stream?.dtype ?? '')).join(' ');
    const age = sample === null ? '' : String(Number(ageOf(sample, at)) / 1e9);
    return [`${facts.trace.stream}:${facts.trace.channel}`, values, facts.unit, facts.shape.join('x'), sample === null ? '' : utcText(sample.time), age, state, lost].join('\t');
  });
  return [['channel', 'value', 'unit', 'shape', 'time_utc', 'age_s', 'state', 'lost_elements'].join('\t'), ...lines].join('\n');
}

const utcText = (time: bigint): string => `${new Date(Number(time / 1_000_000n)).toISOString().slice(0, 19)}.${(time % SECOND).toString().padStart(9, '0')}Z`;

/** By which column the rows are sorted; null: as they were plotted. */
export interface Sorting {
  readonly by: Column;
  readonly descending: boolean;
}

/** Returns what a press on the head of a column makes of a sorting: ascending, descending, none. */
export function nextSorting(before: Sorting | null, by: Column): Sorting | null {
  if (before?.by !== by) return { by, descending: false };
  return before.descending ? null : { by, descending: true };
}

/** Returns the places of the rows in the order of a sorting; rows without a figure are last in both directions. */
export function sortedPlaces(rows: readonly Facts[], sorting: Sorting | null, at: At): readonly number[] {
  const places = rows.map((_, place) => place);
  if (sorting === null) return places;
  const key = rows.map((facts) => keyOf(facts, sorting.by, at));
  const sign = sorting.descending ? -1 : 1;
  return places.sort((a, b) => {
    const [one, other] = [key[a] ?? null, key[b] ?? null];
    if (one === null || other === null) return Number(one === null) - Number(other === null) || a - b;
    return (one < other ? -sign : one > other ? sign : 0) || a - b;
  });
}

function keyOf(facts: Facts, by: Column, at: At): number | bigint | string | null {
  const sample = facts.row?.sample ?? null;
  switch (by) {
    case 'channel': return `${facts.trace.stream}:${facts.trace.channel}`;
    case 'value': return sample === null ? null : figureOf(sample);
    case 'unit': return facts.unit === '' ? null : facts.unit;
    case 'time': return sample?.time ?? null;
    case 'age': return sample === null ? null : ageOf(sample, at);
    case 'state': {
      const { mood } = cellsOf(facts, at);
      return mood === '' ? null : mood === 'absent' ? STATES.length : STATES.indexOf(mood);
    }
    case 'lost': return facts.stream === undefined ? null : facts.stream.lostElements + facts.stream.unsettledElements;
  }
}

/** The value that a row is sorted by: of complex numbers and vectors the largest one. */
function figureOf({ values, high, elements }: ValueSample): number | bigint | null {
  const [first] = values;
  const figure = elements === 1 && typeof first === 'bigint' ? first : high;
  return typeof figure === 'number' && Number.isNaN(figure) ? null : figure;
}
