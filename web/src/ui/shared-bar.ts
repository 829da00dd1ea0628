/**
 * The part of the top bar about shared views: which one the page follows, who presents, and the one thing to do about it.
 */
import { ACTION_WORDS, type Chip, type ChipAction } from '../model/shared-words';
import { byId, el, icon, panelButton, setAttribute, setText } from './dom';

/** Receiver of the events. */
export interface SharedBarListener {
  /** The panel of views is to open or close. */
  onPanel(): void;
  onAction(action: ChipAction): void;
}

/** The chip, the button beside it, and the button that opens the panel. */
export class SharedBar {
  readonly #box = byId('shared', HTMLSpanElement);
  readonly #title = el('b', { class: 'shared-title' });
  readonly #facts = el('span', { class: 'shared-facts' });
  readonly #chip: HTMLButtonElement;
  readonly #act: HTMLButtonElement;
  readonly #open: HTMLButtonElement;
  #action: ChipAction | null = null;

  constructor(readonly listener: SharedBarListener) {
    this.#chip = el('button', { type: 'button', id: 'shared-chip', 'aria-controls': 'views', on: { click: () => listener.onPanel() } },
      icon('views'), el('span', { class: 'shared-words', role: 'status' }, this.#title, ' ', this.#facts));
    this.#act = el('button', { type: 'button', id: 'shared-act', on: { click: () => { if (this.#action !== null) listener.onAction(this.#action); } } });
    this.#open = panelButton('views', 'views', 'Views: layouts that are kept and shared (v)', () => listener.onPanel());
    this.#box.append(this.#chip, this.#act);
  }

  /** The button to which the focus returns when the panel closes. */
  get opener(): HTMLButtonElement {
    return this.#box.hidden ? this.#open : this.#chip;
  }

  /** Shows how the page stands to its view, or nothing. */
  show(chip: Chip | null): void {
    this.#box.hidden = chip === null;
    this.#open.hidden = chip !== null;
    if (chip === null) return;
    setAttribute(this.#box, 'data-mood', chip.mood);
    setText(this.#title, chip.title);
    setText(this.#facts, chip.facts === '' ? '' : `· ${chip.facts}`);
    setAttribute(this.#chip, 'title', `${chip.title}${chip.facts === '' ? '' : ` · ${chip.facts}`} (v)`);
    this.#action = chip.action;
    this.#act.hidden = chip.action === null;
    if (chip.action !== null) setText(this.#act, ACTION_WORDS[chip.action]);
  }

  /** Tells whether the panel is open. */
  expand(on: boolean): void {
    for (const button of [this.#chip, this.#open]) setAttribute(button, 'aria-expanded', String(on));
  }
}
