/**
 * The read-out of the two cursors, below the plots: their times, the time between them, and for each trace what it does
 * there.
 *
 * Both times are sliders: arrow keys move a cursor by a pixel, with shift by ten, page keys by a tenth of the window.
 */
import { decimalsFor, inUnit, type Display } from '../model/quantity';
import { frequencyText, holesText, intervalText, sourceText, type CursorName, type Cursors, type Stretch } from '../model/stretch';
import { clock, full, pixelDigits, type Zone } from '../model/time';
import type { Extremes } from '../model/trace';
import type { Shown } from '../paint/area';
import { byId, el, icon, iconButton, setAttribute, setText } from './dom';

/** Receiver of the events. */
export interface MeasureListener {
  /** A key moves a cursor by a share of the window's width, or to one of its edges. */
  onMove(name: CursorName, to: { readonly by: number } | { readonly edge: 0 | 1 }): void;
  /** The stretch is to be brought into view. */
  onShow(): void;
  onClose(): void;
  onRemark(text: string): void;
}

/** One trace of the read-out. */
export interface Measured {
  readonly path: string;
  readonly label: string;
  readonly colour: string;
  readonly display: Display;
  /** Height of the trace's axis, which decides the digits. */
  readonly axisSpan: number;
  /** Null if the frame at hand does not show the whole stretch. */
  readonly stretch: Stretch | null;
}

/** Everything shown at one moment. */
export interface Measurement {
  readonly cursors: Cursors;
  readonly shown: Shown;
  readonly widthPx: number;
  readonly zone: Zone;
  readonly traces: readonly Measured[];
}

/** More traces are counted, and not listed. */
const MOST_ROWS = 100;
/** Resolution of values: a thousandth of the axis. */
const STEPS = 1000;
const COLUMNS = ['A', 'B', 'Δy', 'min', 'max', 'mean', 'rms'] as const;

const STEP_PX = 1;
const LONG_STEP_PX = 10;
const PAGE_SHARE = 0.1;

interface Row {
  readonly element: HTMLTableRowElement;
  readonly path: HTMLSpanElement;
  readonly label: HTMLSpanElement;
  readonly unit: HTMLSpanElement;
  readonly cells: readonly HTMLTableCellElement[];
  readonly note: HTMLTableCellElement;
}

/** The read-out. */
export class MeasurePanel {
  readonly #element = byId('measure', HTMLElement);
  readonly #sliders: Readonly<Record<CursorName, HTMLButtonElement>>;
  readonly #interval = el('output', { class: 'measure-value' });
  readonly #frequency = el('output', { class: 'measure-value' });
  readonly #source = el('p', { class: 'measure-source' });
  readonly #show: HTMLButtonElement;
  readonly #body = el('tbody');
  readonly #scroller: HTMLDivElement;
  #rows: readonly Row[] = [];
  #widthPx = 1;
  #shown: Measurement | null = null;

