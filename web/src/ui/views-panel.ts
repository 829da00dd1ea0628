/**
 * The panel of views: the one that this page follows, saving what the page shows, and all views of this monitor.
 *
 * It covers a part of the page and blocks nothing. The list is asked for when the panel opens, after each change, and every few seconds.
 */
import { Refused } from '../api';
import { hindrance, nameOf, presenterOf, presents, titleOf, type Following, type Session } from '../model/shared-view';
import { chipOf, consequence, deletionQuestion, entryFacts, standing } from '../model/shared-words';
import { nameOfTitle } from '../model/shared-link';
import type { Zone } from '../model/time';
import type { SharedEntry } from '../wire/shared-view';
import { byId, el, setAttribute, setText } from './dom';
import { words } from './steering-panel';
import { ViewTitle } from './view-title';

/** What the buttons of the panel do. */
export type ViewsAction = 'present' | 'stop' | 'leave' | 'rejoin' | 'forget' | 'link' | 'watch-link' | 'fork-link';

/** Receiver of the events. */
export interface ViewsListener {
  onAction(action: ViewsAction): void;
  onNotes(text: string): void;
  onTitle(text: string): void;
  fetch(): Promise<readonly SharedEntry[]>;
  /** Follows a view. */
  follow(name: string): void;
  /** Shows a copy of a view, which nothing changes any more. */
  copy(name: string): Promise<void>;
  remove(name: string): Promise<void>;
  /** Saves what the page shows; `replaced` is the view in whose place. */
  save(title: string, replaced: SharedEntry | null): Promise<void>;
  now(): { readonly ns: bigint; readonly zone: Zone };
  onClosed(): void;
}

/** The list is asked for again after this time. */
const PERIOD_MS = 5_000;
/** More entries than these have a field to search them. */
const SEARCHED = 8;
const PRECONDITION_FAILED = 412;

