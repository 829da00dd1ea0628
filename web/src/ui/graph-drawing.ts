/**
 * The drawing of a graph: boxes from inputs at the left to outputs at the right, with lines between them. On a narrow page the
 * boxes are a list, in the same order, and each names what it reads.
 *
 * Boxes keep their elements, so that nothing moves under a finger that did not change.
 */
import { neighbour, type Layout } from '../model/graph-layout';
import { el, setAttribute, setText } from './dom';

/** Content of a box. */
export interface BoxContent {
  readonly title: string;
  /** Kind of a node; empty for a stream that no node publishes. */
  readonly kind: string;
  readonly facts: string;
  /** What it reads, for a list. */
  readonly reads: string;
  readonly state: string;
  readonly mood: string;
  readonly mark: string;
  readonly losses: string;
  readonly problems: number;
}

/** Sizes in CSS pixels; `style/graph.css` has the same. */
const BOX = { width: 204, height: 92, across: 40, down: 14 };

interface Box {
  readonly element: HTMLButtonElement;
  show(content: BoxContent): void;
}

/** The drawing. */
export class GraphDrawing {
  readonly element = el('div', { class: 'graph-drawing', role: 'group', 'aria-label': 'The graph, from inputs to outputs' });
  readonly #lines = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  readonly #boxes = new Map<string, Box>();
  #layout: Layout = { places: [], edges: [], columns: 0, rows: 0 };

  constructor(readonly onChoose: (key: string) => void) {
    this.#lines.setAttribute('class', 'graph-lines');
    this.#lines.setAttribute('aria-hidden', 'true');
    this.element.append(this.#lines);
    this.element.addEventListener('keydown', (event) => this.#onKey(event));
  }

  /** Draws boxes at their places. */
  show(layout: Layout, contents: ReadonlyMap<string, BoxContent>, chosen: string): void {
    const moved = JSON.stringify(layout) !== JSON.stringify(this.#layout);
    this.#layout = layout;
    const keys = new Set(layout.places.map(({ key }) => key));
    for (const [key, { element }] of this.#boxes) {
      if (keys.has(key)) continue;
      element.remove();
      this.#boxes.delete(key);
    }
    for (const { key } of layout.places) {
      const content = contents.get(key);
      if (content === undefined) continue;
      let box = this.#boxes.get(key);
      if (box === undefined) {
        box = this.#box(key);
        this.#boxes.set(key, box);
        this.element.append(box.element);
      }
      box.show(content);
      setAttribute(box.element, 'aria-pressed', String(key === chosen));
    }
    if (moved) this.#place();
    this.#lines.querySelectorAll('path').forEach((path) => setAttribute(path, 'data-near', path.dataset['ends']?.split('\n').includes(chosen) === true ? '' : null));
  }

  /** Moves the focus to a box. */
  focus(key: string): void {
    this.#boxes.get(key)?.element.focus();
    this.reveal(key);
  }

  /** Scrolls to a box. */
  reveal(key: string): void {
    this.#boxes.get(key)?.element.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }

  #place(): void {
    const { columns, rows, places, edges } = this.#layout;
    const at = new Map(places.map((place) => [place.key, { x: place.column * (BOX.width + BOX.across), y: place.row * (BOX.height + BOX.down) }]));
    const [width, height] = [columns * (BOX.width + BOX.across) - BOX.across, rows * (BOX.height + BOX.down) - BOX.down];
    this.element.style.setProperty('--graph-width', `${Math.max(0, width)}px`);
    this.element.style.setProperty('--graph-height', `${Math.max(0, height)}px`);
    places.forEach(({ key }, order) => {
      const [box, place] = [this.#boxes.get(key), at.get(key)];
      if (box === undefined || place === undefined) return;
      box.element.style.setProperty('--x', `${place.x}px`);
      box.element.style.setProperty('--y', `${place.y}px`);
      // Tab goes through them as they are drawn.
      const after = this.element.children[order + 1];
      if (after !== box.element) this.element.insertBefore(box.element, after ?? null);
    });
    this.#lines.setAttribute('width', String(Math.max(0, width)));
    this.#lines.setAttribute('height', String(Math.max(0, height)));
    this.#lines.replaceChildren(...edges.flatMap(({ from, to }) => {
      const [a, b] = [at.get(from), at.get(to)];
      if (a === undefined || b === undefined) return [];
      const [x0, y0, x1, y1] = [a.x + BOX.width, a.y + BOX.height / 2, b.x, b.y + BOX.height / 2];
      const bend = Math.max(BOX.across / 2, Math.abs(x1 - x0) / 3);
      const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
      path.setAttribute('d', `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}`);
      path.dataset['ends'] = `${from}\n${to}`;
      return [path];
    }));
  }

  #box(key: string): Box {
    const part = (name: string): HTMLElement => el('span', { class: `graph-${name}` });
    const [title, kind, facts, reads, state, mark, losses] = [part('title'), part('kind'), part('facts'), part('reads'), part('state'), part('mark'), part('losses')] as const;
    const element = el('button', { type: 'button', class: 'graph-box', on: { click: () => this.onChoose(key) } }, el('span', { class: 'graph-top' }, kind, mark), title, reads, facts, el('span', { class: 'graph-bottom' }, state, losses));
    element.dataset['key'] = key;
    const show = (content: BoxContent): void => {
      setText(title, content.title === '' ? '(no name)' : content.title);
      setText(kind, content.kind === '' ? 'stream' : content.kind);
      setText(facts, content.facts);
      setText(reads, content.reads);
      setText(state, content.problems > 0 ? `${content.problems === 1 ? 'a problem' : `${content.problems} problems`}` : content.state);
      setText(mark, { new: 'begins', changed: 'begins anew', ends: 'ends', stays: '' }[content.mark] ?? '');
      setText(losses, content.losses);
      setAttribute(element, 'data-kind', content.kind === '' ? 'stream' : 'node');
      setAttribute(element, 'data-mood', content.problems > 0 ? 'bad' : content.mood);
      setAttribute(element, 'data-mark', content.mark);
      setAttribute(element, 'title', [content.title, content.state, content.losses].filter((part) => part !== '').join('\n'));
    };
    return { element, show };
  }

  #onKey(event: KeyboardEvent): void {
    const key = event.target instanceof HTMLElement ? event.target.dataset['key'] : undefined;
    if (key === undefined || !event.key.startsWith('Arrow')) return;
    // Arrow keys of the page move the window of time.
    event.stopPropagation();
    event.preventDefault();
    const next = neighbour(this.#layout, key, event.key);
    if (next !== null) this.focus(next);
  }
}
