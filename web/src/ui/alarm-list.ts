/**
 * The list of alarms, and its badge in the top bar: state, value, limit and since when, with who acknowledged what.
 *
 * Rows keep their elements, and their order while one of them has the focus: nothing moves under a finger or a pen.
 */
import { acknowledge, fetchAlarms, Refused } from '../api';
import { alarmKey, badgeOf, byUrgency, figureText, stateText, waits, type Alarm } from '../model/alarms';
import { duration } from '../model/quantity';
import { full, type Zone } from '../model/time';
import { byId, el, iconButton, setAttribute, setText } from './dom';

/** Services that the list needs from the page. */
export interface AlarmContext {
  zone(): Zone;
  /** The server's time. */
  now(): bigint;
  /** Why this visitor may not acknowledge, or empty. */
  barred(): string;
  /** The watched channel is to be plotted. */
  onPlot(stream: string, channel: string): void;
}

/** The list is asked for this often, while the bus has alarms. */
const PERIOD_MS = 1_000;

interface Row {
  readonly element: HTMLLIElement;
  update(alarm: Alarm): void;
}

/** The list. */
export class AlarmList {
  readonly #element = byId('alarms', HTMLElement);
  readonly #badge = byId('alarm-badge', HTMLButtonElement);
  readonly #rows = new Map<string, Row>();
  readonly #list = el('ul', { class: 'alarm-rows', 'aria-label': 'Alarms, most urgent first' });
  readonly #note = el('p', { class: 'alarm-note', role: 'status' });
  #asked = -Infinity;
  #before: Element | null = null;

  constructor(readonly context: AlarmContext) {
    this.#badge.addEventListener('click', () => this.toggle());
    this.#element.append(el('header', { class: 'alarm-head' }, el('h2', { text: 'Alarms' }), iconButton('close', 'Close (k)', () => this.toggle(false))), this.#note, this.#list);
  }

  /** Whether it shows. */
  get isOpen(): boolean {
    return !this.#element.hidden;
  }

  /** Shows or hides it. */
  toggle(on = !this.isOpen): void {
    if (on) this.#before = document.activeElement;
    this.#element.hidden = !on;
    setAttribute(this.#badge, 'aria-expanded', String(on));
    if (on) this.#element.querySelector('button')?.focus();
    else if (this.#before instanceof HTMLElement) this.#before.focus();
    if (on) void this.look(true, performance.now(), true);
  }

  /** Asks the server if it is time to; `has` says whether the bus has alarms. */
  async look(has: boolean, nowMs: number, now = false): Promise<void> {
    if (!has && this.#rows.size === 0 && !this.isOpen) return;
    if (!now && nowMs - this.#asked < PERIOD_MS) return;
    this.#asked = nowMs;
    try {
      this.#show(await fetchAlarms());
    } catch (error) {
      // A lost connection is told by the socket.
      if (error instanceof Refused) setText(this.#note, error.message);
    }
  }

  #show(alarms: readonly Alarm[]): void {
    const badge = badgeOf(alarms);
    this.#badge.hidden = badge === null;
    setAttribute(this.#badge, 'data-state', badge?.mood ?? null);
    setText(this.#badge, badge === null ? '' : badge.text);
    setText(this.#note, alarms.length === 0 ? 'No alarm is watched on this bus. A node of kind alarm makes one: docs/guide/graph.md' : '');
    const sorted = byUrgency(alarms);
    const keys = new Set(sorted.map(alarmKey));
    for (const [key, row] of this.#rows) {
      if (keys.has(key)) continue;
      row.element.remove();
      this.#rows.delete(key);
    }
    for (const alarm of sorted) {
      const key = alarmKey(alarm);
      let row = this.#rows.get(key);
      if (row === undefined) {
        row = this.#row(alarm);
        this.#rows.set(key, row);
        this.#list.append(row.element);
      }
      row.update(alarm);
    }
    const wanted = sorted.map((alarm) => this.#rows.get(alarmKey(alarm))?.element).filter((element) => element !== undefined);
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
      void this.#acknowledge(alarm, reason.value, note).then((done) => { if (done) reason.value = ''; });
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

  async #acknowledge(alarm: Alarm, reason: string, note: HTMLElement): Promise<boolean> {
    try {
      this.#show(await acknowledge(alarm, reason));
      this.#element.querySelector('button')?.focus();
      return true;
    } catch (error) {
      setText(note, error instanceof Refused ? `${error.message}: ${error.help}` : 'The server did not answer: try again');
      void this.look(true, performance.now(), true);
      return false;
    }
  }
}
