/**
 * A table of newest values in the grid: a row per channel, sorted by its heads, walked and copied by keyboard.
 *
 * A cell is written when its text has changed, and nothing else. What the cells say is in `model/table.ts`.
 */
import type { Alarm } from '../model/alarms';
import type { Plot } from '../model/layout';
import { COLUMNS, cellsOf, nextSorting, sortedPlaces, tableText, type At, type Cells, type Column, type Facts, type Sorting } from '../model/table';
import { clock, full } from '../model/time';
import { titlesOf } from '../model/titles';
import type { Cursors } from '../model/stretch';
import type { Stream } from '../wire/messages';
import type { ValueRow, ValuesFrame, ValuesRequest } from '../wire/values';
import { el, iconButton, setAttribute, setText } from './dom';
import type { PlotListener, Shared } from './panel';
import { TextPanel } from './text-panel';

/** Services that the table needs from the page. */
export interface TableContext {
  catalogue(): ReadonlyMap<string, Stream>;
  /** Alarms by the channel that they watch, `stream:channel`. */
  alarmsOf(input: string): readonly Alarm[];
  /** The server's time. */
  now(): bigint;
  cursors(): Cursors | null;
  say(text: string): void;
}

/** Rows are put in order again at most this often: nothing jumps while it is read. */
const ORDER_MS = 1_000;

/** A row of the table. */
class Row {
  readonly element = el('tr', { tabindex: '-1' });
  readonly #cells = new Map<Column, HTMLElement>();
  #written: Cells | null = null;

  constructor(name: string) {
    for (const column of COLUMNS) {
      const cell = el(column === 'channel' ? 'th' : 'td', { class: `table-${column}`, ...(column === 'channel' ? { scope: 'row', title: name } : {}) });
      this.#cells.set(column, cell);
      this.element.append(cell);
    }
  }

  /** Writes the cells that have changed. */
  write(cells: Cells): void {
    const before = this.#written;
    this.#written = cells;
    for (const [column, cell] of this.#cells) if (cells.text[column] !== before?.text[column]) cell.textContent = cells.text[column];
    if (cells.mood !== before?.mood) setAttribute(this.element, 'data-state', cells.mood === '' ? null : cells.mood);
  }
}

/** A table in the grid. */
export class TablePanel extends TextPanel {
  readonly #body = el('tbody');
  readonly #heads = new Map<Column, HTMLElement>();
  #rows: readonly Row[] = [];
  #labels: readonly string[] = [];
  /** Of the frames so far, by the place of the trace. */
  #values = new Map<number, ValueRow>();
  /** End that the values are of; undefined before a frame. */
  #end: bigint | null | undefined;
  #sorting: Sorting | null = null;
  #orderedMs = -Infinity;

