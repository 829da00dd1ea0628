/**
 * Apps that can be steered, as the monitor tells of them: parameters, what became of commands, and the words for it.
 */
import { fields, flag, list, number, text, type Fields } from '../wire/json';

/** Element of a value; complex ones are pairs. */
export type Element = number | boolean | readonly number[];

/** A parameter of an app. */
export interface Parameter {
  readonly name: string;
  readonly dtype: string;
  /** Extents; empty for a scalar. */
  readonly shape: readonly number[];
  readonly unit: string;
  readonly min: number | null;
  readonly max: number | null;
  readonly greatestStep: number | null;
  /** True if a change needs the right to administer it. */
  readonly administered: boolean;
  /** Group whose lease a change needs. */
  readonly group: string | null;
  /** All elements, row by row. */
  readonly value: readonly Element[];
  /** False after an uncertain command. */
  readonly known: boolean;
  readonly revision: number;
  readonly holder: string | null;
  /** True if this page holds the lease. */
  readonly yours: boolean;
  /** True if the rules let this visitor change it. */
  readonly may: boolean;
}

/** An app with its parameters. */
export interface SteeredApp {
  readonly app: string;
  readonly parameters: readonly Parameter[];
  /** Commands by outcome. */
  readonly totals: ReadonlyMap<string, number>;
  readonly stopped: { readonly app: boolean; readonly all: boolean };
  readonly may: { readonly steer: boolean; readonly administer: boolean };
}

/** What became of a command. */
export interface Outcome {
  readonly outcome: string;
  readonly rule: string;
  readonly advice: string;
  readonly reason: string;
  readonly index: number;
  readonly revision: number;
  readonly value: readonly Element[];
}

/** Control for a parameter: a switch, a slider beside a number, a number, a list of numbers, or none. */
export type Control = 'switch' | 'slider' | 'number' | 'list' | 'none';

const TOTALS = ['received', 'applied', 'refused', 'expired', 'superseded', 'failed', 'uncertain', 'pending'] as const;

/** Reads the answer of `/api/steer/APP`. */
export function readApp(answer: unknown): SteeredApp {
  const from = fields(answer);
  const [totals, stopped, may] = [fields(from['totals']), fields(from['stopped']), fields(from['may'])];
  return {
    app: text(from, 'app'),
    parameters: list(from, 'parameters').map((each) => readParameter(fields(each))),
    totals: new Map(TOTALS.map((name) => [name, number(totals, name)])),
    stopped: { app: flag(stopped, 'app'), all: flag(stopped, 'all') },
    may: { steer: flag(may, 'steer'), administer: flag(may, 'administer') },
  };
}

function readParameter(from: Fields): Parameter {
  return {
    name: text(from, 'name'),
    dtype: text(from, 'dtype'),
    shape: list(from, 'shape').filter((extent) => typeof extent === 'number'),
    unit: text(from, 'unit'),
    min: limit(from, 'min'),
    max: limit(from, 'max'),
    greatestStep: limit(from, 'greatest_step'),
    administered: flag(from, 'administered'),
    group: typeof from['group'] === 'string' ? from['group'] : null,
    value: readValue(from['value']),
    known: flag(from, 'known'),
    revision: number(from, 'revision'),
    holder: typeof from['holder'] === 'string' ? from['holder'] : null,
    yours: flag(from, 'yours'),
    may: flag(from, 'may'),
  };
}

const limit = (from: Fields, key: string): number | null => (typeof from[key] === 'number' ? number(from, key) : null);

function readValue(value: unknown): readonly Element[] {
  const elements: readonly unknown[] = Array.isArray(value) ? value : [value];
  return elements.map((element) => {
    if (typeof element === 'boolean') return element;
    if (Array.isArray(element)) return element.filter((part) => typeof part === 'number');
    return typeof element === 'number' ? element : Number.NaN;
  });
}

/** Reads the answer to a command. */
export function readOutcome(answer: unknown): Outcome {
  const from = fields(answer);
  return {
    outcome: text(from, 'outcome', 'uncertain'),
    rule: text(from, 'rule'),
    advice: text(from, 'advice'),
    reason: text(from, 'reason'),
    index: number(from, 'index'),
    revision: number(from, 'revision'),
    value: readValue(from['value']),
  };
}

/** Returns the control for a parameter; a number that a page cannot hold exactly has none. */
export function controlOf(parameter: Parameter): Control {
  const { dtype, shape, value, min, max } = parameter;
  if (dtype.startsWith('c')) return 'none';
  const exact = value.every((element) => isFloat(dtype) || typeof element === 'boolean' || Number.isSafeInteger(element));
  if (!exact) return 'none';
  if (shape.length > 0) return 'list';
  if (dtype === 'bool') return 'switch';
  return min !== null && max !== null && min < max ? 'slider' : 'number';
}

