/**
 * Messages of the page about itself: the notice in place of plots, short remarks, the label of a drag.
 */
import type { Notice } from '../model/notices';
import { byId, el, setAttribute, setText } from './dom';

/** A remark is shown long enough to be read twice. */
const TOAST_MS = 4_000;

/** The three places where the page speaks. */
export class NoticeBoard {
  readonly #notice = byId('notice', HTMLDivElement);
  readonly #toast = byId('toast', HTMLDivElement);
  readonly #drag = byId('drag-label', HTMLDivElement);
  #toastTimer: ReturnType<typeof setTimeout> | undefined;
  #shown = '';

  /** Shows a notice, or none. */
  show(notice: Notice | null): void {
    const key = notice === null ? '' : `${notice.kind} ${notice.text}`;
    if (key === this.#shown) return;
    this.#shown = key;
    this.#notice.hidden = notice === null;
    if (notice === null) return;
    setAttribute(this.#notice, 'data-kind', notice.kind);
    this.#notice.replaceChildren(
      el('h2', { text: notice.title }), el('p', { text: notice.text }),
      ...(notice.command === '' ? [] : [el('code', { class: 'command', text: notice.command })]));
  }

  /** Shows a short message that disappears by itself. */
  toast(text: string): void {
    setText(this.#toast, text);
    this.#toast.hidden = false;
    clearTimeout(this.#toastTimer);
    this.#toastTimer = setTimeout(() => { this.#toast.hidden = true; }, TOAST_MS);
  }

  /** Shows what is being dragged beside the pointer; an empty text ends it. */
  dragLabel(text: string, at: { readonly x: number; readonly y: number }): void {
    this.#drag.hidden = text === '';
    setText(this.#drag, text);
    this.#drag.style.transform = `translate(${at.x + 12}px, ${at.y + 12}px)`;
  }
}
