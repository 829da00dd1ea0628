/**
 * The part of the top bar about runs: the button that opens their list, and the run that is shown in its place.
 */
import { byId, el, icon, panelButton, setAttribute, setText } from './dom';

/** The run that is shown, or why it is not. */
export interface RunChip {
  readonly mood: 'shown' | 'live' | 'warn';
  readonly id: string;
  readonly facts: string;
}

/** The chip, and the button. */
export class RunBar {
  readonly #id = el('b', { class: 'run-chip-id' });
  readonly #facts = el('span', { class: 'run-chip-facts' });
  readonly #chip: HTMLButtonElement;
  readonly #open: HTMLButtonElement;

  constructor(onPanel: () => void) {
    this.#chip = el('button', { type: 'button', id: 'run-chip', 'aria-controls': 'runs', 'aria-expanded': 'false', hidden: true, on: { click: onPanel } }, icon('runs'), this.#id, ' ', this.#facts);
    this.#open = panelButton('runs', 'runs', 'Runs of the experiment (r)', onPanel);
    byId('shared', HTMLSpanElement).before(this.#chip);
  }

  /** The button to which the focus returns when the list closes. */
  get opener(): HTMLButtonElement {
    return this.#chip.hidden ? this.#open : this.#chip;
  }

  show(chip: RunChip | null): void {
    this.#chip.hidden = chip === null;
    this.#open.hidden = chip !== null;
    if (chip === null) return;
    setAttribute(this.#chip, 'data-mood', chip.mood);
    setText(this.#id, chip.id);
    setText(this.#facts, chip.facts);
    setAttribute(this.#chip, 'title', `${chip.id} ${chip.facts} (r lists all runs)`);
  }

  /** Tells whether the list is open. */
  expand(on: boolean): void {
    for (const button of [this.#chip, this.#open]) setAttribute(button, 'aria-expanded', String(on));
  }
}
