/**
 * The list of streams at the left: search, tree, sparklines, loss marks; keyboard, mouse and touch.
 *
 * The search box keeps the focus while the arrow keys move through the rows (the combobox pattern), so that
 * "type, arrow, Enter" needs no other key. The tree takes the focus of the Tab key, too, and has the same keys then.
 */
import { traceColours } from '../model/colour';
import { samples } from '../model/gaps';
import { levelText } from '../model/level';
import { duration, short } from '../model/quantity';
import { channelsToPlot, step, treeRows, type Row } from '../model/tree';
import { unauthenticLine } from '../model/unauthentic';
import type { SparkBucket, Stream, TraceRequest } from '../wire/messages';
import { byId, el, icon, setAttribute, setText } from './dom';
import { Sparklines, type Spark } from './sparklines';
import type { Palette } from './theme';

/** Receiver of the events. */
export interface StreamListListener {
  /** Plots these traces in a new plot, or overlays them on the active plot. */
  onPlot(traces: readonly TraceRequest[], how: 'new' | 'overlay'): void;
  onSelect(stream: string): void;
  /** A short remark for the user. */
  onRemark(text: string): void;
  /** Traces are dragged over the page, or were let go there. */
  onDrag(traces: readonly TraceRequest[], at: { readonly x: number; readonly y: number }, phase: 'move' | 'drop' | 'cancel'): void;
}

/** A pointer that moved further than this drags. */
const DRAG_PX = 6;

interface RowParts {
  readonly element: HTMLElement;
  readonly name: Text;
  readonly meta: HTMLElement;
  readonly mark: HTMLElement;
}

/** The list. */
export class StreamList {
  readonly #search = byId('search', HTMLInputElement);
  readonly #rowsElement = byId('rows', HTMLDivElement);
  readonly #empty = byId('list-empty', HTMLParagraphElement);
  readonly #sparklines: Sparklines;
  readonly #parts = new Map<string, RowParts>();
  readonly #sparks = new Map<string, readonly SparkBucket[]>();
  readonly #folded = new Set<string>();
  readonly #opened = new Set<string>();
  #streams: readonly Stream[] = [];
  #rows: readonly Row[] = [];
  #selected: string | null = null;
  #plotted: ReadonlySet<string> = new Set();

  constructor(
    readonly listener: StreamListListener,
    readonly palette: () => Palette,
  ) {
    this.#sparklines = new Sparklines(byId('row-scroller', HTMLDivElement), byId('sparks', HTMLCanvasElement));
    this.#search.addEventListener('input', () => this.#refresh());
    this.#search.addEventListener('keydown', (event) => this.#onKey(event));
    this.#listenTree();
  }

