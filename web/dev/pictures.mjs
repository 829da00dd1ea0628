/**
 * Takes the pictures of the page that the README shows, over the demo with one datagram in a hundred withheld:
 * `npm run pictures` writes `docs/images/page.png` and `gap.png`.
 *
 * The command is `target/debug/tallycast`, built after the page was (`npm run build`), or what `TALLYCAST_BIN` names. Chromium
 * draws it whole, with the system's own fonts (`CHROMIUM` names another one).
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const COMMAND = process.env['TALLYCAST_BIN'] ?? fileURLToPath(new URL('../../target/debug/tallycast', import.meta.url));
const EXECUTABLE = process.env['CHROMIUM'] ?? '/usr/bin/chromium-headless-shell';
const IMAGES = fileURLToPath(new URL('../../docs/images/', import.meta.url));
/** So many seconds of signals are there before a picture is taken: more than a plot shows. */
const SECONDS = 25;

/** In memory: how full this machine's disk is does not belong in a picture. */
const ARCHIVE = mkdtempSync('/dev/shm/tallycast-pictures-');
const DEMO = ['demo', '--headless', '--json', '--duration', '5m', '--loss', '1%', '--dir', ARCHIVE, '--listen', '127.0.0.1:0',
  '--bus', 'udp://239.77.0.0:17477?iface=lo'];

const demo = spawn(COMMAND, DEMO, { stdio: ['ignore', 'ignore', 'pipe'] });
const begun = address();
const browser = await chromium.launch({ executablePath: EXECUTABLE, args: ['--headless', '--no-sandbox', '--disable-gpu'] });
try {
  const url = await begun;
  await pause(SECONDS);
  await takePage(url);
  await takeGap(url);
} finally {
  await browser.close();
  demo.on('exit', () => rmSync(ARCHIVE, { recursive: true, force: true }));
  demo.kill('SIGINT');
}

/**
 * Where the demo says that its page is.
 * @returns {Promise<string>}
 */
function address() {
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
  await page.screenshot({ path: `${IMAGES}page.png` });
  await page.close();
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
  await page.screenshot({ path: `${IMAGES}gap.png` });
  await page.close();
}

/**
 * Opens the page, with something on it.
 * @param {string} url
 * @param {string} query
 */
async function open(url, query) {
  const context = await browser.newContext({ viewport: { width: 1600, height: 900 }, colorScheme: 'dark', locale: 'en-US', timezoneId: 'Europe/Berlin' });
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
