/**
 * The kinds of nodes as the server describes them, and the fields of a form for each setting.
 *
 * A field holds text, or rows of texts; the value of a node is JSON. What cannot be read stays in the value as text, so that
 * nothing that was typed is lost; {@link faultOf} tells what is wrong with it.
 */
import { fields, flag, isFields, list, number, text, type Fields } from '../wire/json';

/** A setting of a kind. */
export interface Setting {
  readonly name: string;
  /** How its value is written; a form that this page does not know is shown as JSON. */
  readonly form: string;
  /** Words of a choice. */
  readonly of: readonly string[];
  readonly least: number;
  readonly most: number;
  readonly needed: boolean;
  readonly example: unknown;
  /** Undefined without a default. */
  readonly default: unknown;
  readonly words: string;
}

/** A kind of nodes. */
export interface Kind {
  readonly kind: string;
  readonly makes: string;
  readonly settings: readonly Setting[];
}

/** Content of a field. */
export type Typed = string | Rows;
/** Rows of texts, one text for each column. */
export type Rows = readonly (readonly string[])[];

/** What the texts of a column are. */
export type Hint = 'stream' | 'channel' | 'stream:channel' | 'number' | 'text' | 'choice';

/** A column of a field with rows. */
export interface Column {
  readonly name: string;
  readonly hint: Hint;
  readonly of?: readonly string[];
}

/** Reads the kinds that a server describes. */
export function readKinds(value: unknown): readonly Kind[] {
  return list({ value }, 'value').map(fields).map((from) => ({
    kind: text(from, 'kind'),
    makes: text(from, 'makes'),
    settings: list(from, 'settings').map(fields).map(readSetting),
  })).filter(({ kind }) => kind !== '');
}

function readSetting(from: Fields): Setting {
  return {
    name: text(from, 'name'),
    form: text(from, 'form'),
    of: list(from, 'of').filter((word) => typeof word === 'string'),
    least: number(from, 'least'),
    most: number(from, 'most', Number.MAX_SAFE_INTEGER),
    needed: flag(from, 'needed'),
    example: from['example'],
    default: from['default'],
    words: text(from, 'words'),
  };
}

const RESPONSES = ['lowpass', 'highpass', 'bandpass', 'notch'];

const COLUMNS: Readonly<Record<string, readonly Column[]>> = {
  streams: [{ name: 'stream', hint: 'stream' }],
  channels: [{ name: 'stream:channel', hint: 'stream:channel' }],
  channel_names: [{ name: 'channel', hint: 'channel' }],
  statistics: [{ name: 'statistic', hint: 'text' }],
  variables: [{ name: 'variable', hint: 'text' }, { name: 'stream:channel', hint: 'stream:channel' }],
  calibrations: [{ name: 'channel', hint: 'channel' }, { name: 'scale', hint: 'number' }, { name: 'offset', hint: 'number' }, { name: 'unit', hint: 'text' }],
  output_channels: [{ name: 'name', hint: 'text' }, { name: 'unit', hint: 'text' }, { name: 'shape', hint: 'text' }],
  response: [{ name: 'response', hint: 'choice', of: RESPONSES }, { name: 'Hz', hint: 'number' }, { name: 'to Hz', hint: 'number' }],
};

/** Returns the columns of a setting that is written as rows, or null for one text. */
export const columnsOf = (setting: Setting): readonly Column[] | null => COLUMNS[setting.form] ?? null;

/** Returns whether a setting has exactly one row. */
export const isOneRow = (setting: Setting): boolean => setting.form === 'response';

/** Returns whether a response has two edges. */
export const isBand = (response: string): boolean => response === 'bandpass' || response === 'notch';

/** Returns the content of a setting's field. */
export function typedOf(setting: Setting, value: unknown): Typed {
  const columns = columnsOf(setting);
  if (columns !== null) return rowsOf(setting.form, value);
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value;
  return JSON.stringify(value);
}

function rowsOf(form: string, value: unknown): Rows {
  if (typeof value === 'string' && value !== '') return [[value]];
  if (form === 'output_channels') return list({ value }, 'value').map(fields).map((each) => [text(each, 'name'), text(each, 'unit'), list(each, 'shape').join(' × ')]);
  if (Array.isArray(value)) return value.map((each) => [plain(each)]);
  if (!isFields(value)) return [];
  return Object.entries(value).map(([name, each]) => {
    if (form === 'calibrations') return [name, ...['scale', 'offset', 'unit'].map((key) => plain(fields(each)[key]))];
    if (form === 'response') return [name, ...(Array.isArray(each) ? each.map(plain) : [plain(each), ''])];
    return [name, plain(each)];
  });
}

const plain = (value: unknown): string => (typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value));

