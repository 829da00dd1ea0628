/**
 * Starts Chromium, opens the page and waits for what it shows: what every page test begins with.
 */
import { existsSync } from 'node:fs';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { readLayout } from '../../src/model/layout';
import type { TimeWindow } from '../../src/model/window';
import { overhear } from './overheard';

/** The shell is the same engine without a browser around it, where a page costs a third (measured). */
const SHELL = '/usr/bin/chromium-headless-shell';
const EXECUTABLE = process.env['CHROMIUM'] ?? (existsSync(SHELL) ? SHELL : '/usr/bin/chromium');
/** No network but loopback, no sandbox because tests run as root in containers. */
const ARGUMENTS = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];

/** Starts a browser, with more arguments if need be. */
export function launch(more: readonly string[] = []): Promise<Browser> {
  return chromium.launch({ executablePath: EXECUTABLE, args: [...ARGUMENTS, ...more] });
}

/** Nothing of the machine decides what the page shows. */
export const SURROUNDINGS: BrowserContextOptions = {
  viewport: { width: 1200, height: 800 }, colorScheme: 'dark', locale: 'en-US', timezoneId: 'Europe/Berlin',
};

/**
 * What would lie on data and holes at places that time decides: grid lines, and the line where live memory ends. Blended with
 * a trace or a hatch it has the colour of something else.
 */
const INVISIBLE = ['--grid', '--ink-dim'];

/** Opens the page in a context of its own; what goes wrong on it is added to `errors`. */
export async function open(browser: Browser, address: string, errors: string[], options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext({ ...SURROUNDINGS, ...options });
  const page = await context.newPage();
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error' && !message.text().includes('net::ERR')) errors.push(message.text()); });
  overhear(page);
  await page.addInitScript((names) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`:root { ${names.map((name) => `${name}: transparent !important;`).join(' ')} }`);
    document.adoptedStyleSheets.push(sheet);
  }, INVISIBLE);
  await page.goto(address);
  if ((await page.locator('#top-bar').count()) === 0) throw new Error(`${address} shows no page:\n${await page.innerText('body')}`);
  return page;
}

/** Waits until `probe` holds; the watchdog's message says what was waited for. */
export async function until(what: string, probe: () => boolean | Promise<boolean>, patienceMs = 180_000): Promise<void> {
  const end = Date.now() + patienceMs;
  while (!(await probe())) {
    if (Date.now() > end) throw new Error(`waited ${patienceMs} ms in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Waits until the list shows streams. */
export const listed = (page: Page): Promise<void> => until('streams in the list', async () => (await page.locator('.row-stream').count()) > 0);

/** Waits until every plot shows a value, so a frame. */
export const drawn = (page: Page): Promise<void> => until('a value at every plot', async () => {
  const values = await page.locator('.plot:visible').evaluateAll((plots) => plots.map((plot) => plot.querySelector('.readout-value')?.textContent ?? ''));
  return values.length > 0 && values.every((value) => value !== '');
});

/** How often the page has drawn. */
export const draws = (page: Page): Promise<number> => page.evaluate(() => Number(document.documentElement.dataset['draws'] ?? 0));

/** Whether the window is held. */
export const paused = (page: Page): Promise<boolean> => page.evaluate(() => document.documentElement.hasAttribute('data-paused'));

/** How the connection stands, as the page knows it. */
export const connection = (page: Page): Promise<string> => page.evaluate(() => document.documentElement.dataset['connection'] ?? '');

/** The stretch of time that the address says. */
export const windowOf = (page: Page): TimeWindow => readLayout(new URL(page.url()).search).window;

/** What the address says. */
export const query = (page: Page): URLSearchParams => new URL(page.url()).searchParams;

/** Hides the page, or shows it again, as the browser does with a tab. */
export function hide(page: Page, hidden: boolean): Promise<void> {
  return page.evaluate((value) => {
    Object.defineProperty(document, 'hidden', { value, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
}