/** The panel. */
export class ViewsPanel {
  readonly #element = byId('views', HTMLElement);
  readonly #current = el('section', { class: 'view-current', 'aria-label': 'The view that this page follows' });
  readonly #title: ViewTitle;
  readonly #state = el('p', { class: 'view-state', role: 'status' });
  readonly #watchers = el('ul', { class: 'view-watchers', 'aria-label': 'Pages that follow' });
  readonly #notes = el('textarea', { rows: '3', maxlength: '10000', 'aria-label': 'Notes', placeholder: 'Notes for all who follow' });
  readonly #buttons = el('div', { class: 'view-buttons' });
  readonly #link = el('input', { class: 'view-link', readonly: true, 'aria-label': 'Link', hidden: true });
  readonly #save: SaveForm;
  readonly #search = el('input', { type: 'search', class: 'view-search', placeholder: 'Search views', 'aria-label': 'Search views', hidden: true, on: { input: () => this.#renderList() } });
  readonly #list = el('ul', { class: 'view-list', 'aria-label': 'Views of this monitor' });
  readonly #note = el('p', { class: 'view-note', role: 'status' });
  #entries: readonly SharedEntry[] | null = null;
  #session: Session = { kind: 'alone' };
  #barred = '';
  /** The entry that is about to be deleted. */
  #asked = '';
  #rendered = '';
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(readonly listener: ViewsListener) {
    this.#save = new SaveForm((title, replaced) => this.#onSave(title, replaced), () => this.#entries ?? []);
    this.#notes.addEventListener('change', () => listener.onNotes(this.#notes.value));
    this.#title = new ViewTitle((text) => listener.onTitle(text));
    this.#current.append(this.#title.element, this.#state, this.#watchers, this.#notes, this.#buttons, this.#link);
    const close = el('button', { type: 'button', class: 'icon-button', 'aria-label': 'Close the views (v)', title: 'Close (v)', text: '×', on: { click: () => this.toggle(false) } });
    this.#element.append(
      el('div', { class: 'panel-header' }, el('h2', { text: 'Views' }), close),
      el('div', { class: 'views-body' }, this.#current, this.#save.element, this.#search, this.#note, this.#list));
    this.#element.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      event.stopPropagation();
      this.toggle(false);
    });
  }

  /** Opens or closes the panel; returns whether it is open now. */
  toggle(on = this.#element.hidden): boolean {
    if (this.#element.hidden === !on) return on;
    this.#element.hidden = !on;
    clearInterval(this.#timer);
    if (!on) {
      this.#asked = '';
      this.#link.hidden = true;
      this.listener.onClosed();
      return false;
    }
    this.#timer = setInterval(() => { if (!document.hidden) void this.#fetch(); }, PERIOD_MS);
    void this.#fetch();
    this.#render();
    this.#element.focus();
    return true;
  }

  /** True while it covers a part of the page. */
  get isOpen(): boolean {
    return !this.#element.hidden;
  }

  /** Shows how the page stands to its view, and why the visitor may save none. */
  show(session: Session, barred: string): void {
    const renamed = session.kind === 'following' && this.#session.kind === 'following' && titleOf(session) !== titleOf(this.#session);
    this.#session = session;
    this.#barred = barred;
    if (!this.isOpen) return;
    this.#render();
    if (renamed) void this.#fetch();
  }

  /** Shows a link that the browser did not let the page copy. */
  showLink(address: string): void {
    this.#link.value = address;
    this.#link.hidden = false;
    this.#link.focus();
    this.#link.select();
  }

  #render(): void {
    const session = this.#session;
    this.#save.show(session.kind === 'following' ? 'Save a copy as' : 'Save what is shown as', this.#barred);
    const chip = chipOf(session);
    this.#current.hidden = chip === null;
    if (chip === null) return;
    const following = session.kind === 'following' ? session : null;
    this.#title.show(following, chip.title);
    setText(this.#state, following === null ? chip.facts : following.online ? `${capital(standing(following))}. ${consequence(following)}` : `${capital(chip.facts)}.`);
    this.#renderWatchers(following);
    this.#renderNotes(following);
    this.#renderButtons(session);
  }

  #renderWatchers(following: Following | null): void {
    const rows = (following?.watchers ?? []).map((watcher) => ({
      name: `${nameOf(watcher)}${watcher.id === following?.you ? ' (this page)' : ''}`,
      role: watcher.presenter ? 'presents' : watcher.readOnly ? 'watches only' : 'watches',
    }));
    this.#watchers.hidden = rows.length === 0;
    const written = rows.map(({ name, role }) => `${name} ${role}`).join('\n');
    if (this.#watchers.dataset['rows'] === written) return;
    this.#watchers.dataset['rows'] = written;
    this.#watchers.replaceChildren(...rows.map(({ name, role }) => el('li', { 'data-role': role }, el('span', { text: name }), el('span', { class: 'view-role', text: role }))));
  }

  #renderNotes(following: Following | null): void {
    const written = following?.texts['notes'] ?? following?.fields['notes'];
    const text = typeof written === 'string' ? written : '';
    const readOnly = following === null || hindrance(following) !== '';
    this.#notes.readOnly = readOnly;
    this.#notes.hidden = following === null || (readOnly && text === '');
    // Not under the hands of one who writes.
    if (document.activeElement !== this.#notes && this.#notes.value !== text) this.#notes.value = text;
  }

  #renderButtons(session: Session): void {
    const buttons = buttonsOf(session);
    const written = buttons.map(([action, text]) => `${action} ${text}`).join('\n');
    if (this.#rendered === written) return;
    this.#rendered = written;
    this.#buttons.replaceChildren(...buttons.map(([action, text, title]) =>
      el('button', { type: 'button', class: action === 'present' || action === 'rejoin' ? 'word-button submit-button' : 'word-button view-button', title, text, on: { click: () => this.listener.onAction(action) } })));
  }

  async #fetch(): Promise<void> {
    try {
      this.#entries = await this.listener.fetch();
      if (this.#note.dataset['kind'] !== 'done') this.#say('');
    } catch (error) {
      if (error instanceof Refused && error.status === 404) this.#say('This monitor is older than shared views: it keeps none.');
      else this.#say(`The list is not known now: ${words(error)}`);
    }
    this.#renderList();
  }

  #renderList(): void {
    const all = this.#entries ?? [];
    this.#search.hidden = all.length <= SEARCHED;
    const sought = this.#search.hidden ? '' : this.#search.value.trim().toLowerCase();
    const found = all.filter(({ name, title }) => `${name} ${title}`.toLowerCase().includes(sought));
    const rows = found.map((entry) => this.#row(entry));
    const focused = document.activeElement instanceof HTMLElement && this.#list.contains(document.activeElement) ? document.activeElement.getAttribute('aria-label') : null;
    const empty = this.#entries === null ? [] : [el('li', { class: 'view-none', text: all.length === 0 ? 'No views are kept on this monitor yet. Save what is shown, and others can open it.' : 'No view matches.' })];
    this.#list.replaceChildren(...(rows.length > 0 ? rows : empty));
    if (focused === null) return;
    for (const button of this.#list.querySelectorAll('button')) if (button.getAttribute('aria-label') === focused) button.focus();
  }

  #row(entry: SharedEntry): HTMLElement {
    const { name } = entry;
    const title = entry.title === '' ? name : entry.title;
    const followed = this.#session.kind === 'following' && this.#session.name === name;
    const { ns, zone } = this.listener.now();
    const act = (text: string, label: string, click: () => void, kind = 'view-button'): HTMLButtonElement =>
      el('button', { type: 'button', class: `word-button ${kind}`, 'aria-label': label, text, on: { click } });
    const head = el('div', { class: 'view-name' }, el('b', { text: title }), ...(title === name ? [] : [el('code', { text: name })]));
    const facts = el('p', { class: 'view-facts', text: [...(followed ? ['this page follows it'] : []), entryFacts(entry, ns, zone)].filter((part) => part !== '').join(' · ') });
    if (this.#asked === name) {
      return el('li', { 'data-asked': true }, el('p', { text: deletionQuestion(entry) }), el('div', { class: 'view-buttons' },
        act('Delete', `Delete ${name} now`, () => void this.#delete(name), 'view-button view-danger'), act('Keep', `Keep ${name}`, () => this.#ask(''))));
    }
    return el('li', {}, head, facts, el('div', { class: 'view-buttons' },
      ...(followed ? [] : [act('Follow', `Follow ${name}`, () => { this.listener.follow(name); this.toggle(false); }, 'submit-button')]),
      act('Open a copy', `Open a copy of ${name}`, () => void this.#try(async () => { await this.listener.copy(name); this.toggle(false); })),
      ...(this.#barred === '' ? [act('Delete', `Delete ${name}`, () => this.#ask(name))] : [])));
  }

  #ask(name: string): void {
    this.#asked = name;
    this.#renderList();
    // The safe answer is the nearer one.
    for (const button of this.#list.querySelectorAll('button')) if (button.getAttribute('aria-label') === `Keep ${name}`) button.focus();
  }

  async #delete(name: string): Promise<void> {
    this.#asked = '';
    await this.#try(() => this.listener.remove(name));
    await this.#fetch();
  }

  async #onSave(title: string, replaced: SharedEntry | null): Promise<void> {
    await this.listener.save(title, replaced);
    this.#say(`Saved as ${nameOfTitle(title)}.`, 'done');
    await this.#fetch();
  }

  async #try(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      this.#say(words(error), 'done');
    }
  }

  /** What was done stays written, what the list lacks goes with the next answer. */
  #say(text: string, kind = ''): void {
    this.#note.dataset['kind'] = kind;
    setText(this.#note, text);
  }
}

/** The buttons for a page that stands like this to its view: action, text, explanation. */
function buttonsOf(session: Session): readonly (readonly [ViewsAction, string, string])[] {
  switch (session.kind) {
    case 'alone': return [];
    case 'joining': return [['leave', 'Cancel', 'Stop asking for it']];
    case 'left':
    case 'refused': return [['rejoin', session.kind === 'left' ? 'Rejoin' : 'Try again', 'Follow it again, as it is by then'], ['forget', 'Dismiss', 'Forget it; what is shown stays']];
    case 'gone': return [['forget', 'Dismiss', 'Forget it; what is shown stays']];
    case 'following': return followingButtons(session);
  }
}

function followingButtons(session: Following): readonly (readonly [ViewsAction, string, string])[] {
  const presenter = presenterOf(session);
  const present: readonly (readonly [ViewsAction, string, string])[] = !session.mayWrite || !session.online ? []
    : presents(session) ? [['stop', 'Stop presenting', 'Then all who may write change the view']]
      : [['present', presenter === null ? 'Present' : `Take over from ${nameOf(presenter)}`, 'Only this page changes the view until it stops; all are told']];
  const watchable = session.readOnlyId !== '' || session.target.kind === 'watch';
  return [
    ...present,
    ...(session.target.kind === 'view' ? [['link', 'Copy link', 'Its page follows the view'] as const] : []),
    ...(watchable ? [['watch-link', 'Copy read-only link', 'Its page follows the view and can change nothing'] as const] : []),
    ...(session.target.kind === 'view' ? [['fork-link', 'Copy link to a copy', 'Its page begins as the view is then, and goes its own way'] as const] : []),
    ['forget', 'Make it my own', 'What is shown becomes this page\'s own layout; the view goes on without it'],
    ['leave', 'Leave', 'Stop following; the page keeps what it shows'],
  ];
}

const capital = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** The form that saves what is shown. */
class SaveForm {
  readonly #title = el('input', { name: 'title', autocomplete: 'off', spellcheck: 'false', maxlength: '200', required: true, placeholder: 'Name, such as Heated rod' });
  readonly #words = el('span');
  readonly #submit = el('button', { type: 'submit', class: 'word-button submit-button', text: 'Save' });
  readonly #replace = el('button', { type: 'button', class: 'word-button view-button', hidden: true });
  readonly #note = el('p', { class: 'view-note', 'data-mood': 'bad', role: 'status' });
  readonly element: HTMLFormElement;

  constructor(readonly save: (title: string, replaced: SharedEntry | null) => Promise<void>, readonly entries: () => readonly SharedEntry[]) {
    this.element = el('form', { class: 'view-save' }, el('label', {}, this.#words, this.#title), this.#submit, this.#replace, this.#note);
    this.element.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#send(null);
    });
    this.#title.addEventListener('input', () => this.#clear());
    this.#replace.addEventListener('click', () => void this.#send(this.#taken()));
  }

  show(label: string, barred: string): void {
    setText(this.#words, label);
    for (const control of [this.#title, this.#submit]) control.disabled = barred !== '';
    setAttribute(this.element, 'title', barred === '' ? null : barred);
    if (barred !== '') setText(this.#note, barred);
  }

  #taken(): SharedEntry | null {
    const name = nameOfTitle(this.#title.value);
    return this.entries().find((entry) => entry.name === name) ?? null;
  }

  #clear(): void {
    setText(this.#note, '');
    this.#replace.hidden = true;
  }

  async #send(replaced: SharedEntry | null): Promise<void> {
    this.#clear();
    const title = this.#title.value.trim();
    if (nameOfTitle(title) === '') return setText(this.#note, 'A name needs letters from a to z, or digits: others see it in links.');
    this.#submit.disabled = true;
    try {
      await this.save(title, replaced);
      // Unless the next name is being written.
      if (this.#title.value.trim() === title) this.#title.value = '';
    } catch (error) {
      if (error instanceof Refused && error.status === PRECONDITION_FAILED) this.#offer(nameOfTitle(title));
      else setText(this.#note, words(error));
    } finally {
      this.#submit.disabled = false;
    }
  }

  #offer(name: string): void {
    const taken = this.#taken();
    setText(this.#note, `A view named ${name} exists${taken === null || taken.changedBy === '' ? '' : `, last changed by ${taken.changedBy}`}.`);
    this.#replace.hidden = taken === null;
    setText(this.#replace, `Replace ${name}`);
  }
}
