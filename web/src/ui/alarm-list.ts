/**
 * The overlay of alarms, and its badge in the top bar. Its rows are those of `alarm-rows.ts`.
 */
import { badgeOf } from '../model/alarms';
import { AlarmRows, type AlarmContext } from './alarm-rows';
import { byId, el, iconButton, setAttribute, setText } from './dom';

/** Services that the overlay needs from the page. */
export interface AlarmListContext extends AlarmContext {
  /** The alarms are to be a panel of the grid. */
  onPanel(): void;
}

/** The overlay. */
export class AlarmList {
  readonly #element = byId('alarms', HTMLElement);
  readonly #badge = byId('alarm-badge', HTMLButtonElement);
  readonly #rows: AlarmRows;
  #before: Element | null = null;

  constructor(readonly context: AlarmListContext) {
    this.#rows = new AlarmRows(context);
    this.#badge.addEventListener('click', () => this.toggle());
    const pin = el('button', { type: 'button', class: 'word-button', text: 'Show among the plots', on: { click: () => { this.toggle(false); context.onPanel(); } } });
    this.#element.append(el('header', { class: 'alarm-head' }, el('h2', { text: 'Alarms' }), pin, iconButton('close', 'Close (k)', () => this.toggle(false))), this.#rows.element);
    context.board.listen(() => this.show());
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
    if (on) this.#element.querySelector<HTMLElement>('.icon-button')?.focus();
    else if (this.#before instanceof HTMLElement) this.#before.focus();
    this.show();
  }

  /** Shows the alarms as they are now: the badge, and the rows if they are seen. */
  show(): void {
    const badge = badgeOf(this.context.board.all);
    this.#badge.hidden = badge === null;
    setAttribute(this.#badge, 'data-state', badge?.mood ?? null);
    setText(this.#badge, badge === null ? '' : badge.text);
    if (this.isOpen) this.#rows.show();
  }
}
