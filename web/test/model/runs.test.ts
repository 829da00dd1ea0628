import { describe, expect, test } from 'vitest';
import { pictureMarks } from '../../src/model/picture-marks';
import { hasWindow, isBare, readChoice, readRunLink, sameShownRun, shownRun, writeChoice, writeRunLink } from '../../src/model/run-link';
import { aroundOf, flagged, isAround, joined, labelPx, MOST_MARKS, placedMarks, relativeLabel, relativeTicks, runMarks, secondsText } from '../../src/model/run-marks';
import { rowsInView, scrollTo } from '../../src/model/rows';
import { choiceOf, endBy, findRun, hasMoved, isStarted, lastedText, matches, missingText, neighbourRun, overlapping, readRuns, remarksOn, runFacts, stateText, windowOf, type Run, type StartedRun } from '../../src/model/runs';
import { SECOND } from '../../src/model/time';
import { MAX_SPAN } from '../../src/model/window';
import { parseJson } from '../../src/wire/json';

const T = 1_795_887_878_444_000_001n;
const by = { host: 'daq-3', principal: 'user:anna' };
const entry = (id: string, from: bigint | null, to: bigint | null, more = {}): Record<string, unknown> => ({
  id, state: from === null ? 'no_start' : to === null ? 'open' : 'stopped', start_ns: from === null ? null : `#${T + from * SECOND}#`, end_ns: to === null ? null : `#${T + to * SECOND}#`,
  labels: {}, started_by: from === null ? null : by, stopped_by: to === null ? null : by, clock_behind_ns: 0, ...more,
});
const runs = (...entries: readonly unknown[]): readonly Run[] => readRuns(parseJson(JSON.stringify(entries).replace(/"#(-?\d+)#"/g, '$1')));
const shots = runs(entry('a', 0n, 10n, { labels: { program: 'ohmic', gas: 'D2' } }), entry('b', 20n, null), entry('a', 40n, 45n), entry('c', 5n, 15n), entry('gone', null, 30n));
const started = (id: string, at?: bigint): StartedRun => {
  const run = shots.filter(isStarted).find((each) => each.id === id && (at === undefined || each.startNs === T + at * SECOND));
  if (run === undefined) throw new Error(id);
  return run;
};

