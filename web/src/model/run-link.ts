/**
 * What an address says of runs: `during=ID` moves the plots to a run, `during=ID@TIME` to one of several of that id, and `t0=run`
 * counts time from its start. An address with a window of its own beside it shows that part of the run.
 */
import type { Choice } from './runs';

/** The run that the plots show. */
export interface ShownRun {
  readonly choice: Choice;
  /** Time is counted from its start. */
  readonly relative: boolean;
  /** The window is the run's own: it follows what the run is by now. */
  readonly whole: boolean;
}

/** A choice in an address. */
export interface RunLink {
  readonly choice: Choice | null;
  readonly relative: boolean;
}

const ID = /^[\p{L}\p{N}_.-]{1,64}$/u;
const NANOSECONDS = /^\d{1,19}$/;
const MILLISECOND = 1_000_000n;

const pairs = (query: string): readonly string[] => query.replace(/^\?/, '').split('&').filter((pair) => pair !== '');
const keyOf = (pair: string): string => pair.split('=')[0] ?? '';

/** Reads the query of an address. */
export function readRunLink(query: string): RunLink {
  const values = new URLSearchParams(query);
  const choice = readChoice(values.get('during') ?? '');
  return { choice, relative: choice !== null && values.get('t0') === 'run' };
}

/** Returns the run that an address shows. */
export function shownRun(query: string): ShownRun | null {
  const { choice, relative } = readRunLink(query);
  return choice === null ? null : { choice, relative, whole: !hasWindow(query) };
}

/** Returns whether two plots show the same of the same run. */
export function sameShownRun(a: ShownRun | null, b: ShownRun | null): boolean {
  return a === null || b === null ? a === b : sameChoice(a.choice, b.choice) && a.relative === b.relative && a.whole === b.whole;
}

/** Returns whether two choices mean the same. */
export const sameChoice = (a: Choice | null, b: Choice | null): boolean => a?.id === b?.id && a?.at === b?.at;

/** Returns whether a text can be the id of a run. */
export const isRunId = (text: string): boolean => ID.test(text);

/** Reads `ID` or `ID@TIME`; what no run can have is null. */
export function readChoice(words: string): Choice | null {
  const at = words.indexOf('@');
  const [id, time] = at < 0 ? [words, null] : [words.slice(0, at), words.slice(at + 1)];
  if (!ID.test(id)) return null;
  if (time === null) return { id, at: null };
  if (NANOSECONDS.test(time)) return { id, at: BigInt(time) };
  const ms = Date.parse(time);
  return Number.isNaN(ms) ? null : { id, at: BigInt(ms) * MILLISECOND };
}

/** Writes a choice as the command line takes it. */
export const writeChoice = ({ id, at }: Choice): string => (at === null ? id : `${id}@${at}`);

/** Returns whether an address has a window of its own. */
export const hasWindow = (query: string): boolean => pairs(query).some((pair) => keyOf(pair) === 'span' || keyOf(pair) === 'end');

/** Returns whether an address names nothing to be plotted: such a page chooses plots itself. */
export const isBare = (query: string): boolean => pairs(query).every((pair) => ['during', 't0'].includes(keyOf(pair)));

/** Adds the choice to the query of a layout; a window that is the run's own is not written, so that it follows what the run is by then. */
export function writeRunLink(layout: string, { choice, relative }: RunLink, ownWindow: boolean): string {
  if (choice === null) return layout;
  const kept = pairs(layout).filter((pair) => !ownWindow || (keyOf(pair) !== 'span' && keyOf(pair) !== 'end'));
  return [`during=${encodeURIComponent(writeChoice(choice)).replaceAll('%40', '@')}`, ...(relative ? ['t0=run'] : []), ...kept].join('&');
}
