/**
 * The choice of a plane in the header of its plot: an index for each extent, in brackets as NumPy has them, between two buttons
 * that go through all planes. It is there only if there is more than one plane.
 */
import { extentsText, indicesOf, numberOf, stepped } from '../model/plane';
import { el, fill, setAttribute, setText } from './dom';

/** The control. */
export class PlaneControl {
  readonly element: HTMLElement;
  readonly #fields = el('span', { class: 'plane-fields' });
  readonly #count = el('span', { class: 'plane-count' });
  readonly #before = this.#button('‹', 'plane before (<)', -1);
  readonly #next = this.#button('›', 'next plane (>)', 1);
  #extents: readonly number[] = [];
  #number = 0;

  /** `chosen` is told the indices of another plane, one for each extent. */
  constructor(readonly chosen: (indices: readonly number[]) => void) {
    const words = el('span', { class: 'plane-word', text: 'plane', 'aria-hidden': 'true' });
    this.element = el('div', { class: 'plane-control', role: 'group', 'aria-label': 'plane', hidden: true }, words, this.#before, this.#fields, this.#count, this.#next);
    // A double click on it is two steps.
    this.element.addEventListener('dblclick', (event) => event.stopPropagation());
  }

  /** Shows which plane of how many is chosen. */
  show(number: number, extents: readonly number[]): void {
    const isOther = number !== this.#number || extents.join() !== this.#extents.join();
    this.#number = number;
    const last = stepped(0, Infinity, extents);
    this.element.hidden = last === 0;
    if (this.#extents.join() !== extents.join()) this.#lay(extents);
    // What is being typed stays until it is chosen.
    if (isOther) this.#write();
    // A button that was switched off would lose the focus.
    setAttribute(this.#before, 'aria-disabled', String(number === 0));
    setAttribute(this.#next, 'aria-disabled', String(number === last));
  }

  /** Chooses the plane `by` further; at the ends nothing. */
  step(by: number): void {
    const number = stepped(this.#number, by, this.#extents);
    if (number !== this.#number) this.chosen(indicesOf(number, this.#extents));
  }

  #lay(extents: readonly number[]): void {
    this.#extents = extents;
    fill(this.#fields, extents.length, () => this.#field());
    [...this.#fields.querySelectorAll('input')].forEach((input, place) => {
      const extent = extents[place] ?? 1;
      const name = extents.length === 1 ? 'plane' : `plane, index ${place + 1} of ${extents.length}`;
      setAttribute(input, 'aria-label', `${name}, 0 to ${extent - 1}`);
      setAttribute(input, 'max', String(extent - 1));
      input.style.inlineSize = `${String(extent - 1).length + 0.2}ch`;
    });
    setText(this.#count, `of ${extentsText(extents)}`);
  }

  #field(): HTMLElement {
    const input = el('input', { type: 'number', class: 'plane-index', min: '0', step: '1', inputmode: 'numeric', title: 'index of the plane, from 0: type, ↑ ↓' });
    input.addEventListener('change', () => this.#read());
    input.addEventListener('focus', () => input.select());
    input.addEventListener('keydown', (event) => event.stopPropagation());
    return el('span', { class: 'plane-field' }, input);
  }

  /** Chooses what the fields say; what cannot be is the nearest that can. */
  #read(): void {
    const typed = [...this.#fields.querySelectorAll('input')].map(({ value }) => Math.round(Number(value)) || 0);
    const number = numberOf(typed, this.#extents);
    this.chosen(indicesOf(number, this.#extents));
    this.#write();
  }

  #write(): void {
    const indices = indicesOf(this.#number, this.#extents);
    [...this.#fields.querySelectorAll('input')].forEach((input, place) => { input.value = String(indices[place] ?? 0); });
  }

  #button(text: string, words: string, by: number): HTMLButtonElement {
    return el('button', { type: 'button', class: 'plane-step', title: words, 'aria-label': words, text, on: { click: () => this.step(by) } });
  }
}
