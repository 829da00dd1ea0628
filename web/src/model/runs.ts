/**
 * Runs of the experiment, such as shots: which one is meant, when it lasted, its neighbours, its words.
 *
 * The server says what events made (`docs/protocol/runs.md`); an id may have several runs, and runs may overlap. Values in,
 * values out: the time is an argument. What an address says of runs is in `run-link.ts`.
 */
import { fields, list, nanoseconds, number, text, type Fields } from '../wire/json';
import { duration } from './quantity';
import { clock, day, SECOND, type Zone } from './time';
import { DEFAULT_WINDOW, MAX_SPAN, type TimeWindow } from './window';

/** How a run stands: `no_start` is a stop without a known start. */
export type RunState = 'open' | 'stopped' | 'restarted' | 'no_start';

/** A run. */
export interface Run {
  readonly id: string;
  readonly state: RunState;
  readonly labels: readonly (readonly [string, string])[];
  readonly startNs: bigint | null;
  readonly endNs: bigint | null;
  /** Who on which host, or empty. */
  readonly startedBy: string;
  readonly stoppedBy: string;
  /** By so much the clock of the host that stopped it was at least behind. */
  readonly clockBehindNs: number;
}

/** A run whose start is known. */
export interface StartedRun extends Run {
  readonly startNs: bigint;
}

/** A run by its id, and by a moment in it if several have this id. */
export interface Choice {
  readonly id: string;
  readonly at: bigint | null;
}

/** What a choice finds: `of` runs have the id, of which the newest is meant. */
export type Found =
  | { readonly kind: 'run'; readonly run: StartedRun; readonly of: number }
  | { readonly kind: 'unknown' | 'no-start' | 'not-then' };

/** Share of a run's length that is shown before its start and after its end. */
const MARGIN = 50n;

/** Reads the answer of `/api/runs`, the newest run first. */
export function readRuns(answer: unknown): readonly Run[] {
  const runs = list({ answer }, 'answer').map((each) => readRun(fields(each))).filter((run) => run.id !== '');
  return runs.sort((a, b) => (timeOf(a) === timeOf(b) ? (a.id < b.id ? -1 : 1) : timeOf(a) > timeOf(b) ? -1 : 1));
}

function readRun(from: Fields): Run {
  const time = (key: string): bigint | null => (from[key] === null || from[key] === undefined ? null : nanoseconds(from, key));
  const startNs = time('start_ns');
  const state = text(from, 'state');
  return {
    id: text(from, 'id'),
    state: startNs === null ? 'no_start' : state === 'stopped' || state === 'restarted' ? state : 'open',
    labels: Object.entries(fields(from['labels'])).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
    startNs,
    endNs: time('end_ns'),
    startedBy: saidBy(from['started_by']),
    stoppedBy: saidBy(from['stopped_by']),
    clockBehindNs: number(from, 'clock_behind_ns'),
  };
}

function saidBy(value: unknown): string {
  return ['principal', 'host'].map((key) => text(fields(value), key)).filter((part) => part !== '').join(' on ');
}

/** The moment by which a run is sorted: its start, or its stop if that alone is known. */
const timeOf = (run: Run): bigint => run.startNs ?? run.endNs ?? 0n;

/** Returns whether the start of a run is known. */
export const isStarted = (run: Run): run is StartedRun => run.startNs !== null;

/** Returns whether two runs are the same one, however much of it was known. */
export const sameRun = (a: Run, b: Run): boolean => a.id === b.id && a.startNs === b.startNs && (a.startNs !== null || a.endNs === b.endNs);

/** The end of a run, as far as it has come by `now`. */
export const endBy = (run: StartedRun, now: bigint): bigint => run.endNs ?? (now > run.startNs ? now : run.startNs);

/** Finds the run that is meant. */
export function findRun(runs: readonly Run[], { id, at }: Choice): Found {
  const ofId = runs.filter((run) => run.id === id);
  const started = ofId.filter(isStarted);
  const [newest] = started;
  if (newest === undefined) return { kind: ofId.length > 0 ? 'no-start' : 'unknown' };
  if (at === null) return { kind: 'run', run: newest, of: started.length };
  // A run of no length has no moment but its start.
  const run = started.find(({ startNs, endNs }) => startNs <= at && (endNs === null || at < endNs || at === startNs));
  return run === undefined ? { kind: 'not-then' } : { kind: 'run', run, of: 1 };
}

/** Returns the choice that means this run, as short as it can be. */
export function choiceOf(runs: readonly Run[], run: StartedRun): Choice {
  const several = runs.filter((each) => each.id === run.id && isStarted(each)).length > 1;
  return { id: run.id, at: several ? run.startNs : null };
}

/** Returns the run that began after or before another one; of none, the newest. */
export function neighbourRun(runs: readonly Run[], run: Run | null, direction: 'next' | 'previous'): StartedRun | null {
  const started = runs.filter(isStarted);
  if (run === null) return started[0] ?? null;
  const at = started.findIndex((each) => sameRun(each, run));
  if (at < 0) return started[0] ?? null;
  return started[at + (direction === 'next' ? -1 : 1)] ?? null;
}