  /** Shows the catalogue as it is now. */
  show(streams: readonly Stream[]): void {
    this.#streams = streams;
    for (const stream of streams) if (stream.spark !== null) this.#sparks.set(stream.name, stream.spark);
    if (this.#sparks.size > streams.length) this.#forget();
    this.#refresh();
  }

  /** Marks the streams that a plot shows. */
  setPlotted(names: ReadonlySet<string>): void {
    this.#plotted = names;
    this.#refresh();
  }

  /** Marks a stream as selected without saying so to the listener. */
  select(stream: string): void {
    this.#selected = `stream ${stream}`;
    this.#refresh();
  }

  /** Puts the cursor into the search box. */
  focus(): void {
    this.#search.focus();
    this.#search.select();
  }

  /** Draws again in the colours that hold now. */
  repaint(): void {
    this.#paintSparks();
  }

  /** Streams that left the bus leave nothing behind. */
  #forget(): void {
    const names = new Set(this.#streams.map((stream) => stream.name));
    for (const name of this.#sparks.keys()) if (!names.has(name)) this.#sparks.delete(name);
  }

  #refresh(): void {
    const filter = this.#search.value.trim();
    const rows = treeRows(this.#streams, { filter, folded: this.#folded, opened: this.#opened });
    const same = rows.length === this.#rows.length && rows.every((row, i) => row.key === this.#rows[i]?.key);
    this.#rows = rows;
    if (!same) this.#rebuild();
    for (const row of rows) this.#update(row);
    const selected = rows.findIndex((row) => row.key === this.#selected);
    for (const element of [this.#search, this.#rowsElement]) setAttribute(element, 'aria-activedescendant', selected < 0 ? null : `row-${selected}`);
    setText(byId('list-count', HTMLSpanElement), filter === '' ? '' : `${rows.filter((row) => row.kind === 'stream').length} of ${this.#streams.length}`);
    this.#empty.hidden = rows.length > 0;
    setText(this.#empty, this.#streams.length === 0 ? 'No live streams.' : 'No stream matches.');
    this.#paintSparks();
  }

  #rebuild(): void {
    const keys = new Set(this.#rows.map((row) => row.key));
    for (const key of this.#parts.keys()) if (!keys.has(key)) this.#parts.delete(key);
    const elements = this.#rows.map((row, i) => {
      const parts = this.#parts.get(row.key) ?? this.#make(row);
      this.#parts.set(row.key, parts);
      parts.element.id = `row-${i}`;
      return parts.element;
    });
    this.#rowsElement.replaceChildren(...elements);
  }

  #make(row: Row): RowParts {
    const name = document.createTextNode('');
    const lock = icon('lock');
    lock.classList.add('row-lock');
    const label = el('span', { class: 'row-label' }, lock, name);
    const meta = el('span', { class: 'row-meta' });
    const mark = el('span', { class: 'row-mark' });
    const element = el('div', { class: `row row-${row.kind}`, role: 'treeitem', 'data-key': row.key });
    element.append(el('span', { class: 'row-fold', 'aria-hidden': 'true' }), label, mark, meta);
    if (row.kind !== 'group') {
      element.append(
        this.#rowButton(row.key, 'plus', 'Plot (Enter)', 'new'),
        this.#rowButton(row.key, 'ladder', 'Overlay on the active plot (Shift Enter)', 'overlay'),
      );
    }
    this.#listenRow(element, row.key);
    return { element, name, meta, mark };
  }

  #rowButton(key: string, name: 'plus' | 'ladder', words: string, how: 'new' | 'overlay'): HTMLElement {
    const act = (event: Event): void => {
      event.stopPropagation();
      this.#plot(key, how);
    };
    const button = el('button', { type: 'button', class: 'row-button', tabindex: '-1', title: words, 'aria-label': words, on: { click: act } });
    button.append(how === 'new' ? icon(name) : el('span', { class: 'overlay-glyph', text: '≋' }));
    return button;
  }

  #update(row: Row): void {
    const parts = this.#parts.get(row.key);
    if (parts === undefined) return;
    const { element } = parts;
    if (parts.name.data !== row.label) parts.name.data = row.label;
    setAttribute(element, 'aria-level', String(row.depth + 1));
    setAttribute(element, 'aria-selected', String(row.key === this.#selected));
    if (row.kind === 'group') {
      setAttribute(element, 'aria-expanded', String(!this.#folded.has(row.label)));
      setText(parts.meta, this.#folded.has(row.label) ? String(row.streams) : '');
    } else if (row.kind === 'channel') {
      setText(parts.meta, row.unit);
    } else {
      this.#updateStream(row.stream, row.open, parts);
    }
  }

  #updateStream(stream: Stream, open: boolean, { element, meta, mark }: RowParts): void {
    const unit = stream.channels[0]?.unit ?? '';
    const parts = [short(stream.samplesPerSecond || stream.nominalRate, 'Hz'), unit, shapeText(stream), ageText(stream)];
    setText(meta, parts.filter((part) => part !== '').join(' · '));
    setText(mark, markText(stream));
    setAttribute(element, 'data-health', stream.health);
    setAttribute(element, 'data-level', stream.level);
    setAttribute(element, 'data-forged', stream.unauthenticDatagrams > 0 ? '' : null);
    setAttribute(element, 'data-plotted', this.#plotted.has(stream.name) ? '' : null);
    setAttribute(element, 'aria-expanded', stream.channels.length > 1 ? String(open) : null);
  }

  #paintSparks(): void {
    const { traces, lossMark } = this.palette();
    const sparks = this.#rows.map((row): Spark | null => {
      if (row.kind !== 'stream') return null;
      const parts = this.#parts.get(row.key);
      const buckets = this.#sparks.get(row.stream.name);
      if (parts === undefined || buckets === undefined) return null;
      const [colour] = traceColours([{ stream: row.stream.name, channel: '' }]);
      const alive = row.stream.health === 'ok' || row.stream.health === 'losing';
      const { offsetTop, offsetHeight } = parts.element;
      return { top: offsetTop + 9, height: offsetHeight - 18, buckets, colour: traces[colour ?? 0] ?? '', opacity: alive ? 0.9 : 0.35 };
    });
    this.#sparklines.show(sparks.filter((spark) => spark !== null), lossMark);
  }

  /** A click on a row leaves the keys with the plots: only the Tab key brings the focus to the tree. */
  #listenTree(): void {
    let clicked = false;
    this.#rowsElement.addEventListener('mousedown', () => {
      clicked = true;
      this.#rowsElement.blur();
    });
    addEventListener('mouseup', () => { clicked = false; });
    this.#rowsElement.addEventListener('focus', () => { if (clicked) this.#rowsElement.blur(); });
    this.#rowsElement.addEventListener('keydown', (event) => { if (event.key !== 'Escape') this.#onKey(event, true); });
  }

  #onKey(event: KeyboardEvent, inTree = false): void {
    const act = this.#keyAction(event, inTree || this.#search.value === '');
    if (act === null) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  /** The action of a key; `sideways` if arrows to the sides do not move in the words that are searched. */
  #keyAction(event: KeyboardEvent, sideways: boolean): (() => void) | null {
    switch (event.key) {
      case 'ArrowDown': return () => this.#move(1);
      case 'ArrowUp': return () => this.#move(-1);
      case 'PageDown': return () => this.#move(10);
      case 'PageUp': return () => this.#move(-10);
      case 'ArrowRight': return sideways ? () => this.#open(true) : null;
      case 'ArrowLeft': return sideways ? () => this.#open(false) : null;
      case 'Enter': return () => this.#plot(this.#enterKey(), event.shiftKey ? 'overlay' : 'new');
      case 'Escape': return () => this.#leave();
      default: return null;
    }
  }