describe('a list of runs', () => {
  test('is read to the nanosecond, the newest first, whatever the server left out', () => {
    expect(shots.map(({ id }) => id)).toEqual(['a', 'gone', 'b', 'c', 'a']);
    expect(shots[4]).toEqual({ id: 'a', state: 'stopped', labels: [['program', 'ohmic'], ['gas', 'D2']], startNs: T, endNs: T + 10n * SECOND, startedBy: 'user:anna on daq-3', stoppedBy: 'user:anna on daq-3', clockBehindNs: 0 });
    expect(runs({ id: 'x', start_ns: 1 }, {}, null, 7)).toEqual([{ id: 'x', state: 'open', labels: [], startNs: 1n, endNs: null, startedBy: '', stoppedBy: '', clockBehindNs: 0 }]);
    expect(readRuns({ error: 'no' })).toEqual([]);
  });

  test('finds a run by its id, the newest of several, or the one that was open at a moment', () => {
    expect(findRun(shots, { id: 'b', at: null })).toEqual({ kind: 'run', run: started('b'), of: 1 });
    expect(findRun(shots, { id: 'a', at: null })).toEqual({ kind: 'run', run: started('a', 40n), of: 2 });
    expect(findRun(shots, { id: 'a', at: T })).toEqual({ kind: 'run', run: started('a', 0n), of: 1 });
    // The start belongs to a run, its end does not.
    expect(findRun(shots, { id: 'a', at: T + 10n * SECOND - 1n }).kind).toBe('run');
    expect(findRun(shots, { id: 'a', at: T + 10n * SECOND }).kind).toBe('not-then');
    expect(findRun(shots, { id: 'a', at: T - 1n }).kind).toBe('not-then');
    expect(findRun(shots, { id: 'gone', at: null }).kind).toBe('no-start');
    expect(findRun(shots, { id: 'z', at: null }).kind).toBe('unknown');
    expect(['unknown', 'no-start', 'not-then'].map((kind) => missingText({ id: 'z', at: null }, kind as 'unknown'))).toEqual([
      'No run z is known to this monitor', 'Of run z only the stop is known, not the start', 'No run z was open at that moment']);
  });

  test('every run with a start is found by its own choice', () => {
    for (const run of shots.filter(isStarted)) expect(findRun(shots, choiceOf(shots, run))).toMatchObject({ kind: 'run', run, of: 1 });
    expect(choiceOf(shots, started('b'))).toEqual({ id: 'b', at: null });
    expect(choiceOf(shots, started('a', 0n))).toEqual({ id: 'a', at: T });
  });

  test('is walked from run to run, whatever its ids, without stops that have no start', () => {
    const walk: string[] = [];
    for (let run = neighbourRun(shots, null, 'previous'); run !== null; run = neighbourRun(shots, run, 'previous')) walk.push(`${run.id} ${(run.startNs - T) / SECOND}`);
    expect(walk).toEqual(['a 40', 'b 20', 'c 5', 'a 0']);
    expect(neighbourRun(shots, started('c'), 'next')).toBe(started('b'));
    expect(neighbourRun(shots, started('a', 40n), 'next')).toBeNull();
    expect(neighbourRun([], null, 'next')).toBeNull();
  });

  test('knows which runs were open at the same time', () => {
    const now = T + 60n * SECOND;
    expect(overlapping(shots, started('a', 0n), now)).toEqual([started('c')]);
    expect(overlapping(shots, started('b'), now)).toEqual([started('a', 40n)]);
    // An end is no part of a run.
    const touching = runs(entry('x', 0n, 5n), entry('y', 5n, 9n)).filter(isStarted);
    expect(touching.map((run) => overlapping(touching, run, now).length)).toEqual([0, 0]);
    expect(remarksOn(started('b'), shots, now)).toEqual(['no stop is known: it is still running, or its stop was forgotten', 'overlaps a']);
  });

  test('is searched by all words of id, labels, people and state', () => {
    const found = (words: string): number => shots.filter((run) => matches(run, words)).length;
    expect([found(''), found('a'), found('OHMIC'), found('gas=d2 anna'), found('running'), found('start not'), found('ohmic b7')]).toEqual([5, 5, 1, 1, 1, 1, 0]);
  });

  test('says when a run was, how long, and what is peculiar', () => {
    const plain = (text: string): string => text.replaceAll('\u202f', ' ');
    expect(plain(runFacts(started('a', 0n), T, 'utc'))).toBe('2026-11-28 17:44:38 · 10 s · program=ohmic gas=D2 · user:anna on daq-3');
    expect(plain(lastedText(started('b'), T + 95n * SECOND))).toBe('for 1 min 15 s');
    expect(plain(lastedText(started('b'), T))).toBe('for less than 1 s');
    expect(runFacts(shots[1] as Run, T, 'utc')).toBe('stopped 2026-11-28 17:45:08 · user:anna on daq-3');
    const [odd] = runs(entry('r', 0n, 0n, { state: 'restarted', clock_behind_ns: 2e9 })).filter(isStarted);
    if (odd === undefined) throw new Error('a run');
    expect(stateText(odd)).toBe('ended by its next start');
    expect(remarksOn(odd, [odd], T).map(plain)).toEqual(['no stop was said: the next start of its id ended it', 'the clock of the host that stopped it is at least 2 s behind: it ends at its start']);
  });
});

