/**
 * Takes the pictures of the page that README and guides show: `npm run pictures` writes `docs/images/page.png` and `gap.png` over
 * the demo with one datagram in a hundred withheld, and `coupled.png` over the coupled demo, each with a palette.
 *
 * The command is `target/debug/tallycast`, built after the page was (`npm run build`), or what `TALLYCAST_BIN` names. Chromium
 * draws it whole, with the system's own fonts (`CHROMIUM` names another one).
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { withPalette } from './palette-png.mjs';

const COMMAND = process.env['TALLYCAST_BIN'] ?? fileURLToPath(new URL('../../target/debug/tallycast', import.meta.url));
const EXECUTABLE = process.env['CHROMIUM'] ?? '/usr/bin/chromium-headless-shell';
const IMAGES = fileURLToPath(new URL('../../docs/images/', import.meta.url));
/** So many seconds of signals are there before a picture is taken: more than a plot shows. */
const SECONDS = 25;

const browser = await chromium.launch({ executablePath: EXECUTABLE, args: ['--headless', '--no-sandbox', '--disable-gpu'] });
try {
  await withDemo(['--loss', '1%'], async (url) => {
    await pause(SECONDS);
    await takePage(url);
    await takeGap(url);
  });
  await withDemo(['--coupled'], async (url) => {
    await pause(SECONDS);
    await takeCoupled(url);
  });
} finally {
  await browser.close();
}

/**
 * Runs the demo while pictures are taken. Its archive is in memory: how full this machine's disk is does not belong in a picture.
 * @param {string[]} more
 * @param {(url: string) => Promise<void>} take
 */
async function withDemo(more, take) {
  const archive = mkdtempSync('/dev/shm/tallycast-pictures-');
  const words = ['demo', '--headless', '--json', '--duration', '5m', ...more, '--dir', archive, '--listen', '127.0.0.1:0', '--bus', 'udp://239.77.0.0:17477?iface=lo'];
  const demo = spawn(COMMAND, words, { stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = new Promise((resolve) => demo.on('exit', resolve));
  try {
    await take(await address(demo));
  } finally {
    demo.kill('SIGINT');
    await ended;
    rmSync(archive, { recursive: true, force: true });
  }
}

/**
 * Where the demo says that its page is.
 * @param {import('node:child_process').ChildProcessByStdio<null, null, import('node:stream').Readable>} demo
 * @returns {Promise<string>}
 */
function address(demo) {
  return new Promise((resolve, reject) => {
    demo.on('exit', (code) => reject(new Error(`${COMMAND} demo ended with ${code}`)));
    createInterface({ input: demo.stderr }).on('line', (line) => {
      if (line.startsWith('page ')) resolve(line.slice('page '.length).trim().replace(/\/$/, ''));
    });
  });
}

/**
 * Four plots that follow, and the account of one of them with its way.
 * @param {string} url
 */
async function takePage(url) {
  const page = await open(url, 'span=5s&plot=signal/ecg:MLII&plot=test/sine:ch0,test/sine:ch1&plot=signal/chime:left&plot=host/cpu:user,host/cpu:system');
  await page.keyboard.press('n');
  await page.keyboard.press('a');
  await page.locator('.path-place').first().waitFor();
  await pause(4);
  await keep(page, 'page');
}

/**
 * Two plots that stand still on two seconds with holes, and the card of one of these.
 * @param {string} url
 */
async function takeGap(url) {
  const page = await open(url, 'span=2s&plot=signal/ecg:MLII&plot=test/sine:ch0');
  await page.keyboard.press('n');
  await page.keyboard.press('Space');
  await page.keyboard.press('G');
  await page.locator('#gap-card').waitFor();
  await pause(2);
  await keep(page, 'gap');
}

/**
 * The field of the heated plate and its probes, with the changes of its parameters marked, and what can be changed.
 * @param {string} url
 */
async function takeCoupled(url) {
  const page = await open(url, 'span=20s&plot=plate/image:temperature;h=2;panel=image&plot=plate/probes:heater,plate/probes:middle', 'light');
  await page.locator('#steering summary').click();
  await page.locator('[data-parameter]').first().waitFor();
  await page.locator('#steering').evaluate((steering) => steering.scrollIntoView({ block: 'end' }));
  await pause(2);
  await keep(page, 'coupled');
}

/**
 * Writes what the page shows, and closes it.
 * @param {import('playwright-core').Page} page
 * @param {string} name
 */
async function keep(page, name) {
  writeFileSync(`${IMAGES}${name}.png`, withPalette(await page.screenshot()));
  await page.close();
}

/**
 * Opens the page, with something on it.
 * @param {string} url
 * @param {string} query
 * @param {'dark' | 'light'} [colorScheme]
 */
async function open(url, query, colorScheme = 'dark') {
  const context = await browser.newContext({ viewport: { width: 1600, height: 900 }, colorScheme, locale: 'en-US', timezoneId: 'Europe/Berlin' });
  const page = await context.newPage();
  await page.goto(`${url}/?${query}`);
  await page.locator('.plot').first().waitFor();
  await pause(3);
  return page;
}

/** @param {number} seconds */
function pause(seconds) {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
}
