/**
 * The mode of a y-axis, or of colours: a button that goes from automatic to held to fixed, and two numbers while it is fixed.
 */
import { AUTO, nextMode, type AxisMode, type Range } from '../model/scale';
import { el, setAttribute, setText } from './dom';

/** The control in a plot's header. */
export class AxisControl {
  readonly element = el('div', { class: 'axis-control' });
  readonly #button: HTMLButtonElement;
  readonly #low: HTMLInputElement;
  readonly #high: HTMLInputElement;
  #mode: AxisMode = AUTO;

  constructor(
    readonly current: () => Range,
    readonly changed: (mode: AxisMode) => void,
    readonly name: 'y' | 'colours' = 'y',
  ) {
    const axis = name === 'y' ? 'y-axis' : 'colours';
    this.#low = numberInput(`lower end of the ${axis}`);
    this.#high = numberInput(`upper end of the ${axis}`);
    this.#button = el('button', { type: 'button', class: 'word-button', title: `${axis}: automatic, held, fixed (y)`, on: { click: () => this.changed(nextMode(this.#mode, this.current())) } });
    for (const input of [this.#low, this.#high]) {
      input.addEventListener('change', () => this.#read());
      input.addEventListener('keydown', (event) => event.stopPropagation());
    }
    this.element.append(this.#low, this.#high, this.#button);
  }

  /** Shows the mode that holds. */
  show(mode: AxisMode): void {
    this.#mode = mode;
    const fixed = mode.kind === 'fixed';
    setText(this.#button, `${this.name} ${mode.kind}`);
    setAttribute(this.element, 'data-kind', mode.kind);
    this.#low.hidden = !fixed;
    this.#high.hidden = !fixed;
    if (mode.kind !== 'fixed') return;
    this.#low.value = String(mode.range.low);
    this.#high.value = String(mode.range.high);
  }

  #read(): void {
    const range = { low: Number(this.#low.value), high: Number(this.#high.value) };
    const sound = range.low < range.high;
    setAttribute(this.#high, 'aria-invalid', sound ? null : 'true');
    if (sound) this.changed({ kind: 'fixed', range });
  }
}

function numberInput(label: string): HTMLInputElement {
  return el('input', { type: 'number', step: 'any', class: 'axis-input', 'aria-label': label, hidden: true });
}