describe('the window of a run', () => {
  test('holds its start and end, with some room, and nothing of the future', () => {
    const run = started('a', 0n);
    const { spanNs, endNs } = windowOf(run, T + 60n * SECOND);
    expect((endNs ?? 0n) - spanNs).toBe(T - 200_000_001n);
    expect(endNs).toBe(T + 10_200_000_001n);
    expect(windowOf(run, T + 10n * SECOND).endNs).toBe(T + 10n * SECOND);
  });

  test('of one that goes on follows, and grows before the start leaves it', () => {
    const run = started('b');
    let before = 0n;
    for (let lasted = 0n; lasted < 400_000n; lasted += 997n) {
      const { spanNs, endNs } = windowOf(run, run.startNs + lasted * SECOND);
      expect(endNs).toBeNull();
      expect(spanNs > lasted * SECOND && spanNs >= before && (spanNs <= 10n * SECOND || spanNs <= lasted * SECOND * 5n / 2n)).toBe(true);
      before = spanNs;
    }
    expect(windowOf(run, run.startNs - 5n * SECOND).spanNs).toBe(10n * SECOND);
    expect([10n * SECOND - 1n, 10n * SECOND].map((lasted) => windowOf(run, run.startNs + lasted).spanNs)).toEqual([10n * SECOND, 20n * SECOND]);
    expect(endBy(run, run.startNs - 5n)).toBe(run.startNs);
  });

  test('is left behind when the run outgrows it, ends, or is looked at for the first time', () => {
    const [open, ended] = [started('b'), started('a', 0n)];
    const after = (seconds: bigint): bigint => open.startNs + seconds * SECOND;
    const window = windowOf(open, after(5n));
    expect([5n, 9n, 10n, 25n].map((seconds) => hasMoved(open, window, after(seconds)))).toEqual([false, false, true, true]);
    expect(hasMoved(open, { ...window, endNs: T }, after(5n))).toBe(true);
    expect(hasMoved({ ...open, endNs: after(7n) }, window, after(8n))).toBe(true);
    // Of a run that has ended, any window that is held is one that somebody chose.
    expect(hasMoved(ended, windowOf(ended, T + 60n * SECOND), T + 99n * SECOND)).toBe(false);
  });

  test('of no length, or of more than a window holds, begins with its start', () => {
    const [none, year] = runs(entry('n', 0n, 0n), entry('y', -1n, 31_536_000n)).filter(isStarted);
    if (none === undefined || year === undefined) throw new Error('two runs');
    const now = T + 40_000_000n * SECOND;
    expect(windowOf(none, now)).toEqual({ spanNs: 10n * SECOND, endNs: T + 5n * SECOND });
    const { spanNs, endNs } = windowOf(year, now);
    expect(spanNs).toBe(MAX_SPAN);
    expect((endNs ?? 0n) - spanNs < year.startNs && (endNs ?? 0n) > year.startNs).toBe(true);
    expect(remarksOn(year, [year], now)).toEqual(['only its first 30 days are shown']);
  });
});

describe('an address', () => {
  test('names a run, one of several by a moment in it, and time from its start', () => {
    for (const choice of [{ id: 'shot-17', at: null }, { id: 'Schuß_1.b', at: T }]) expect(readChoice(writeChoice(choice))).toEqual(choice);
    expect(readChoice('shot-17@2026-11-28T13:00:00Z')).toEqual({ id: 'shot-17', at: 1_795_870_800_000_000_000n });
    for (const bad of ['', 'a b', 'a@', 'a@noon', '@5', 'x'.repeat(65), 'a/b']) expect(readChoice(bad), bad).toBeNull();
    expect(readRunLink('?during=shot-17@5&t0=run&plot=a:b')).toEqual({ choice: { id: 'shot-17', at: 5n }, relative: true });
    expect(readRunLink('?t0=run')).toEqual({ choice: null, relative: false });
  });

  test('shows a run whole unless it has a window, and tells two of them apart', () => {
    expect(shownRun('?plot=a:b&t0=run')).toBeNull();
    const whole = shownRun('?during=shot-17@5&t0=run&plot=a:b');
    expect(whole).toEqual({ choice: { id: 'shot-17', at: 5n }, relative: true, whole: true });
    expect(shownRun('?during=shot-17@5&t0=run&span=10s')).toEqual({ ...whole, whole: false });
    const others = ['?during=shot-17&t0=run', '?during=shot-17@5', '?during=shot-18@5&t0=run', '?during=shot-17@5&t0=run&span=1s', ''];
    expect(others.map((query) => sameShownRun(whole, shownRun(query)))).toEqual([false, false, false, false, false]);
    expect([sameShownRun(whole, shownRun('?during=shot-17@5&t0=run')), sameShownRun(null, null)]).toEqual([true, true]);
  });

  test('has the window only if it is not the run\'s own', () => {
    const link = { choice: { id: 'shot-17', at: 5n }, relative: true };
    expect(writeRunLink('span=10s&end=7&plot=a:b', link, true)).toBe('during=shot-17@5&t0=run&plot=a:b');
    expect(writeRunLink('span=10s&end=7&plot=a:b', { ...link, relative: false }, false)).toBe('during=shot-17@5&span=10s&end=7&plot=a:b');
    expect(writeRunLink('span=10s', { choice: null, relative: false }, true)).toBe('span=10s');
    expect(readRunLink(writeRunLink('span=10s&plot=a:b', link, true))).toEqual(link);
    expect(['', '?', '?during=a', '?during=a&t0=run', '?plot=a:b', '?view=x', '?span=1s'].map(isBare)).toEqual([true, true, true, true, false, false, false]);
    expect(['?during=a&plot=a:b', '?during=a&span=1s', '?during=a&end=1'].map(hasWindow)).toEqual([false, true, true]);
  });
});

