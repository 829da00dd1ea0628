/**
 * The title of the view that the page follows, which those edit here who may write.
 */
import { hindrance, titleOf, type Following } from '../model/shared-view';
import { el, setText } from './dom';

/** The title. */
export class ViewTitle {
  readonly #heading = el('h3');
  readonly #field = el('input', { class: 'view-title', 'aria-label': 'Title', title: 'Title, as all who follow see it', maxlength: '200', autocomplete: 'off', spellcheck: 'false', enterkeyhint: 'done' });
  readonly #note = el('p', { class: 'view-note', role: 'status' });
  readonly element = el('div', { class: 'view-heading' }, this.#heading, this.#field, this.#note);
  #following: Following | null = null;
  #why = '';

  constructor(onTitle: (text: string) => void) {
    this.#field.addEventListener('change', () => onTitle(this.#field.value.trim()));
    this.#field.addEventListener('focus', () => setText(this.#note, this.#why === '' ? '' : `The title cannot be changed here: ${this.#why}.`));
    this.#field.addEventListener('blur', () => {
      setText(this.#note, '');
      this.show(this.#following, '');
    });
    this.#field.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== 'Escape') return;
      // Escape closes the panel from everywhere else.
      event.stopPropagation();
      if (event.key === 'Escape') this.#field.value = this.#field.defaultValue;
      this.#field.blur();
    });
  }

  /** Shows the title of a followed view, or that of another one, which cannot be changed. */
  show(following: Following | null, title: string): void {
    this.#following = following;
    this.#heading.hidden = following !== null;
    this.#field.hidden = following === null;
    if (following === null) return setText(this.#heading, title);
    this.#why = hindrance(following);
    this.#field.readOnly = this.#why !== '';
    this.#field.placeholder = following.name;
    const written = following.texts['title'] ?? following.inFlight?.['title'] ?? following.fields['title'];
    const text = this.#why === '' && typeof written === 'string' ? written : titleOf(following);
    // Not under the hands of one who writes.
    if (document.activeElement === this.#field) return;
    this.#field.defaultValue = text;
    if (this.#field.value !== text) this.#field.value = text;
  }
}
