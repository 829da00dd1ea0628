/**
 * Holes on the page, over the fake server, which knows each of them to the pixel: in the plots, on their cards, in the
 * account.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { drawn, paused, until } from './browser';
import { between, dataBox, inkedRows, longestBare, still, sum } from './canvas';
import { Pages } from './pages';

const HOLE = '?span=10s&plot=test/hole:sine';

const pages = new Pages();
let fake: Awaited<ReturnType<typeof startFakeServer>>;

beforeAll(async () => { fake = await startFakeServer(); });
afterAll(() => fake.close());

const show = (query: string): Promise<Page> => pages.show(fake.url, query);

describe('gaps', () => {
  /** Pauses where a settled hole of half a second lies in the middle of four: the fake server's `test/hole`. */
  async function showHole(span = '2s'): Promise<Page> {
    const period = 4_000_000_000n;
    const start = ((BigInt(Date.now()) * 1_000_000n) / period - 3n) * period + 1_000_000_000n;
    const page = await show(`?span=${span}&end=${start + 1_250_000_000n}&plot=test/hole:sine;y=fixed:-2:2`);
    await drawn(page);
    await still(page);
    return page;
  }

  test('no line bridges a hole', async () => {
    const page = await showHole();
    const rows = await inkedRows(page, { trace: 0 });
    // The window is two seconds, the hole lies from 0.375 to 0.625 of it, the sine fills the rest.
    expect(longestBare(between(rows, 0.02, 0.37))).toBe(0);
    expect(longestBare(between(rows, 0.63, 0.98))).toBe(0);
    expect(sum(between(rows, 0.38, 0.62))).toBe(0);
  });

  test('are hatched over the full height', async () => {
    const page = await showHole();
    const rows = await inkedRows(page, { place: 'receiver' });
    const { height } = await dataBox(page);
    expect(sum(between(rows, 0.38, 0.62)) / between(rows, 0.38, 0.62).length).toBeGreaterThan(height * 0.9);
    expect(sum(between(rows, 0, 0.37))).toBe(0);
    expect(sum(between(rows, 0.63, 1))).toBe(0);
  });

  test('narrower than a pixel still show on the loss strip', async () => {
    const start = (BigInt(Date.now()) * 1_000_000n) / 6_000_000_000n * 6_000_000_000n - 18_000_000_000n + 4_400_000_000n;
    const page = await show(`?span=30s&end=${start + 15_000_000_000n}&plot=w7x/interferometer/density:line%20integral`);
    await drawn(page);
    await still(page);
    const ticks = await page.evaluate(() => {
      const canvas = document.querySelector<HTMLCanvasElement>('.plot-body canvas');
      const over = document.querySelector<HTMLElement>('.u-over');
      const context = canvas?.getContext('2d');
      if (over === null || context === null || context === undefined) return 0;
      const { data } = context.getImageData(over.offsetLeft, over.offsetTop + over.offsetHeight + 3, over.offsetWidth, 1);
      let edges = 0;
      for (let x = 1; x < over.offsetWidth; x += 1) if ((data[x * 4 + 3] ?? 0) > 128 && (data[(x - 1) * 4 + 3] ?? 0) <= 128) edges += 1;
      return edges;
    });
    expect(ticks).toBeGreaterThanOrEqual(4);
  });

  test('tell stage, count and evidence on hover', async () => {
    const page = await showHole();
    const box = await dataBox(page);
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    const card = page.locator('#gap-card');
    await until('the evidence', async () => (await card.innerText()).includes('SO_RXQ_OVFL rose by 500'));
    const text = (await card.innerText()).replaceAll('\u202f', ' ');
    expect(text).toContain('receiver_socket_buffer');
    expect(text).toContain('500 samples missing · 500 ms');
    expect(text).toContain('net.core.rmem_max');
    await page.mouse.move(box.x + box.width * 0.1, box.y + 20);
    await until('no card', async () => !(await card.isVisible()));
  });

  test('are reached with g, and left with escape', async () => {
    const page = await show(HOLE);
    await drawn(page);
    await page.keyboard.press('g');
    await until('a card', () => page.locator('#gap-card').isVisible());
    expect(await paused(page)).toBe(true);
    await page.keyboard.press('Escape');
    expect(await page.locator('#gap-card').isVisible()).toBe(false);
  });
});

