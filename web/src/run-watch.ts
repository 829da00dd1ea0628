/**
 * Runs on this page: asks the server for those that the plots show, moves the plots to the one that is chosen, and follows it while
 * it goes on.
 *
 * The server says when there are other runs than before. Then, and when the plots leave the stretch of time of which the runs are
 * known, the page asks: for the runs around what is seen, for those of the chosen id, and for all of them only while the list is open.
 */
import { ask, Refused } from './api';
import type { Layout } from './model/layout';
import { sameChoice, type ShownRun } from './model/run-link';
import { aroundOf, isAround, joined, MOST_AROUND, runMarks, type Around, type RunMark } from './model/run-marks';
import { choiceOf, findRun, hasMoved, isStarted, lastedText, missingText, neighbourRun, readRuns, remarksOn, sameRun, windowOf, type Choice, type Run, type StartedRun } from './model/runs';
import type { Zone } from './model/time';
import { follow, type Shown, type TimeWindow } from './model/window';
import { RunBar, type RunChip } from './ui/run-bar';
import { RunsPanel, type RunAction } from './ui/runs-panel';
import { store, stored } from './ui/stored';

/** Services that runs need from the page. */
export interface RunContext {
  /** The server's time. */
  now(): bigint;
  zone(): Zone;
  layout(): Layout;
  /** What the plots show; null without any. */
  stretch(): Shown | null;
  /** Whether the page may move the plots by itself: not where others decide what they show. */
  mayMove(): boolean;
  /** All plots are to show a run, or none, in this window. */
  show(run: ShownRun | null, window: TimeWindow): void;
  /** Marks for every plot, and the run that time is counted from. */
  mark(marks: readonly RunMark[], zero: StartedRun | null): void;
  say(text: string): void;
}

/** An answer of the server, and what was asked. */
interface Known<Asked> {
  readonly runs: readonly Run[];
  /** The change of runs that the page had been told of last. */
  readonly change: number;
  readonly asked: Asked;
}

/** After a failure the server is left alone for so long. */
const REST_MS = 5_000;
const MARKS_KEY = 'tallycast-run-marks';

/** The runs. */
export class RunWatch {
  readonly #bar: RunBar;
  readonly #panel: RunsPanel;
  /** Number of times that the server has said that there are other runs. */
  #change = 0;
  #all: Known<null> | null = null;
  #around: Known<Around> | null = null;
  #ofId: Known<string> | null = null;
  #choice: Choice | null = null;
  #run: StartedRun | null = null;
  #missing = '';
  #failure = '';
  #restsUntil = 0;
  #busy = false;
  #marked = '';
  /** A browser marks runs unless it was told not to. */
  #marks = stored(MARKS_KEY) !== 'off';

