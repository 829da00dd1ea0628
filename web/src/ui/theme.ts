/**
 * Dark, light or as the system: which one holds, and the style sheet's colours for what is drawn on canvases.
 *
 * The style sheet is the only place where colours are written.
 */
import type { ChartTheme } from '../chart';
import { TRACE_COLOURS } from '../model/colour';
import type { Place } from '../model/stage';
import { store, stored } from './stored';

/** Choice of the user. */
export type ThemeChoice = 'system' | 'dark' | 'light';
const CHOICES: readonly ThemeChoice[] = ['system', 'dark', 'light'];
const KEY = 'tallycast-theme';
const PLACES: readonly Place[] = [
  'publisher', 'injected', 'sender', 'network', 'receiver', 'reader', 'browser', 'unexplained', 'unsettled',
];

/** Colours and measures for everything drawn. */
export interface Palette {
  readonly chart: ChartTheme;
  readonly traces: readonly string[];
  readonly accent: string;
  readonly faint: string;
  readonly lossMark: string;
}

/** Returns what was chosen before; otherwise the system decides. */
export function storedTheme(): ThemeChoice {
  const before = stored(KEY);
  return CHOICES.find((choice) => choice === before) ?? 'system';
}

const systemIsLight = matchMedia('(prefers-color-scheme: light)');

/** Applies and keeps a choice; the style sheet sees only which of the two holds. */
export function applyTheme(choice: ThemeChoice): void {
  const light = choice === 'system' ? systemIsLight.matches : choice === 'light';
  document.documentElement.dataset['theme'] = light ? 'light' : 'dark';
  store(KEY, choice);
}

/** Returns the choice that looks different from what shows now; back to the system's where that is the same. */
export function otherTheme(): ThemeChoice {
  const wanted = document.documentElement.dataset['theme'] === 'light' ? 'dark' : 'light';
  return (wanted === 'light') === systemIsLight.matches ? 'system' : wanted;
}

/** Calls `act` when the system's theme changes. */
export function onSystemTheme(act: () => void): void {
  systemIsLight.addEventListener('change', act);
}

/** Reads the palette that holds now. */
export function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const value = (name: string): string => style.getPropertyValue(name).trim();
  const places = Object.fromEntries(PLACES.map((place) => [place, value(`--stage-${place}`)]));
  return {
    chart: {
      places: places as Record<Place, string>,
      ground: value('--plot'),
      ink: value('--ink'),
      grid: value('--grid'),
      axis: value('--ink-dim'),
      limits: { warning: value('--warn'), alarm: value('--bad') },
      font: value('--font'),
      fontPx: Number.parseFloat(value('--chart-font-px')) || 11,
      linePx: Number.parseFloat(value('--chart-line-px')) || 1.25,
    },
    traces: Array.from({ length: TRACE_COLOURS }, (_, i) => value(`--trace-${i}`)),
    accent: value('--accent'),
    faint: value('--ink-faint'),
    lossMark: value('--warn'),
  };
}
