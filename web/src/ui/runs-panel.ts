/**
 * The list of runs: the one that is shown with what can be done about it, a search, and all runs, the newest first.
 *
 * However long the list is, only the rows in view are in the document. The search box keeps the focus while arrow keys choose a
 * row, as in the list of streams.
 */
import { rowsInView, scrollTo } from '../model/rows';
import { isStarted, matches, runFacts, sameRun, stateText, type Run, type StartedRun } from '../model/runs';
import type { Zone } from '../model/time';
import { byId, el, fill, iconButton, setAttribute, setText } from './dom';

/** What the buttons of the run that is shown do. */
export type RunAction = 'previous' | 'next' | 'relative' | 'whole' | 'leave' | 'marks';

/** Receiver of the events. */
export interface RunsListener {
  /** All plots are to show this run. */
  onRun(run: StartedRun): void;
  onAction(action: RunAction): void;
  onClosed(): void;
}

/** What the panel shows. */
export interface RunsShown {
  /** The newest first; null before the server has answered. */
  readonly runs: readonly Run[] | null;
  /** The run that is shown. */
  readonly run: StartedRun | null;
  readonly remarks: readonly string[];
  /** A run that is to be shown and is not known, and what to do. */
  readonly missing: { readonly id: string; readonly why: string } | null;
  /** What is wrong: the list cannot be read. */
  readonly note: string;
  readonly relative: boolean;
  /** Whether runs are marked in plots. */
  readonly marks: boolean;
  readonly now: bigint;
  readonly zone: Zone;
}

const ACTIONS: readonly (readonly [RunAction, string, string])[] = [
  ['previous', 'Earlier', 'The run before (,)'],
  ['next', 'Later', 'The next run (.)'],
  ['whole', 'All of it', 'Show its whole time again'],
  ['relative', 't = 0', 'Count time from its start (0)'],
  ['leave', 'Leave', 'Follow the live edge, with no run'],
];
/** Height of a row that is out of sight. */
const ROW_PX = 48;
/** Rows that a page key moves by. */
const PAGE = 8;
/** On a narrower page the list would cover what it shows. */
const NARROW = '(max-width: 900px)';