  constructor(view: number, plot: Plot, listener: PlotListener, shared: () => Shared, readonly context: TableContext) {
    super(view, plot, listener, shared);
    this.tools.prepend(iconButton('copy', 'Copy the table as text (ctrl c)', () => void this.#copy()));
    const heads = COLUMNS.map((column) => {
      const head = el('th', { scope: 'col', class: `table-${column}` }, el('button', { type: 'button', text: column, title: `Sort by ${column}`, on: { click: () => this.#sort(column) } }));
      this.#heads.set(column, head);
      return head;
    });
    this.body.append(el('table', { class: 'value-table' }, el('thead', {}, el('tr', {}, ...heads)), this.#body));
    this.body.addEventListener('keydown', (event) => this.#onKey(event));
    this.element.addEventListener('copy', (event) => this.#onCopy(event));
    this.#rebuild();
  }

  /** Returns what to ask for: the newest values, or those at the end of the held window or at cursor A. */
  request(): ValuesRequest {
    return { view: this.view, traces: this.plot.traces, endNs: this.#heldAt() };
  }

  override setPlot(plot: Plot, units: readonly string[]): void {
    const same = plot.traces === this.plot.traces;
    super.setPlot(plot, units);
    if (!same) this.#rebuild();
  }

  /** Takes rows that have changed; written at the next {@link render}. */
  setValues(frame: ValuesFrame): void {
    if (frame.whole) this.#values = new Map();
    for (const row of frame.rows) this.#values.set(row.index, row);
    this.#end = frame.live ? null : this.#heldAt();
    this.dirty = true;
  }

  override render(nowMs: number): boolean {
    if (!this.dirty) return false;
    this.dirty = false;
    const [at, facts] = [this.#at(), this.#facts()];
    facts.forEach((each, place) => this.#rows[place]?.write(cellsOf(each, at)));
    if (nowMs - this.#orderedMs >= ORDER_MS) this.#order(facts, at, nowMs);
    const { window, zone } = this.shared();
    const held = this.#heldAt();
    const where = this.context.cursors() !== null && window.endNs !== null ? 'cursor A' : 'the end of the window';
    setText(this.note, held === null ? 'newest values' : `held: values at ${where}, ${clock(held, zone, 3)}`);
    setAttribute(this.note, 'title', held === null ? null : full(held, zone));
    setAttribute(this.element, 'data-held', held === null ? null : '');
    return true;
  }

  #heldAt(): bigint | null {
    const { window } = this.shared();
    return window.endNs === null ? null : this.context.cursors()?.a ?? window.endNs;
  }

  #at(): At {
    return { now: this.context.now(), end: this.#end === undefined ? this.#heldAt() : this.#end, zone: this.shared().zone };
  }

  #facts(): readonly Facts[] {
    const [catalogue, { limits }] = [this.context.catalogue(), this.shared()];
    return this.plot.traces.map((trace, place) => {
      const stream = catalogue.get(trace.stream);
      const whole = stream?.channels.find(({ name }) => name === trace.channel);
      const channel = whole ?? stream?.channels.find(({ name }) => trace.channel.startsWith(`${name}[`));
      const input = `${trace.stream}:${trace.channel}`;
      return {
        trace, stream, label: this.#labels[place] ?? trace.channel, row: this.#values.get(place) ?? null, unit: channel?.unit ?? '',
        shape: whole?.shape ?? [], limits: limits.get(input) ?? [], alarms: this.context.alarmsOf(input),
      };
    });
  }

  #rebuild(): void {
    const { traces } = this.plot;
    const { path, name, labels } = titlesOf(traces);
    this.title.replaceChildren(el('span', { class: 'plot-path', text: path }), name);
    this.title.title = [...new Set(traces.map(({ stream }) => stream))].join('\n');
    this.element.setAttribute('aria-label', `Table of ${path}${name}`);
    this.#labels = labels;
    this.#values = new Map();
    this.#rows = traces.map(({ stream, channel }) => new Row(`${stream}:${channel}`));
    this.#body.replaceChildren(...this.#rows.map(({ element }) => element));
    setAttribute(this.#rows[0]?.element ?? this.#body, 'tabindex', '0');
    this.#orderedMs = -Infinity;
    this.dirty = true;
  }

  #sort(by: Column): void {
    this.#sorting = nextSorting(this.#sorting, by);
    for (const [column, head] of this.#heads) {
      const sorted = this.#sorting?.by === column;
      setAttribute(head, 'aria-sort', sorted ? (this.#sorting?.descending === true ? 'descending' : 'ascending') : null);
    }
    this.#order(this.#facts(), this.#at(), performance.now());
  }

  /** Puts the rows in order, unless one of them has the focus: nothing moves under the keys. */
  #order(facts: readonly Facts[], at: At, nowMs: number): void {
    this.#orderedMs = nowMs;
    const elements = sortedPlaces(facts, this.#sorting, at).map((place) => this.#rows[place]?.element).filter((element) => element !== undefined);
    const moved = elements.some((element, place) => this.#body.children[place] !== element);
    if (moved && !this.#body.contains(document.activeElement)) this.#body.append(...elements);
  }

  #onKey(event: KeyboardEvent): void {
    const rows = [...this.#body.children].filter((each) => each instanceof HTMLElement);
    const at = rows.findIndex((row) => row === event.target);
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1, PageDown: at + 10, PageUp: at - 10 }[event.key];
    const isRemoval = event.key === 'Delete' || event.key === 'Backspace';
    if (to === undefined && !isRemoval) return;
    event.preventDefault();
    event.stopPropagation();
    const row = rows[Math.max(0, Math.min(rows.length - 1, to ?? at))];
    if (isRemoval) return this.#remove(rows[at]);
    rows[at]?.setAttribute('tabindex', '-1');
    row?.setAttribute('tabindex', '0');
    row?.focus();
  }

  /** Takes a channel out of the table; the last one stays. */
  #remove(element: Element | undefined): void {
    const place = this.#rows.findIndex((row) => row.element === element);
    if (this.#rows.length < 2 || place < 0) return this.context.say('A table has at least one channel: x closes it');
    this.listener.onRemoveTrace(place);
    this.#rows[Math.min(place, this.#rows.length - 1)]?.element.focus();
  }

  /** The table as text, in the order of its rows. */
  #text(): string {
    const [facts, at] = [this.#facts(), this.#at()];
    const place = (element: Element): number => this.#rows.findIndex((row) => row.element === element);
    return tableText([...this.#body.children].map((element) => facts[place(element)]).filter((each) => each !== undefined), at);
  }

  /** Without a selection, copying takes the whole table. */
  #onCopy(event: ClipboardEvent): void {
    if (document.getSelection()?.isCollapsed === false || event.clipboardData === null) return;
    event.clipboardData.setData('text/plain', this.#text());
    event.preventDefault();
    this.context.say('Table copied as text');
  }

  async #copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(this.#text());
      this.context.say('Table copied as text');
    } catch {
      this.context.say('The browser does not allow copying here: focus a row and press ctrl c');
    }
  }
}