  constructor(readonly listener: MeasureListener) {
    this.#sliders = { a: this.#slider('a'), b: this.#slider('b') };
    this.#show = el('button', { type: 'button', class: 'word-button measure-show', text: 'Show the stretch', hidden: true, on: { click: () => listener.onShow() } });
    const copy = el('button', { type: 'button', class: 'word-button measure-copy', title: 'Copy the read-out as text', on: { click: () => void this.#copy() } }, icon('copy'), el('span', { text: 'Copy as text' }));
    const fact = (name: string, value: HTMLElement): HTMLElement => el('span', { class: 'measure-fact' }, el('span', { class: 'measure-name', text: name }), value);
    const head = el('header', { class: 'measure-head' }, this.#sliders.a, this.#sliders.b, fact('Δt', this.#interval), fact('1/Δt', this.#frequency),
      this.#source, this.#show, copy, iconButton('close', 'Take the cursors away (c)', () => listener.onClose()));
    const names = el('tr', {}, el('th', { scope: 'col', text: 'trace' }), ...COLUMNS.map((text) => el('th', { scope: 'col', text })), el('th', { scope: 'col', text: 'holes' }));
    this.#scroller = el('div', { class: 'measure-rows', tabindex: '0', role: 'group', 'aria-label': 'Values between the cursors' }, el('table', {}, el('thead', {}, names), this.#body));
    this.#element.append(head, this.#scroller);
  }

  /** Moves the focus to a cursor. */
  focus(name: CursorName): void {
    this.#sliders[name].focus();
  }

  /** Shows a measurement, or nothing. */
  show(measurement: Measurement | null): void {
    this.#shown = measurement;
    this.#element.hidden = measurement === null;
    if (measurement === null) return;
    const { cursors, shown, widthPx, zone, traces } = measurement;
    this.#widthPx = widthPx;
    const digits = pixelDigits(shown.spanNs, widthPx);
    for (const name of ['a', 'b'] as const) this.#writeSlider(name, cursors[name], shown, { digits, zone });
    const pixelNs = Number(shown.spanNs) / widthPx;
    setText(this.#interval, intervalText(cursors, pixelNs));
    setText(this.#frequency, frequencyText(cursors, pixelNs));
    const listed = traces.slice(0, MOST_ROWS);
    this.#fit(listed.length);
    listed.forEach((trace, i) => this.#writeRow(i, trace));
    this.#writeSource(measurement, traces.length - listed.length);
  }

  #slider(name: CursorName): HTMLButtonElement {
    const letter = name.toUpperCase();
    return el('button', {
      type: 'button', class: 'measure-slider', role: 'slider', 'data-cursor': name, 'aria-label': `Cursor ${letter}`, 'aria-valuemin': '0', 'aria-valuemax': '100',
      on: { keydown: (event) => this.#onKey(name, event as KeyboardEvent) },
    }, el('b', { text: letter }), el('span', { class: 'measure-value' }));
  }

  #onKey(name: CursorName, event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = (event.shiftKey ? LONG_STEP_PX : STEP_PX) / this.#widthPx;
    const moves: Readonly<Record<string, Parameters<MeasureListener['onMove']>[1]>> = {
      ArrowLeft: { by: -step }, ArrowDown: { by: -step }, ArrowRight: { by: step }, ArrowUp: { by: step },
      PageDown: { by: -PAGE_SHARE }, PageUp: { by: PAGE_SHARE }, Home: { edge: 0 }, End: { edge: 1 },
    };
    const to = moves[event.key];
    if (to === undefined) return;
    // The same keys move the window elsewhere.
    event.preventDefault();
    event.stopPropagation();
    this.listener.onMove(name, to);
  }

  #writeSlider(name: CursorName, at: bigint, { from, spanNs }: Shown, { digits, zone }: { digits: number; zone: Zone }): void {
    const slider = this.#sliders[name];
    const share = Number(at - from) / Number(spanNs);
    const text = clock(at, zone, digits);
    setText(slider.lastElementChild ?? slider, text);
    setAttribute(slider, 'title', `${full(at, zone)}\n← → move it, shift for ten pixels, page keys for a tenth`);
    setAttribute(slider, 'aria-valuenow', String(Math.round(Math.max(0, Math.min(1, share)) * 100)));
    setAttribute(slider, 'aria-valuetext', share < 0 ? `${text}, before the window` : share > 1 ? `${text}, after the window` : text);
  }

  #fit(count: number): void {
    if (this.#rows.length === count) return;
    this.#rows = Array.from({ length: count }, (_, i) => this.#rows[i] ?? makeRow());
    this.#body.replaceChildren(...this.#rows.map(({ element }) => element));
  }

  #writeRow(index: number, trace: Measured): void {
    const row = this.#rows[index];
    if (row === undefined) return;
    row.element.style.setProperty('--trace', trace.colour);
    setText(row.path, trace.path);
    setText(row.label, trace.label);
    setText(row.unit, trace.display.unit);
    textsOf(trace).forEach((text, i) => setText(row.cells[i] ?? row.note, text));
    const holes = trace.stretch === null ? '' : holesText(trace.stretch.holes);
    setText(row.note, holes === '' ? (trace.stretch === null ? '' : 'none') : holes);
    setAttribute(row.note, 'data-holes', holes === '' ? null : '');
  }

  #writeSource({ traces }: Measurement, unlisted: number): void {
    const stretches = traces.flatMap(({ stretch }) => (stretch === null ? [] : [stretch]));
    const partly = stretches.length < traces.length;
    const words = partly ? 'not all of the stretch is in the window' : sourceText(stretches.map(({ source }) => source));
    const further = unlisted > 0 ? ` · ${unlisted} traces are not listed` : '';
    const { scrollHeight, clientHeight } = this.#scroller;
    const below = scrollHeight > clientHeight + 1 ? ` · ${traces.length - unlisted} traces, scroll for all` : '';
    setText(this.#source, words + further + below);
    this.#show.hidden = !partly;
  }

  async #copy(): Promise<void> {
    if (this.#shown === null) return;
    try {
      await navigator.clipboard.writeText(this.#asText(this.#shown));
      this.listener.onRemark('Read-out copied');
    } catch {
      this.listener.onRemark('The browser does not allow copying here');
    }
  }

  #asText({ cursors, zone, traces }: Measurement): string {
    const rows = traces.map((trace) => [`${trace.path}${trace.label}`, ...textsOf(trace), trace.display.unit, trace.stretch === null ? '' : holesText(trace.stretch.holes)]);
    return [
      `A ${full(cursors.a, zone)}`, `B ${full(cursors.b, zone)}`, `Δt ${this.#interval.textContent ?? ''}  1/Δt ${this.#frequency.textContent ?? ''}`,
      this.#source.textContent ?? '', ['trace', ...COLUMNS, 'unit', 'holes'].join('\t'), ...rows.map((row) => row.join('\t')), '',
    ].join('\n');
  }
}

/** The texts of a row, in the order of the columns. */
function textsOf({ stretch, display, axisSpan }: Measured): readonly string[] {
  if (stretch === null) return COLUMNS.map(() => '–');
  const decimals = decimalsFor(axisSpan, display, STEPS);
  const one = (value: number): string => inUnit(value, display, decimals);
  const range = ({ low, high }: Extremes): string => (one(low) === one(high) ? one(low) : `${one(low)} … ${one(high)}`);
  return [range(stretch.a), range(stretch.b), range(stretch.step), one(stretch.min), one(stretch.max), range(stretch.mean), range(stretch.rms)];
}

function makeRow(): Row {
  const path = el('span', { class: 'plot-path' });
  const label = el('span');
  const unit = el('span', { class: 'measure-unit' });
  const name = el('th', { scope: 'row' }, el('span', { class: 'swatch', 'aria-hidden': 'true' }), el('span', { class: 'measure-label' }, path, label), unit);
  const cells = COLUMNS.map((column) => el('td', { 'data-name': column }));
  const note = el('td', { class: 'measure-holes', 'data-name': 'holes' });
  return { element: el('tr', {}, name, ...cells, note), path, label, unit, cells, note };
}