/** Returns the value that the content of a field stands for; undefined leaves the setting out. */
export function valueOf(setting: Setting, typed: Typed): unknown {
  if (typeof typed !== 'string') return rowsValue(setting.form, typed.filter((row) => row.some((cell) => cell.trim() !== '')).map((row) => row.map((cell) => cell.trim())));
  const written = typed.trim();
  if (written === '') return undefined;
  switch (setting.form) {
    case 'number': case 'whole': case 'rate': case 'every': case 'choice': return numberOr(written);
    case 'stream': case 'channel': case 'variable': case 'expression': case 'text': return written;
    default: return jsonOr(written);
  }
}

function rowsValue(form: string, rows: Rows): unknown {
  if (rows.length === 0) return undefined;
  const cell = (row: readonly string[], place: number): string => row[place] ?? '';
  const given = (key: string, written: string): Fields => (written === '' ? {} : { [key]: numberOr(written) });
  switch (form) {
    case 'channels': return rows.length === 1 ? cell(rows[0] ?? [], 0) : rows.map((row) => cell(row, 0));
    case 'variables': return Object.fromEntries(rows.map((row) => [cell(row, 0), cell(row, 1)]));
    case 'calibrations': return Object.fromEntries(rows.map((row) => [cell(row, 0), { ...given('scale', cell(row, 1)), ...given('offset', cell(row, 2)), unit: cell(row, 3) }]));
    case 'output_channels': return rows.map((row) => {
      const shape = cell(row, 2).split(/[\s×,x]+/).filter((extent) => extent !== '').map(numberOr);
      return { name: cell(row, 0), unit: cell(row, 1), ...(shape.length === 0 ? {} : { shape }) };
    });
    case 'response': {
      const [name = '', low = '', high = ''] = rows[0] ?? [];
      return { [name]: isBand(name) ? [numberOr(low), numberOr(high)] : numberOr(low) };
    }
    default: return rows.map((row) => cell(row, 0));
  }
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const numberOr = (written: string): unknown => (NUMBER.test(written) ? Number(written) : written);

function jsonOr(written: string): unknown {
  try {
    return JSON.parse(written) as unknown;
  } catch {
    return written;
  }
}

/** Returns what is wrong with a value as far as the page can tell, or an empty text; the server decides about the rest. */
export function faultOf(setting: Setting, value: unknown): string {
  if (value === undefined || value === '') return setting.needed ? `${setting.name} is needed` : '';
  switch (setting.form) {
    case 'number': return typeof value === 'number' ? '' : `${setting.name} is a number`;
    case 'whole': return typeof value === 'number' && Number.isInteger(value) && value >= setting.least && value <= setting.most ? ''
      : `${setting.name} is a whole number from ${setting.least}${setting.most < 1e6 ? ` to ${setting.most}` : ''}`;
    case 'object': return isFields(value) ? '' : `${setting.name} is an object in JSON: {"share": 0.5}`;
    case 'channel': return typeof value === 'string' && value.includes(':') ? '' : `${setting.name} is a channel of a stream: stream:channel`;
    case 'variables': return Object.values(fields(value)).every((each) => typeof each === 'string' && each.includes(':')) ? '' : 'each variable has a channel of a stream: stream:channel';
    default: return '';
  }
}

/** What a new node reads. */
export interface Source {
  readonly stream: string;
  readonly channels: readonly string[];
}

/** Returns a node of a kind with values that are likely to fit; settings of `before` that the kind has, too, stay. */
export function newNode(kind: Kind, name: string, source: Source, before: Fields = {}): Fields {
  const channel = `${source.stream}:${source.channels[0] ?? ''}`;
  const value = (setting: Setting): unknown => {
    switch (setting.form) {
      case 'stream': return source.stream;
      case 'streams': return [source.stream];
      case 'channel': case 'channels': return channel;
      case 'channel_names': return source.channels.slice(0, 1);
      case 'variables': return { a: channel };
      case 'expression': return 'a';
      case 'calibrations': return { [source.channels[0] ?? '']: { scale: 1, offset: 0, unit: '' } };
      case 'number': return undefined;
      default: return setting.example;
    }
  };
  const given = kind.settings.flatMap((setting) => {
    const kept = before[setting.name];
    const fits = kept !== undefined && shapeOf(kept) === shapeOf(value(setting) ?? setting.example);
    const chosen = fits ? kept : setting.needed ? value(setting) : undefined;
    return chosen === undefined ? [] : [[setting.name, chosen] as const];
  });
  return { name, kind: kind.kind, ...Object.fromEntries(given) };
}

const shapeOf = (value: unknown): string => (Array.isArray(value) ? 'list' : typeof value === 'string' && value.includes(':') ? 'channel' : typeof value);

/** Returns a name for a node that is not taken: what it reads, with its kind. */
export function suggestName(stream: string, kind: string, taken: ReadonlySet<string>): string {
  const stem = stream === '' ? `made/${kind}` : `${stream}/${kind}`;
  for (let number = 1; ; number += 1) {
    const name = number === 1 ? stem : `${stem}-${number}`;
    if (!taken.has(name)) return name;
  }
}