/** Returns the runs that were open at the same time as this one. */
export function overlapping(runs: readonly Run[], run: StartedRun, now: bigint): readonly StartedRun[] {
  return runs.filter(isStarted).filter((each) => !sameRun(each, run) && each.startNs < endBy(run, now) && run.startNs < endBy(each, now));
}

/** Returns the window that shows all of a run; of one that goes on, a window that follows and has room for more. */
export function windowOf(run: StartedRun, now: bigint): TimeWindow {
  const end = endBy(run, now);
  const lasted = end - run.startNs;
  if (run.endNs === null) return { spanNs: followSpan(lasted), endNs: null };
  if (lasted === 0n) return { spanNs: DEFAULT_WINDOW.spanNs, endNs: earlier(end + DEFAULT_WINDOW.spanNs / 2n, now) };
  const margin = lasted / MARGIN + 1n;
  if (lasted + 2n * margin > MAX_SPAN) return { spanNs: MAX_SPAN, endNs: run.startNs - margin + MAX_SPAN };
  const right = earlier(end + margin, now > end ? now : end);
  return { spanNs: right - (run.startNs - margin), endNs: right };
}

const earlier = (a: bigint, b: bigint): bigint => (a < b ? a : b);

/** Returns whether a window is not that of the run any more: it goes on and has outgrown it, or has ended meanwhile. */
export function hasMoved(run: StartedRun, window: TimeWindow, now: bigint): boolean {
  return run.endNs === null ? window.endNs !== null || windowOf(run, now).spanNs !== window.spanNs : window.endNs === null;
}

/** Windows of a run that goes on, in seconds: so few that it seldom changes, so many that most of it is the run. */
const GROWING: readonly bigint[] = [10n, 20n, 30n, 60n, 120n, 300n, 600n, 1_200n, 1_800n, 3_600n, 7_200n, 18_000n, 43_200n, 86_400n];

/** The shortest of these windows that holds what a run has lasted, and from a day on twice as much each time. */
function followSpan(lasted: bigint): bigint {
  let span = (GROWING.find((seconds) => seconds * SECOND > lasted) ?? 86_400n) * SECOND;
  while (span <= lasted && span < MAX_SPAN) span *= 2n;
  return earlier(span, MAX_SPAN);
}

/** Returns whether a run has all words that are sought in its id, labels, people, hosts or state. */
export function matches(run: Run, sought: string): boolean {
  const words = sought.toLowerCase().split(/\s+/).filter((word) => word !== '');
  const known = [run.id, ...run.labels.map((pair) => pair.join('=')), run.startedBy, run.stoppedBy, stateText(run)].join('\n').toLowerCase();
  return words.every((word) => known.includes(word));
}

/** The state of a run in words. */
export function stateText({ state }: Run): string {
  return { open: 'running', stopped: 'ended', restarted: 'ended by its next start', no_start: 'start not known' }[state];
}

/** When and how long a run was, its labels, and who said so. */
export function runFacts(run: Run, now: bigint, zone: Zone): string {
  const { startNs, endNs, startedBy, stoppedBy } = run;
  const at = startNs ?? endNs;
  const when = at === null ? '' : `${startNs === null ? 'stopped ' : ''}${day(at, zone)} ${clock(at, zone)}`;
  const lasted = isStarted(run) ? lastedText(run, now) : '';
  const who = startedBy !== '' ? startedBy : stoppedBy;
  return [when, lasted, run.labels.map((pair) => pair.join('=')).join(' '), who].filter((part) => part !== '').join(' · ');
}

/** How long a run lasted, or how long it has been running, to the second. */
export function lastedText(run: StartedRun, now: bigint): string {
  const lasted = endBy(run, now) - run.startNs;
  if (run.endNs !== null) return duration(Number(lasted));
  return lasted < SECOND ? 'for less than 1 s' : `for ${duration(Number((lasted / SECOND) * SECOND))}`;
}

/** What is peculiar about a run that is shown. */
export function remarksOn(run: StartedRun, runs: readonly Run[], now: bigint): readonly string[] {
  const others = overlapping(runs, run, now);
  const [first] = others;
  return [
    run.endNs === null ? 'no stop is known: it is still running, or its stop was forgotten' : '',
    first === undefined ? '' : `overlaps ${first.id}${others.length > 1 ? ` and ${others.length - 1} more` : ''}`,
    run.state === 'restarted' ? 'no stop was said: the next start of its id ended it' : '',
    run.clockBehindNs > 0 ? `the clock of the host that stopped it is at least ${duration(run.clockBehindNs)} behind: it ends at its start` : '',
    endBy(run, now) - run.startNs > MAX_SPAN ? 'only its first 30 days are shown' : '',
  ].filter((part) => part !== '');
}

/** Tells why a choice shows no run. */
export function missingText(choice: Choice, kind: 'unknown' | 'no-start' | 'not-then'): string {
  switch (kind) {
    case 'unknown': return `No run ${choice.id} is known to this monitor`;
    case 'no-start': return `Of run ${choice.id} only the stop is known, not the start`;
    case 'not-then': return `No run ${choice.id} was open at that moment`;
  }
}
