/**
 * The newest value of each trace in large tabular figures, with its swatch and unit.
 *
 * Written at most ten times a second: figures that change faster cannot be read.
 */
import { decimalsFor, inUnit, type Display } from '../model/quantity';
import type { Range } from '../model/scale';
import type { TraceFrame } from '../wire/frame';
import { el, setAttribute, setText } from './dom';

/** Shortest time between two writings. */
const PERIOD_MS = 100;
/** Resolution of values: a thousandth of the axis. */
const STEPS = 1000;
/** A value of more letters than this is written smaller. */
const LONG_FIGURE = 9;
/** More traces than this show no figures, only their names. */
const MOST_FIGURES = 8;

/** Input of the readout of one trace. */
export interface Readout {
  readonly display: Display;
  readonly range: Range;
  /** The axis is labelled in this unit, and shows it. */
  readonly unitOnAxis: boolean;
  /** False for a trace that has no axis. */
  readonly drawn: boolean;
}

interface Parts {
  readonly item: HTMLLIElement;
  readonly value: HTMLSpanElement;
  readonly unit: HTMLSpanElement;
  readonly state: HTMLSpanElement;
}

/** The readouts of a plot. */
export class Readouts {
  readonly element = el('ul', { class: 'readouts' });
  #parts: readonly Parts[] = [];
  #writtenMs = 0;
  /** Writes what came too soon after the last writing, unless something newer comes. */
  #later: number | undefined;

  /** Makes one readout for each trace; `remove` takes a trace off the plot. */
  reset(labels: readonly string[], remove: (index: number) => void): void {
    this.#parts = labels.map((label, index) => make(label, labels.length > 1 ? () => remove(index) : null));
    this.element.replaceChildren(...this.#parts.map(({ item }) => item));
    setAttribute(this.element, 'data-count', String(Math.min(labels.length, MOST_FIGURES + 1)));
    this.#writtenMs = 0;
    window.clearTimeout(this.#later);
  }

  /** Gives every trace its colour. */
  colour(colours: readonly string[]): void {
    this.#parts.forEach(({ item }, i) => item.style.setProperty('--trace', colours[i] ?? ''));
  }

  /** Writes the newest values, now or soon: a held window may get no other frame. */
  write(traces: readonly TraceFrame[], readouts: readonly Readout[], nowMs: number): void {
    window.clearTimeout(this.#later);
    const tooSoonMs = this.#writtenMs + PERIOD_MS - nowMs;
    if (tooSoonMs > 0) {
      this.#later = window.setTimeout(() => this.write(traces, readouts, nowMs + tooSoonMs), tooSoonMs);
      return;
    }
    this.#writtenMs = nowMs;
    // If all traces share one unit, the axis shows it once.
    const units = new Set(readouts.map(({ display }) => display.unit));
    const onAxis = units.size === 1 && readouts.every(({ unitOnAxis }) => unitOnAxis);
    const say = { figures: this.#parts.length <= MOST_FIGURES, units: this.#parts.length === 1 || !onAxis };
    for (const trace of traces) {
      const parts = this.#parts[trace.index];
      const readout = readouts[trace.index];
      if (parts !== undefined && readout !== undefined) writeOne(parts, trace, readout, say);
    }
  }
}

function make(label: string, remove: (() => void) | null): Parts {
  const value = el('span', { class: 'readout-value' });
  const unit = el('span', { class: 'readout-unit' });
  const state = el('span', { class: 'readout-state' });
  const item = el('li', { class: 'readout' }, el('span', { class: 'swatch', 'aria-hidden': 'true' }), el('span', { class: 'readout-label', text: label }), state, value, unit);
  if (remove !== null) {
    item.append(el('button', { type: 'button', class: 'readout-remove', title: `Take ${label} off`, 'aria-label': `Take ${label} off`, text: '×', on: { click: remove } }));
  }
  return { item, value, unit, state };
}

function writeOne(parts: Parts, trace: TraceFrame, { display, range, drawn }: Readout, say: { figures: boolean; units: boolean }): void {
  const decimals = decimalsFor(range.high - range.low, display, STEPS);
  const figure = say.figures && drawn && trace.state !== 'unknown' ? inUnit(trace.newestValue, display, decimals) : '';
  setText(parts.value, figure);
  setAttribute(parts.value, 'data-long', figure.length > LONG_FIGURE ? '' : null);
  setText(parts.unit, say.figures && drawn && say.units ? display.unit : '');
  setText(parts.state, !drawn ? 'not drawn: a third unit' : trace.state === 'ok' ? '' : STATE_WORDS[trace.state]);
  setAttribute(parts.item, 'data-state', trace.state);
}

const STATE_WORDS = { unknown: 'not on this bus', stale: 'silent', ended: 'ended' } as const;