describe('marks', () => {
  test('stand where runs start and end, and where they crowd only those of the chosen one', () => {
    const marks = runMarks(shots, started('c'));
    expect(marks.map(({ at, id, edge }) => `${(at - T) / SECOND} ${id} ${edge}`)).toEqual(['0 a start', '5 c start', '10 a end', '15 c end', '20 b start', '30 gone end', '40 a start', '45 a end']);
    const placed = placedMarks(marks, { from: T + 5n * SECOND, spanNs: 10n * SECOND });
    expect(placed.map(({ share, mark }) => [share, mark.id, mark.edge, mark.chosen])).toEqual([[0, 'c', 'start', true], [0.5, 'a', 'end', false], [1, 'c', 'end', true]]);
    const crowd = runs(...Array.from({ length: 500 }, (_, i) => entry(`s${i}`, BigInt(2 * i), BigInt(2 * i + 1))));
    const all = runMarks(crowd, crowd[3] ?? null);
    expect(placedMarks(all, { from: T, spanNs: 2_000n * SECOND }).map(({ mark }) => mark.chosen)).toEqual([true, true]);
    expect(placedMarks(all, { from: T, spanNs: BigInt(MOST_MARKS - 1) * SECOND })).toHaveLength(MOST_MARKS);
  });

  test('are asked for with a margin, and again only for what is not known', () => {
    const seen = (from: bigint, seconds = 10n): { from: bigint; spanNs: bigint } => ({ from: T + from * SECOND, spanNs: seconds * SECOND });
    const held = aroundOf(seen(0n), false, false);
    expect(held).toEqual({ from: T - 10n * SECOND, to: T + 20n * SECOND });
    expect([-11n, -10n, 0n, 10n, 11n].map((from) => isAround(held, seen(from)))).toEqual([false, true, true, true, false]);
    expect([isAround(held, seen(-10n, 30n)), isAround(held, seen(-10n, 31n))]).toEqual([true, false]);
    // Plots that follow never leave what they asked for: they are told of runs to come.
    const live = aroundOf(seen(0n), true, false);
    expect([-11n, -10n, 1_000_000n].map((from) => isAround(live, seen(from)))).toEqual([false, true, true]);
    const crowded = aroundOf(seen(0n), false, true);
    expect([-1n, 0n, 1n].map((from) => isAround(crowded, seen(from)))).toEqual([false, true, false]);
  });

  test('are of each run once, as it was told most recently', () => {
    const [open, ended] = [runs(entry('x', 0n, null)), runs(entry('x', 0n, 5n), entry('x', 7n, null), entry('x', null, 9n))];
    expect(joined(ended, open)).toEqual(ended);
    expect(joined(open, ended).map(({ startNs, endNs }) => [startNs, endNs])).toEqual([[T, null], [null, T + 9n * SECOND], [T + 7n * SECOND, null]]);
  });

  test('have labels where there is room, within the plot, and in pictures those of the page', () => {
    const shown = { from: T, spanNs: 50n * SECOND };
    const marks = flagged(runMarks(shots, started('c')), shown, 500);
    expect(marks.map(({ x, label, side }) => [x, label, side])).toEqual([
      [0, '▸ a', 'right'], [50, '▸ c', 'right'], [100, '', 'left'], [150, 'c ◂', 'left'], [200, '▸ b', 'right'], [300, 'gone ◂', 'left'], [400, '▸ a', 'right'], [450, '', 'left']]);
    for (const width of [30, 60, 90, 240, 1_000]) {
      const labels = flagged(runMarks(shots, started('c')), shown, width).filter(({ label }) => label !== '').map(({ x, label, side }) => (side === 'left' ? [x - labelPx(label.length), x] as const : [x, x + labelPx(label.length)] as const));
      const overlapping = labels.filter(([from, to], i) => labels.some(([other, end], k) => k !== i && from < end && other < to));
      expect(overlapping, `${width}`).toEqual([]);
    }
    // In the least room the run that is shown has the label.
    expect(flagged(runMarks(shots, started('c')), shown, 60).flatMap(({ label }) => (label === '' ? [] : [label]))).toEqual(['▸ c']);
    // An end at the left edge and a start at the right one have their labels on the other side.
    const edges = flagged(runMarks(runs(entry('l', null, 1n), entry('r', 49n, null)), null), shown, 500);
    expect(edges.map(({ label, side }) => [label, side])).toEqual([['l ◂', 'right'], ['▸ r', 'left']]);
    const changes = [20n, 10n, 0n, 49n].map((at) => ({ at: T + at * SECOND, app: 'sim/engine', words: 'sim/engine was changed: sample 7' }));
    const pictured = pictureMarks(runMarks(shots, started('c')), changes, shown, 500);
    expect(pictured.slice(0, marks.length).map(({ x, label, side }) => [x, label, side])).toEqual(marks.map(({ x, label, side }) => [x, label, side]));
    expect(pictured.map(({ kind }) => kind).join(' ')).toBe('run chosen-run run chosen-run run run run run change change change change');
    expect(pictured.slice(marks.length).map(({ x, label, side }) => [x, label, side])).toEqual([[0, 'sim/engine', 'right'], [100, 'sim/engine', 'right'], [200, 'sim/engine', 'right'], [490, 'sim/engine', 'left']]);
    expect(pictureMarks([], changes, { ...shown, spanNs: 100n * SECOND }, 500).map(({ label }) => label)).toEqual(['sim/engine', '', 'sim/engine', 'sim/engine']);
  });

  test('give times of their own: ticks on round seconds since the start', () => {
    const ticks = relativeTicks(T - 3n * SECOND, T + 7n * SECOND, 10, T);
    expect(ticks.at.map((at) => relativeLabel(at, ticks, T))).toEqual(['−3 s', '−2 s', '−1 s', 't = 0', '1 s', '2 s', '3 s', '4 s', '5 s', '6 s', '7 s']);
    const hours = relativeTicks(T, T + 6n * 3_600n * SECOND, 6, T);
    expect(hours.at.map((at) => relativeLabel(at, hours, T))).toEqual(['t = 0', '1 h', '2 h', '3 h', '4 h', '5 h', '6 h']);
    const minutes = relativeTicks(T - 60n * SECOND, T + 60n * SECOND, 3, T);
    expect(minutes.at.map((at) => relativeLabel(at, minutes, T))).toEqual(['−1 min', 't = 0', '1 min']);
    const fine = relativeTicks(T + 1_000n, T + 4_000n, 3, T);
    expect(fine.at.map((at) => relativeLabel(at, fine, T))).toEqual(['0.000001 s', '0.000002 s', '0.000003 s', '0.000004 s']);
    expect([secondsText(-1_250_000_000n, 2), secondsText(90_000_000_000n, 0)]).toEqual(['−1.25 s', '90 s']);
  });
});

test('of a thousand rows only those in view are in the document, and a chosen one is brought there', () => {
  for (let scroll = 0; scroll <= 48_000; scroll += 331) {
    const { first, end } = rowsInView(scroll, 500, 48, 1_000);
    expect(first * 48 <= scroll && (end * 48 >= scroll + 500 || end === 1_000)).toBe(true);
    expect(end - first).toBeLessThanOrEqual(25);
  }
  expect(rowsInView(90_000, 500, 48, 10)).toEqual({ first: 10, end: 10 });
  expect(rowsInView(0, 500, 0, 0)).toEqual({ first: 0, end: 0 });
  expect([scrollTo(0, 480, 480, 48), scrollTo(12, 480, 480, 48), scrollTo(25, 480, 480, 48)]).toEqual([0, 480, 768]);
});
