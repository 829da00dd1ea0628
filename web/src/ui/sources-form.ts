/**
 * Below the list: the patterns the monitor has joined, and streams derived from others by an expression.
 */
import { derive, fetchPatterns, join, leave, Refused } from '../api';
import { parseInputs } from '../model/inputs';
import { byId, el, setText } from './dom';

/** The two forms, folded until needed. */
export class SourcesForm {
  readonly #patterns = el('ul', { class: 'patterns' });
  readonly #joinNote = el('p', { class: 'form-note', role: 'status' });
  readonly #deriveNote = el('p', { class: 'form-note', role: 'status' });

  constructor() {
    byId('sources', HTMLDivElement).append(this.#joinForm(), this.#deriveForm());
  }

  #joinForm(): HTMLElement {
    const pattern = field('pattern', 'Pattern, such as w7x/**');
    const form = el('form', {}, pattern, submit('Join'));
    onSubmit(form, this.#joinNote, async () => {
      await join(pattern.value.trim());
      pattern.value = '';
      await this.#showPatterns();
      return '';
    });
    const details = el('details', {}, el('summary', { text: 'Join streams' }), this.#patterns, form, this.#joinNote);
    details.addEventListener('toggle', () => { if (details.open) void this.#showPatterns(); });
    return details;
  }

  async #showPatterns(): Promise<void> {
    try {
      const patterns = await fetchPatterns();
      this.#patterns.replaceChildren(...patterns.map((pattern) => this.#patternItem(pattern)));
    } catch (error) {
      setText(this.#joinNote, reason(error));
    }
  }

  #patternItem(pattern: string): HTMLElement {
    const act = (): void => {
      void leave(pattern).then(() => this.#showPatterns(), (error: unknown) => setText(this.#joinNote, reason(error)));
    };
    return el('li', {}, el('code', { text: pattern }), el('button', { type: 'button', class: 'readout-remove', title: `Leave ${pattern}`, 'aria-label': `Leave ${pattern}`, text: '×', on: { click: act } }));
  }

  #deriveForm(): HTMLElement {
    const name = field('name', 'Name, such as derived/difference');
    const expression = field('expression', 'Expression, such as a - b');
    const inputs = field('inputs', 'a = stream:channel, b = stream:channel');
    const unit = field('unit', 'Unit');
    unit.required = false;
    const form = el('form', { class: 'form-column' }, name, expression, inputs, unit, submit('Derive'));
    onSubmit(form, this.#deriveNote, async () => {
      const parsed = parseInputs(inputs.value);
      if (parsed === null) return 'Write the inputs like a = lab/probe:current, b = …';
      await derive({ name: name.value.trim(), expression: expression.value.trim(), inputs: parsed, unit: unit.value.trim() });
      form.reset();
      return 'Published. It appears in the list as a stream with an account of its own.';
    });
    return el('details', {}, el('summary', { text: 'Derive a stream' }), form, this.#deriveNote);
  }
}

function field(name: string, placeholder: string): HTMLInputElement {
  return el('input', { name, placeholder, 'aria-label': placeholder, required: true, autocomplete: 'off', spellcheck: 'false' });
}

const submit = (words: string): HTMLButtonElement => el('button', { type: 'submit', class: 'word-button', text: words });

/** Runs `act` on submit and writes what it, or the server's refusal, says. */
function onSubmit(form: HTMLFormElement, note: HTMLElement, act: () => Promise<string>): void {
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    setText(note, '');
    act().then((said) => setText(note, said), (error: unknown) => setText(note, reason(error)));
  });
}

function reason(error: unknown): string {
  if (error instanceof Refused) return error.help === '' ? error.message : `${error.message}. ${error.help}`;
  return 'The server did not answer.';
}
