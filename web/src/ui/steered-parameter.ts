/**
 * One parameter of an app: its value, the control for it, and what became of the last command.
 */
import { Refused } from '../api';
import { controlOf, expected, limitsText, moodOf, outcomeText, parseValue, stepOf, valueText, type Parameter } from '../model/steering';
import { command } from '../steer-api';
import { el, setAttribute, setText } from './dom';

/** A parameter in the panel. */
export class SteeredParameter {
  readonly #value = el('output', { class: 'steer-value' });
  readonly #facts = el('p', { class: 'steer-facts' });
  readonly #note = el('p', { class: 'steer-note', role: 'status' });
  readonly #field: HTMLInputElement;
  readonly #slider: HTMLInputElement | null;
  readonly #set: HTMLButtonElement;
  readonly #switch: HTMLButtonElement | null;
  readonly element: HTMLElement;
  #parameter: Parameter;
  /** Revision that an edit began with; null without one. */
  #edited: number | null = null;
  #armed = false;
  #waits = false;
  #hindered = false;

  constructor(readonly app: string, parameter: Parameter, readonly onDone: () => void) {
    this.#parameter = parameter;
    const { name } = parameter;
    const control = controlOf(parameter);
    const isNumber = control === 'number' || control === 'slider';
    this.#field = el('input', { type: isNumber ? 'number' : 'text', step: stepOf(parameter), 'aria-label': `New value of ${name}`, autocomplete: 'off', on: { input: () => this.#edit('field') } });
    this.#field.addEventListener('keydown', (event) => this.#onKey(event));
    this.#slider = control === 'slider' ? el('input', { type: 'range', min: `${parameter.min}`, max: `${parameter.max}`, step: stepOf(parameter), 'aria-label': `Slider of ${name}`, on: { input: () => this.#edit('slider') } }) : null;
    this.#slider?.addEventListener('keydown', (event) => this.#onKey(event));
    this.#set = el('button', { type: 'button', class: 'word-button submit-button', text: 'Set', 'aria-label': `Set ${name}`, on: { click: () => this.#press() } });
    this.#switch = control === 'switch' ? el('button', { type: 'button', class: 'switch', role: 'switch', 'aria-label': name, on: { click: () => this.#press() } }, el('span', { class: 'switch-knob', 'aria-hidden': 'true' })) : null;
    const controls = this.#switch !== null ? [this.#switch] : control === 'none' ? [] : [this.#field, this.#set, ...(this.#slider === null ? [] : [this.#slider])];
    const head = el('div', { class: 'steer-head' }, el('span', { class: 'steer-name', text: name }), this.#value);
    this.element = el('section', { class: 'steer-part', 'data-parameter': name }, head, el('div', { class: 'steer-row' }, ...controls), this.#facts, this.#note);
  }

  /** Shows the parameter as it stands; an edit is left alone. */
  show(parameter: Parameter, hindrance: string): void {
    this.#parameter = parameter;
    this.#hindered = hindrance !== '';
    const value = valueText(parameter.value);
    const known = parameter.known ? '' : ' (unknown since an uncertain command)';
    setText(this.#value, `${value}${parameter.unit === '' ? '' : ` ${parameter.unit}`}${known}`);
    setText(this.#facts, [limitsText(parameter), `revision ${parameter.revision}`, hindrance].filter((text) => text !== '').join(' · '));
    if (this.#edited === null) this.#reset();
    setAttribute(this.#switch ?? this.#set, 'aria-checked', this.#switch === null ? null : String(parameter.value[0] === true));
    this.#enable();
  }

  #reset(): void {
    const [element] = this.#parameter.value;
    this.#edited = null;
    this.#disarm();
    this.#field.value = valueText(this.#parameter.value);
    if (this.#slider !== null && typeof element === 'number') this.#slider.value = String(element);
  }

  #edit(by: 'field' | 'slider'): void {
    this.#edited ??= this.#parameter.revision;
    this.#disarm();
    if (this.#slider === null) return;
    if (by === 'slider') this.#field.value = this.#slider.value;
    else this.#slider.value = this.#field.value;
  }

  #onKey(event: KeyboardEvent): void {
    if (event.key === 'Enter') this.#press();
    else if (event.key === 'Escape') this.#reset();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Sends the command; an administered one when it is pressed again. */
  #press(): void {
    if (this.#waits || this.#hindered) return;
    const parameter = this.#parameter;
    const value = this.#switch === null ? parseValue(parameter, this.#field.value) : parameter.value[0] !== true;
    if (value === null) return this.#say(expected(parameter), 'bad');
    if (parameter.administered && !this.#armed) {
      this.#armed = true;
      setText(this.#set, 'Confirm');
      return this.#say('Press again to confirm, Escape to keep the value.', 'warn');
    }
    void this.#send(value, this.#edited ?? parameter.revision);
  }

  async #send(value: unknown, revision: number): Promise<void> {
    this.#disarm();
    this.#waits = true;
    this.#enable();
    this.#say('Sent. It waits for the next step of the app.', 'quiet');
    try {
      const outcome = await command(this.app, { parameter: this.#parameter.name, value, if_revision: revision });
      this.#say(outcomeText(outcome, this.#parameter.unit), moodOf(outcome));
      if (outcome.outcome === 'applied') this.#edited = null;
      // The next attempt is of what the page shows then.
      else if (outcome.rule === 'revision') this.#edited = null;
    } catch (error) {
      if (error instanceof Refused) this.#say(error.help === '' ? error.message : `${error.message}. ${error.help}`, 'bad');
      else this.#say('Uncertain: the monitor did not answer. Read the value before sending another one.', 'warn');
    }
    this.#waits = false;
    this.#enable();
    this.onDone();
  }

  #disarm(): void {
    this.#armed = false;
    setText(this.#set, 'Set');
  }

  #enable(): void {
    const disabled = this.#hindered || this.#waits;
    for (const control of [this.#field, this.#slider, this.#set, this.#switch]) if (control !== null) control.disabled = disabled;
  }

  #say(text: string, mood: 'good' | 'warn' | 'bad' | 'quiet'): void {
    setAttribute(this.#note, 'data-mood', mood);
    setText(this.#note, text);
  }
}