  /** Enter without a choice takes the first stream that matches what was typed. */
  #enterKey(): string | null {
    const visible = this.#rows.some((row) => row.key === this.#selected && row.kind !== 'group');
    return visible ? this.#selected : this.#rows.find((row) => row.kind === 'stream')?.key ?? null;
  }

  #leave(): void {
    if (this.#search.value === '') this.#search.blur();
    this.#search.value = '';
    this.#refresh();
  }

  #move(by: number): void {
    this.#choose(step(this.#rows, this.#selected, by));
  }

  #choose(key: string | null): void {
    this.#selected = key;
    const row = this.#rows.find((each) => each.key === key);
    this.#refresh();
    if (key !== null) this.#parts.get(key)?.element.scrollIntoView({ block: 'nearest' });
    if (row !== undefined && row.kind !== 'group') this.listener.onSelect(row.stream.name);
  }

  #open(open: boolean): void {
    const row = this.#rows.find((each) => each.key === this.#selected);
    if (row === undefined) return;
    if (row.kind === 'group') this.#toggle(this.#folded, row.label, !open);
    else this.#toggle(this.#opened, row.stream.name, open);
  }

  #toggle(set: Set<string>, name: string, on: boolean): void {
    if (on) set.add(name);
    else set.delete(name);
    this.#refresh();
  }

  #plot(key: string | null, how: 'new' | 'overlay'): void {
    const traces = this.#tracesOf(key);
    if (traces.length === 0) return;
    this.listener.onPlot(traces, how);
    const row = this.#rows.find((each) => each.key === key);
    const channels = row?.kind === 'stream' ? row.stream.channels.length : traces.length;
    if (channels > traces.length) this.listener.onRemark(`${traces.length} of ${channels} channels plotted: open the stream in the list (→) for the others`);
  }

  #tracesOf(key: string | null): readonly TraceRequest[] {
    const row = this.#rows.find((each) => each.key === key);
    if (row === undefined || row.kind === 'group') return [];
    const stream = row.stream.name;
    if (row.kind === 'channel') return [{ stream, channel: row.label }];
    return channelsToPlot(row.stream).map((channel) => ({ stream, channel }));
  }

  #listenRow(element: HTMLElement, key: string): void {
    element.addEventListener('click', (event) => {
      const row = this.#rows.find((each) => each.key === key);
      if (row?.kind === 'group') this.#toggle(this.#folded, row.label, !this.#folded.has(row.label));
      else if (event.target instanceof Element && event.target.classList.contains('row-fold') && row !== undefined) {
        this.#toggle(this.#opened, row.stream.name, !this.#opened.has(row.stream.name));
      } else this.#choose(key);
    });
    element.addEventListener('dblclick', () => this.#plot(key, 'new'));
    // Written when it is wanted: its ages and counts change with every message, in a thousand rows.
    element.addEventListener('pointerenter', () => {
      const row = this.#rows.find((each) => each.key === key);
      if (row?.kind === 'stream') setAttribute(element, 'title', hoverText(row.stream));
    });
    // A finger on the list scrolls it; the row's buttons plot and overlay there.
    element.addEventListener('pointerdown', (event) => {
      if (event.button === 0 && event.pointerType !== 'touch') this.#watchDrag(element, key, event);
    });
  }

  #watchDrag(element: HTMLElement, key: string, start: PointerEvent): void {
    const traces = this.#tracesOf(key);
    if (traces.length === 0) return;
    let dragging = false;
    const stop = new AbortController();
    const { signal } = stop;
    const end = (phase: 'drop' | 'cancel') => (event: PointerEvent) => {
      stop.abort();
      if (dragging) this.listener.onDrag(traces, { x: event.clientX, y: event.clientY }, phase);
    };
    window.addEventListener('pointermove', (event) => {
      dragging ||= Math.hypot(event.clientX - start.clientX, event.clientY - start.clientY) > DRAG_PX;
      if (!dragging) return;
      if (!element.hasPointerCapture(event.pointerId)) element.setPointerCapture(event.pointerId);
      this.listener.onDrag(traces, { x: event.clientX, y: event.clientY }, 'move');
    }, { signal });
    window.addEventListener('pointerup', end('drop'), { signal });
    window.addEventListener('pointercancel', end('cancel'), { signal });
  }
}