  constructor(readonly context: RunContext) {
    this.#bar = new RunBar(() => this.toggle());
    this.#panel = new RunsPanel({
      onRun: (run) => this.#show(run),
      onAction: (action) => this.#act(action),
      onClosed: () => {
        this.#bar.expand(false);
        this.#bar.opener.focus();
      },
    });
  }

  /** The run that time is counted from. */
  get zero(): StartedRun | null {
    return this.context.layout().run?.relative === true ? this.#run : null;
  }

  /** The plots show something else now. */
  onLayout(): void {
    const { run } = this.context.layout();
    if (!sameChoice(run?.choice ?? null, this.#choice)) {
      [this.#choice, this.#run, this.#missing] = [run?.choice ?? null, null, ''];
      this.#resolve();
    }
    this.#mark();
    this.#write();
    void this.#ask();
  }

  /** There are other runs than before. */
  onNews(): void {
    this.#change += 1;
    void this.#ask();
  }

  /** Asks again what could not be answered: the visitor may have signed in. */
  onConnection(): void {
    this.#restsUntil = 0;
    void this.#ask();
  }

  /** Looks at time passing: plots that follow move, and a run that goes on grows. */
  look(): void {
    this.#adjust();
    if (this.#choice !== null || this.#panel.isOpen) this.#write();
    void this.#ask();
  }

  /** Opens or closes the list. */
  toggle(): void {
    const open = this.#panel.toggle();
    this.#bar.expand(open);
    if (!open) return;
    this.#all = null;
    this.#write();
    void this.#ask();
  }

  /** Closes the list; returns false if it was not open. */
  close(): boolean {
    const was = this.#panel.isOpen;
    this.#panel.toggle(false);
    return was;
  }

  /** Shows the run that began after or before the one that is shown; first the newest. */
  async step(direction: 'next' | 'previous'): Promise<void> {
    if (this.#all?.change !== this.#change) await this.#fetch(() => this.#askAll());
    if (this.#all === null) return this.context.say(this.#failure);
    const run = neighbourRun(this.#all.runs, this.#run, direction);
    if (run !== null) return this.#show(run);
    return this.context.say(this.#run === null ? 'No run is known to this monitor yet' : direction === 'next' ? 'No later run' : 'No earlier run');
  }

  /** Counts time from the start of the run, or shows times of day again. */
  toggleRelative(): void {
    const { run, window } = this.context.layout();
    if (run === null || this.#run === null) return this.context.say('Choose a run first: time is counted from its start');
    this.context.show({ ...run, relative: !run.relative }, window);
  }

  /** Shows the marks of runs in plots, or hides them. */
  toggleMarks(): void {
    this.#marks = !this.#marks;
    store(MARKS_KEY, this.#marks ? 'on' : 'off');
    this.#mark();
    this.#write();
    this.context.say(this.#marks ? 'Runs are marked in the plots' : 'Runs are not marked in the plots');
    void this.#ask();
  }

  /** Asks for what is not known: one request after the other, so that what changes quickly is asked for at the server's pace. */
  async #ask(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    for (let next = this.#next(); next !== null && performance.now() >= this.#restsUntil; next = this.#next()) await this.#fetch(next);
    this.#busy = false;
  }

  async #fetch(next: () => Promise<void>): Promise<void> {
    try {
      await next();
      this.#failure = '';
    } catch (error) {
      this.#failure = error instanceof Refused ? error.text : 'The server did not answer: the list is not known now';
      this.#restsUntil = performance.now() + REST_MS;
    }
    this.#resolve();
    this.#mark();
    this.#write();
  }

  /** The next request, or null if everything is known. */
  #next(): (() => Promise<void>) | null {
    const change = this.#change;
    const id = this.#choice?.id ?? null;
    if (id !== null && (this.#ofId?.asked !== id || this.#ofId.change !== change)) return () => this.#askId(id);
    const seen = this.#seen();
    // Before its first word of them the server may have none, or none for this visitor.
    if (change > 0 && this.#marks && seen !== null && (this.#around?.change !== change || !isAround(this.#around.asked, seen))) return () => this.#askAround(seen);
    return this.#panel.isOpen && this.#all?.change !== change ? () => this.#askAll() : null;
  }

  /** The stretch of time that the plots show; null without any, or before they are drawn. */
  #seen(): Shown | null {
    const { plots, window: { spanNs, endNs } } = this.context.layout();
    const drawn = this.context.stretch();
    if (plots.length === 0 || drawn === null) return null;
    return endNs !== null ? { from: endNs - spanNs, spanNs } : drawn.spanNs === spanNs ? drawn : null;
  }

  async #askId(id: string): Promise<void> {
    const change = this.#change;
    this.#ofId = { runs: readRuns(await ask(`/api/runs?id=${encodeURIComponent(id)}`)), change, asked: id };
  }

  async #askAround(seen: Shown): Promise<void> {
    const [change, follows] = [this.#change, this.context.layout().window.endNs === null];
    const within = async (asked: Around): Promise<Known<Around>> => {
      const to = asked.to === null ? '' : `&to=${asked.to}`;
      return { runs: readRuns(await ask(`/api/runs?from=${asked.from}${to}&limit=${MOST_AROUND}`)), change, asked };
    };
    const found = await within(aroundOf(seen, follows, false));
    this.#around = found.runs.length < MOST_AROUND ? found : await within(aroundOf(seen, follows, true));
  }

  async #askAll(): Promise<void> {
    const change = this.#change;
    this.#all = { runs: readRuns(await ask('/api/runs')), change, asked: null };
  }

  /** Finds the chosen run among those that are known now. */
  #resolve(): void {
    const choice = this.#choice;
    if (choice === null || this.#ofId?.asked !== choice.id) return;
    const { runs } = this.#ofId;
    const before = this.#run;
    // The run that is shown stays the same one when its id is used again.
    const found = before === null ? findRun(runs, choice) : { kind: 'run', run: runs.filter(isStarted).find((run) => sameRun(run, before)) ?? before, of: 1 } as const;
    if (found.kind !== 'run') {
      if (this.#missing === '') this.context.say(`${missingText(choice, found.kind)}: choose another from the list of runs`);
      this.#missing = missingText(choice, found.kind);
      return;
    }
    this.#missing = '';
    this.#run = found.run;
    if (found.of > 1) {
      this.context.say(`${found.of} runs have the id ${choice.id}: this is the newest, and the list of runs has the others`);
      const { run, window } = this.context.layout();
      if (run !== null && this.context.mayMove()) {
        this.#choice = choiceOf(runs, found.run);
        this.context.show({ ...run, choice: this.#choice }, window);
      }
    }
    this.#adjust();
    if (before?.endNs === null && found.run.endNs !== null) this.context.say(`${found.run.id} has ended after ${lastedText(found.run, this.context.now())}`);
  }

  /** Moves the plots with a run that goes on, or has ended, if their window is the run's. */
  #adjust(): void {
    const { run, window } = this.context.layout();
    if (run === null || this.#run === null || !run.whole || !hasMoved(this.#run, window, this.context.now()) || !this.context.mayMove()) return;
    this.context.show(run, windowOf(this.#run, this.context.now()));
  }

  #show(run: StartedRun): void {
    const choice = choiceOf(joined(this.#all?.runs ?? [], this.#ofId?.runs ?? []), run);
    [this.#choice, this.#run, this.#missing] = [choice, run, ''];
    this.context.show({ choice, relative: this.context.layout().run?.relative ?? false, whole: true }, windowOf(run, this.context.now()));
  }

  #act(action: RunAction): void {
    switch (action) {
      case 'previous':
      case 'next': return void this.step(action);
      case 'relative': return this.toggleRelative();
      case 'marks': return this.toggleMarks();
      case 'whole': return this.#run === null ? undefined : this.#show(this.#run);
      case 'leave': return this.#leave();
    }
  }

  #leave(): void {
    this.context.show(null, follow(this.context.layout().window));
  }

  /** Marks the plots, if anything of it has changed. */
  #mark(): void {
    const zero = this.zero;
    const marks = this.#marks ? runMarks(joined(this.#run === null ? [] : [this.#run], this.#around?.runs ?? []), this.#run) : [];
    const key = [zero?.startNs, ...marks.map(({ at, id, edge, chosen }) => `${at}${id}${edge}${chosen}`)].join();
    if (key === this.#marked) return;
    this.#marked = key;
    this.context.mark(marks, zero);
  }

  #write(): void {
    const [run, now] = [this.#run, this.context.now()];
    this.#bar.show(this.#chip());
    if (!this.#panel.isOpen) return;
    const known = joined(this.#all?.runs ?? [], this.#ofId?.runs ?? [], this.#around?.runs ?? []);
    this.#panel.show({
      runs: this.#all?.runs ?? null, run, remarks: run === null ? [] : remarksOn(run, known, now), note: this.#failure,
      missing: this.#missing === '' || this.#choice === null ? null : { id: this.#choice.id, why: `${this.#missing}: choose another, or leave it. The window stays as it is.` },
      relative: this.zero !== null, marks: this.#marks, now, zone: this.context.zone(),
    });
  }

  #chip(): RunChip | null {
    const [run, choice] = [this.#run, this.#choice];
    if (run !== null) return { mood: run.endNs === null ? 'live' : 'shown', id: run.id, facts: `${run.endNs === null ? 'running ' : ''}${lastedText(run, this.context.now())}` };
    if (choice === null) return null;
    if (this.#missing !== '') return { mood: 'warn', id: choice.id, facts: 'is not known' };
    return { mood: this.#failure === '' ? 'shown' : 'warn', id: choice.id, facts: this.#failure === '' ? '…' : 'cannot be looked up' };
  }
}
