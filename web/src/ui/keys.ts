/**
 * The keys of the page and the sheet that lists them.
 *
 * One table makes both, so that the sheet is always correct. The sheet covers the page but blocks nothing: every
 * key continues to work while it is shown.
 */
import { byId, el } from './dom';

/** Action of a key. */
export type Command =
  | 'follow' | 'pause' | 'next-gap' | 'previous-gap' | 'search' | 'account' | 'single' | 'close-plot' | 'axis'
  | 'earlier' | 'later' | 'zoom-in' | 'zoom-out' | 'next-plot' | 'previous-plot' | 'next-plane' | 'previous-plane' | 'list' | 'cursors' | 'utc' | 'theme' | 'wall'
  | 'runs' | 'next-run' | 'previous-run' | 'run-time' | 'run-marks' | 'share' | 'views' | 'graph' | 'export' | 'alarms' | 'keys' | 'escape';

interface Key {
  readonly keys: readonly string[];
  readonly shown: string;
  readonly words: string;
  readonly command: Command;
}

const key = (keys: string, shown: string, command: Command, words: string): Key => ({ keys: keys.split(' '), shown, words, command });

const GROUPS: readonly (readonly [string, readonly Key[]])[] = [
  ['Time', [
    key('f', 'f', 'follow', 'follow the live edge'),
    key('Space', 'space', 'pause', 'pause, go on'),
    key('ArrowLeft', '←', 'earlier', 'earlier, into the archive'),
    key('ArrowRight', '→', 'later', 'later'),
    key('+ =', '+', 'zoom-in', 'zoom in'),
    key('-', '−', 'zoom-out', 'zoom out'),
    key('c', 'c', 'cursors', 'two cursors: ← → move, tab changes'),
    key('u', 'u', 'utc', 'UTC or local time'),
  ]],
  ['Gaps', [
    key('g', 'g', 'next-gap', 'next gap'),
    key('G', 'shift g', 'previous-gap', 'gap before'),
    key('a', 'a', 'account', 'account of the stream'),
  ]],
  ['Runs', [
    key('r', 'r', 'runs', 'runs of the experiment'),
    key(',', ',', 'previous-run', 'run before'),
    key('.', '.', 'next-run', 'next run'),
    key('0', '0', 'run-time', 'time from its start'),
    key('R', 'shift r', 'run-marks', 'marks of runs in plots'),
  ]],
  ['Plots', [
    key('/', '/', 'search', 'search; ↑ ↓ choose, → channels'),
    key('n', 'n', 'next-plot', 'next plot'),
    key('N', 'shift n', 'previous-plot', 'plot before'),
    key('y', 'y', 'axis', 'y-axis: auto, held, fixed'),
    key('<', '<', 'previous-plane', 'plane before'),
    key('>', '>', 'next-plane', 'next plane'),
    key('m', 'm', 'single', 'this plot alone'),
    key('x Delete', 'x', 'close-plot', 'close the plot'),
  ]],
  ['Page', [
    key('l', 'l', 'list', 'list of streams'),
    key('w', 'w', 'wall', 'large screen'),
    key('t', 't', 'theme', 'dark or light'),
    key('s', 's', 'share', 'copy the address'),
    key('v', 'v', 'views', 'views: shared and saved layouts'),
    key('p', 'p', 'graph', 'processing graph'),
    key('k', 'k', 'alarms', 'alarms'),
    key('e', 'e', 'export', 'export: PNG, CSV, Parquet'),
    key('?', '?', 'keys', 'this sheet'),
    key('Escape', 'esc', 'escape', 'close the topmost panel'),
  ]],
];

const COMMANDS = new Map(GROUPS.flatMap(([, keys]) => keys.flatMap((each) => each.keys.map((name) => [name, each.command] as const))));

/** Returns what an event of the keyboard asks for, or null when it belongs to a field or a button. */
export function commandOf(event: KeyboardEvent): Command | null {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const { target } = event;
  if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement) return null;
  const name = event.key === ' ' ? 'Space' : event.key;
  if (name === 'Space' && target instanceof HTMLButtonElement) return null;
  return COMMANDS.get(name) ?? null;
}

/** The sheet. */
export class KeySheet {
  readonly #element = byId('keys', HTMLDivElement);

  constructor() {
    this.#element.append(...GROUPS.map(([name, keys]) => el('section', {}, el('h3', { text: name }),
      el('dl', {}, ...keys.flatMap(({ shown, words }) => [el('dt', {}, el('kbd', { text: shown })), el('dd', { text: words })])))),
      el('p', { class: 'keys-note', text: 'Wheel or pinch zooms, dragging pans, a double click shows one plot alone. Cursors are dragged by their letters. In the list Enter plots, shift Enter overlays. In a table ↑ ↓ go from row to row, Delete takes one out, ctrl c copies all. In the picture of the path ← → go from place to place, Enter shows what was lost there.' }));
  }

  /** Shows or hides the sheet; returns whether it shows now. */
  toggle(on = this.#element.hidden): boolean {
    this.#element.hidden = !on;
    return on;
  }
}