/** The shape of a stream's samples, if they are not single values. */
function shapeText({ channels: [first] }: Stream): string {
  return first === undefined || first.elements <= 1 ? '' : first.shape.join(' × ');
}

/** An age is worth reading only when it is out of the ordinary; a silent stream's is in its mark. */
function ageText(stream: Stream): string {
  if (stream.health === 'ended' || stream.health === 'stale') return '';
  const usual = stream.nominalRate > 0 ? 3e9 / stream.nominalRate : 1e9;
  return stream.ageNs > Math.max(1e9, usual) ? `${duration(stream.ageNs)} old` : '';
}

function markText(stream: Stream): string {
  const alarm = stream.unauthenticDatagrams > 0 ? `⚠ ${short(stream.unauthenticDatagrams)} unauthentic` : '';
  return [healthText(stream), alarm].filter((part) => part !== '').join(' · ');
}

function healthText(stream: Stream): string {
  const lost = Math.ceil(stream.lostLastHour / stream.elementsPerSample);
  if (stream.health === 'stale') return `◌ silent ${duration(Math.round(stream.ageNs / 1e9) * 1e9)}`;
  if (stream.health === 'ended') return '■ ended';
  return lost > 0 ? `${stream.health === 'losing' ? '▲' : '△'} ${short(lost)} lost` : '';
}

function hoverText(stream: Stream): string {
  const lost = samples(Math.ceil(stream.lostElements / stream.elementsPerSample));
  const channels = stream.channels.map((channel) => `${channel.name} ${channel.unit}`.trim()).join(', ');
  return `${stream.name}\n${channels}\n${stream.dtype}, from ${stream.station || 'an unnamed station'}\n${stream.level === '' ? '' : `${levelText(stream.level)}\n`}newest ${duration(stream.ageNs)} ago · ${lost} lost since joining${forgedText(stream)}`;
}

function forgedText({ unauthenticDatagrams }: Stream): string {
  return unauthenticDatagrams === 0 ? '' : `\n${unauthenticLine(new Map([['', unauthenticDatagrams]]))}`;
}
