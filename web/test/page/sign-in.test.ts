/**
 * Signing in and out on the page, over the fake server: `ada` reads and steers, and may not derive.
 */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startFakeServer } from '../../dev/fake-server.mjs';
import { connection, drawn, listed, until } from './browser';
import { Pages } from './pages';

const pages = new Pages();
let fake: Awaited<ReturnType<typeof startFakeServer>>;

beforeAll(async () => { fake = await startFakeServer({ users: true }); });
afterAll(() => fake.close());

async function signIn(page: Page, password: string): Promise<void> {
  await page.getByLabel('User').fill('ada');
  await page.getByLabel('Password').fill(password);
  await page.keyboard.press('Enter');
}

describe('a monitor with users', () => {
  test('shows a form, says what is wrong with it, and then the streams of who signed in', async () => {
    const page = await pages.open(fake.url, '?span=10s&plot=test/chirp:a');
    await page.locator('#sign-in').waitFor();
    expect(await page.locator('.row-stream').count()).toBe(0);
    expect(await connection(page)).toBe('');
    await signIn(page, 'difference engine');
    await until('the reason', async () => (await page.locator('#sign-in-note').innerText()).includes('wrong name or password'));
    expect(await page.getByLabel('Password').inputValue()).toBe('');
    expect(pages.errors.splice(0)).toEqual([expect.stringContaining('401')]);

    await signIn(page, 'analytical engine');
    await listed(page);
    await drawn(page);
    expect(await page.locator('#sign-in').isVisible()).toBe(false);
    expect(await page.locator('#visitor').innerText()).toBe('ada · Sign out');
    expect(page.url()).toContain('plot=test/chirp:a');
    expect(page.url()).not.toContain('engine');

    // What an operator may do, and what this one may not.
    await page.locator('#inject').click();
    await until('the switch', async () => (await page.locator('#inject').getAttribute('aria-checked')) === 'true');
    const derive = page.locator('#sources details', { hasText: 'Derive a stream' });
    expect(await derive.getAttribute('title')).toContain('user:ada may not derive (denied by line 3');
    expect(await derive.locator('input:disabled').count()).toBe(4);
    expect(await page.locator('#sources details', { hasText: 'Join streams' }).locator('input:disabled').count()).toBe(0);

    await page.locator('#visitor').click();
    await page.locator('#sign-in').waitFor();
    await until('no stream', async () => (await page.locator('.row-stream').count()) === 0);
  });

  test('closes a page whose session ends elsewhere, and says why', async () => {
    const page = await pages.open(fake.url, '?span=10s&plot=test/chirp:a');
    await signIn(page, 'analytical engine');
    await listed(page);
    // The streams are listed before the connection is there that is to be closed.
    await until('the connection', async () => (await connection(page)) === 'open');
    await page.evaluate(() => fetch('/api/sign-out', { method: 'POST' }));
    await page.locator('#sign-in').waitFor();
    await until('the reason', async () => (await page.locator('#sign-in-note').innerText()) === 'This page was closed: the session has ended');
    expect(await connection(page)).not.toBe('open');
    // Nothing of the visitor stays, neither in sight nor in the document.
    expect(await page.locator('.row-stream').count()).toBe(0);
    expect(await page.locator('#page').isVisible()).toBe(false);
    expect((await page.locator('.readout-value').allInnerTexts()).join('')).toBe('');
  });

  test('that is not encrypted says so on every page', async () => {
    const clear = await startFakeServer({ insecure: true });
    const page = await pages.show(clear.url);
    expect(await page.locator('#insecure').innerText()).toContain('Not encrypted');
    await page.close();
    await clear.close();
    const ordinary = await pages.open(fake.url);
    await ordinary.locator('#sign-in').waitFor();
    expect(await ordinary.locator('#insecure').isVisible()).toBe(false);
  });
});
