/**
 * The form of one node: its name, its kind, and the settings that the server describes for that kind.
 *
 * It is made again only for another node or kind: nothing that arrives meanwhile takes focus or words from it.
 */
import { nameOf, type DraftNode } from '../model/graph-draft';
import { columnsOf, isOneRow, typedOf, valueOf, type Hint, type Kind, type Setting } from '../model/graph-kinds';
import type { KnownStream } from '../model/graph-state';
import { text, type Fields } from '../wire/json';
import { el } from './dom';
import { rowsField } from './graph-rows';

/** Services that the form needs. */
export interface FormContext {
  kinds(): readonly Kind[];
  /** Streams of the bus and of the draft. */
  streams(): readonly KnownStream[];
  readOnly(): boolean;
  onChange(id: number, value: Fields): void;
  /** Another kind is wanted. */
  onKind(id: number, kind: Kind): void;
}

/** A field offers at most this many words. */
const OFFERED = 60;
let lists = 0;

/** The form. */
export class GraphForm {
  readonly element = el('div', { class: 'graph-form' });
  readonly #words = el('datalist', { id: `graph-words-${(lists += 1)}` });
  #shown = '';
  #id = -1;
  #value: Fields = {};

  constructor(readonly context: FormContext) {}

  /** Shows a node. */
  show(node: DraftNode): void {
    const key = `${node.id} ${text(node.value, 'kind')} ${this.context.readOnly() || node.removed}`;
    const fresh = this.#id !== node.id || JSON.stringify(this.#value) !== JSON.stringify(node.value);
    this.#id = node.id;
    this.#value = node.value;
    // Words of this form itself came from it, so they are there already.
    if (this.#shown === key && !fresh) return;
    this.#shown = key;
    this.#fill(node, this.context.readOnly() || node.removed);
  }

  #fill(node: DraftNode, readOnly: boolean): void {
    const kinds = this.context.kinds();
    const kind = kinds.find((each) => each.kind === text(node.value, 'kind'));
    const name = this.#input('name', nameOf(node.value), readOnly, (written) => this.#set('name', written));
    const select = el('select', { 'aria-label': 'kind', disabled: readOnly, on: { change: () => {
      const chosen = kinds.find((each) => each.kind === select.value);
      if (chosen !== undefined) this.context.onKind(this.#id, chosen);
    } } }, ...kinds.map((each) => el('option', { value: each.kind, text: each.kind })));
    select.value = kind?.kind ?? '';
    this.element.replaceChildren(
      this.#line('name', true, 'the stream that it publishes', name),
      this.#line('kind', true, kind?.makes ?? '', select),
      ...(kind?.settings ?? []).map((setting) => this.#field(setting, readOnly)), this.#words);
  }

  #field(setting: Setting, readOnly: boolean): HTMLElement {
    const value = this.#value[setting.name];
    const typed = typedOf(setting, value);
    const columns = columnsOf(setting);
    if (columns !== null && typeof typed !== 'string') {
      return this.#line(setting.name, setting.needed, setting.words, rowsField(typed, {
        label: setting.name, columns, oneRow: isOneRow(setting), readOnly,
        suggest: (input, column) => this.#suggest(input, column.hint),
        onChange: (rows) => this.#set(setting.name, valueOf(setting, rows)),
      }));
    }
    if (setting.form === 'choice') return this.#line(setting.name, setting.needed, setting.words, this.#choice(setting, String(typed), readOnly));
    const input = this.#input(setting.name, String(typed), readOnly, (written) => this.#set(setting.name, valueOf(setting, written)), hintOf(setting));
    const shown = setting.default ?? (setting.needed ? setting.example : undefined);
    if (shown !== undefined) input.placeholder = typeof shown === 'string' ? shown : JSON.stringify(shown);
    if (setting.form === 'number' || setting.form === 'whole') input.inputMode = 'decimal';
    return this.#line(setting.name, setting.needed, setting.words, input);
  }

  #choice(setting: Setting, value: string, readOnly: boolean): HTMLElement {
    const none = setting.needed || setting.default !== undefined ? [] : [el('option', { value: '', text: '–' })];
    const select = el('select', { 'aria-label': setting.name, disabled: readOnly, on: { change: () => this.#set(setting.name, valueOf(setting, select.value)) } },
      ...none, ...setting.of.map((word) => el('option', { value: word, text: word })));
    select.value = value !== '' ? value : setting.default === undefined ? '' : String(setting.default);
    return select;
  }

  #input(name: string, value: string, readOnly: boolean, act: (written: string) => void, hint: Hint | null = null): HTMLInputElement {
    const suggest = (): void => { if (hint !== null) this.#suggest(input, hint); };
    const input = el('input', { name, 'aria-label': name, autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false', readonly: readOnly, on: { change: () => act(input.value), focus: suggest, input: suggest } });
    input.value = value;
    return input;
  }

  #line(name: string, needed: boolean, words: string, control: HTMLElement): HTMLElement {
    return el('div', { class: 'graph-field', 'data-needed': needed }, el('span', { class: 'graph-label', text: name }), control, el('span', { class: 'graph-words', text: words }));
  }

  #set(name: string, value: unknown): void {
    const { [name]: _, ...rest } = this.#value;
    this.#value = value === undefined ? rest : { ...this.#value, [name]: value };
    this.context.onChange(this.#id, this.#value);
  }

  /** Offers what has the written words in it. */
  #suggest(input: HTMLInputElement, hint: Hint): void {
    const sought = input.value.trim().toLowerCase();
    const found = this.#offers(hint).filter((word) => word.toLowerCase().includes(sought)).slice(0, OFFERED);
    this.#words.replaceChildren(...found.map((word) => el('option', { value: word })));
    input.setAttribute('list', this.#words.id);
  }

  #offers(hint: Hint): readonly string[] {
    const streams = this.context.streams();
    const own = (): readonly string[] => {
      const read = text(this.#value, 'input').split(':', 1)[0];
      return streams.find(({ name }) => name === read)?.channels.map(({ name }) => name) ?? [];
    };
    switch (hint) {
      case 'stream': return streams.map(({ name }) => name);
      case 'stream:channel': return streams.flatMap(({ name, channels }) => channels.map((channel) => `${name}:${channel.name}`));
      case 'channel': return own();
      default: return [];
    }
  }
}

function hintOf(setting: Setting): Hint | null {
  return setting.form === 'stream' ? 'stream' : setting.form === 'channel' ? 'stream:channel' : null;
}
