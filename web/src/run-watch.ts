/**
 * Runs on this page: asks the server for them, moves the plots to the one that is chosen, and follows it while it goes on.
 *
 * The archive is read for each answer, so nothing is asked while the list is closed and no run is followed.
 */
import { ask, Refused } from './api';
import { hasWindow, readRunLink, writeRunLink } from './model/run-link';
import { runMarks, type RunMark } from './model/run-marks';
import { choiceOf, findRun, lastedText, missingText, neighbourRun, readRuns, remarksOn, sameRun, windowOf, isStarted, type Choice, type Run, type StartedRun } from './model/runs';
import type { Zone } from './model/time';
import type { TimeWindow } from './model/window';
import { RunBar, type RunChip } from './ui/run-bar';
import { RunsPanel, type RunAction } from './ui/runs-panel';

/** Services that runs need from the page. */
export interface RunContext {
  /** The server's time. */
  now(): bigint;
  zone(): Zone;
  /** All plots are to show this window. */
  look(window: TimeWindow): void;
  follow(): void;
  /** Marks for every plot, and the start that time is counted from. */
  mark(marks: readonly RunMark[], zero: bigint | null): void;
  /** The address changes. */
  onAddress(): void;
  say(text: string): void;
}

/** The server is asked this often while it matters. */
const PERIOD_MS = 5_000;

/** The runs. */
export class RunWatch {
  readonly #bar: RunBar;
  readonly #panel: RunsPanel;
  #runs: readonly Run[] | null = null;
  #choice: Choice | null = null;
  #run: StartedRun | null = null;
  /** The window that shows the run; null once the user has chosen another. */
  #own: TimeWindow | 'awaited' | null = null;
  #relative = false;
  #missing = '';
  #failure = '';
  #askedMs = -Infinity;

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

  /** Does what an address says of runs. */
  load(query: string): void {
    const { choice, relative } = readRunLink(query);
    [this.#choice, this.#relative, this.#run, this.#missing] = [choice, relative, null, ''];
    this.#own = choice === null || hasWindow(query) ? null : 'awaited';
    this.#write();
    if (choice !== null) void this.#ask();
  }

  /** The query of the address with the run in it. */
  query(layout: string): string {
    return writeRunLink(layout, { choice: this.#choice, relative: this.#relative }, this.#own !== null);
  }

  /** The plots show this window now. */
  onWindow({ spanNs, endNs }: TimeWindow): void {
    const own = this.#own;
    if (own !== null && own !== 'awaited' && (own.spanNs !== spanNs || own.endNs !== endNs)) this.#own = null;
  }

  /** Asks again for a run that could not be looked up: the visitor may have signed in. */
  onConnection(): void {
    if (this.#choice !== null && this.#run === null) void this.#ask();
  }

  /** Looks at time passing: a run that goes on grows, and its stop becomes known. */
  look(nowMs: number): void {
    const run = this.#run;
    if ((this.#panel.isOpen || run?.endNs === null) && nowMs - this.#askedMs >= PERIOD_MS) void this.#ask();
    if (run !== null && run.endNs === null && this.#own !== null && this.#own !== 'awaited' && windowOf(run, this.context.now()).spanNs !== this.#own.spanNs) this.#look(run);
    if (this.#choice !== null || this.#panel.isOpen) this.#write();
  }

  /** Opens or closes the list. */
  toggle(): void {
    const open = this.#panel.toggle();
    this.#bar.expand(open);
    if (open) void this.#ask();
  }

  /** Closes the list; returns false if it was not open. */
  close(): boolean {
    const was = this.#panel.isOpen;
    this.#panel.toggle(false);
    return was;
  }

  /** Shows the run that began after or before the one that is shown; first the newest. */
  async step(direction: 'next' | 'previous'): Promise<void> {
    if (this.#runs === null) await this.#ask();
    if (this.#runs === null) return this.context.say(this.#failure);
    const run = neighbourRun(this.#runs, this.#run, direction);
    if (run !== null) return this.#show(run);
    return this.context.say(this.#run === null ? 'No run is known to this monitor yet' : direction === 'next' ? 'No later run' : 'No earlier run');
  }

  /** Counts time from the start of the run, or shows times of day again. */
  toggleRelative(): void {
    if (this.#run === null) return this.context.say('Choose a run first: time is counted from its start');
    this.#relative = !this.#relative;
    this.#mark();
    this.#write();
    this.context.onAddress();
  }

  async #ask(): Promise<void> {
    this.#askedMs = performance.now();
    try {
      this.#runs = readRuns(await ask('/api/runs'));
      this.#failure = '';
    } catch (error) {
      this.#failure = error instanceof Refused ? error.text : 'The server did not answer: the list is not known now';
    }
    this.#resolve();
    this.#write();
  }

  /** Finds the chosen run among those that are known now. */
  #resolve(): void {
    const choice = this.#choice;
    const runs = this.#runs;
    if (runs === null || choice === null) return this.#mark();
    const before = this.#run;
    // The run that is shown stays the same one when its id is used again.
    const found = before === null ? findRun(runs, choice) : { kind: 'run', run: runs.filter(isStarted).find((run) => sameRun(run, before)) ?? before, of: 1 } as const;
    if (found.kind !== 'run') {
      if (this.#missing === '') this.context.say(`${missingText(choice, found.kind)}: the list of runs has those that are`);
      this.#missing = missingText(choice, found.kind);
      return this.#mark();
    }
    this.#missing = '';
    this.#run = found.run;
    if (found.of > 1) {
      this.#choice = choiceOf(runs, found.run);
      this.context.say(`${found.of} runs have the id ${choice.id}: this is the newest, and the list of runs has the others`);
    }
    this.#mark();
    if (this.#own === 'awaited') return this.#look(found.run);
    if (before?.endNs === null && found.run.endNs !== null) {
      if (this.#own !== null) this.#look(found.run);
      this.context.say(`${found.run.id} has ended after ${lastedText(found.run, this.context.now())}`);
    }
  }

  #show(run: StartedRun): void {
    this.#choice = choiceOf(this.#runs ?? [], run);
    this.#run = run;
    this.#missing = '';
    this.#mark();
    this.#look(run);
    this.#write();
    this.context.onAddress();
  }

  #look(run: StartedRun): void {
    this.#own = windowOf(run, this.context.now());
    this.context.look(this.#own);
  }

  #act(action: RunAction): void {
    switch (action) {
      case 'previous':
      case 'next': return void this.step(action);
      case 'relative': return this.toggleRelative();
      case 'whole': return this.#run === null ? undefined : this.#look(this.#run);
      case 'leave': return this.#leave();
    }
  }

  #leave(): void {
    [this.#choice, this.#run, this.#own, this.#relative, this.#missing] = [null, null, null, false, ''];
    this.#mark();
    this.#write();
    this.context.follow();
    this.context.onAddress();
  }

  #mark(): void {
    this.context.mark(runMarks(this.#runs ?? [], this.#run), this.#relative ? this.#run?.startNs ?? null : null);
  }

  #write(): void {
    const [run, now] = [this.#run, this.context.now()];
    this.#bar.show(this.#chip());
    this.#panel.show({
      runs: this.#runs, run, remarks: run === null ? [] : remarksOn(run, this.#runs ?? [], now), note: this.#failure !== '' ? this.#failure : this.#missing,
      relative: this.#relative, now, zone: this.context.zone(),
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