/** The panel. */
export class RunsPanel {
  readonly #element = byId('runs', HTMLElement);
  readonly #current = el('section', { class: 'run-current', 'aria-label': 'The run that is shown', hidden: true });
  readonly #title = el('h3');
  readonly #facts = el('p', { class: 'run-facts' });
  readonly #remarks = el('p', { class: 'run-remarks' });
  readonly #buttons = new Map<RunAction, HTMLButtonElement>();
  readonly #count = el('span', { class: 'run-count', role: 'status' });
  readonly #marks = el('button', { type: 'button', class: 'word-button run-button', title: 'Mark the starts and ends of runs in plots (shift r)', text: 'Marks' });
  readonly #search = el('input', {
    type: 'search', class: 'run-search', role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'run-rows', 'aria-label': 'Search runs', placeholder: 'Search by id, label, name', autocomplete: 'off', spellcheck: 'false',
  });
  readonly #note = el('p', { class: 'run-note', role: 'status' });
  readonly #rows = el('div', { id: 'run-rows', class: 'run-rows', role: 'listbox', 'aria-label': 'Runs, the newest first', tabindex: '0' });
  readonly #scroller = el('div', { class: 'run-scroller' }, this.#rows);
  #shown: RunsShown = { runs: null, run: null, remarks: [], missing: null, note: '', relative: false, marks: true, now: 0n, zone: 'local' };
  /** The runs that match. */
  #found: readonly Run[] = [];
  /** The row that keys choose. */
  #at = -1;

  constructor(readonly listener: RunsListener) {
    const buttons = ACTIONS.map(([action, text, title]) => {
      const button = el('button', { type: 'button', class: 'word-button run-button', title, text, on: { click: () => listener.onAction(action) } });
      this.#buttons.set(action, button);
      return button;
    });
    this.#current.append(this.#title, this.#facts, this.#remarks, el('div', { class: 'run-buttons' }, ...buttons));
    this.#element.append(
      el('div', { class: 'panel-header' }, el('h2', { text: 'Runs' }), this.#count, this.#marks, iconButton('close', 'Close (r)', () => this.toggle(false))),
      el('div', { class: 'runs-body' }, this.#current, this.#search, this.#note, this.#scroller));
    this.#marks.addEventListener('click', () => listener.onAction('marks'));
    this.#search.addEventListener('input', () => this.#seek());
    for (const each of [this.#search, this.#rows]) each.addEventListener('keydown', (event) => this.#onKey(event));
    this.#scroller.addEventListener('scroll', () => this.#place());
    this.#rows.addEventListener('click', (event) => {
      const row = event.target instanceof Element ? event.target.closest('.run-row') : null;
      if (row instanceof HTMLElement) this.#take(Number(row.dataset['index']));
    });
  }

  get isOpen(): boolean {
    return !this.#element.hidden;
  }

  /** Opens or closes it; returns whether it is open now. */
  toggle(on = !this.isOpen): boolean {
    if (on === this.isOpen) return on;
    this.#element.hidden = !on;
    if (!on) {
      this.listener.onClosed();
      return false;
    }
    this.show(this.#shown);
    this.#search.focus();
    return true;
  }

  /** Shows the runs as they are now. */
  show(shown: RunsShown): void {
    this.#shown = shown;
    if (!this.isOpen) return;
    const { run, runs, missing, relative, now, zone } = shown;
    this.#current.hidden = run === null && missing === null;
    for (const [action, button] of this.#buttons) button.hidden = run === null && action !== 'leave';
    setAttribute(this.#marks, 'aria-pressed', String(shown.marks));
    if (missing !== null) {
      setText(this.#title, missing.id);
      setText(this.#facts, '');
      setText(this.#remarks, missing.why);
    } else if (run !== null) {
      setText(this.#title, `${run.id}, ${stateText(run)}`);
      setText(this.#facts, runFacts(run, now, zone));
      setText(this.#remarks, shown.remarks.map((words) => `${words.charAt(0).toUpperCase()}${words.slice(1)}.`).join(' '));
    }
    const button = this.#buttons.get('relative');
    if (button !== undefined) setAttribute(button, 'aria-pressed', String(relative));
    const at = this.#found[this.#at];
    this.#found = (runs ?? []).filter((each) => matches(each, this.#search.value));
    // Runs that began meanwhile move the others down.
    if (at !== undefined) this.#at = this.#found.findIndex((each) => sameRun(each, at));
    const all = runs?.length ?? 0;
    setText(this.#count, all === this.#found.length ? `${all}` : `${this.#found.length} of ${all}`);
    setText(this.#note, shown.note !== '' ? shown.note : noteOf(runs, this.#found.length));
    this.#scroller.hidden = this.#found.length === 0;
    this.#place();
  }

  #seek(): void {
    this.#at = -1;
    this.#scroller.scrollTop = 0;
    this.show(this.#shown);
  }

  #rowPx(): number {
    // One is made to be measured: the height of the list must not change with its first scroll.
    if (this.#rows.childElementCount === 0) this.#rows.append(newRow());
    const row = this.#rows.firstElementChild;
    return row instanceof HTMLElement && row.offsetHeight > 0 ? row.offsetHeight : ROW_PX;
  }

  /** Puts the rows in view into the document, in elements that stay. */
  #place(): void {
    const rowPx = this.#rowPx();
    const { first, end } = rowsInView(this.#scroller.scrollTop, this.#scroller.clientHeight, rowPx, this.#found.length);
    this.#rows.style.blockSize = `${this.#found.length * rowPx}px`;
    fill(this.#rows, end - first, newRow);
    for (let index = first; index < end; index += 1) {
      const [row, run] = [this.#rows.children[index - first], this.#found[index]];
      if (row instanceof HTMLElement && run !== undefined) this.#write(row, run, index, rowPx);
    }
    const at = this.#at >= first && this.#at < end ? `run-${this.#at}` : null;
    for (const each of [this.#search, this.#rows]) setAttribute(each, 'aria-activedescendant', at);
  }

  #write(row: HTMLElement, run: Run, index: number, rowPx: number): void {
    const { run: chosen, now, zone } = this.#shown;
    const [id, state, facts] = row.children;
    row.id = `run-${index}`;
    row.dataset['index'] = String(index);
    row.style.transform = `translateY(${index * rowPx}px)`;
    setAttribute(row, 'data-state', run.state);
    setAttribute(row, 'data-chosen', chosen !== null && sameRun(run, chosen) ? '' : null);
    setAttribute(row, 'aria-selected', String(index === this.#at));
    setAttribute(row, 'aria-disabled', isStarted(run) ? null : 'true');
    setAttribute(row, 'aria-posinset', String(index + 1));
    setAttribute(row, 'aria-setsize', String(this.#found.length));
    if (id !== undefined) setText(id, run.id);
    if (state !== undefined) setText(state, stateText(run));
    const words = runFacts(run, now, zone);
    if (facts !== undefined) setText(facts, words);
    setAttribute(row, 'title', words);
  }

  #onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE, PageUp: -PAGE }[event.key];
    if (by !== undefined) this.#move(by);
    else if (event.key === 'Enter') this.#take(Math.max(0, this.#at));
    else if (event.key === 'Escape' && this.#search.value !== '') {
      this.#search.value = '';
      this.#seek();
    } else if (event.key === 'Escape') this.toggle(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #move(by: number): void {
    this.#at = Math.max(0, Math.min(this.#found.length - 1, this.#at + by));
    this.#scroller.scrollTop = scrollTo(this.#at, this.#scroller.scrollTop, this.#scroller.clientHeight, this.#rowPx());
    this.#place();
  }

  #take(index: number): void {
    const run = this.#found[index];
    if (run === undefined) return;
    this.#at = index;
    if (!isStarted(run)) return setText(this.#note, `Only the stop of ${run.id} is known: its time cannot be shown`);
    this.listener.onRun(run);
    if (matchMedia(NARROW).matches) this.toggle(false);
  }
}

function noteOf(runs: readonly Run[] | null, found: number): string {
  if (runs === null) return 'Asking the server …';
  if (runs.length === 0) return 'No run is known yet. It begins with tallycast run start ID, and is marked in the plots then.';
  return found === 0 ? 'No run matches' : '';
}

function newRow(): HTMLElement {
  return el('div', { class: 'run-row', role: 'option' }, el('b', { class: 'run-id' }), el('span', { class: 'run-state' }), el('span', { class: 'run-facts' }));
}