const isFloat = (dtype: string): boolean => dtype.startsWith('f');

/** Returns the step of a parameter's field. */
export const stepOf = (parameter: Parameter): string => (isFloat(parameter.dtype) ? 'any' : '1');

/** Returns elements as a person writes and reads them. */
export function valueText(value: readonly Element[]): string {
  return value.map((element) => {
    if (typeof element === 'boolean') return element ? 'on' : 'off';
    if (typeof element === 'number') return Number.isNaN(element) ? 'unknown' : String(element);
    return `${element[0] ?? 0} + ${element[1] ?? 0}i`;
  }).join(', ');
}

/** Returns what was written as the value of a command, or null if it cannot be one: then `expected` says what can. */
export function parseValue(parameter: Parameter, written: string): unknown {
  const words = written.split(/[,;\s]+/).filter((word) => word !== '');
  const elements = words.map((word) => {
    if (parameter.dtype === 'bool') return ['on', 'true', '1'].includes(word) ? true : ['off', 'false', '0'].includes(word) ? false : null;
    const parsed = Number(word);
    return Number.isFinite(parsed) ? parsed : null;
  });
  if (elements.length === 0 || elements.includes(null)) return null;
  if (parameter.shape.length > 0) return elements;
  return elements.length === 1 ? elements[0] : null;
}

/** Returns what can be written. */
export function expected(parameter: Parameter): string {
  const kind = parameter.dtype === 'bool' ? 'on or off' : isFloat(parameter.dtype) ? 'a number' : 'a whole number';
  return parameter.shape.length === 0 ? `Write ${kind}.` : `Write ${parameter.value.length} elements with commas between them, each ${kind}.`;
}

/** Returns the limits in words. */
export function limitsText({ min, max, greatestStep, unit }: Parameter): string {
  const of = (value: number): string => (unit === '' ? `${value}` : `${value} ${unit}`);
  const range = min !== null && max !== null ? `${min} to ${of(max)}` : min !== null ? `at least ${of(min)}` : max !== null ? `at most ${of(max)}` : '';
  const step = greatestStep === null ? '' : `steps of at most ${of(greatestStep)}`;
  return [range, step].filter((words) => words !== '').join(', ');
}

const WORDS: Readonly<Record<string, string>> = {
  expired: 'Expired', superseded: 'Superseded', failed: 'Failed', uncertain: 'Uncertain', never_arrived: 'Never arrived',
};

/** Returns what became of a command in words. */
export function outcomeText(outcome: Outcome, unit: string): string {
  if (outcome.outcome === 'applied') {
    const value = [valueText(outcome.value), unit].filter((word) => word !== '').join(' ');
    return `Applied: ${value} from sample ${outcome.index.toLocaleString('en')} on (revision ${outcome.revision})`;
  }
  if (outcome.outcome === 'refused') return `Refused by the rule ${outcome.rule}: ${outcome.advice}`;
  const why = outcome.outcome === 'failed' ? outcome.reason : outcome.advice;
  const word = WORDS[outcome.outcome] ?? outcome.outcome;
  return why === '' ? word : `${word}: ${why}`;
}

/** Returns whether a command had its effect, had none, or leaves it open. */
export function moodOf(outcome: Outcome): 'good' | 'bad' | 'warn' {
  if (outcome.outcome === 'applied') return 'good';
  return outcome.outcome === 'uncertain' ? 'warn' : 'bad';
}

/** Returns the account of an app's commands as a sentence. */
export function totalsText(totals: ReadonlyMap<string, number>): string {
  const of = (name: string): number => totals.get(name) ?? 0;
  const parts = TOTALS.slice(1).filter((name) => of(name) > 0).map((name) => `${of(name).toLocaleString('en')} ${name}`);
  const received = `${of('received').toLocaleString('en')} ${of('received') === 1 ? 'command' : 'commands'}`;
  return parts.length === 0 ? received : `${received} = ${parts.join(' + ')}`;
}

/** Returns why a parameter cannot be changed now, or an empty text. */
export function hindrance(app: SteeredApp, parameter: Parameter): string {
  if (!parameter.may) return 'The rules of this monitor do not let you change it.';
  if (app.stopped.app || app.stopped.all) return 'Steering is stopped.';
  if (parameter.group !== null && !parameter.yours) return `Take the lease of ${parameter.group} first.`;
  return '';
}
