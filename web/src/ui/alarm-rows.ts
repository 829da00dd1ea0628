/**
 * Rows of alarms, as the overlay and the panels of the grid show them: state, value, limit and since when, with who
 * acknowledged what.
 *
 * Rows keep their elements, and their order while one of them has the focus: nothing moves under a finger or a pen.
 */
import type { AlarmBoard } from '../alarm-board';
import { acknowledge, Refused } from '../api';
import { alarmKey, byUrgency, figureText, stateText, waits, type Alarm } from '../model/alarms';
import { duration } from '../model/quantity';
import { full, type Zone } from '../model/time';
import { el, setAttribute, setText } from './dom';

/** Services that the rows need from the page. */
export interface AlarmContext {
  readonly board: AlarmBoard;
  zone(): Zone;
  /** The server's time. */
  now(): bigint;
  /** Why this visitor may not acknowledge, or empty. */
  barred(): string;
  /** The watched channel is to be plotted. */
  onPlot(stream: string, channel: string): void;
}

interface Row {
  readonly element: HTMLLIElement;
  update(alarm: Alarm): void;
}

/** Rows of all alarms. */
export class AlarmRows {
  readonly element = el('div', { class: 'alarm-list' });
  readonly #rows = new Map<string, Row>();
  readonly #list = el('ul', { class: 'alarm-rows', 'aria-label': 'Alarms, most urgent first' });
  readonly #note = el('p', { class: 'alarm-note', role: 'status' });

  constructor(readonly context: AlarmContext) {
    this.element.append(this.#note, this.#list);
  }

  /** Shows the alarms as they are now. */
  show(): void {
    const alarms = byUrgency(this.context.board.all);
    setText(this.#note, alarms.length === 0 ? 'No alarm is watched on this bus. A node of kind alarm makes one: docs/guide/graph.md' : '');
    const keys = new Set(alarms.map(alarmKey));
    for (const [key, row] of this.#rows) {
      if (keys.has(key)) continue;
      row.element.remove();
      this.#rows.delete(key);
    }
    for (const alarm of alarms) {
      const key = alarmKey(alarm);
      let row = this.#rows.get(key);
      if (row === undefined) {
        row = this.#row(alarm);
        this.#rows.set(key, row);
        this.#list.append(row.element);
      }
      row.update(alarm);
    }
    const wanted = alarms.map((alarm) => this.#rows.get(alarmKey(alarm))?.element).filter((element) => element !== undefined);
    const moved = wanted.some((element, i) => this.#list.children[i] !== element);
    if (moved && !this.#list.contains(document.activeElement)) this.#list.append(...wanted);
  }

  #row(first: Alarm): Row {
    let alarm = first;
    const state = el('span', { class: 'alarm-state' });
    const input = el('button', { type: 'button', class: 'alarm-input', title: 'Plot it', on: { click: () => this.#plot(alarm) } });
    const figures = el('span', { class: 'alarm-figures' });
    const since = el('span', { class: 'alarm-since' });
    const acknowledged = el('p', { class: 'alarm-acknowledged' });
    const reason = el('input', { type: 'text', maxlength: '200', placeholder: 'Reason', 'aria-label': `Reason to acknowledge ${first.input}` });
    const button = el('button', { type: 'submit', class: 'word-button', text: 'Acknowledge' });
    const note = el('p', { class: 'alarm-note', role: 'status' });
    const form = el('form', { class: 'alarm-form' }, reason, button);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#acknowledge(alarm, reason.value, note).then((done) => {
        if (!done) return;
        reason.value = '';
        // The form goes away with the next message: the keys stay at this alarm.
        input.focus();
      });
    });
    const element = el('li', { class: 'alarm' }, el('div', { class: 'alarm-line' }, state, input, figures, since), acknowledged, form, note);
    const update = (now: Alarm): void => {
      if (now.change !== alarm.change) setText(note, '');
      alarm = now;
      setAttribute(element, 'data-state', now.state);
      setAttribute(element, 'data-waits', waits(now) ? '' : null);
      setText(state, stateText(now));
      setText(input, now.input);
      setText(figures, `${figureText(now.value, now.unit)}${now.limit === null ? '' : ` · limit ${figureText(now.limit, now.unit)}`}`);
      setText(since, `for ${duration(Math.max(0, Number(this.context.now() - now.sinceNs)))}`);
      setAttribute(since, 'title', `since ${full(now.sinceNs, this.context.zone())}`);
      const { acknowledged: by } = now;
      acknowledged.hidden = by === null;
      if (by !== null) setText(acknowledged, `acknowledged by ${by.by}, ${full(by.atNs, this.context.zone()).slice(0, 19)}${by.reason === '' ? '' : `: ${by.reason}`}`);
      form.hidden = !waits(now);
      const why = this.context.barred();
      button.disabled = why !== '';
      setAttribute(button, 'title', why === '' ? null : why);
    };
    return { element, update };
  }

  #plot(alarm: Alarm): void {
    const cut = alarm.input.lastIndexOf(':');
    this.context.onPlot(alarm.input.slice(0, cut), alarm.input.slice(cut + 1));
  }

  /** Acknowledges a state; what has become of it is told over the live connection. */
  async #acknowledge(alarm: Alarm, reason: string, note: HTMLElement): Promise<boolean> {
    try {
      await acknowledge(alarm, reason);
      return true;
    } catch (error) {
      setText(note, error instanceof Refused ? error.text : 'The server did not answer: try again');
      return false;
    }
  }
}
