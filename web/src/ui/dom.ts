/**
 * Makes and changes elements. Text always goes in as text, never as markup, so that a stream's name can do
 * no harm; a change that changes nothing touches nothing, so that a page left open does no needless layout.
 */

/** Attributes of a new element; `on` holds listeners. */
export interface Attributes {
  readonly class?: string;
  readonly text?: string;
  readonly title?: string;
  readonly on?: Readonly<Record<string, (event: Event) => void>>;
  readonly [name: string]: string | boolean | undefined | Readonly<Record<string, (event: Event) => void>>;
}

/** Makes an element with attributes and children. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'on' && typeof value === 'object') for (const [type, act] of Object.entries(value)) made.addEventListener(type, act);
    else if (name === 'text' && typeof value === 'string') made.textContent = value;
    else if (value === true) made.setAttribute(name, '');
    else if (typeof value === 'string') made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Returns a text in which no line ends within an option of a command: `--port`. */
export function unbroken(text: string): readonly (Node | string)[] {
  return text.split(/(--[\w-]+)/).map((part, i) => (i % 2 === 0 ? part : el('span', { class: 'unbroken', text: part })));
}

/** Returns the element of the page with this id; the page's own markup holds it. */
export function byId<T extends HTMLElement>(id: string, type: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`index.html has no ${type.name} #${id}`);
  return found;
}

/** Gives an element so many children, made by `make` and taken away at the end: those that stay are the same ones. */
export function fill(element: Element, count: number, make: () => Node): void {
  while (element.childElementCount > count) element.lastElementChild?.remove();
  while (element.childElementCount < count) element.append(make());
}

/** Sets an element's text if it differs. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets, or with null removes, an attribute if it differs. */
export function setAttribute(element: Element, name: string, value: string | null): void {
  if (element.getAttribute(name) === value) return;
  if (value === null) element.removeAttribute(name);
  else element.setAttribute(name, value);
}

const SVG = 'http://www.w3.org/2000/svg';

/** Line drawings on a 16-px grid. */
const ICONS = {
  close: 'M4 4l8 8M12 4l-8 8',
  single: 'M9.5 2.5h4v4M6.5 13.5h-4v-4M13 3l-4 4M3 13l4-4',
  plus: 'M8 3v10M3 8h10',
  share: 'M6.5 9.5l3-3M7 4.5l1.6-1.6a3 3 0 0 1 4.3 4.3L11.500 9M9 11.500l-1.600 1.600a3 3 0 0 1-4.300-4.300L4.500 7',
  theme: 'M8 2.500a5.500 5.500 0 1 0 0 11zM8 2.500a5.500 5.500 0 0 1 0 11',
  wall: 'M2 3.500h12v7.500H2zM5.500 13.500h5',
  lock: 'M4 7.500h8v6H4zM5.500 7.500v-2a2.500 2.500 0 0 1 5 0v2',
  unlock: 'M4 7.500h8v6H4zM5.500 7.500v-3a2.500 2.500 0 0 1 4.900-.7',
  list: 'M2.500 4h11M2.500 8h11M2.500 12h11',
  ladder: 'M5 2v12M11 2v12M5 4.500h6M5 8h6M5 11.500h6',
  help: 'M6 6a2 2 0 1 1 2.800 1.900c-.6.3-.8.7-.8 1.400M8 11.600v.1',
  cursors: 'M4.500 2v12M11.500 2v12M6.500 8h3M7.500 6.800L6.300 8l1.200 1.200M8.500 6.800L9.700 8 8.500 9.200',
  graph: 'M2 2.500h4v3H2zM2 10.500h4v3H2zM10 6.500h4v3h-4zM6 4h2v8H6M8 8h2',
  views: 'M2.5 3h11v8h-11zM8 3v8M2.5 7h5.5M5 13.5h6',
  export: 'M8 2.500v7.500M5 7.200l3 3 3-3M3 12.500h10',
  runs: 'M4 14V2.500M4 3h8.500l-2 2.500 2 2.500H4',
  copy: 'M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3',
} as const;

/** The name of an icon. */
export type Icon = keyof typeof ICONS;

/** Makes an icon; the button around it has the label. */
export function icon(name: Icon): SVGSVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', ICONS[name]);
  svg.append(path);
  return svg;
}

/** Makes a button with an icon and a label. */
export function iconButton(name: Icon, words: string, act: () => void): HTMLButtonElement {
  const button = el('button', { type: 'button', class: 'icon-button', title: words, 'aria-label': words, on: { click: act } });
  button.append(icon(name));
  return button;
}

/** Makes the button of the top bar that opens a panel, and puts it before the tools. */
export function panelButton(panel: string, name: Icon, title: string, act: () => void): HTMLButtonElement {
  const button = iconButton(name, title, act);
  button.id = `open-${panel}`;
  setAttribute(button, 'aria-controls', panel);
  setAttribute(button, 'aria-expanded', 'false');
  byId('tools', HTMLSpanElement).before(button);
  return button;
}