describe('the account', () => {
  test.each([390, 820, 1440])('has room for every name and figure of its ladder on a page %i pixels wide', async (width) => {
    const page = await pages.open(fake.url, '?span=10s&plot=w7x/ecrh/power:gyrotron 1', { viewport: { width, height: 900 } });
    await drawn(page);
    await page.keyboard.press('a');
    await until('a verdict', () => page.locator('.verdict').isVisible());
    const overlaps = await page.locator('.rung:visible').evaluateAll((rungs) => rungs.filter((rung) => {
      const [share, figure] = ['.rung-share', '.figure'].map((name) => {
        const range = document.createRange();
        range.selectNodeContents(rung.querySelector(name) ?? rung);
        return range.getBoundingClientRect();
      });
      return (share?.right ?? NaN) > (figure?.left ?? NaN);
    }).map((rung) => rung.textContent));
    expect(overlaps).toEqual([]);
    const names = await page.locator('.rung:visible .rung-name').evaluateAll((all) => all.map((name) => name.scrollWidth - name.clientWidth));
    expect(width < 480 ? 0 : Math.max(...names)).toBe(0);
  });

  test('is a ladder that balances, with the gaps below', async () => {
    const page = await show(HOLE);
    await drawn(page);
    await page.keyboard.press('a');
    await until('a verdict', () => page.locator('.verdict').isVisible());
    expect(await page.locator('#law').getAttribute('data-balanced')).toBe('true');
    expect(await page.locator('.rung').count()).toBe(2 + 25 + 2);
    // The stages that lost something and the delivery are seen at once, the others on request.
    // A hole that comes meanwhile is not settled for two seconds.
    const folded = page.locator('.rung:visible').filter({ hasNotText: 'not settled' });
    const seen = await folded.count();
    expect(seen).toBeLessThan(8);
    expect(await page.locator('.rung:visible', { hasText: 'delivered' }).count()).toBe(1);
    await page.getByRole('button', { name: 'stages that lost nothing' }).click();
    expect(await page.locator('.rung:visible').count()).toBe(2 + 25 + 2);
    await page.getByRole('button', { name: 'stages that lost nothing' }).click();
    expect(await folded.count()).toBe(seen);
    await until('gaps', async () => (await page.locator('#gap-list li').count()) > 3);
    // What helps against a stage is said once.
    expect(await page.locator('.gap-remedy').count()).toBe(1);
    await page.locator('.gap-item').nth(2).click();
    await until('the card of that gap', () => page.locator('#gap-card').isVisible());
    const foot = page.locator('#account-socket');
    const line = 'socket 239.84.3.4:7400 · dropped 131 · unmatched 3 (receiver_socket_buffer) · longest wait 1.23 ms';
    expect((await foot.innerText()).replaceAll('\u202f', ' ')).toBe(line);
    expect(await foot.locator('[data-odd]').getAttribute('title')).toContain('missing in no stream');
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.locator('#copy-gaps').click();
    await until('the copy', async () => (await page.locator('#copy-gaps').innerText()) === 'Copied');
    const copied = (await page.evaluate(() => navigator.clipboard.readText())).replaceAll('\u202f', ' ').split('\n');
    expect(copied[0]).toMatch(/^test\/hole: \d+ gaps/);
    expect(copied[1]).toBe(line);
    const alarm = page.locator('#unauthentic');
    expect(await alarm.isVisible()).toBe(false);
    await page.locator('.row-stream', { hasText: 'chirp' }).first().click();
    expect((await page.locator('.row-stream', { hasText: 'chirp' }).first().locator('.row-mark').innerText())).toBe('⚠ 12.4\u202fk unauthentic');
    // Somebody forges it: an alarm, and the account balances as without it.
    await until('an alarm', () => alarm.isVisible());
    expect((await alarm.innerText()).replaceAll('\u202f', ' ')).toContain('12 379 datagrams were not authentic, and dropped');
    const told = (await alarm.locator('dt').allInnerTexts()).map((text) => text.replaceAll('\u202f', ' ').replaceAll('\n', ' '));
    expect(told).toEqual(['wrong tag 12 345', 'replayed 34']);
    expect(await alarm.locator('dd').first().innerText()).toContain('made by somebody without the key');
    expect(await alarm.locator('.unauthentic-remedy').first().innerText()).toContain('Find who sends to its group');
    expect(await page.locator('#unconfirmed').innerText()).toContain('1 epoch began without an answer of the publisher');
    expect(await page.locator('#account-facts .level').innerText()).toBe('group');
    expect(await page.locator('#law').getAttribute('data-balanced')).toBe('true');
    await until('the socket of another stream', async () => (await foot.innerText()).includes('dropped 0'));
    expect(await foot.locator('[data-odd]').count()).toBe(0);
  });
});
