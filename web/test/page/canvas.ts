/**
 * What a person would read off a plot's canvas, in numbers: which pixel columns bear which ink, whether the
 * picture stands still or moves.
 */
import type { Page } from 'playwright-core';
import { until } from './browser';
import { talkOf } from './overheard';

/** A pixel bears an ink if each part of its colour is as near as this: faint ones are coarse. */
const LIKENESS = 24;
/** Fainter than this is no ink but the blending of an edge. */
const FAINTEST = 20;

/** A plot's data area in CSS pixels of the page. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** What is drawn: a trace of the plot, or gaps of a stage's place. */
export type Ink = { readonly trace: number } | { readonly place: string };

/** Returns where a plot's data lie. */
export async function dataBox(page: Page, plot = 0): Promise<Box> {
  const box = await page.locator('.u-over').nth(plot).boundingBox();
  if (box === null) throw new Error('a plot has a box');
  return box;
}

/**
 * Returns for each pixel column of a plot's data how many of its pixels bear this ink.
 *
 * Inks may be alike: a pixel bears the one whose colour is nearest to its own, if it is near at all.
 */
export function inkedRows(page: Page, ink: Ink, plot = 0): Promise<readonly number[]> {
  return page.evaluate(([wanted, at, likeness, faintest]) => {
    const element = document.querySelectorAll<HTMLElement>('.plot')[at];
    const over = element?.querySelector<HTMLElement>('.u-over');
    const context = element?.querySelector('canvas')?.getContext('2d');
    if (element === undefined || over === null || over === undefined || context === null || context === undefined) return [];
    const { colours, mine } = inks(element);
    const { offsetWidth: width, offsetHeight: height } = over;
    const { data } = context.getImageData(over.offsetLeft, over.offsetTop, width, height);
    const rows = Array.from({ length: width }, () => 0);
    for (let i = 0; i < data.length; i += 4) {
      if ((data[i + 3] ?? 0) < faintest || nearest(i) !== mine) continue;
      const x = (i / 4) % width;
      rows[x] = (rows[x] ?? 0) + 1;
    }
    return rows;

    /** The ink that a pixel bears, if it bears one. */
    function nearest(i: number): number {
      let best: number = likeness;
      let found = -1;
      for (const [k, colour] of colours.entries()) {
        const distance = Math.max(...[0, 1, 2].map((part) => Math.abs((data[i + part] ?? 0) - (colour[part] ?? 0))));
        if (distance >= best) continue;
        best = distance;
        found = k;
      }
      return found;
    }

    /** All inks of a plot: the traces', then the places'. */
    function inks(inPlot: HTMLElement): { colours: Uint8ClampedArray[]; mine: number } {
      const swatches = [...inPlot.querySelectorAll('.swatch')].map((swatch) => getComputedStyle(swatch).backgroundColor);
      const places = ['publisher', 'injected', 'sender', 'network', 'receiver', 'reader', 'browser', 'unexplained', 'unsettled'];
      const style = getComputedStyle(document.documentElement);
      const written = [...swatches, ...places.map((place) => style.getPropertyValue(`--stage-${place}`))];
      return { colours: written.map(partsOf), mine: 'trace' in wanted ? wanted.trace : swatches.length + places.indexOf(wanted.place) };
    }

    /** However a style sheet writes a colour, a canvas knows its parts. */
    function partsOf(colour: string): Uint8ClampedArray {
      const pen = document.createElement('canvas').getContext('2d');
      if (pen === null) return new Uint8ClampedArray();
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      return pen.getImageData(0, 0, 1, 1).data;
    }
  }, [ink, plot, LIKENESS, FAINTEST] as const);
}

/** Returns the columns between two shares of the width. */
export function between(rows: readonly number[], from: number, to: number): readonly number[] {
  return rows.slice(Math.ceil(from * rows.length), Math.floor(to * rows.length));
}

/** Returns the longest run of columns without ink. */
export function longestBare(rows: readonly number[]): number {
  let [run, longest] = [0, 0];
  for (const count of rows) {
    run = count > 0 ? 0 : run + 1;
    longest = Math.max(longest, run);
  }
  return longest;
}

/** The share of a picture of real streams that must bear ink: a busy machine may lose some samples on its own, and says so. */
export const MOST = 0.9;

/** The share of columns that bear any ink. */
export const covered = (rows: readonly number[]): number => rows.filter((count) => count > 0).length / rows.length;

/** Returns the sum over columns. */
export const sum = (rows: readonly number[]): number => rows.reduce((all, each) => all + each, 0);

/** A plot's canvas as a digest: equal digests are equal pixels. */
export function pixels(page: Page, plot = 0): Promise<string> {
  return page.evaluate((at) => {
    const canvas = document.querySelectorAll<HTMLCanvasElement>('.plot-body canvas')[at];
    const data = canvas?.getContext('2d')?.getImageData(0, 0, canvas.width, canvas.height).data ?? new Uint8ClampedArray();
    let digest = 0;
    for (let i = 0; i < data.length; i += 1) digest = (Math.imul(digest, 31) + (data[i] ?? 0)) | 0;
    return `${data.length} ${digest}`;
  }, plot);
}

/** Waits until a plot looks different from now. */
export async function moves(page: Page, plot = 0): Promise<void> {
  const before = await pixels(page, plot);
  await until('a picture that moves', async () => (await pixels(page, plot)) !== before);
}

/** Samples that were under way when a window was held are drawn within so many screen refreshes. */
const REFRESHES = 16;

/** Waits until a plot shows what was asked for and looks the same for a while, and returns its digest. */
export async function still(page: Page, plot = 0): Promise<string> {
  await until('frames of the windows asked for', () => talkOf(page).answered);
  let last = await pixels(page, plot);
  await until('a picture that stands still', async () => {
    const before = last;
    await refreshes(page, REFRESHES);
    last = await pixels(page, plot);
    return last === before;
  });
  return last;
}

/** Waits until the browser has refreshed the screen so many times. */
export function refreshes(page: Page, count: number): Promise<void> {
  return page.evaluate((wanted) => new Promise<void>((resolve) => {
    const next = (left: number): void => void requestAnimationFrame(() => (left > 1 ? next(left - 1) : resolve()));
    next(wanted);
  }), count);
}
