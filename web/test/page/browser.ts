/**
 * Starts Chromium and opens the page: what every page test begins with.
 */
import { chromium, type Browser, type Page } from 'playwright-core';
import { inject } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';

const EXECUTABLE = process.env['CHROMIUM'] ?? '/usr/bin/chromium';
/** No network but loopback, no sandbox because tests run as root in containers. */
const ARGUMENTS = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];

/** A server that can be asked how much it sent; `BASE_URL` names a real one instead. */
export interface Served {
  readonly url: string;
  /** Null with a real server. */
  readonly fake: Awaited<ReturnType<typeof startFakeServer>> | null;
  close(): Promise<void>;
}

/** Returns the server under test. */
export async function serve(): Promise<Served> {
  const base = inject('baseUrl');
  if (base !== '') return { url: base, fake: null, close: () => Promise.resolve() };
  const fake = await startFakeServer();
  return { url: fake.url, fake, close: fake.close };
}

/** Starts a browser. */
export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: EXECUTABLE, args: ARGUMENTS });
}

/** Opens the page with this query; any error on the page fails the test that asks {@link Opened.errors}. */
export async function open(browser: Browser, url: string, query = ''): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, colorScheme: 'dark', timezoneId: 'Europe/Berlin' });
  const page = await context.newPage();
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => { if (message.type() === 'error' && !message.text().includes('net::ERR')) errors.push(message.text()); });
  await page.goto(`${url}/${query}`);
  return { page, errors, close: () => context.close() };
}

/** An open page. */
export interface Opened {
  readonly page: Page;
  readonly errors: readonly string[];
  close(): Promise<void>;
}

/** Waits until `probe` holds; the watchdog's message says what was waited for. */
export async function until(what: string, probe: () => boolean | Promise<boolean>, patienceMs = 20_000): Promise<void> {
  const end = Date.now() + patienceMs;
  while (!(await probe())) {
    if (Date.now() > end) throw new Error(`waited ${patienceMs} ms in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** A plot's canvas as a digest: equal digests are equal pixels. */
export function pixels(page: Page, index = 0): Promise<string> {
  return page.evaluate((at) => {
    const canvas = document.querySelectorAll<HTMLCanvasElement>('.plot-body canvas')[at];
    const data = canvas?.getContext('2d')?.getImageData(0, 0, canvas.width, canvas.height).data ?? new Uint8ClampedArray();
    let digest = 0;
    for (let i = 0; i < data.length; i += 1) digest = (Math.imul(digest, 31) + (data[i] ?? 0)) | 0;
    return `${data.length} ${digest}`;
  }, index);
}
