/**
 * Below the list: the patterns the monitor has joined, and streams derived from others by an expression.
 */
import { derive, fetchDerived, fetchPatterns, forget, join, leave, Refused } from '../api';
import { derivedChip } from '../model/derived-chip';
import { parseInputs } from '../model/inputs';
import { byId, el, setAttribute, setText } from './dom';

/** The two forms, folded until needed. */
export class SourcesForm {
  readonly #join = joinForm();
  readonly #derive = deriveForm();

  constructor() {
    byId('sources', HTMLDivElement).append(this.#join, this.#derive);
  }

  /** Disables what this visitor may not do; an empty reason enables it. */
  bar(reasons: { readonly join: string; readonly derive: string }): void {
    for (const [details, why] of [[this.#join, reasons.join], [this.#derive, reasons.derive]] as const) {
      setAttribute(details, 'title', why === '' ? null : why);
      details.classList.toggle('barred', why !== '');
      for (const control of details.querySelectorAll('form input, form button')) control.toggleAttribute('disabled', why !== '');
    }
  }
}

function joinForm(): HTMLElement {
  const pattern = field('pattern', 'Pattern, such as w7x/**');
  const form = el('form', {}, pattern, submit('Join'));
  const note = noteElement();
  const joined = new Held(note, async () => (await fetchPatterns()).map((name) => ({ name, words: name, title: '', ends: true })), { word: 'Leave', end: leave });
  onSubmit(form, note, async () => {
    await join(pattern.value.trim());
    pattern.value = '';
    await joined.show();
    return '';
  });
  return fold('Join streams', joined, form, note);
}

function deriveForm(): HTMLElement {
  const name = field('name', 'Name, such as derived/difference');
  const expression = field('expression', 'Expression, such as a - b');
  const inputs = field('inputs', 'a = stream:channel, b = stream:channel');
  const unit = field('unit', 'Unit');
  unit.required = false;
  const form = el('form', { class: 'form-column' }, name, expression, inputs, unit, submit('Derive'));
  const note = noteElement();
  const derived = new Held(note, async () => (await fetchDerived()).map(derivedChip), { word: 'End', end: forget });
  onSubmit(form, note, async () => {
    const parsed = parseInputs(inputs.value);
    if (parsed === null) return 'Write the inputs like a = lab/probe:current, b = …';
    await derive({ name: name.value.trim(), expression: expression.value.trim(), inputs: parsed, unit: unit.value.trim() });
    form.reset();
    await derived.show();
    return 'Published. It appears in the list as a stream with its own account.';
  });
  return fold('Derive a stream', derived, form, note);
}

/** Something that holds at the monitor until it is ended. */
interface Chip {
  readonly name: string;
  readonly words: string;
  readonly title: string;
  /** True if a page may end it. */
  readonly ends: boolean;
}

/** The list of what holds now, each with a button that ends it. */
class Held {
  readonly element = el('ul', { class: 'held' });

  constructor(
    readonly note: HTMLElement,
    readonly fetch: () => Promise<readonly Chip[]>,
    readonly ending: { readonly word: string; end(name: string): Promise<void> },
  ) {}

  async show(): Promise<void> {
    await this.#try(async () => this.element.replaceChildren(...(await this.fetch()).map((chip) => this.#item(chip))));
  }

  #item({ name, words, title, ends }: Chip): HTMLElement {
    if (!ends) return el('li', { title }, el('code', { text: words }));
    const label = `${this.ending.word} ${name}`;
    const end = (): void => void this.#try(async () => {
      await this.ending.end(name);
      await this.show();
    });
    return el('li', { title }, el('code', { text: words }), el('button', { type: 'button', class: 'readout-remove', title: label, 'aria-label': label, text: '×', on: { click: end } }));
  }

  async #try(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      setText(this.note, reason(error));
    }
  }
}

/** Folds a form away; what holds is asked for whenever it unfolds. */
function fold(words: string, held: Held, form: HTMLFormElement, note: HTMLElement): HTMLElement {
  const details = el('details', {}, el('summary', { text: words }), held.element, form, note);
  details.addEventListener('toggle', () => { if (details.open) void held.show(); });
  return details;
}

function field(name: string, placeholder: string): HTMLInputElement {
  return el('input', { name, placeholder, 'aria-label': placeholder, required: true, autocomplete: 'off', spellcheck: 'false' });
}

const submit = (words: string): HTMLButtonElement => el('button', { type: 'submit', class: 'word-button submit-button', text: words });
const noteElement = (): HTMLElement => el('p', { class: 'form-note', role: 'status' });

/** Runs `act` on submit and shows its result, or the server's refusal. */
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
